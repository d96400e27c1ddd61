"""One compilation: inputs, compiler and arguments; the cache key of its result, and the runs of the compiler."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mojoview.loading.elf import drop_run_path, read_elf
from mojoview.loading.exports import Exports
from mojoview.loading.mojo.compiler import Compiler, Run, host_cpu, run_together
from mojoview.loading.mojo.diagnostics import Diagnostic, parse, render
from mojoview.loading.mojo.examine import Part, examine_parts
from mojoview.loading.mojo.include_path import get_mojo_include
from mojoview.loading.mojo.inputs import ROOT, Inputs
from mojoview.loading.mojo.source import content, files, outline_of
from mojoview.memory.errors import ArgumentError, KernelCompileError

__all__ = ["Build"]

# Products and sums are not fused, so that results equal NumPy's bit by bit.
DEFAULT_FLAGS = ("--fp-mode", "contract=off")
# The optimiser merges lines and removes variables.
DEBUG_FLAGS = ("--debug-level", "full", "--no-optimization")
OWN_FLAGS = (
    "-o",
    "--emit",
    "--diagnostic-format",
    "--target-triple",
    "--help",
    "-h",
    "--print-",
    "--experimental-",
    "--disable-warnings",
)
FORMAT = 2  # part of the key: incremented when the meaning of a cache entry changes


@dataclass(frozen=True, slots=True)
class Build:
    """Everything that determines the result of a compilation, except the CPU of this machine.

    Attributes
    ----------
    inputs : Inputs
    options : tuple of str
        Arguments for `mojo build`.
    search : tuple of Path
        Directories in which imported modules are searched.
    compiler : Compiler
    """

    inputs: Inputs
    options: tuple[str, ...]
    search: tuple[Path, ...]
    compiler: Compiler

    @classmethod
    def of(
        cls,
        path: Any,
        flags: Sequence[str],
        compiler: Compiler,
        *,
        source: str | None = None,
        name: str | None = None,
        debug: bool = False,
    ) -> Build:
        """Check the arguments of `load`."""
        if isinstance(flags, str) or not isinstance(flags, Sequence) or not all(isinstance(f, str) for f in flags):
            raise ArgumentError(f"load(): flags: expected a sequence of strings, got {flags!r}")
        if any("\0" in flag for flag in flags):
            raise ArgumentError(f"load(): flags: expected no NUL character, got {flags!r}")
        inputs = Inputs.of(path, source, name)
        # `mojo build` searches the directory of the file by itself, `mojo doc` does not.
        options, search, rest = list(DEFAULT_FLAGS), [get_mojo_include(), *inputs.search], iter(flags)
        if debug:
            options += DEBUG_FLAGS
        for flag in rest:
            if flag.startswith(OWN_FLAGS):
                raise ArgumentError(f"load(): the flag {flag} is set by load() itself")
            if flag.startswith("-I"):  # the compiler runs in another directory
                search.append(Path(flag[2:] or next(rest, "")).absolute())
            else:
                options.append(flag)
        if hiding := inputs.hidden_library():
            raise ArgumentError(f"load(): {hiding} hides the Mojo package mojoview from {inputs.path.name}; rename it")
        return cls(inputs, tuple(options), tuple(search), compiler)

    @property
    def file(self) -> Path:
        """The file that the compiler reads."""
        return self.inputs.file

    def key(self) -> str:
        """Return the cache key: a hash of content, compiler, arguments and CPU, independent of the path."""
        try:
            # The root file of several files imports only those with exports.
            members = [file for file, _ in self.inputs.members]
            sources = [content(file, self.search) for file in dict.fromkeys((self.file, *members))]
        except OSError as error:
            raise self.unreadable(error) from error
        facts = [FORMAT, sources, self.compiler.identity(), self.options, host_cpu()]
        facts.append([dotted or file.name for file, dotted in self.inputs.members])
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:40]

    def sources(self) -> list[Path]:
        """Return the source files, members first; without mojoview's own Mojo package."""
        members = [file for file, _ in self.inputs.members]
        try:
            found = files(self.file, self.search)
        except OSError as error:
            raise self.unreadable(error) from error
        own = get_mojo_include()
        return list(dict.fromkeys(members + [file for file in found if own not in file.parents]))

    def run(
        self,
        library: Path,
        progress: Callable[[str], None] | None,
        timeout: float,
        link: Callable[[Path, Path], None] | None = None,
    ) -> Exports:
        """Compile to `library`; other output of the compiler goes to the same directory.

        If `link` is given, it makes the library from an object file. Types come from `mojo doc` and from a second
        compilation to LLVM text; all three run at the same time.

        Raises
        ------
        KernelCompileError
            The compiler rejects the file.
        """
        work, name, begin = library.parent, self.inputs.path.name, time.monotonic()
        include = [part for directory in self.search for part in ("-I", directory)]
        json_format = ("--diagnostic-format", "json")
        build = [self.compiler.path, "build", *self.options, *include, *json_format, self.file]
        if progress:
            progress(f"compiling {name} with {self.compiler}")
        members, package = self.inputs.members, self.inputs.package
        made = library.with_suffix(".o") if link else library
        described = [package] if package else [file for file, _ in members]
        docs = [f"doc{k or ''}" for k in range(len(described))]
        runs = run_together(
            {
                "build": [*build, "--emit", "object" if link else "shared-lib", "-o", made],
                "types": [*build, "--emit", "llvm", "-o", work / "kernels.ll"],
                **{
                    doc: [self.compiler.path, "doc", *include, *json_format, file]
                    for doc, file in zip(docs, described, strict=True)
                },
            },
            work,
            timeout=timeout,
            tick=progress and (lambda seconds: progress(f"compiling {name}: {seconds:.0f} s")),
        )
        for run in sorted(runs.values(), key=lambda run: run.code != 0, reverse=True):
            if run.code:
                raise self.compile_error(run)
        if link:
            link(made, library)
        try:
            parts = [
                Part(outline_of(file), runs[docs[0 if package else k]].stdout, dotted)
                for k, (file, dotted) in enumerate(members)
            ]
        except OSError as error:  # removed while it was compiled
            raise self.unreadable(error) from error
        llvm = (work / "kernels.ll").read_text(encoding="utf-8", errors="replace")
        drop_run_path(library)  # the absolute path of this environment
        exports = examine_parts(read_elf(library).exports - {ROOT}, parts, llvm)
        if progress:
            progress(f"compiled {name} in {time.monotonic() - begin:.1f} s")
        return exports

    def unreadable(self, error: OSError) -> ArgumentError:
        return ArgumentError(f"load(): cannot read {error.filename or self.file}: {error.strerror}")

    def compile_error(self, run: Run) -> KernelCompileError:
        diagnostics = parse(run.stderr)
        if any(d.severity == "error" for d in diagnostics):
            text = render(diagnostics)
        else:  # the compiler crashed, or writes another format
            diagnostics += [Diagnostic("error", d.message) for d in parse(run.stdout)]
            ended = f"exit status {run.code}" if run.code > 0 else f"killed by signal {-run.code}"
            text = "\n".join(filter(None, [*map(str, diagnostics), run.stderr.strip(), ended]))
        summary = f"load(): the Mojo compiler rejects {self.inputs.path.name}"
        return KernelCompileError(f"{summary}\n{text}", tuple(diagnostics))
