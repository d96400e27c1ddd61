"""C programs that several tests run: compiled once, skipped with the reason where the tools are missing."""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from native.build import COMPILERS, NATIVE, PACKAGE, SANITIZERS, WARNINGS, environment

_PLACE = tempfile.TemporaryDirectory(prefix="mojoview-native-")  # removed when the process ends


@functools.cache
def missing(compiler: str, flavour: str) -> str:
    """Empty, or why this machine cannot build and run programs of that flavour with that compiler."""
    if compiler not in COMPILERS:
        return f"{compiler} is not installed"
    probe = Path(_PLACE.name) / f"probe_{compiler}_{flavour}"
    for step in ([compiler, *SANITIZERS[flavour], "-x", "c", "-", "-o", str(probe)], [str(probe)]):
        source = "int main(void) { return 0; }"
        done = subprocess.run(step, input=source, capture_output=True, text=True, env=environment(), check=False)
        if done.returncode:
            return f"{compiler} cannot build and run programs with {' '.join(SANITIZERS[flavour])}"
    return ""


@functools.cache
def program(source: str, flavour: str = "plain", compiler: str = "gcc", flags: tuple[str, ...] = ()) -> Path:
    """A compiled ``tests/native/<source>``; `flags` come first, so a -I there wins over the package's headers."""
    if reason := missing(compiler, flavour):
        pytest.skip(reason)
    if flavour == "threads" and compiler == "gcc":
        flags = (*flags, "-Wno-tsan")  # it warns that it does not model fences: every word that is shared is atomic
    target = Path(_PLACE.name) / "_".join([Path(source).stem, compiler, flavour, *(f.replace("/", "+") for f in flags)])
    include = [f"-I{PACKAGE}"]
    options = ["-std=gnu11", *WARNINGS, *SANITIZERS[flavour], *flags, *include]
    command = [compiler, *options, str(NATIVE / source), "-o", str(target), "-pthread", "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, env=environment(), check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr[-8000:]}"
    return target


def emulated(source: str) -> list[str]:
    """The command that runs ``tests/native/<source>`` built for aarch64, emulated; skips where the tools are missing.

    Emulation on x86 keeps x86's order of memory accesses: it shows that the build is right, not that the orders are.
    """
    compiler = "aarch64-linux-gnu-gcc"
    runner = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
    if shutil.which(compiler) is None or runner is None:
        pytest.skip(f"{compiler} or qemu-aarch64 is not installed")
    target = Path(_PLACE.name) / f"{Path(source).stem}_aarch64"
    include = [f"-I{PACKAGE}"]
    command = [
        compiler,
        "-std=gnu11",
        "-O2",
        "-static",
        *WARNINGS,
        *include,
        str(NATIVE / source),
        "-o",
        str(target),
        "-pthread",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-8000:]
    return [runner, str(target)]
