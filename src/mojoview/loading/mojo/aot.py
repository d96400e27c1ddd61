"""Ahead-of-time builds: a Mojo file as a shared library for this or another machine, with its signatures beside it.

The compiler writes an object, the C compiler links it: the result has no run path and needs no library of Mojo's. Who
loads it needs neither of the two compilers.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mojoview.loading.mojo.build import Build
from mojoview.loading.mojo.cache import plain_exports, read_exports
from mojoview.loading.mojo.compiler import find_compiler, run_together
from mojoview.loading.description import seal
from mojoview.loading.elf import code_digest, read_elf
from mojoview.loading.mojo.exports import Exports
from mojoview.loading.mojo.source import files, uses
from mojoview.memory.errors import (
    ArgumentError,
    CompilerNotFound,
    KernelCompileError,
    KernelError,
    MojoViewError,
)
from mojoview.memory.check import seconds_of

__all__ = ["Target", "compile_library", "description_path", "read_description"]

FORMAT = "mojoview kernels 1"
LONGEST = 1 << 22  # bytes of a description
# Words of Mojo's that most often bring the runtime in.
NEED_RUNTIME = {"Array", "Dict", "Error", "List", "Set", "Span", "String", "abort", "alloc", "assert", "debug_assert",
                "print", "raise", "raises", "unsafe_alloc"}
# What a library for each level of x86-64 needs beyond the one before, as /proc/cpuinfo calls it.
LEVELS = {
    "x86-64-v2": {"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"},
    "x86-64-v3": {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"},
    "x86-64-v4": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
}


@dataclass(frozen=True, slots=True)
class Target:
    """The machine that a library is for.

    Attributes
    ----------
    triple : str
        Architecture, vendor, system and C library, for example "aarch64-unknown-linux-gnu".
    cpu : str
        A CPU that the compiler knows. "native" is the one at hand.
    """

    triple: str
    cpu: str

    @classmethod
    def of(cls, triple: str | None, cpu: str | None) -> Target:
        """What a user asked for; by default this architecture and the least of its CPUs."""
        triple = triple or f"{platform.machine()}-unknown-linux-gnu"
        if not re.fullmatch(r"(x86_64|aarch64)(-\w+)?-linux-gnu", triple):
            raise ArgumentError("compile: target triple: expected {x86_64,aarch64}-unknown-linux-gnu,"
                                f" got {triple!r}")
        machine = triple.partition("-")[0]
        cpu = cpu or {"x86_64": "x86-64"}.get(machine, "generic")
        if not re.fullmatch(r"[\w.+-]+", cpu):
            raise ArgumentError(f"compile: target CPU: expected a name, got {cpu!r}")
        if cpu == "native" and machine != platform.machine():
            raise ArgumentError(f"compile: the CPU at hand is no {machine}: name a CPU of that architecture")
        return cls(triple, cpu)

    @property
    def machine(self) -> str:
        return self.triple.partition("-")[0]

    def options(self) -> tuple[str, ...]:
        return ("--target-triple", self.triple, *(() if self.cpu == "native" else ("--target-cpu", self.cpu)))

    def linker(self, cc: str | None) -> list[str]:
        """The command of a C compiler that links for this target."""
        own = self.machine == platform.machine()
        said = cc or (os.environ.get("CC") if own else None)
        command = shlex.split(said) if said else ["cc" if own else f"{self.machine}-linux-gnu-gcc"]
        if not command or shutil.which(command[0]) is None:
            raise CompilerNotFound(f"compile: there is no C compiler {' '.join(command)!r} to link for {self.triple};"
                                   " install one, or name it with --cc")
        return command


def description_path(library: Path) -> Path:
    """Where the signatures of a library are."""
    return library.with_name(library.name + ".json")


def compile_library(source: str | os.PathLike[str], output: str | os.PathLike[str], *, target_triple: str | None = None,
                    target_cpu: str | None = None, cc: str | None = None, flags: Sequence[str] = (),
                    depfile: str | os.PathLike[str] | None = None, progress: Callable[[str], None] | None = None,
                    timeout: float = 600.0) -> tuple[Exports, Target]:
    """compile_library(source, output, *, target_triple=None, target_cpu=None, cc=None, flags=(), depfile=None,
    progress=None, timeout=600.0)

    Compiles a Mojo file to a shared library that `load_library` loads without any compiler.

    Parameters
    ----------
    source : path-like
        A .mojo file, or a package.
    output : path-like
        The library. Its signatures go to a file of that name with `.json` behind it.
    target_triple, target_cpu : str, optional
        The machine that it is for; by default this architecture and the least CPU of it. "native" is the CPU at hand.
    cc : str, optional
        The C compiler that links; by default CC, else cc, and for another architecture its GNU cross compiler.
    flags : sequence of str
        More arguments for `mojo build`.
    depfile : path-like, optional
        Where to write which files the result depends on, as make and ninja read it.
    progress : callable, optional
        Called with a line of text while the compiler runs.
    timeout : float
        Seconds for each of the two compilers.

    Returns
    -------
    Exports, Target
        The kernels of the library and what it was made for. Owned by the caller.

    Raises
    ------
    KernelCompileError
        The compiler or the linker refuses, the file has no kernel, or needs Mojo's runtime library.
    CompileTimeoutError, CompilerNotFound, ArgumentError
        As `load`.

    Notes
    -----
    Library and signatures appear when both are complete. Thread safety: may be called from any thread.
    """
    timeout = seconds_of(timeout, "compile")
    target, asked, output = Target.of(target_triple, target_cpu), Path(output), Path(output).absolute()
    if any(flag.startswith("--target-cpu") for flag in flags):
        raise ArgumentError("compile: give the CPU with --target-cpu of its own, not among the flags")
    build = Build.of(source, flags, find_compiler())
    build, linker = replace(build, options=(*build.options, *target.options())), target.linker(cc)
    if not output.parent.is_dir():
        raise ArgumentError(f"compile: there is no directory {output.parent}")
    with tempfile.TemporaryDirectory(prefix="mojoview-") as directory:
        work = Path(directory)
        exports = _build(build, linker, work, progress, timeout)
        description = _describe(work / "kernels.so", exports, target, build)
        try:
            _publish(work / "kernels.so", output, 0o755)
            _publish(_written(work / "kernels.json", description), description_path(output), 0o644)
            if depfile is not None:
                # ninja knows the library by the name that it was asked for with
                members = [file for file, _ in build.inputs.members]
                counted = [file for file in files(build.file, build.search) if file != build.file]
                rule = [_escaped(asked), ":", *map(_escaped, dict.fromkeys(members + counted))]
                _publish(_written(work / "depfile", " ".join(rule) + "\n"), Path(depfile).absolute(), 0o644)
        except OSError as error:
            where = error.filename2 or error.filename
            raise ArgumentError(f"compile: cannot write {where}: {error.strerror}") from error
    return exports, target


def _build(build: Build, linker: Sequence[str], work: Path, progress: Callable[[str], None] | None,
           timeout: float) -> Exports:
    """Compiles and links; leaves `kernels.so` in `work`."""
    name = build.inputs.path.name

    def link(made: Path, library: Path) -> None:
        # -lm for what the compiler leaves to the C library; nothing else is looked for
        command = [*linker, "-shared", "-o", str(library), str(made), "-Wl,--as-needed", "-lm"]
        linked = run_together({"link": command}, work, timeout=timeout)["link"]
        if linked.code:
            raise KernelCompileError(f"compile: {linker[0]} does not link {name}\n{linked.stderr.strip()}")

    exports = build.run(work / "kernels.so", progress, timeout, link)
    imports = read_elf(work / "kernels.so").imports
    if runtime := sorted(symbol for symbol in imports if re.match("KGEN_|AsyncRT_|M_", symbol)):
        raise KernelCompileError(f"compile: {name} needs Mojo's runtime library ({', '.join(runtime[:3])}), which is"
                                 f" not there where no compiler is.{_suspects(build)} Let kernels return a status and"
                                 " take their memory as arguments; --flag=-D --flag=ASSERT=none leaves out the checks"
                                 " of bounds. Where the compiler is installed, mojoview.load() takes the file as it is")
    if not exports.kernels:
        reasons = "".join(f"\n{symbol}: {why}" for symbol, why in exports.refused.items())
        raise KernelCompileError(f"compile: {name} has no kernel{reasons}")
    return exports


def _suspects(build: Build) -> str:
    """Where the sources may ask for the runtime, in words."""
    found = [f"{file.name}:{line}: {name}" for file in build.sources() for line, name in uses(file, NEED_RUNTIME)]
    if not found:
        return " Printing, raising, allocating and checks of bounds ask for it."
    return f" Look at {', '.join(found[:5])}."


def _describe(library: Path, exports: Exports, target: Target, build: Build) -> str:
    body = {"format": FORMAT, "compiler": f"mojo {build.compiler.version}", "triple": target.triple, "cpu": target.cpu,
            "code": code_digest(library), **plain_exports(exports)}
    return json.dumps({**body, "seal": seal(body)}, indent=1)


def _written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def _publish(made: Path, target: Path, mode: int) -> None:
    """Puts a file in its place in one step."""
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


def read_description(library: Path) -> Exports:
    """The kernels of a library that `compile_library` has made, by the file beside it.

    Parameters
    ----------
    library : Path

    Returns
    -------
    Exports

    Raises
    ------
    ArgumentError
        There is no signature file.
    KernelError
        It is damaged, describes another library, or the library is for another machine or a newer CPU.
    """
    path = description_path(library)
    if not library.is_absolute():
        raise ArgumentError(f"load_library(): {library} is no file here; for a library of the system give declarations")
    try:
        with open(path, "rb") as file:
            data = file.read(LONGEST + 1)
    except FileNotFoundError:
        raise ArgumentError(f"load_library(): {library.name} has no signature file {path.name} beside it; give C"
                            " declarations, or compile it with: python -m mojoview compile") from None
    except OSError as error:
        raise ArgumentError(f"load_library(): cannot read {path}: {error.strerror}") from error
    try:
        body = json.loads(data)
        if len(data) > LONGEST or body.pop("seal") != seal(body):
            raise ValueError("it does not carry its own checksum")
        if body["format"] != FORMAT:
            raise ValueError(f"its format is {body['format']!r}, this version of mojoview reads {FORMAT!r}")
        exports, cpu, code = read_exports(body), str(body["cpu"]), str(body["code"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, MojoViewError) as error:
        raise KernelError(f"load_library(): {path.name} is no signature file, or damaged ({error})") from error
    elf = read_elf(library)
    if elf.machine != platform.machine():
        raise KernelError(f"load_library(): {library.name} was compiled for {elf.machine}, this machine is"
                          f" {platform.machine()}")
    if code != code_digest(library) or not exports.kernels.keys() <= elf.exports:
        raise KernelError(f"load_library(): {path.name} describes another library than {library.name};"
                          " compile it again")
    if lacking := sorted(lacks(cpu, cpu_features())):
        raise KernelError(f"load_library(): {library.name} was compiled for {cpu}; this CPU lacks {', '.join(lacking)}")
    return exports


def lacks(cpu: str, features: set[str]) -> set[str]:
    """What a level of x86-64 asks for and the CPU does not have; empty for CPUs called by another name."""
    if cpu not in LEVELS:
        return set()
    names = list(LEVELS)[:list(LEVELS).index(cpu) + 1]
    return set().union(*(LEVELS[name] for name in names)) - features


def cpu_features() -> set[str]:
    """The features that the system reports for this CPU; everything where it reports none."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("flags"):
                    return set(line.partition(":")[2].split())
    except OSError:
        return set().union(*LEVELS.values())
    return set().union(*LEVELS.values())
