"""Ahead-of-time builds: a Mojo file as a shared library for this or another machine, with its signature file.

The Mojo compiler writes an object and the C compiler links it: the library has no run path and does not need the Mojo
runtime. Loading it needs neither compiler.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mojoview.loading.description import describe_library, description_path
from mojoview.loading.elf import read_elf
from mojoview.loading.exports import Exports
from mojoview.loading.mojo.compilation import Build
from mojoview.loading.mojo.compiler import find_compiler, run_together
from mojoview.loading.mojo.source import files, uses
from mojoview.memory.check import seconds_of
from mojoview.memory.errors import (
    ArgumentError,
    CompilerNotFound,
    KernelCompileError,
)

__all__ = ["Target", "compile_library"]

# Names of Mojo that most often need the runtime library.
NEED_RUNTIME = {
    "Array",
    "Dict",
    "Error",
    "List",
    "Set",
    "Span",
    "String",
    "abort",
    "alloc",
    "assert",
    "debug_assert",
    "print",
    "raise",
    "raises",
    "unsafe_alloc",
}


@dataclass(frozen=True, slots=True)
class Target:
    """The machine that a library is compiled for.

    Attributes
    ----------
    triple : str
        Architecture, vendor, system and C library, for example "aarch64-unknown-linux-gnu".
    cpu : str
        Name of a CPU as the compiler knows it; "native" is that of this machine.
    """

    triple: str
    cpu: str

    @classmethod
    def of(cls, triple: str | None, cpu: str | None) -> Target:
        """Check the user's choice; by default this architecture and its baseline CPU."""
        triple = triple or f"{platform.machine()}-unknown-linux-gnu"
        if not re.fullmatch(r"(x86_64|aarch64)(-\w+)?-linux-gnu", triple):
            raise ArgumentError(
                f"compile: target triple: expected {{x86_64,aarch64}}-unknown-linux-gnu, got {triple!r}"
            )
        machine = triple.partition("-")[0]
        cpu = cpu or {"x86_64": "x86-64"}.get(machine, "generic")
        if not re.fullmatch(r"[\w.+-]+", cpu):
            raise ArgumentError(f"compile: target CPU: expected a name, got {cpu!r}")
        if cpu == "native" and machine != platform.machine():
            raise ArgumentError(f"compile: this CPU is not a {machine}: name a CPU of that architecture")
        return cls(triple, cpu)

    @property
    def machine(self) -> str:
        return self.triple.partition("-")[0]

    def options(self) -> tuple[str, ...]:
        return ("--target-triple", self.triple, *(() if self.cpu == "native" else ("--target-cpu", self.cpu)))

    def linker(self, cc: str | None) -> list[str]:
        """Return the command of a C compiler that links for this target."""
        own = self.machine == platform.machine()
        chosen = cc or (os.environ.get("CC") if own else None)
        command = shlex.split(chosen) if chosen else ["cc" if own else f"{self.machine}-linux-gnu-gcc"]
        if not command or shutil.which(command[0]) is None:
            raise CompilerNotFound(
                f"compile: there is no C compiler {' '.join(command)!r} to link for {self.triple};"
                " install one, or name it with --cc"
            )
        return command


