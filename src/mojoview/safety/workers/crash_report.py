"""What a dead worker left behind, in words: the record of its handler (`crash.h`), the stack with names of its code."""

from __future__ import annotations

import functools
import itertools
import mmap
import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

__all__ = ["RECORD_BYTES", "Autopsy", "read_record"]

HEAD = struct.Struct("<QQQIiiiQQII")
FRAME = struct.Struct("<QQQ256s120s")
FRAMES = 40
RECORD_BYTES = HEAD.size + FRAMES * FRAME.size
# Beyond these modules the stack is mojoview's own call and the interpreter.
OURS = ("_kernel.", "_builtin.", "_pool.")
HANDLER = "_crash."
SYSTEM = ("libc.", "libc-", "libpthread", "libstdc++", "libgcc_s", "libm.", "ld-", "linux-vdso")
PATIENCE = 5.0  # seconds that the reader of debug information may take


@dataclass(frozen=True, slots=True)
class Frame:
    """An address of code: in which module, how far from its start, and after which symbol."""

    module: str
    offset: int
    symbol: str


@dataclass(frozen=True, slots=True)
class Autopsy:
    """The record of one worker.

    Attributes
    ----------
    begun : int
        Calls that it had begun.
    refused : int
        Bytes of the last allocation that the system refused it, or 0.
    arena : int
        Where it had mapped the arrays.
    signal : int
        That its handler saw, or 0.
    address : int or None
        What it touched.
    access : {"", "reading", "writing"}
    frames : tuple of Frame
        Innermost first, the kernel's own.
    """

    begun: int
    refused: int
    arena: int
    signal: int
    address: int | None
    access: str
    frames: tuple[Frame, ...]

    def stack(self) -> tuple[str, ...]:
        """One line a frame, with file and line where the module has debug information and `addr2line` is installed."""
        found: list[str] = []
        for line, same in itertools.groupby(self._lines()):
            more = len(list(same)) - 1
            found.append(line + (f", and {more} more times" if more else ""))
        return tuple(found)

    def place(self) -> str:
        """The innermost frame that is not the C library's own."""
        lines = self._lines()
        modules = [Path(frame.module).name for frame in self.frames]
        own = [line for line, module in zip(lines, modules, strict=True) if module and not module.startswith(SYSTEM)]
        return next(iter(own or lines), "?")

    def _lines(self) -> list[str]:
        lines = _lines_of_source(self.frames)
        return [
            f"{lines.get((frame.module, frame.offset), frame.symbol or '?')} "
            f"({Path(frame.module).name or 'no module'}+{frame.offset:#x})"
            for frame in self.frames
        ]


def read_record(memory: mmap.mmap) -> Autopsy:
    """The record as it is now. Whatever a wild kernel wrote there is read as numbers and text, and no more."""
    begun, refused, arena, state, number, code, access, address, pc, count, _ = HEAD.unpack_from(memory)
    if state == 0:
        return Autopsy(begun, refused, arena, 0, None, "", ())
    frames = []
    for k in range(min(count, FRAMES)):
        at, base, _, module, name = FRAME.unpack_from(memory, HEAD.size + k * FRAME.size)
        frames.append((at, base, _text(module), _text(name)))
    places = [k for k, frame in enumerate(frames) if frame[0] == pc]
    if places:  # the handler and the system's trampoline come first
        frames = frames[places[0] :]
    else:  # a jump to nowhere has no frame of its own
        handler = [k for k, frame in enumerate(frames) if Path(frame[2]).name.startswith(HANDLER)]
        frames = [(pc, 0, "", ""), *frames[max(handler, default=-2) + 2 :]]
    own = []
    for depth, (at, base, module, name) in enumerate(frames):
        if Path(module).name.startswith(OURS):
            break
        # a caller's address is that of the instruction after the call
        own.append(Frame(module, max(0, at - base - (1 if depth else 0)), name))
    touched = address if code > 0 else None
    return Autopsy(begun, refused, arena, number, touched, ("", "reading", "writing")[access % 3], tuple(own))


def _text(raw: bytes) -> str:
    return raw.split(b"\0", 1)[0].decode("utf-8", "replace")


@functools.lru_cache(maxsize=8)
def _lines_of_source(frames: tuple[Frame, ...]) -> dict[tuple[str, int], str]:
    """(module, offset) -> "function at file:line", as far as debug information goes."""
    tool = shutil.which("addr2line")
    found: dict[tuple[str, int], str] = {}
    if tool is None:
        return found
    for module in {frame.module for frame in frames if frame.module.startswith("/")}:
        offsets = [frame.offset for frame in frames if frame.module == module]
        command = [tool, "-Cfe", module, *map(hex, offsets)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=PATIENCE, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return found  # the symbols have to do
        lines = done.stdout.splitlines()
        for offset, function, place in zip(offsets, lines[::2], lines[1::2], strict=False):
            file, _, line = place.partition(" ")[0].rpartition(":")
            if function != "??" and not file.startswith("?"):
                found[module, offset] = f"{function} at {file}:{line}"
            elif function != "??":
                found[module, offset] = function
    return found
