"""Checks of arguments: integers, shapes, permissions and timeouts."""

from __future__ import annotations

import operator
from numbers import Real
from typing import Any

from mojoview.memory.errors import ArgumentError, ShapeError

__all__ = ["LONGEST", "check_int", "check_permissions", "check_shape", "deadline_after", "seconds_of"]

LONGEST = 1e8  # seconds, three years: about the most that clocks and poll() accept


def seconds_of(timeout: Any, where: str, *, positive: bool = False) -> float:
    """Return a timeout in seconds, as a float that every clock accepts.

    Parameters
    ----------
    timeout : real number
        Of any type but bool. Infinity, and everything beyond `LONGEST`, becomes `LONGEST`.
    where : str
        The operation, for the message.
    positive : bool
        Whether to refuse 0.

    Returns
    -------
    float

    Raises
    ------
    ArgumentError
        It is not a real number, NaN, or too small.

    Notes
    -----
    Thread safety: any thread.

    Examples
    --------
    >>> from fractions import Fraction
    >>> seconds_of(Fraction(1, 2), "wait()"), seconds_of(10**400, "wait()")
    (0.5, 100000000.0)
    """
    if type(timeout) in (float, int) and 0 <= timeout < LONGEST and (timeout or not positive):
        return float(timeout)
    given: Any = timeout if isinstance(timeout, Real) and not isinstance(timeout, bool) else -1
    if not (given > 0 if positive else given >= 0):  # NaN is neither
        kind = "a positive number of seconds" if positive else "a non-negative number of seconds"
        raise ArgumentError(f"{where}: timeout: expected {kind}, got {timeout!r}")
    try:
        return min(float(given), LONGEST)
    except OverflowError:  # an int or a fraction beyond all floats
        return LONGEST


def deadline_after(operation: str, timeout: Any, now_ns: int) -> int | None:
    """Return `now_ns` plus `timeout` seconds; None for no timeout."""
    return None if timeout is None else now_ns + int(seconds_of(timeout, operation) * 1e9)


def check_int(operation: str, what: str, value: Any, low: int, high: int) -> int:
    """Return an integer of any integral type, from `low` to `high`."""
    try:
        number = operator.index(value)
    except TypeError:
        raise ArgumentError(f"{operation}: expected {what} to be an integer, got {type(value).__name__}") from None
    if not low <= number <= high:
        raise ArgumentError(f"{operation}: expected {what} from {low} to {high}, got {number}")
    return number


def check_shape(operation: str, shape: Any) -> tuple[int, ...]:
    """Return a shape given as one extent or as several: at most 8, each 0 or more."""
    try:
        extents: tuple[int, ...] = (operator.index(shape),)
    except TypeError:
        try:
            extents = tuple(operator.index(extent) for extent in shape)
        except TypeError:
            extents = (-1,)
    if len(extents) > 8 or min(extents, default=0) < 0:
        raise ShapeError(f"{operation}: expected at most 8 extents of 0 or more, got {shape!r}")
    return extents


def check_permissions(operation: str, mode: Any) -> int:
    """Return file permissions without special bits that let the owner read: otherwise no process could attach."""
    number = check_int(operation, "mode", mode, 0, 0o777)
    if not number & 0o400:
        raise ArgumentError(f"{operation}: expected a mode that lets the owner read (0o400), got {number:#o}")
    return number
