"""Timeouts that callers give: one check for all of them."""

from __future__ import annotations

from numbers import Real
from typing import Any

from mojoview.memory.errors import ArgumentError

__all__ = ["LONGEST", "seconds_of"]

LONGEST = 1e8  # seconds, three years: clocks and poll() take no more than some such number


def seconds_of(timeout: Any, where: str, *, positive: bool = False) -> float:
    """Seconds that somebody may wait, as a float that every clock takes.

    Parameters
    ----------
    timeout : real number
        Of any type but bool. Infinity, and everything beyond `LONGEST`, is `LONGEST`.
    where : str
        The operation, for the message.
    positive : bool
        Whether 0 is refused.

    Returns
    -------
    float

    Raises
    ------
    ArgumentError
        It is no real number, NaN, or too small.

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
        kind = "a positive number of seconds" if positive else "a number of seconds from 0"
        raise ArgumentError(f"{where}: timeout: expected {kind}, got {timeout!r}")
    try:
        return min(float(given), LONGEST)
    except OverflowError:  # an int or a fraction beyond all floats
        return LONGEST
