"""Indices and slices of Arrow arrays."""

from __future__ import annotations

from typing import Any

from mojoview.memory.errors import ArgumentError, IndexingError, ZeroCopyError

__all__ = ["element_index", "slice_bounds"]


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
