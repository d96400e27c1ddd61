"""The words of borrow checking: where a view was taken, and who stands in whose way."""

from __future__ import annotations

import sys
import threading
from types import FrameType

from mojoview.memory.errors import BorrowError

__all__ = ["conflict", "whereabouts"]


def whereabouts() -> str:
    """File, line and thread of the nearest caller outside the package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "mojoview":
        frame = frame.f_back
    place = f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else "native code"
    return f"{place} (thread {threading.current_thread().name})"


def conflict(mine: str, i_write: bool, theirs: str, they_write: bool, low: int, high: int) -> BorrowError:
    wanted, taken = ("writable" if writes else "read-only" for writes in (i_write, they_write))
    return BorrowError(
        f"a {wanted} view taken at {mine} needs bytes in {low:#x}..{high:#x} of which a {taken} view taken at {theirs} "
        "holds some; expected many readers or one writer: release that one first"
    )
