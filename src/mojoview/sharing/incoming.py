"""Objects that are copied into or out of shared memory: as arrays, with their own dtype, mask and meaning checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mojoview.memory.errors import ArgumentError, DTypeError, MaskError, MojoViewError, ZeroCopyError
from mojoview.memory.extension_points import ACCESSOR
from mojoview.views import View, view
from mojoview.views.arrow.arrays import ArrowView
from mojoview.views.arrow.chunked import ChunkedView, in_place
from mojoview.views.arrow.format import fixed_dtype

__all__ = ["array_of", "check_mask", "check_meaning", "copy_without_loss", "holds_columns", "open_object"]

_AS_FRAME = "share it as a column: mojoview.share(pandas.DataFrame({name: ...}))"


def open_object(obj: Any, operation: str) -> Any:
    """Open an array-like of any kind: as an ndarray, `View`, `ArrowView` or `ChunkedView`.

    Raises
    ------
    ArgumentError
        Neither `view()` nor NumPy makes an array of it.
    MaskError, DTypeError, ZeroCopyError
        It has a mask, its items are references, or it is several arrays.
    """
    check_mask(obj, operation)
    if isinstance(obj, np.ndarray):
        return obj.view(np.ndarray)
    if isinstance(obj, View | ArrowView | ChunkedView):
        return obj
    try:
        return view(obj)
    except (ArgumentError, ZeroCopyError) as refusal:  # without memory of its own: lists, scalars
        if isinstance(obj, Mapping) and not hasattr(obj, "__array__"):  # NumPy would take the keys
            raise
        try:
            converted = np.asarray(obj)
        except MojoViewError:
            raise
        except Exception as error:
            raise ArgumentError(f"{operation}: expected an array, got {type(obj).__name__} ({error})") from error
        if converted.dtype.hasobject:
            remedy = f"; or {_AS_FRAME}" if hasattr(type(obj), ACCESSOR) else ""
            raise type(refusal)(f"{operation}: {refusal}{remedy}") from refusal
        return converted


def holds_columns(found: Any) -> bool:
    """Return whether an opened object is a table: Arrow's records, in one piece or in chunks."""
    return isinstance(found, ArrowView | ChunkedView) and found.arrow_format == "+s"


def array_of(found: Any, operation: str) -> np.ndarray[Any, Any]:
    """Return the items of what `open_object()` returned as an ndarray; a copy if they lie in chunks or in bits.

    Raises
    ------
    ArgumentError
        It is a table.
    DTypeError
        Its numbers stand for something that no dtype of NumPy says: categories, time zones, periods, decimals.
    ZeroCopyError
        Its items have no fixed width.
    MaskError
        Values are missing.
    """
    if isinstance(found, np.ndarray):
        return found
    kind = type(found).__name__
    if holds_columns(found):
        raise ArgumentError(f"{operation}: expected one array, got a {kind} of several columns")
    format = found.arrow_format or ""
    known = fixed_dtype(format) if format else None
    if known is not None and known[1]:
        raise DTypeError(f"{operation}: no NumPy dtype says what items of Arrow type {format!r} are; {_AS_FRAME}")
    if isinstance(found, ArrowView | ChunkedView):
        if isinstance(found, ChunkedView) and len(found.chunks) == 1:
            found = found.single()
        try:
            found = in_place(found)
        except (ZeroCopyError, DTypeError) as error:
            raise ZeroCopyError(
                f"{operation}: expected items of one width, got a {kind} of Arrow type {format!r}; {_AS_FRAME}"
            ) from error
    if getattr(found, "stands_for_more", False):  # of a column of pandas
        raise DTypeError(
            f"{operation}: a column of dtype {found.logical_dtype} is stored as {found.dtype}, which is not what it "
            f"means; {_AS_FRAME}"
        )
    if found.masked:
        raise MaskError(f"{operation}: expected no missing values, got a {kind} with a mask; fill them first")
    return np.asarray(found)


def check_mask(obj: Any, operation: str) -> None:
    """Raise MaskError if the object hides elements behind a mask, which a copy of its bytes would lose."""
    mask = getattr(obj, "mask", None)  # of a masked array or a View; a method of pandas' objects, which have no bytes
    if mask is None or callable(mask) or (isinstance(obj, np.ndarray) and not np.any(mask)):
        return
    raise MaskError(f"{operation}: expected no missing values, got {type(obj).__name__} with a mask; fill them first")


def check_meaning(obj: Any, dtype: np.dtype[Any] | None, operation: str) -> None:
    """Raise if the bytes of a buffer mean something else than the dtype, or have a mask. Raw bytes mean any dtype.

    Parameters
    ----------
    obj : object with the buffer protocol
    dtype : numpy.dtype or None
        Of the shared memory; None if it holds bytes.

    Raises
    ------
    DTypeError
        The object has a dtype of its own, with other fields, offsets, kinds or byte order.
    MaskError
        It has a mask.
    """
    check_mask(obj, operation)
    if dtype is None:
        return
    own = getattr(obj, "dtype", None)
    if not isinstance(own, np.dtype):
        with memoryview(obj) as memory:
            if memory.format in ("B", "b", "c", "@B", "<B"):
                return
            own = np.asarray(memory).dtype
    raw = own.fields is None and (own.kind == "V" or own.str in ("|u1", "|i1", "|S1"))
    if not raw and own != dtype and own != dtype.base:
        raise DTypeError(f"{operation}: expected {dtype} or raw bytes, got {type(obj).__name__} of {own}")


def copy_without_loss(target: np.ndarray[Any, Any], array: np.ndarray[Any, Any], operation: str) -> None:
    """Copy an array into another one of the same shape and of a dtype that can hold its values.

    Raises
    ------
    ArgumentError
        A value has no exact counterpart in the target's dtype, whose contents are then undefined.
    """
    if not np.can_cast(array.dtype, target.dtype, "safe"):
        raise ArgumentError(f"{operation}: {array.dtype} does not convert to {target.dtype} without loss")
    with np.errstate(all="ignore"):
        np.copyto(target, array)
        # NumPy's "safe" casts include integers to floats that are too short for them, and dates that overflow
        floats = array.dtype.kind in "iu" and target.dtype.kind in "fc"
        if array.dtype != target.dtype and (floats or array.dtype.kind in "mM"):
            back = (target.real if target.dtype.kind == "c" else target).astype(array.dtype)
            if not np.array_equal(back, array, equal_nan=True):
                raise ArgumentError(f"{operation}: a value of {array.dtype} has no exact counterpart in {target.dtype}")
