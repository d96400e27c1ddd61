"""Arrow format strings and NumPy dtypes, and records of Arrow types and arrays.

Source: Apache Arrow, "The Arrow C data interface", section "Data type description – format strings".
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mojoview.memory._dtype import dtype_info
from mojoview.memory.errors import InterfaceError, ZeroCopyError

__all__ = [
    "ArrowChunks",
    "ArrowCoded",
    "ArrowNode",
    "ArrowRecord",
    "ArrowType",
    "buffer_count",
    "child_count",
    "fixed_dtype",
    "format_of",
]

NULLABLE = 2


class ArrowType(NamedTuple):
    """The contents of an ArrowSchema."""

    format: str
    name: str = ""
    metadata: bytes | None = None  #: as the interface encodes it
    flags: int = NULLABLE
    children: tuple[ArrowType, ...] = ()
    dictionary: ArrowType | None = None


class ArrowNode(NamedTuple):
    """The contents of an ArrowArray and its type; the lease keeps the structure, and so the buffers, alive."""

    type: ArrowType
    length: int
    null_count: int  #: -1: not counted
    offset: int  #: elements, for every buffer
    buffers: tuple[int, ...]  #: addresses; 0 if absent
    children: tuple[ArrowNode, ...]
    dictionary: ArrowNode | None
    lease: Any

    def slice(self, start: int, length: int) -> ArrowNode:
        """Return `length` elements from `start`, in the same buffers."""
        nulls = 0 if self.null_count == 0 else self.null_count if length == self.length else -1
        return self._replace(offset=self.offset + start, length=length, null_count=nulls)


class ArrowChunks(NamedTuple):
    """The arrays of a stream, in order."""

    type: ArrowType
    chunks: tuple[ArrowNode, ...]


class ArrowRecord(NamedTuple):
    """Columns to be exported as one struct."""

    length: int
    parts: tuple[Any, ...]  #: each a View, ArrowNode, ArrowCoded or ArrowRecord


class ArrowCoded(NamedTuple):
    """Codes and their values, to be exported as one dictionary array."""

    codes: Any  #: View of integers; a masked element is missing
    values: Any  #: View or ArrowNode


_NUMBERS = {
    "c": "i1",
    "C": "u1",
    "s": "i2",
    "S": "u2",
    "i": "i4",
    "I": "u4",
    "l": "i8",
    "L": "u8",
    "e": "f2",
    "f": "f4",
    "g": "f8",
}
_UNITS = {"s": "s", "m": "ms", "u": "us", "n": "ns"}
# True: the dtype loses detail, so the view keeps the format.
_FIXED: dict[str, tuple[np.dtype[Any], bool]] = (
    {code: (np.dtype(name), False) for code, name in _NUMBERS.items()}
    | {f"tD{unit}": (np.dtype(f"m8[{name}]"), False) for unit, name in _UNITS.items()}
    | {f"ts{unit}:": (np.dtype(f"M8[{name}]"), False) for unit, name in _UNITS.items()}
    | {
        "tdD": (np.dtype("i4"), True),
        "tdm": (np.dtype("M8[ms]"), True),
        "tts": (np.dtype("i4"), True),
        "ttm": (np.dtype("i4"), True),
        "ttu": (np.dtype("i8"), True),
        "ttn": (np.dtype("i8"), True),
        "tiM": (np.dtype("i4"), True),
        "tiD": (np.dtype("V8"), True),
        "tin": (np.dtype("V16"), True),
    }
)
_DTYPES = {dtype: code for code, (dtype, keeps) in _FIXED.items() if not keeps}


def fixed_dtype(format: str) -> tuple[np.dtype[Any], bool] | None:
    """Return the dtype of items that have their bytes in place, and whether the format has more detail; else None.

    Raises
    ------
    InterfaceError
        A width or precision that is not a number.

    Examples
    --------
    >>> fixed_dtype("tsu:Europe/Oslo")
    (dtype('<M8[us]'), True)
    >>> fixed_dtype("d:10,2")
    (dtype('V16'), True)
    """
    known = _FIXED.get(format)
    if known is not None:
        return known
    if format[:2] == "ts" and format[2:3] in _UNITS and format[3:4] == ":":
        return np.dtype(f"M8[{_UNITS[format[2]]}]"), True
    if format[:2] == "w:":
        return np.dtype(("V", _number(format, format[2:]))), False
    if format[:2] == "d:":
        parts = [_number(format, part) for part in format[2:].split(",")]
        bits = parts[2] if len(parts) == 3 else 128
        if len(parts) not in (2, 3) or bits not in (32, 64, 128, 256):
            raise InterfaceError(f"Arrow format {format!r}: expected precision, scale and 32, 64, 128 or 256 bits")
        return np.dtype(("V", bits // 8)), True
    return None


def format_of(dtype: np.dtype[Any]) -> str:
    """Return the Arrow format of a dtype.

    Raises
    ------
    ZeroCopyError
        Arrow has no such items; the message names the remedy.

    Examples
    --------
    >>> format_of(np.dtype("M8[ns]"))
    'tsn:'
    """
    known = _DTYPES.get(dtype)
    if known is not None:
        return known
    info = dtype_info(dtype)
    if info.swapped:
        raise ZeroCopyError(f"Arrow export: Arrow has native byte order only, got dtype {dtype.str}; copy it first")
    if dtype.kind == "S" or (dtype.kind == "V" and dtype.names is None):
        return f"w:{dtype.itemsize}"
    if dtype.kind == "b":
        raise ZeroCopyError(
            "Arrow export: Arrow keeps booleans as bits, these are bytes; export view.cast('u1'), or ask for a "
            "schema of booleans to get a copy"
        )
    if dtype.kind in "mM":
        raise ZeroCopyError(
            f"Arrow export: Arrow has no 64-bit {dtype}, only units of s, ms, us and ns; export view.cast('i8')"
        )
    raise ZeroCopyError(f"Arrow export: Arrow has no items of dtype {dtype}")


def buffer_count(format: str) -> int:
    """Return the number of buffers of an array of this type; -1 if it may be any number from 3.

    Raises
    ------
    ZeroCopyError
        A type that mojoview does not view, by name.
    """
    first = format[:1]
    if format in ("n", "+r"):
        count = 0
    elif first == "+":
        count = {"s": 1, "w": 1, "l": 2, "L": 2, "m": 2, "v": 3, "u": 0}.get(format[1:2], 0)
    elif format in ("u", "U", "z", "Z"):
        count = 3
    elif format in ("vu", "vz"):
        return -1
    else:
        count = 2
    if format[:2] == "+u" or format == "+r" or (first == "+" and format[1:2] not in "swlLmv"):
        names = {"+u": "union", "+r": "run-end encoded"}
        raise ZeroCopyError(
            f"Arrow type {format!r}: mojoview has no view of {names.get(format[:2], 'this')} arrays; decode it first"
        )
    return count


def child_count(format: str) -> int:
    """Return the number of children of a type; -1 if it may be any number."""
    if format == "+s" or format[:2] == "+u":
        return -1
    if format == "+r":
        return 2
    return 1 if format[:1] == "+" else 0


def _number(format: str, text: str) -> int:
    if not text.lstrip("-").isdecimal() or (int(text) < 0 and format[:2] == "w:"):
        raise InterfaceError(f"Arrow format {format!r}: {text!r} is not a number")
    return int(text)
