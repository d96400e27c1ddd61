"""Exports nothing."""
from mojoview import E_USER, Status

comptime E_SHARED = Status(E_USER + 9)
"""OverflowError: too much of it."""


def twice(x: Int64) -> Int64:
    return 2 * x
