"""dtype codes: NumPy dtypes, PEP 3118 formats and the DLPack numbering of the descriptor, translated both ways."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mojoview.memory.errors import DTypeError

__all__ = ["DTypeInfo", "dtype_info", "dtype_of_code", "dtype_of_format"]

INT, UINT, FLOAT, OPAQUE, BFLOAT, COMPLEX, BOOL = range(7)
PLAIN, DATETIME, TIMEDELTA, BYTES, TEXT, VOID, RECORD = range(7)
UNITS = ("generic", "Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as")

_CODES = {"i": INT, "u": UINT, "f": FLOAT, "c": COMPLEX, "b": BOOL, "M": INT, "m": INT}
_LOGICAL = {"M": DATETIME, "m": TIMEDELTA, "S": BYTES, "U": TEXT, "V": VOID}


class DTypeInfo(NamedTuple):
    """What the descriptor says about a dtype."""

    code: int  #: DLPack type code
    bits: int  #: width in bits, 0 for opaque items
    itemsize: int  #: bytes
    logical: int  #: kind, unit and multiple, packed as in abi.h
    swapped: bool  #: not in native byte order
    alignment: int  #: bytes
    format: bytes | None  #: PEP 3118 format; None where the buffer protocol has no code for the dtype


# Keyed by the dtype itself: equal dtypes carry the same information, metadata included in none of it.
_KNOWN: dict[Any, DTypeInfo] = {}


def dtype_info(dtype: np.dtype[Any]) -> DTypeInfo:
    """The descriptor's words for a NumPy dtype.

    Parameters
    ----------
    dtype : numpy.dtype

    Returns
    -------
    DTypeInfo

    Raises
    ------
    DTypeError
        Object and variable-width string dtypes: their items are references to memory elsewhere, which native code must not touch.

    Notes
    -----
    Thread safety: any thread; the cache only grows, and a lost race computes the same entry twice.

    Examples
    --------
    >>> info = dtype_info(np.dtype("M8[ns]"))
    >>> (info.code, info.bits, info.logical & 0xFF, info.format)
    (0, 64, 1, None)
    """
    info = _KNOWN.get(dtype)
    if info is None:
        info = _describe(dtype)
        if len(_KNOWN) < 4096:  # record dtypes are made at will; the plain ones are all in by then
            _KNOWN[dtype] = info
    return info


def _describe(dtype: np.dtype[Any]) -> DTypeInfo:
    kind = dtype.kind
    if dtype.hasobject or kind in "OT":
        what = "variable-width strings" if kind == "T" else "Python objects"
        raise DTypeError(f"dtype {dtype}: expected items with their bytes in place, got {what}, whose items are references")
    if kind not in "iufcbMmSUV":
        raise DTypeError(f"dtype {dtype}: mojoview has no code for kind {kind!r}")
    numeric = kind in _CODES and dtype.itemsize <= (16 if kind == "c" else 8)  # no kernel computes in long double
    code = _CODES[kind] if numeric else OPAQUE
    logical = RECORD if dtype.names is not None else _LOGICAL.get(kind, PLAIN)
    if kind in "Mm":
        unit, count = np.datetime_data(dtype)
        if count > 0xFFFF:
            raise DTypeError(f"dtype {dtype}: expected at most 65535 units a tick, got {count}")
        logical |= UNITS.index("us" if unit == "μs" else unit) << 8 | count << 16
    return DTypeInfo(code, dtype.itemsize * 8 if numeric else 0, dtype.itemsize, logical, not dtype.isnative,
                     dtype.alignment, _format(dtype))


def _format(dtype: np.dtype[Any]) -> bytes | None:
    if dtype.kind == "V" and dtype.names is None:
        return None  # its format, pad bytes, reads back as a record without fields, whose items are empty
    try:
        return memoryview(np.empty(0, dtype)).format.encode()
    except (ValueError, NotImplementedError):  # datetimes, alone or inside a record, and padded sub-arrays
        return None


def dtype_of_format(format: str | None, itemsize: int, owner: object) -> np.dtype[Any]:
    """The NumPy dtype of a buffer, by the format that its exporter states.

    Parameters
    ----------
    format : str or None
        PEP 3118 format; None means bytes.
    itemsize : int
        What the exporter says an item measures, in bytes.
    owner : object
        Exporter; asked through NumPy for formats with structure.

    Returns
    -------
    numpy.dtype

    Raises
    ------
    DTypeError
        NumPy knows no dtype for the format, or the exporter contradicts itself about the size of an item.
    """
    dtype = _FORMATS.get(format or "B")
    if dtype is None:
        try:
            dtype = np.asarray(memoryview(owner)).dtype  # type: ignore[arg-type]
        except (ValueError, NotImplementedError, TypeError, RuntimeError) as error:
            raise DTypeError(f"buffer format {format!r} of {type(owner).__name__}: NumPy has no dtype for it ({error})") from error
    if dtype.itemsize != itemsize:
        raise DTypeError(f"buffer format {format!r} of {type(owner).__name__}: its items measure {dtype.itemsize} bytes, "
                         f"the exporter says {itemsize}")
    return dtype


# '@' and no prefix mean native sizes, '=' and '<' the standard ones: only single letters are worth a table.
_FORMATS = {letter: np.dtype(letter) for letter in "bBhHiIlLqQefd?"} | {
    "Zf": np.dtype("F"), "Zd": np.dtype("D"), "c": np.dtype("S1"), "n": np.dtype(np.intp), "N": np.dtype(np.uintp)}
_FORMATS |= {prefix + letter: np.dtype(prefix + code)
             for prefix in "<>=" for letter, code in
             {"b": "i1", "B": "u1", "h": "i2", "H": "u2", "i": "i4", "I": "u4", "l": "i4", "L": "u4", "q": "i8", "Q": "u8",
              "e": "f2", "f": "f4", "d": "f8", "?": "?"}.items()}
_FORMATS |= {"@" + letter: dtype for letter, dtype in _FORMATS.items() if letter[0] not in "<>=@"}


def dtype_of_code(code: int, bits: int, logical: int = PLAIN) -> np.dtype[Any]:
    """The NumPy dtype that a descriptor's numeric codes stand for.

    Raises
    ------
    DTypeError
        Opaque items and widths that NumPy does not have.

    Examples
    --------
    >>> dtype_of_code(2, 64)
    dtype('float64')
    """
    if code == INT and bits == 64 and logical & 0xFF in (DATETIME, TIMEDELTA):
        unit, count = UNITS[logical >> 8 & 0xFF], logical >> 16 & 0xFFFF
        return np.dtype(("M8" if logical & 0xFF == DATETIME else "m8") + ("" if unit == "generic" else f"[{count}{unit}]"))
    letter = {INT: "i", UINT: "u", FLOAT: "f", COMPLEX: "c", BOOL: "?"}.get(code)
    if letter is None or bits % 8 or bits == 0:
        raise DTypeError(f"type code {code} of {bits} bits: NumPy has no such dtype")
    try:
        return np.dtype(letter if code == BOOL else f"{letter}{bits // 8}")
    except TypeError:
        raise DTypeError(f"type code {code} of {bits} bits: NumPy has no such dtype") from None
