"""Compiles and runs C tests that need no Python, under every compiler of the machine and its sanitizers."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

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


class Fault(NamedTuple):
    """A statement (with its semicolon) or an expression of a C file, and the fault that takes its place."""

    file: str
    text: str
    replacement: str
    context: str = ""  # text around it that the file has once, where `text` alone is not unique

    def switched(self, number: int) -> str:
        """Return C code that behaves as `replacement` where the fault `number` is on, else as `text`."""
        if self.text.endswith(";"):
            return f"if (planted_fault == {number}) {{ {self.replacement} }} else {{ {self.text} }}"
        return f"(planted_fault == {number} ? ({self.replacement}) : ({self.text}))"


FAULT_H = """#pragma once
extern char *getenv(const char *);
extern int atoi(const char *);
static int planted_fault __attribute__((unused));
__attribute__((constructor)) static void choose_planted_fault(void) {
    const char *number = getenv("PLANTED_FAULT");
    planted_fault = number ? atoi(number) : 0;
}
"""


def faulty_copy(folder: Path, faults: Sequence[Fault]) -> Path:
    """Copy the package's C files to `folder` with all of the faults: one compilation serves them all.

    None is on, but for the n-th, counted from 1, in a process with PLANTED_FAULT=n in its environment.
    """
    changes: dict[str, dict[str, str]] = {}
    for number, fault in enumerate(faults, 1):
        context = fault.context or fault.text
        assert context.count(fault.text) == 1
        changes.setdefault(fault.file, {})[context] = context.replace(fault.text, fault.switched(number))
    changed_copy(folder, changes)
    (folder / "fault.h").write_text(FAULT_H)
    for name in changes:
        (folder / name).write_text('#include "fault.h"\n' + (folder / name).read_text())
    return folder


def compile_c(
    source: str,
    directory: Path,
    compiler: str,
    flavour: str = "plain",
    sources: tuple[str, ...] = (),
    package: Path = PACKAGE,
) -> Path:
    """Compile ``tests/native/<source>``, with further `sources` of the package.

    Headers and sources come from `package`, the package or a changed copy of it.
    """
    program = directory / f"{Path(source).stem}_{compiler}_{flavour}"
    inputs = [str(NATIVE / source), *[str(package / s) for s in sources]]
    flags = ["-std=gnu11", *WARNINGS, *SANITIZERS[flavour], f"-I{package}"]
    run([compiler, *flags, *inputs, "-o", str(program), "-pthread", "-lm"])
    return program


def run(command: Sequence[str | Path], fault: int = 0) -> str:
    """Run a compiler or a program, with one of its faults if it has any; its output."""
    variables = environment() | {"PLANTED_FAULT": str(fault)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, env=variables, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout[-4000:]}\n{done.stderr[-8000:]}"
    return done.stdout


def run_c(
    source: str,
    directory: Path,
    compiler: str,
    flavour: str = "plain",
    sources: tuple[str, ...] = (),
    args: tuple[str, ...] = (),
) -> str:
    """Compile ``tests/native/<source>``, with further `sources` of the package, and run it; its output."""
    return run([compile_c(source, directory, compiler, flavour, sources), *args])
