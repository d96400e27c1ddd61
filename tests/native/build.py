"""Compiles and runs C tests that need no Python, under every compiler of the machine and its sanitizers."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import mojoview

NATIVE = Path(__file__).parent
SOURCES = NATIVE.parents[1] / "src" / "mojoview"
PACKAGE = SOURCES if SOURCES.is_dir() else Path(mojoview.__file__).parent  # C sources are not installed
COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]
WARNINGS = ["-Wall", "-Wextra", "-Wshadow", "-Wno-unused-function", "-Werror"]
SANITIZERS = {
    "plain": ["-O2"],
    "sanitized": ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
    "loops": ["-O0", "-g", "-DMV_NO_CLONES", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
    "mutant": ["-O0", "-DMV_NO_CLONES"],
    "threads": ["-O1", "-g", "-fsanitize=thread"],
}


def environment() -> dict[str, str]:
    """Without a preloaded sanitizer runtime: a compiler and its programs bring their own."""
    return {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}


def changed_copy(folder: Path, changes: dict[str, dict[str, str]]) -> Path:
    """Copy the package's C files to `folder`, with replacements (file -> old text -> new text), each found once."""
    for path in PACKAGE.rglob("*.[ch]"):
        name = path.relative_to(PACKAGE).as_posix()
        text = path.read_text()
        for old, new in changes.get(name, {}).items():
            assert text.count(old) == 1, f"{name} has changed: adapt the mutant"
            text = text.replace(old, new)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def run_c(
    source: str,
    directory: Path,
    compiler: str,
    flavour: str = "plain",
    sources: tuple[str, ...] = (),
    args: tuple[str, ...] = (),
    package: Path = PACKAGE,
) -> str:
    """Compiles ``tests/native/<source>``, with further `sources` of the package, and runs it; its output.

    Headers and sources come from `package`, the package or a changed copy of it.
    """
    program = directory / f"{Path(source).stem}_{compiler}_{flavour}"
    inputs = [str(NATIVE / source), *[str(package / s) for s in sources]]
    flags = ["-std=gnu11", *WARNINGS, *SANITIZERS[flavour], f"-I{package}"]
    command = [compiler, *flags, *inputs, "-o", str(program), "-pthread", "-lm"]
    for step in (command, [str(program), *args]):
        done = subprocess.run(step, capture_output=True, text=True, timeout=280, env=environment(), check=False)
        assert done.returncode == 0, f"{' '.join(step)}\n{done.stdout[-4000:]}\n{done.stderr[-8000:]}"
    return done.stdout
