"""The Mojo compiler: finding it, identifying it, running it, and its runtime libraries."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib.metadata
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, overload

from mojoview.loading.dlopen import open_library
from mojoview.loading.elf import read_elf
from mojoview.memory.errors import CompilerNotFound, CompileTimeoutError

__all__ = ["Compiler", "Run", "find_compiler", "host_cpu", "open_with_runtime", "run_together"]

PACKAGE = "mojo-compiler"
RUNTIME = "libKGENCompilerRTShared.so"


@dataclass(frozen=True)
class Compiler:
    """A Mojo compiler on this machine.

    Attributes
    ----------
    path : Path
        The executable.
    found : str
        The place where it was found: "MOJO" (the environment variable), "package", "beside python" or "PATH".
    """

    path: Path
    found: str

    @functools.cached_property
    def version(self) -> str | None:
        """The version; a compiler that is not from the package is run to query it."""
        if self.found == "package":
            return importlib.metadata.version(PACKAGE)
        with suppress(OSError, subprocess.TimeoutExpired):
            result = subprocess.run([self.path, "--version"], capture_output=True, text=True, timeout=60, check=False)
            if match := re.search(r"\d+\.\d+[\w.]*", result.stdout):
                return match[0]
        return None

    def __str__(self) -> str:
        return f"{PACKAGE} {self.version}" if self.found == "package" else str(self.path)

    def identity(self) -> str:
        """Return a string that identifies this compiler, without running it."""
        if self.found == "package":
            return str(self)
        real = self.path.resolve()
        info = real.stat()
        return f"{real} {info.st_size} {info.st_mtime_ns}"


@overload
def find_compiler() -> Compiler: ...
@overload
def find_compiler(*, required: Literal[True]) -> Compiler: ...
@overload
def find_compiler(*, required: bool) -> Compiler | None: ...


def find_compiler(*, required: bool = True) -> Compiler | None:
    """Return the Mojo compiler that `load` uses.

    The first of: the environment variable MOJO, the installed package mojo-compiler, a program beside the running
    Python, a program on PATH.

    Parameters
    ----------
    required : bool
        Raise if there is none, rather than return None.

    Returns
    -------
    Compiler or None
        Owned by the caller.

    Raises
    ------
    CompilerNotFound
        There is no compiler, or MOJO does not name an executable program.

    Notes
    -----
    Thread safety: may be called from any thread.

    Examples
    --------
    >>> compiler = find_compiler(required=False)
    >>> compiler is None or compiler.path.is_absolute()
    True
    """
    if named := os.environ.get("MOJO"):
        if path := shutil.which(named):
            return Compiler(Path(path).absolute(), "MOJO")
        raise CompilerNotFound(
            f"find_compiler(): the environment variable MOJO names {named!r}, which is not an executable program"
        )
    beside = shutil.which("mojo", path=str(Path(sys.executable).parent))
    for found, where in (("package", _packaged()), ("beside python", beside), ("PATH", shutil.which("mojo"))):
        if where:
            return Compiler(Path(where).absolute(), found)
    if required:
        raise CompilerNotFound(
            "find_compiler(): no Mojo compiler; install it with: pip install 'mojoview[mojo]'"
            " (searched: the environment variable MOJO, the package mojo-compiler, beside the running Python, PATH)"
        )
    return None


def _packaged() -> str | None:
    """Return the console script of the installed mojo-compiler, which sets up the environment of the compiler."""
    try:
        files = importlib.metadata.files(PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.name == "mojo" and file.parent.name == "bin" and ".." in file.parts:
            return shutil.which(os.path.normpath(file.locate()))
    return None


@functools.cache
def host_cpu() -> str:
    """Return a string that differs for CPUs with different instruction sets."""
    keys = ("vendor_id", "cpu family", "model", "model name", "flags", "CPU implementer", "CPU part", "Features")
    facts = [platform.machine(), platform.processor()]
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            if not line.strip():
                break
            name, _, value = line.partition(":")
            if name.strip() in keys:
                facts.append(value.strip())
    return f"{platform.machine()} {hashlib.sha256(repr(facts).encode()).hexdigest()[:16]}"


@dataclass(frozen=True)
class Run:
    """A finished run of a program."""

    code: int
    stdout: str
    stderr: str


def run_together(
    commands: Mapping[str, Sequence[str | Path]],
    work: Path,
    *,
    timeout: float,
    tick: Callable[[float], None] | None = None,
) -> dict[str, Run]:
    """Run programs at the same time until all have succeeded or one has failed.

    Parameters
    ----------
    commands : mapping of str to argument lists
    work : Path
        Directory for their output; also their working directory and TMPDIR.
    timeout : float
        Seconds until all of them must have finished.
    tick : callable, optional
        Called about once a second with the elapsed seconds.

    Returns
    -------
    dict of str to Run
        The finished runs; after a failure the other programs are killed and omitted.

    Raises
    ------
    CompileTimeoutError
        `timeout` expired; all programs were killed.

    Notes
    -----
    Each program leads its own process group; a timeout, Ctrl-C or an exception of `tick` kills the groups. Output goes
    to files, so that no pipe can block. Thread safety: may be called from any thread.
    """
    start = time.monotonic()
    reported, done = 0.0, dict[str, Run]()
    running = dict[str, subprocess.Popen[bytes]]()
    try:
        for name, command in commands.items():
            with open(work / f"{name}.out", "wb") as out, open(work / f"{name}.err", "wb") as err:
                try:
                    running[name] = subprocess.Popen(
                        command,
                        cwd=work,
                        env={**os.environ, "TMPDIR": str(work)},
                        stdin=subprocess.DEVNULL,
                        stdout=out,
                        stderr=err,
                        start_new_session=True,
                    )
                except OSError as error:
                    raise CompilerNotFound(f"load(): the Mojo compiler {command[0]} cannot be run: {error}") from error
        while running and not any(run.code for run in done.values()):
            with suppress(subprocess.TimeoutExpired):
                next(iter(running.values())).wait(0.05)
            for name, process in list(running.items()):
                if process.poll() is not None:
                    done[name] = Run(process.returncode, _read(work / f"{name}.out"), _read(work / f"{name}.err"))
                    del running[name]
            passed = time.monotonic() - start
            if running and passed > timeout:
                raise CompileTimeoutError(f"load(): the compiler has not finished within {timeout:g} s; it was killed")
            if tick and passed - reported >= 1:
                reported = passed
                tick(passed)
    finally:
        for process in running.values():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return done


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def open_with_runtime(path: Path) -> ctypes.CDLL:
    """Load a compiled Mojo library, whose run path was removed.

    If the system does not find a dependency, the libraries of this environment's compiler are loaded first: the dynamic
    linker does not search for a name that is already loaded.

    Raises
    ------
    OSError
        A dependency is missing.
    """
    with suppress(OSError):
        return open_library(path)
    with suppress(OSError, CompilerNotFound):  # the next attempt reports what is missing
        for library in map(_runtime_directory().joinpath, read_elf(path).needed):
            if library.is_file():
                open_library(library)
    return open_library(path)


def _runtime_directory() -> Path:
    """Return the directory of the runtime libraries: where the compiler's package installed them, else its `lib`."""
    compiler = find_compiler()
    if compiler.found == "package":
        for file in importlib.metadata.files(PACKAGE) or ():
            if file.name == RUNTIME:
                return Path(str(file.locate())).parent
    return compiler.path.resolve().parent.parent / "lib"
