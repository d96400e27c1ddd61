#!/usr/bin/env bash
# Format Python and C, then run the linters: `bash tools/format.sh`. With --check nothing is changed; any difference fails.
set -euo pipefail
cd "$(dirname "$0")/.."
mapfile -t c_files < <(git ls-files '*.c' '*.h')
mapfile -t cython_files < <(git ls-files '*.pyx' '*.pxd')
if [ "${1:-}" = --check ]; then
  ruff format --check .
  clang-format --dry-run -Werror "${c_files[@]}"
else
  ruff check --fix --exit-zero --quiet .
  ruff format .
  clang-format -i "${c_files[@]}"
fi
ruff check .
cython-lint "${cython_files[@]}"
