"""Compiles and runs C tests that need no Python, under every compiler of the machine and its sanitizers."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

import mojoview

NATIVE = Path(__file__).parent
PACKAGE = Path(mojoview.__file__).parent
COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]
WARNINGS = ["-Wall", "-Wextra", "-Wshadow", "-Wno-unused-function", "-Werror"]
SANITIZERS = {
    "plain": ["-O2"],
    "sanitized": ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
    "threads": ["-O1", "-g", "-fsanitize=thread"],
}
_PROGRAMS = tempfile.TemporaryDirectory(prefix="mojoview-native-")  # removed when the process ends


def environment() -> dict[str, str]:
    """Without a preloaded sanitizer runtime: a compiler and its programs bring their own."""
    return {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}


def compile_c(
    source: str,
    directory: Path,
    compiler: str,
    flavour: str = "plain",
    sources: tuple[str, ...] = (),
    flags: tuple[str, ...] = (),
) -> Path:
    """Compiles ``tests/native/<source>`` (with further sources of the package) into `directory`; the program."""
    program = directory / "_".join([Path(source).stem, compiler, flavour, *(flag.replace("/", "+") for flag in flags)])
    folders = [f"-I{PACKAGE / room}" for room in ("memory", "views", "sharing", "kernels")]
    command = [
        compiler,
        "-std=gnu11",
        *WARNINGS,
        *SANITIZERS[flavour],
        *flags,
        *folders,
        str(NATIVE / source),
        *[str(PACKAGE / s) for s in sources],
        "-o",
        str(program),
        "-pthread",
        "-lm",
    ]
    run_step(command)
    return program


def run_step(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, env=environment(), check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-4000:]}\n{done.stderr[-8000:]}"
    return done.stdout


def run_c(
    source: str,
    directory: Path,
    compiler: str,
    flavour: str = "plain",
    sources: tuple[str, ...] = (),
    args: tuple[str, ...] = (),
) -> str:
    """Compiles ``tests/native/<source>`` and runs it; its output."""
    return run_step([str(compile_c(source, directory, compiler, flavour, sources)), *args])


@functools.cache
def missing(compiler: str, flavour: str) -> str:
    """Empty, or why this machine cannot build and run programs of that flavour with that compiler."""
    if compiler not in COMPILERS:
        return f"{compiler} is not installed"
    program = Path(_PROGRAMS.name) / f"probe_{compiler}_{flavour}"
    for step in ([compiler, *SANITIZERS[flavour], "-x", "c", "-", "-o", str(program)], [str(program)]):
        done = subprocess.run(
            step, input="int main(void) { return 0; }", capture_output=True, text=True, env=environment(), check=False
        )
        if done.returncode:
            return f"{compiler} cannot build and run programs with {' '.join(SANITIZERS[flavour])}"
    return ""


@functools.cache
def program(source: str, flavour: str = "plain", compiler: str = "gcc", flags: tuple[str, ...] = ()) -> Path:
    """A compiled program, made once for all tests of this run; skips, with the reason, where the tools for it are missing."""
    if reason := missing(compiler, flavour):
        pytest.skip(reason)
    if flavour == "threads" and compiler == "gcc":
        flags = (*flags, "-Wno-tsan")  # it warns that it does not model fences: every word that is shared is atomic
    return compile_c(source, Path(_PROGRAMS.name), compiler, flavour, (), flags)
