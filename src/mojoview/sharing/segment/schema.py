"""Schemas of segments: dtypes as text, strides, the schema hash, and the checks of a header's contents."""

from __future__ import annotations

import ast
import functools
import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from mojoview.memory._dtype import as_dtype, dtype_info
from mojoview.memory.errors import CorruptHeader, DTypeError, SchemaMismatch
from mojoview.sharing.segment._segment import Segment

__all__ = ["check_schema", "dtype_from_text", "dtype_to_text", "require_params", "schema_hash", "strides_of"]


def dtype_to_text(dtype: np.dtype[Any]) -> bytes:
    """Return a dtype as text that a parser of literals can read; dtypes that hold references are errors.

    Examples
    --------
    >>> dtype_to_text(np.dtype([("q", "f8", 4)]))
    b"[('q', '<f8', (4,))]"
    """
    dtype_info(dtype)
    try:
        descr: Any = np.lib.format.dtype_to_descr(dtype)
    except ValueError as error:
        raise DTypeError(f"dtype {dtype}: its fields overlap, which the header cannot describe ({error})") from error
    if dtype.subdtype is not None:
        descr = (
            dtype.subdtype[0].str if dtype.subdtype[0].names is None else dtype.subdtype[0].descr,
            dtype.subdtype[1],
        )
    text = repr(descr).encode()
    if dtype_from_text(text) != dtype:
        raise DTypeError(f"dtype {dtype}: its description {text.decode()} reads back as another dtype")
    return text


_NUMBERS = {repr(np.dtype(code).str).encode(): np.dtype(code) for code in "?bBhHiIlLefdFD"}


@functools.lru_cache(maxsize=256)
def dtype_from_text(text: bytes) -> np.dtype[Any]:
    """Return the dtype that a header describes."""
    if text in _NUMBERS:  # most arrays: nothing to parse
        return _NUMBERS[text]
    try:
        descr = ast.literal_eval(text.decode())
        dtype: np.dtype[Any] = np.lib.format.descr_to_dtype(descr)
        dtype_info(dtype)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError, UnicodeDecodeError, IndexError) as error:
        raise CorruptHeader(f"header: {text[:80]!r} does not describe a dtype ({error})") from error
    return dtype


def check_schema(segment: Segment, operation: str, dtype: Any = None, shape: Sequence[int] | None = None) -> None:
    """Raise `SchemaMismatch` if a segment does not hold the expected dtype and shape."""
    held = dtype_from_text(segment.facts["dtype_text"])
    if dtype is not None and held != (wanted := as_dtype(dtype, operation)):
        raise SchemaMismatch(f"{operation}: expected dtype {wanted}, {segment.name!r} holds {held}")
    if shape is not None and segment.facts["shape"] != tuple(shape):
        raise SchemaMismatch(
            f"{operation}: expected shape {tuple(shape)}, {segment.name!r} holds {segment.facts['shape']}"
        )


def require_params(segment: Segment, operation: str, sound: bool) -> None:
    """Raise if a header with a valid checksum describes parts that do not fit together."""
    if not sound:
        raise CorruptHeader(f"{operation}: its parameters {segment.facts['params']} do not fit its kind and size")


def strides_of(shape: Sequence[int], itemsize: int, fortran: bool) -> tuple[int, ...]:
    """Return the strides of a contiguous array, in bytes."""
    strides = [0] * len(shape)
    step = itemsize
    for k in range(len(shape)) if fortran else reversed(range(len(shape))):
        strides[k] = step
        step *= max(1, shape[k])
    return tuple(strides)


def schema_hash(kind: int, text: bytes, shape: Sequence[int], fortran: bool, tag: bytes) -> int:
    """Return 64 bits that differ between different schemas."""
    digest = hashlib.blake2b(repr((kind, text, tuple(shape), fortran, tag)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")