def compile_library(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    target_triple: str | None = None,
    target_cpu: str | None = None,
    cc: str | None = None,
    flags: Sequence[str] = (),
    depfile: str | os.PathLike[str] | None = None,
    progress: Callable[[str], None] | None = None,
    timeout: float = 600.0,
) -> tuple[Exports, Target]:
    """compile_library(source, output, *, target_triple=None, target_cpu=None, cc=None, flags=(), depfile=None,
    progress=None, timeout=600.0)

    Compile a Mojo file to a shared library that `load_library` loads without a compiler.

    Parameters
    ----------
    source : path-like
        A .mojo file, or a package.
    output : path-like
        The library. Its signatures are written to the same name with `.json` appended.
    target_triple, target_cpu : str, optional
        The machine that it is for; by default this architecture and its baseline CPU. "native" is the CPU of this
        machine.
    cc : str, optional
        The C compiler that links; by default CC, else cc; for another architecture its GNU cross compiler.
    flags : sequence of str
        More arguments for `mojo build`.
    depfile : path-like, optional
        File to which the dependencies are written, for make and ninja.
    progress : callable, optional
        Called with a line of text while the compiler runs.
    timeout : float
        Seconds that each of the two compilers may take.

    Returns
    -------
    Exports, Target
        The kernels of the library and the machine that it is for. Owned by the caller.

    Raises
    ------
    KernelCompileError
        The compiler or the linker fails, or the file has no kernel or needs Mojo's runtime library.
    CompileTimeoutError, CompilerNotFound, ArgumentError
        As for `load`.

    Notes
    -----
    Library and signature file are written when both are complete. Thread safety: may be called from any thread.
    """
    timeout = seconds_of(timeout, "compile")
    target, asked, output = Target.of(target_triple, target_cpu), Path(output), Path(output).absolute()
    if any(flag.startswith("--target-cpu") for flag in flags):
        raise ArgumentError("compile: flags: expected no --target-cpu; it has an argument of its own")
    build = Build.of(source, flags, find_compiler())
    build, linker = replace(build, options=(*build.options, *target.options())), target.linker(cc)
    if not output.parent.is_dir():
        raise ArgumentError(f"compile: there is no directory {output.parent}")
    with tempfile.TemporaryDirectory(prefix="mojoview-") as directory:
        work = Path(directory)
        exports = _build(build, linker, work, progress, timeout)
        description = describe_library(
            work / "kernels.so",
            exports,
            compiler=f"mojo {build.compiler.version}",
            triple=target.triple,
            cpu=target.cpu,
        )
        try:
            _publish(work / "kernels.so", output, 0o755)
            _publish(_written(work / "kernels.json", description), description_path(output), 0o644)
            if depfile is not None:
                # ninja matches the library by the path that it passed.
                members = [file for file, _ in build.inputs.members]
                counted = [file for file in files(build.file, build.search) if file != build.file]
                rule = [_escaped(asked), ":", *map(_escaped, dict.fromkeys(members + counted))]
                _publish(_written(work / "depfile", " ".join(rule) + "\n"), Path(depfile).absolute(), 0o644)
        except OSError as error:
            where = error.filename2 or error.filename
            raise ArgumentError(f"compile: cannot write {where}: {error.strerror}") from error
    return exports, target


def _build(
    build: Build, linker: Sequence[str], work: Path, progress: Callable[[str], None] | None, timeout: float
) -> Exports:
    """Compile and link to `kernels.so` in `work`."""
    name = build.inputs.path.name

    def link(made: Path, library: Path) -> None:
        # -lm: the compiler calls functions of the C library.
        command = [*linker, "-shared", "-o", str(library), str(made), "-Wl,--as-needed", "-lm"]
        linked = run_together({"link": command}, work, timeout=timeout)["link"]
        if linked.code:
            raise KernelCompileError(f"compile: {linker[0]} cannot link {name}\n{linked.stderr.strip()}")

    exports = build.run(work / "kernels.so", progress, timeout, link)
    imports = read_elf(work / "kernels.so").imports
    if runtime := sorted(symbol for symbol in imports if re.match("KGEN_|AsyncRT_|M_", symbol)):
        raise KernelCompileError(
            f"compile: {name} needs Mojo's runtime library ({', '.join(runtime[:3])}), which machines without a"
            f" compiler do not have.{_suspects(build)} Let kernels return a status and take their memory as arguments;"
            " --flag=-D --flag=ASSERT=none omits bounds checks. Where the compiler is installed, mojoview.load() takes"
            " the file unchanged"
        )
    if not exports.kernels:
        reasons = "".join(f"\n{symbol}: {why}" for symbol, why in exports.refused.items())
        raise KernelCompileError(f"compile: {name} has no kernel{reasons}")
    return exports


def _suspects(build: Build) -> str:
    """Return a sentence about lines of the sources that may need the runtime library."""
    found = [f"{file.name}:{line}: {name}" for file in build.sources() for line, name in uses(file, NEED_RUNTIME)]
    if not found:
        return " Printing, raising, allocating and bounds checks need it."
    return f" Look at {', '.join(found[:5])}."


def _written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def _publish(made: Path, target: Path, mode: int) -> None:
    """Install a file atomically."""
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as file:
        try:
            file.write(made.read_bytes())
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.replace(file.name, target)
        except BaseException:
            os.unlink(file.name)
            raise


def _escaped(path: Path) -> str:
    return re.sub(r"([ #\\])", r"\\\1", str(path)).replace("$", "$$")
