"""Numbers that callers give: checked in one place, refused in words."""

from __future__ import annotations

import operator
from typing import Any

from mojoview.memory.errors import ArgumentError, ShapeError
from mojoview.memory.check import seconds_of

__all__ = ["deadline", "extents", "permissions", "whole"]


def whole(operation: str, what: str, value: Any, low: int, high: int) -> int:
    """An integer from `low` to `high`, of whatever integral type."""
    try:
        number = operator.index(value)
    except TypeError:
        raise ArgumentError(f"{operation}: expected {what} to be an integer, got {type(value).__name__}") from None
    if not low <= number <= high:
        raise ArgumentError(f"{operation}: expected {what} from {low} to {high}, got {number}")
    return number


def permissions(operation: str, mode: Any) -> int:
    """What chmod() takes, without its special bits; the owner can read, or nobody could attach."""
    number = whole(operation, "mode", mode, 0, 0o777)
    if not number & 0o400:
        raise ArgumentError(f"{operation}: mode {number:#o} takes reading from the owner")
    return number


def deadline(operation: str, timeout: Any, now_ns: int) -> int | None:
    """`now_ns` and `timeout` seconds later; None = never."""
    return None if timeout is None else now_ns + int(seconds_of(timeout, operation) * 1e9)


def extents(operation: str, shape: Any) -> tuple[int, ...]:
    """A shape: one extent or several, of 0 or more; at most 8."""
    try:
        items: tuple[int, ...] = (operator.index(shape),)
    except TypeError:
        try:
            items = tuple(operator.index(extent) for extent in shape)
        except TypeError:
            items = (-1,)
    if len(items) > 8 or min(items, default=0) < 0:
        raise ShapeError(f"{operation}: expected at most 8 extents of 0 or more, got {shape!r}")
    return items
