"""One compilation: source file, compiler and arguments; the key of its result and the runs of the compiler."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mojoview.kernels.compiler import Compiler, Run, host_cpu, run_together
from mojoview.kernels.diagnostics import Diagnostic, parse, render
from mojoview.kernels.elf import drop_run_path, read_elf
from mojoview.kernels.exports import Exports, examine
from mojoview.kernels.include import get_mojo_include
from mojoview.kernels.source import content, outline
from mojoview.memory.errors import ArgumentError, KernelCompileError

__all__ = ["Build"]

# Products and sums are not fused, so that results equal NumPy's bit by bit.
DEFAULT_FLAGS = ("--fp-mode", "contract=off")
OWN_FLAGS = ("-o", "--emit", "--diagnostic-format", "--target-triple", "--help", "-h", "--print-", "--experimental-",
             "--disable-warnings")
FORMAT = 1  # part of the key: rises when the meaning of what is kept changes


@dataclass(frozen=True, slots=True)
class Build:
    """What determines the result of a compilation, apart from this machine's CPU.

    Attributes
    ----------
    file : Path
    options : tuple of str
        Arguments for `mojo build`.
    search : tuple of Path
        Where imported modules are looked for.
    compiler : Compiler
    """

    file: Path
    options: tuple[str, ...]
    search: tuple[Path, ...]
    compiler: Compiler

    @classmethod
    def of(cls, path: str | os.PathLike[str], flags: Sequence[str], compiler: Compiler) -> Build:
        """Checks what the user gave to `load`."""
        try:
            file = Path(os.fsdecode(path)).absolute()
        except TypeError:
            raise ArgumentError(f"load(): path: expected a str or path-like, got {type(path).__name__}") from None
        if file.suffix != ".mojo":
            raise ArgumentError(f"load(): expected a file whose name ends in .mojo, got {file.name!r}")
        if "\0" in str(file):
            raise ArgumentError(f"load(): path: expected no NUL character, got {str(file)!r}")
        if file.exists() and not file.is_file() and not file.is_dir():  # reading a pipe or a device may never end
            raise ArgumentError(f"load(): expected a regular file, got {file}")
        if isinstance(flags, str) or not isinstance(flags, Sequence) or not all(isinstance(f, str) for f in flags):
            raise ArgumentError(f"load(): flags must be a sequence of strings, got {flags!r}")
        if any("\0" in flag for flag in flags):
            raise ArgumentError(f"load(): flags: expected no NUL character, got {flags!r}")
        # `mojo build` looks beside the file of its own accord, `mojo doc` does not
        options, search, rest = list(DEFAULT_FLAGS), [get_mojo_include(), file.parent], iter(flags)
        for flag in rest:
            if flag.startswith(OWN_FLAGS):
                raise ArgumentError(f"load(): the flag {flag} is load()'s own to set")
            if flag.startswith("-I"):  # the compiler runs in another directory
                search.append(Path(flag[2:] or next(rest, "")).absolute())
            else:
                options.append(flag)
        for hiding in (file.parent / name for name in ("mojoview", "mojoview.mojo", "mojoview.mojopkg")):
            if hiding.exists() and file.parent != get_mojo_include():
                raise ArgumentError(f"load(): {hiding} hides the Mojo package mojoview from {file.name}; rename it")
        return cls(file, tuple(options), tuple(search), compiler)

    def key(self) -> str:
        """The same for the same content, compiler, arguments and CPU, wherever the file is."""
        try:
            sources = content(self.file, self.search)
        except OSError as error:
            raise self.unreadable(error) from error
        facts = [FORMAT, sources, self.compiler.identity(), self.options, host_cpu()]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:40]

    def run(self, library: Path, progress: Callable[[str], None] | None, timeout: float) -> Exports:
        """Compiles the file to `library`, beside which the compiler's other output goes.

        The types come from `mojo doc` and a second compilation to LLVM text; all three run side by side.

        Raises
        ------
        KernelCompileError
            The compiler refuses the file.
        """
        work, name, begin = library.parent, self.file.name, time.monotonic()
        include = [part for directory in self.search for part in ("-I", directory)]
        json_format = ("--diagnostic-format", "json")
        build = [self.compiler.path, "build", *self.options, *include, *json_format, self.file]
        if progress:
            progress(f"compiling {name} with {self.compiler}")
        runs = run_together({
            "build": [*build, "--emit", "shared-lib", "-o", library],
            "types": [*build, "--emit", "llvm", "-o", work / "kernels.ll"],
            "doc": [self.compiler.path, "doc", *include, *json_format, self.file],
        }, work, timeout=timeout, tick=progress and (lambda seconds: progress(f"compiling {name}: {seconds:.0f} s")))
        for run in sorted(runs.values(), key=lambda run: run.code != 0, reverse=True):
            if run.code:
                raise self.refusal(run)
        try:
            source = outline(self.file.read_text(encoding="utf-8", errors="replace"))
        except OSError as error:  # gone while it was compiled
            raise self.unreadable(error) from error
        llvm = (work / "kernels.ll").read_text(encoding="utf-8", errors="replace")
        drop_run_path(library)  # the absolute path of this environment
        exports = examine(read_elf(library).exports, source, runs["doc"].stdout, llvm)
        if progress:
            progress(f"compiled {name} in {time.monotonic() - begin:.1f} s")
        return exports

    def unreadable(self, error: OSError) -> ArgumentError:
        return ArgumentError(f"load(): cannot read {error.filename or self.file}: {error.strerror}")

    def refusal(self, run: Run) -> KernelCompileError:
        diagnostics = parse(run.stderr)
        if any(d.severity == "error" for d in diagnostics):
            said = render(diagnostics)
        else:  # it died, or speaks another format
            diagnostics += [Diagnostic("error", d.message) for d in parse(run.stdout)]
            ended = f"exit status {run.code}" if run.code > 0 else f"killed by signal {-run.code}"
            said = "\n".join(filter(None, [*map(str, diagnostics), run.stderr.strip(), ended]))
        return KernelCompileError(f"load(): the Mojo compiler refuses {self.file.name}\n{said}", tuple(diagnostics))
