"""The Mojo compiler as a tool: where it is, which one it is, and several runs of it side by side."""

from __future__ import annotations

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

from mojoview.memory.errors import CompilerNotFound, CompileTimeoutError

__all__ = ["Compiler", "Run", "find_compiler", "host_cpu", "run_together"]

PACKAGE = "mojo-compiler"


@dataclass(frozen=True)
class Compiler:
    """A Mojo compiler on this machine.

    Attributes
    ----------
    path : Path
        The executable.
    found : str
        How it was found: "MOJO", "package", "beside python" or "PATH".
    """

    path: Path
    found: str

    @functools.cached_property
    def version(self) -> str | None:
        """Version; a compiler from elsewhere than the package is asked for it."""
        if self.found == "package":
            return importlib.metadata.version(PACKAGE)
        with suppress(OSError, subprocess.TimeoutExpired):
            said = subprocess.run([self.path, "--version"], capture_output=True, text=True, timeout=60, check=False)
            if match := re.search(r"\d+\.\d+[\w.]*", said.stdout):
                return match[0]
        return None

    def __str__(self) -> str:
        return f"{PACKAGE} {self.version}" if self.found == "package" else str(self.path)

    def identity(self) -> str:
        """What tells this compiler from another one; costs no run of the compiler."""
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
    """The Mojo compiler that `load` uses.

    Looked for in this order: the environment variable MOJO, the installed package mojo-compiler, beside the running
    Python, and PATH.

    Parameters
    ----------
    required : bool
        Raise where there is none; otherwise return None.

    Returns
    -------
    Compiler or None
        Owned by the caller.

    Raises
    ------
    CompilerNotFound
        No compiler, or MOJO names something that cannot be run.

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
        raise CompilerNotFound(f"find_compiler(): the environment variable MOJO names {named!r},"
                               " which is no program that can be run")
    beside = shutil.which("mojo", path=str(Path(sys.executable).parent))
    for found, where in (("package", _packaged()), ("beside python", beside), ("PATH", shutil.which("mojo"))):
        if where:
            return Compiler(Path(where).absolute(), found)
    if required:
        raise CompilerNotFound(
            "find_compiler(): no Mojo compiler; install it with: pip install 'mojoview[mojo]'"
            " (looked at the environment variable MOJO, the package mojo-compiler, beside the running Python, PATH)")
    return None


def _packaged() -> str | None:
    """The console script of the installed mojo-compiler; its own start-up code sets what the compiler needs."""
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
    """What tells the CPU of this machine from one that may lack its instructions."""
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
    """One finished run of a program."""

    code: int
    stdout: str
    stderr: str


def run_together(commands: Mapping[str, Sequence[str | Path]], work: Path, *, timeout: float,
                 tick: Callable[[float], None] | None = None) -> dict[str, Run]:
    """Runs programs side by side until all have succeeded or one has failed.

    Parameters
    ----------
    commands : mapping of str to argument lists
    work : Path
        Directory for their output; also their working directory.
    timeout : float
        Seconds for all of them together.
    tick : callable, optional
        Called about once a second with the seconds that have passed.

    Returns
    -------
    dict of str to Run
        Of those that ended; after a failure the others are killed and left out.

    Raises
    ------
    CompileTimeoutError
        After `timeout` seconds.

    Notes
    -----
    Each program leads a process group of its own, and whatever ends this call early (an exception of `tick`, Ctrl-C,
    the timeout) kills the groups. Output goes to files, so that no pipe can fill up; temporary files go to `work` as
    well. Thread safety: may be called from any thread.
    """
    start = time.monotonic()
    told, done = 0.0, dict[str, Run]()
    running = dict[str, subprocess.Popen[bytes]]()
    try:
        for name, command in commands.items():
            with open(work / f"{name}.out", "wb") as out, open(work / f"{name}.err", "wb") as err:
                try:
                    running[name] = subprocess.Popen(command, cwd=work, env={**os.environ, "TMPDIR": str(work)},
                                                     stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                                     start_new_session=True)
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
            if tick and passed - told >= 1:
                told = passed
                tick(passed)
    finally:
        for process in running.values():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return done


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")
