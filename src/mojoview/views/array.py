"""NumPy operations on the memory of views, with errors of the package's tree."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mojoview.memory._dtype import as_dtype
from mojoview.memory.errors import ArgumentError, IndexingError, MojoViewError, RangeError, ZeroCopyError

__all__ = ["aligned_copy", "assign", "converted"]


def aligned_copy(array: NDArray[Any]) -> NDArray[Any]:
    """Return a copy in C or Fortran order whose first element lies on a 64-byte boundary, for vector units."""
    order: Literal["C", "F"] = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    raw = np.empty(array.nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    copy: NDArray[Any] = (
        raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape, order=order)
        if array.size and array.itemsize
        else np.empty(array.shape, array.dtype, order=order)
    )
    copy[...] = array
    return copy


def assign(array: NDArray[Any], key: Any, value: Any) -> None:
    """Assign ``array[key] = value``.

    Raises
    ------
    IndexingError, RangeError, ArgumentError
        The index is out of range; a number does not fit; any other error of NumPy or of the value.
    """
    try:
        array[key] = value
    except (MojoViewError, MemoryError):
        raise
    except IndexError as error:
        raise IndexingError(f"assignment: {error}") from error
    except OverflowError as error:
        raise RangeError(f"assignment: {error}") from error
    except Exception as error:
        raise ArgumentError(f"assignment: {error}") from error


def converted(array: NDArray[Any], dtype: Any, copy: bool | None) -> NDArray[Any]:
    """Return the array that `__array__` must return: the array itself if dtype and `copy` allow it.

    Raises
    ------
    ZeroCopyError
        ``copy=False`` and another dtype.
    DTypeError, ArgumentError
        Not a dtype; a dtype to which the values do not convert.
    """
    wanted = array.dtype if dtype is None else as_dtype(dtype, "__array__")
    if copy is False and wanted != array.dtype:
        raise ZeroCopyError(f"__array__(copy=False): converting {array.dtype} to {wanted} needs a copy")
    try:
        return array.astype(wanted, copy=bool(copy))
    except Exception as error:
        raise ArgumentError(f"__array__({wanted}): {error}") from error
