"""Checks of objects that are copied into or out of shared memory: their own dtype, their mask, lossless casts."""

from __future__ import annotations

from typing import Any

import numpy as np

from mojoview.memory.errors import ArgumentError, DTypeError, MaskError

__all__ = ["check_mask", "check_meaning", "copy_without_loss"]


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
