"""Indices, slices and text of Arrow arrays, and the comparisons that they do not have."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

from mojoview.memory.errors import ArgumentError, IndexingError, InterfaceError, ZeroCopyError

__all__ = ["NotComparable", "decode", "element_index", "slice_bounds"]


class NotComparable:
    """Base of views that refuse comparisons and truth: Python's defaults would answer by identity and by length."""

    __slots__ = ()

    _instead: ClassVar[str] = "compare list(view), or an array that NumPy or pyarrow makes of the view"

    def _refuse(self, *_: object) -> NoReturn:
        raise ArgumentError(
            f"a {type(self).__name__} has no comparisons and no truth value; {self._instead}, or use len() or 'is'"
        )

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = _refuse
    __hash__ = None  # type: ignore[assignment]


def slice_bounds(key: slice, length: int) -> tuple[int, int]:
    """Return the first element and the number of elements of a slice; only steps of 1."""
    try:
        start, stop, step = key.indices(length)
    except Exception as error:
        raise ArgumentError(f"index: {error}") from error
    count = len(range(start, stop, step))
    if step != 1 and count > 1:
        raise ZeroCopyError(f"view[{key}]: Arrow arrays are read in steps of 1 only")
    return start, count


def element_index(key: Any, length: int) -> int:
    """Return an index as a nonnegative int in range."""
    if not hasattr(key, "__index__") or isinstance(key, bool):
        raise IndexingError(f"expected an int or a slice, got {type(key).__name__}")
    index: int = key.__index__()
    if not -length <= index < length:
        raise IndexingError(f"index {index} is out of bounds for {length} elements")
    return index + length if index < 0 else index


def decode(data: Any, text: bool, index: int) -> str | bytes:
    """Return the bytes of an element, as text if they are UTF-8; `index` is for the message."""
    raw = bytes(data)
    if not text:
        return raw
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise InterfaceError(f"element {index} is not UTF-8 text: {error}") from error
