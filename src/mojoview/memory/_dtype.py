"""dtype codes: NumPy dtypes, PEP 3118 formats and the DLPack numbering of the descriptor, translated both ways."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np

from mojoview.memory.errors import DTypeError, FieldError, IndexingError

__all__ = ["KNOWN", "DTypeInfo", "as_dtype", "dtype_info", "dtype_of_code", "dtype_of_format", "field_of"]

INT, UINT, FLOAT, OPAQUE, BFLOAT, COMPLEX, BOOL = range(7)
PLAIN, DATETIME, TIMEDELTA, BYTES, TEXT, VOID, RECORD = range(7)
UNITS = ("generic", "Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as")

_CODES = {"i": INT, "u": UINT, "f": FLOAT, "c": COMPLEX, "b": BOOL, "M": INT, "m": INT}
_LOGICAL = {"M": DATETIME, "m": TIMEDELTA, "S": BYTES, "U": TEXT, "V": VOID}


class DTypeInfo(NamedTuple):
    """Properties of a dtype in the terms of the descriptor."""

    code: int  #: DLPack type code
    bits: int  #: width in bits, 0 for opaque items
    itemsize: int  #: bytes
    logical: int  #: kind, unit and multiple, packed as in abi.h
    swapped: bool  #: not in native byte order
    alignment: int  #: bytes
    format: bytes | None  #: PEP 3118 format; None if the buffer protocol cannot express this dtype exactly
    descr: list[Any] | None  #: the same for `__array_interface__`


# Keyed by the dtype itself: equal dtypes carry the same information, except that equal records may differ in
# alignment. Read by `views`.
KNOWN: dict[Any, DTypeInfo] = {}


def dtype_info(dtype: np.dtype[Any]) -> DTypeInfo:
    """Return the descriptor's properties of a NumPy dtype.

    Parameters
    ----------
    dtype : numpy.dtype

    Returns
    -------
    DTypeInfo

    Raises
    ------
    DTypeError
        Object and variable-width string dtypes: their items are references to memory elsewhere, which native code must
        not touch.

    Notes
    -----
    Thread safety: any thread; the cache only grows, and a lost race computes the same entry twice.

    Examples
    --------
    >>> info = dtype_info(np.dtype("M8[ns]"))
    >>> (info.code, info.bits, info.logical & 0xFF, info.format)
    (0, 64, 1, None)
    """
    info = KNOWN.get(dtype)
    if info is None:
        info = _describe(dtype)
        if len(KNOWN) < 4096:  # programs may make any number of record dtypes; the plain ones are in the table by then
            KNOWN[dtype] = info
    return info if info.alignment == dtype.alignment else info._replace(alignment=dtype.alignment)


def _describe(dtype: np.dtype[Any]) -> DTypeInfo:
    kind = dtype.kind
    if dtype.hasobject or kind in "OT":
        what = "variable-width strings" if kind == "T" else "Python objects"
        raise DTypeError(
            f"dtype {dtype}: expected items with their bytes in place, got {what}, whose items are references"
        )
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
    return DTypeInfo(
        code,
        dtype.itemsize * 8 if numeric else 0,
        dtype.itemsize,
        logical,
        not dtype.isnative,
        dtype.alignment,
        _format(dtype),
        _descr(dtype),
    )


def _format(dtype: np.dtype[Any]) -> bytes | None:
    if dtype.kind in "iu" and dtype.isnative:
        dtype = np.dtype(dtype.str)  # long and long long are equal and have one entry: that of the common name
    try:
        exported = np.empty(0, dtype).data
        return exported.format.encode() if np.asarray(exported).dtype == dtype else None
    # ValueError: datetimes, alone or in a record, and overlapping fields. RuntimeError: NumPy cannot read its own
    # formats if they omit trailing padding.
    except (ValueError, RuntimeError):
        return None


def _descr(dtype: np.dtype[Any]) -> list[Any] | None:
    try:
        descr = dtype.descr  # padding becomes fields: not exactly this dtype
        return descr if np.dtype(descr if dtype.names is not None else dtype.str) == dtype else None
    except (ValueError, TypeError):  # overlapping or reordered fields
        return None


def as_dtype(dtype: Any, operation: str) -> np.dtype[Any]:
    """`numpy.dtype(dtype)`, where None is an omission and not float64.

    Raises
    ------
    DTypeError
        It is not the name of a dtype.
    """
    if dtype is None:
        raise DTypeError(f"{operation}: expected a dtype, got None")
    try:
        result: np.dtype[Any] = np.dtype(dtype)
        return result
    except Exception as error:  # besides TypeError, any error of a `dtype` attribute
        raise DTypeError(f"{operation}: expected a dtype, got {type(dtype).__name__} ({error})") from error


def field_of(dtype: np.dtype[Any], name: str | list[str]) -> tuple[np.dtype[Any], int]:
    """dtype and byte offset of a field; of several, the narrower record that NumPy makes of them.

    Raises
    ------
    IndexingError
        The dtype has no fields, or the names are not strings.
    FieldError
        There is no such field, or one is named twice.
    """
    names = [name] if isinstance(name, str) else list(name)
    if not all(isinstance(part, str) for part in names):
        raise IndexingError("index: a list of positions needs a copy, use np.asarray(view)[...]; one of names does not")
    if dtype.names is None or dtype.fields is None:
        raise IndexingError(f"field {name!r}: the dtype {dtype} has no fields")
    for part in names:
        if part not in dtype.fields:
            raise FieldError(f"field {part!r}: expected one of {dtype.names}")
    if isinstance(name, str):
        return dtype.fields[name][:2]
    try:
        return dtype[names], 0
    except (KeyError, ValueError) as error:
        raise FieldError(f"fields {names}: {error}") from error


def dtype_of_format(format: str, itemsize: int, exporter: Any, owner: object) -> np.dtype[Any]:
    """Return the NumPy dtype of a buffer from the format of its exporter.

    Parameters
    ----------
    format : str
        PEP 3118 format.
    itemsize : int
        Bytes of an item, by the exporter.
    exporter : object
        Exports a buffer of that format, from which NumPy reads structured formats.
    owner : object
        Owner of the format. The formats of ctypes before Python 3.12 omit padding: its type is used instead.

    Returns
    -------
    numpy.dtype

    Raises
    ------
    DTypeError
        NumPy does not have a dtype for the format, or the exporter contradicts itself about the size of an item.
    """
    dtype = _FORMATS[format] if format in _FORMATS else _parsed(format, exporter)
    if (dtype is None or dtype.itemsize != itemsize) and isinstance(owner, _CData):
        dtype = _of_ctypes(owner)
    if dtype is None:
        raise DTypeError(f"buffer format {format!r} of {type(owner).__name__}: NumPy has no dtype for it")
    if dtype.itemsize != itemsize:
        raise DTypeError(
            f"buffer format {format!r} of {type(owner).__name__}: its items measure {dtype.itemsize} bytes, "
            f"the exporter says {itemsize}"
        )
    return dtype


def _parsed(format: str, exporter: Any) -> np.dtype[Any] | None:
    try:
        return np.asarray(memoryview(exporter)).dtype
    except Exception:  # NumPy's parser raises many types for unknown formats; the caller raises one
        return None


def _of_ctypes(owner: object) -> np.dtype[Any] | None:
    try:
        return np.dtype(type(owner)).base
    except Exception:  # bit fields and pointers
        return None


_CData: Any = ctypes.Structure.__base__

# '@' and no prefix mean native sizes, '=' and '<' the standard ones: only single characters need a table.
_FORMATS = {char: np.dtype(char) for char in "bBhHiIlLqQefd?"} | {
    "Zf": np.dtype("F"),
    "Zd": np.dtype("D"),
    "c": np.dtype("S1"),
    "n": np.dtype(np.intp),
    "N": np.dtype(np.uintp),
}
_FORMATS |= {
    prefix + char: np.dtype(prefix + code)
    for prefix in "<>="
    for char, code in {
        "b": "i1",
        "B": "u1",
        "h": "i2",
        "H": "u2",
        "i": "i4",
        "I": "u4",
        "l": "i4",
        "L": "u4",
        "q": "i8",
        "Q": "u8",
        "e": "f2",
        "f": "f4",
        "d": "f8",
        "?": "?",
    }.items()
}
_FORMATS |= {"@" + char: dtype for char, dtype in _FORMATS.items() if char[0] not in "<>=@"}


def dtype_of_code(code: int, bits: int, logical: int = PLAIN) -> np.dtype[Any]:
    """Return the NumPy dtype of a descriptor's numeric codes.

    Raises
    ------
    DTypeError
        Opaque items and widths that NumPy does not have.

    Examples
    --------
    >>> dtype_of_code(2, 64)
    dtype('float64')
    """
    kind, unit = logical & 0xFF, logical >> 8 & 0xFF
    if (code, bits) == (INT, 64) and kind in (DATETIME, TIMEDELTA) and unit < len(UNITS):
        name = "M8" if kind == DATETIME else "m8"
        return np.dtype(name if UNITS[unit] == "generic" else f"{name}[{logical >> 16 & 0xFFFF}{UNITS[unit]}]")
    dtype = _BY_CODE.get((code, bits))
    if dtype is None or kind != PLAIN:
        raise DTypeError(f"type code {code} of {bits} bits, logical type {logical:#x}: NumPy has no such dtype")
    return dtype


_BY_CODE = {dtype_info(dtype)[:2]: dtype for dtype in map(np.dtype, "bhiqBHIQefdFD?")}
