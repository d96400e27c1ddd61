"""Opening shared objects, and the addresses of their functions."""

from __future__ import annotations

import ctypes
from pathlib import Path

__all__ = ["address_of", "is_function", "open_library"]


def open_library(path: Path) -> ctypes.CDLL:
    """Load a shared object; the system searches for its dependencies.

    Raises
    ------
    OSError
        The file is not a library for this machine, or one of its dependencies is missing.
    """
    return ctypes.CDLL(str(path))


def address_of(handle: ctypes.CDLL, symbol: str) -> int:
    """Return the address of a symbol.

    Raises
    ------
    AttributeError
        The library does not define it.
    """
    # By item: as attributes, names such as _name are those of CDLL itself.
    return ctypes.cast(handle[symbol], ctypes.c_void_p).value or 0


def is_function(handle: ctypes.CDLL, symbol: str) -> bool:
    """Return whether the library defines the symbol in executable memory; variables have symbols too."""
    try:
        address = address_of(handle, symbol)
    except AttributeError:
        return False
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        for line in file:
            span, rights = line.split(maxsplit=2)[:2]
            low, _, high = span.partition("-")
            if int(low, 16) <= address < int(high, 16):
                return "x" in rights
    return False
