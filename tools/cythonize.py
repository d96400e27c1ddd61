"""Compile several Cython modules to C in one process; meson calls it once per room.

Starting Cython costs more than compiling a typical module, so one process per room is several times faster than one per
module. Outputs that are newer than everything their module reads are kept, so ninja recompiles no unchanged C.

    python tools/cythonize.py --include SRC --depfile FILE --shared NAME MODULE.pyx OUTPUT.c [MODULE.pyx OUTPUT.c ...]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import Cython
from Cython.Compiler.Main import CompilationOptions, compile_single

# embedsignature: help() and inspect.signature() of compiled functions. auto_pickle: copying the fields of a C struct
# would pickle a `uint8_t *` as a string.
DIRECTIVES = {"language_level": "3", "auto_pickle": False, "embedsignature": True, "embedsignature.format": "python"}


def read_dependencies(file: Path) -> list[Path]:
    """Return the prerequisites that Cython listed for one module."""
    if not file.exists():
        return []
    return [Path(name) for name in file.read_text().replace("\\\n", " ").partition(":")[2].split()]


def is_current(source: Path, output: Path, dependencies: list[Path]) -> bool:
    """Return whether `output` is newer than its source and everything that the source reads."""
    if not output.exists() or not dependencies or not all(path.exists() for path in dependencies):
        return False
    return output.stat().st_mtime > max(path.stat().st_mtime for path in (source, Path(__file__), *dependencies))


def compile_module(source: Path, output: Path, include: Path, shared: str) -> list[Path]:
    """Compile one module unless its output is current; return what it depends on."""
    listed = Path(f"{output}.dep")
    dependencies = read_dependencies(listed)
    if is_current(source, output, dependencies):
        return dependencies
    options = CompilationOptions(
        compiler_directives=dict(DIRECTIVES),
        include_path=[str(include)],
        output_file=str(output),
        depfile=True,
        shared_utility_qualified_name=shared,
    )
    if compile_single(str(source), options, None).num_errors:
        output.unlink(missing_ok=True)
        sys.exit(f"cythonize: {source} has errors")
    return read_dependencies(listed)


def main() -> None:
    """Compile the modules that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--include", type=Path, default=Path("."), help="root of the package's sources")
    parser.add_argument("--depfile", type=Path, help="where to list what the outputs depend on")
    parser.add_argument("--shared", help="qualified name of the shared utility module")
    parser.add_argument("files", nargs="+", type=Path, help="MODULE.pyx OUTPUT.c, repeated")
    given = parser.parse_args()
    pairs = list(zip(given.files[::2], given.files[1::2], strict=True))
    print(f"Cython {Cython.__version__}: {len(pairs)} modules of {pairs[0][0].parent}", flush=True)
    dependencies: set[Path] = set()
    for source, output in pairs:
        dependencies.update(compile_module(source, output, given.include, given.shared))
    if given.depfile:
        listed = " ".join(str(path) for path in sorted(dependencies))
        given.depfile.write_text(f"{' '.join(str(output) for _, output in pairs)}: {listed}\n")


if __name__ == "__main__":
    main()
