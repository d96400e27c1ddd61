"""Crash report: the record left by a worker's signal handler, with a symbolised stack."""

from __future__ import annotations

import functools
import itertools
import shutil
import subprocess
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TypeAlias

from mojoview.safety.workers import _channel

__all__ = ["CrashReport", "StackFrame", "parse_report"]

HANDLER = Path(str(_channel.__file__)).name
# The extension modules that call kernels: from here outward the stack is mojoview's own and the interpreter's.
CALLERS = frozenset(
    Path(str(import_module(name).__file__)).name
    for name in ("mojoview.calls._kernel", "mojoview.calls._thread_pool", "mojoview.compute._builtin")
)
SYSTEM = ("libc.", "libc-", "libpthread", "libstdc++", "libgcc_s", "libm.", "ld-", "linux-vdso")
SYMBOLISER_TIMEOUT_S = 5.0

# The result of `Channel.crash_record()`.
CrashRecord: TypeAlias = tuple[int, int, int, int, int, int, int, int, list[tuple[int, int, bytes, bytes]]]


@dataclass(frozen=True, slots=True)
class StackFrame:
    """One frame of a native stack: module, offset of the address from its start, symbol before it."""

    module: str
    offset: int
    symbol: str


@dataclass(frozen=True, slots=True)
class CrashReport:
    """Crash of one worker, as far as its record shows.

    Attributes
    ----------
    failed_alloc : int
        Bytes of the last allocation that failed, or 0.
    arena : int
        Address at which the worker mapped the arrays.
    signal : int
        The one that the handler caught, or 0.
    address : int or None
        The address that was accessed.
    access : {"", "reading", "writing"}
    frames : tuple of StackFrame
        The kernel's own, innermost first.
    """

    failed_alloc: int
    arena: int
    signal: int
    address: int | None
    access: str
    frames: tuple[StackFrame, ...]

    def stack(self) -> tuple[str, ...]:
        """Return one line per frame, with file and line if the module has debug information and `addr2line` exists."""
        found: list[str] = []
        for line, same in itertools.groupby(self._lines()):
            more = len(list(same)) - 1
            found.append(line + (f", and {more} more times" if more else ""))
        return tuple(found)

    def location(self) -> str:
        """Return the line of the innermost frame outside the system's libraries."""
        lines = self._lines()
        modules = [Path(frame.module).name for frame in self.frames]
        own = [line for line, module in zip(lines, modules, strict=True) if module and not module.startswith(SYSTEM)]
        return next(iter(own or lines), "?")

    def _lines(self) -> list[str]:
        lines = _source_lines(self.frames)
        return [
            f"{lines.get((frame.module, frame.offset), frame.symbol or '?')} "
            f"({Path(frame.module).name or 'no module'}+{frame.offset:#x})"
            for frame in self.frames
        ]


def parse_report(record: CrashRecord) -> CrashReport:
    """Interpret a crash record. It is untrusted: any numbers and any bytes give a report."""
    failed_alloc, arena, state, number, code, access, address, pc, raw = record
    if state == 0:
        return CrashReport(failed_alloc, arena, 0, None, "", ())
    frames = [(at, base, _text(module), _text(name)) for at, base, module, name in raw]
    fault = [k for k, frame in enumerate(frames) if frame[0] == pc]
    if fault:  # before it are the handler and the system's trampoline
        frames = frames[fault[0] :]
    else:  # a jump to an invalid address has no frame of its own
        handler = [k for k, frame in enumerate(frames) if Path(frame[2]).name == HANDLER]
        frames = [(pc, 0, "", ""), *frames[max(handler, default=-2) + 2 :]]
    own = []
    for depth, (at, base, module, name) in enumerate(frames):
        if Path(module).name in CALLERS:
            break
        # the address in a caller's frame is that of the instruction after the call
        own.append(StackFrame(module, max(0, at - base - (1 if depth else 0)), name))
    accessed = address if code > 0 else None
    return CrashReport(failed_alloc, arena, number, accessed, ("", "reading", "writing")[access % 3], tuple(own))


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


@functools.lru_cache(maxsize=8)
def _source_lines(frames: tuple[StackFrame, ...]) -> dict[tuple[str, int], str]:
    """Map (module, offset) to "function at file:line", as far as debug information is available."""
    tool = shutil.which("addr2line")
    found: dict[tuple[str, int], str] = {}
    if tool is None:
        return found
    for module in {frame.module for frame in frames if frame.module.startswith("/")}:
        offsets = [frame.offset for frame in frames if frame.module == module]
        command = [tool, "-Cfe", module, *map(hex, offsets)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=SYMBOLISER_TIMEOUT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return found  # the symbols remain
        lines = done.stdout.splitlines()
        for offset, function, place in zip(offsets, lines[::2], lines[1::2], strict=False):
            file, _, line = place.partition(" ")[0].rpartition(":")
            if function != "??" and not file.startswith("?"):
                found[module, offset] = f"{function} at {file}:{line}"
            elif function != "??":
                found[module, offset] = function
    return found
