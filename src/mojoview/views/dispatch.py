"""Choice of the protocol for `view()`, and `from_ptr()`. Never copies unless requested."""

from __future__ import annotations

from collections.abc import Mapping
from mmap import mmap
from typing import Any

import numpy as np
from numpy import ndarray
from numpy.ma import MaskedArray

from mojoview.memory._dtype import as_dtype, dtype_info
from mojoview.memory.errors import (
    ArgumentError,
    InterfaceError,
    LayoutError,
    MaskError,
    MojoViewError,
    ReadOnlyError,
    ZeroCopyError,
)
from mojoview.views import _construct
from mojoview.views._construct import (
    from_address,
    from_array,
    from_buffer,
    from_region,
    has_accessor,
    protocol_of,
)
from mojoview.views._view import View
from mojoview.views.array import aligned_copy
from mojoview.views.arrow._from_arrow import from_arrow
from mojoview.views.arrow.chunked import in_place, open_import
from mojoview.views.dlpack._from_dlpack import from_dlpack
from mojoview.views.interfaces.array_interface import from_interface
from mojoview.views.interfaces.cuda_interface import from_cuda_interface
from mojoview.views.mapped import check_mapping

__all__ = ["from_ptr", "open_slow"]


def open_slow(obj: Any, writable: Any, copy: Any) -> View:
    """Open everything but a plain ndarray shared read-only: the slow path of `view()`."""
    if type(writable) is not bool:
        writable = _flag("view(writable=...)", writable)
    if not isinstance(copy, str) or copy not in ("never", "if_needed", "always"):
        raise ArgumentError(
            f"view(copy=...): expected 'never', 'if_needed' or 'always', got "
            f"{copy if isinstance(copy, str) else type(copy).__name__}"
        )
    if copy == "always":
        return _duplicate(obj, writable)
    if copy == "never":
        return from_array(obj, writable) if type(obj) is ndarray else _share(obj, writable)
    try:
        return _share(obj, writable)
    except (ZeroCopyError, ArgumentError, ReadOnlyError, LayoutError):
        return _duplicate(obj, writable)


def from_ptr(
    ptr: int,
    shape: int | tuple[int, ...],
    dtype: Any,
    *,
    strides: tuple[int, ...] | None = None,
    owner: object,
    readonly: bool = True,
) -> View:
    """Open a view on memory at an address, for native authors.

    Parameters
    ----------
    ptr : int
        Address of element [0, ..., 0]; 0 only for empty arrays.
    shape : int or tuple of int
    dtype : dtype-like
    strides : tuple of int, optional
        Bytes; C order when absent.
    owner : object
        Keeps the memory valid as long as it exists; the view holds a reference. None is refused, since an address
        without an owner dangles.
    readonly : bool

    Returns
    -------
    View
        Borrows the memory. mojoview cannot verify that it is mapped.

    Raises
    ------
    ArgumentError, InterfaceError, ShapeError, DTypeError, LayoutError
        An argument of the wrong type, a NULL or overflowing extent, more than 8 dimensions, items that are references,
        or ``readonly=False`` with overlapping elements.

    Notes
    -----
    Thread safety: any thread.

    Examples
    --------
    >>> import ctypes, mojoview as mv
    >>> memory = (ctypes.c_double * 3)(1, 2, 3)
    >>> float(mv.from_ptr(ctypes.addressof(memory), 3, "f8", owner=memory)[2])
    3.0
    """
    if owner is None:
        raise ArgumentError("from_ptr(owner=None): an owner that keeps the memory alive is required")
    items = as_dtype(dtype, "from_ptr")
    dtype_info(items)
    sizes = shape if isinstance(shape, tuple | list) else (shape,)
    return from_address(ptr, owner, sizes, strides, items, _flag("from_ptr(readonly=...)", readonly))


def _share(obj: Any, writable: bool) -> View:
    if isinstance(obj, np.memmap | mmap):
        check_mapping(obj)
    if isinstance(obj, ndarray):
        return _share_masked(obj, writable) if isinstance(obj, MaskedArray) else from_array(obj, writable)
    if isinstance(obj, View):
        if writable and obj.readonly:
            raise ReadOnlyError("view(View, writable=True): the view is read-only")
        return _construct.alias(obj, not writable)
    protocol = protocol_of(obj)
    if protocol == "pandas":
        return _share_pandas(obj, writable, "never")
    if protocol == "arrow":
        found = from_arrow(obj, writable)
        return found if isinstance(found, View) else open_import(found, obj)
    if protocol == "dlpack":
        return from_dlpack(obj, writable)
    try:
        if isinstance(obj, np.generic):  # buffers of datetimes are bytes; a scalar has its dtype, as an array does
            return from_region(obj, obj, 0, (), None, obj.dtype, writable)
        return from_buffer(obj, writable)
    except MojoViewError:
        raise
    except Exception as error:  # any error of the exporter, or not an exporter at all
        refusal = error.with_traceback(None)  # the traceback would hold this frame, and so `obj`
    interface = _interface_of(obj)
    if interface is not None:
        return from_interface(obj, interface, writable)
    if hasattr(type(obj), "__dlpack__"):  # the buffer was refused
        return from_dlpack(obj, writable)
    interface = _interface_of(obj, "__cuda_array_interface__")
    if interface is not None:
        return from_cuda_interface(obj, interface, writable)
    raise _refusal(obj, writable, refusal) from refusal


def _interface_of(obj: Any, protocol: str = "__array_interface__") -> Any:
    if isinstance(obj, np.generic):
        return None  # NumPy's scalars describe a temporary copy of themselves, which is freed before it can be read
    try:
        return getattr(obj, protocol, None)
    except Exception as error:
        raise InterfaceError(
            f"view({type(obj).__name__}): its {protocol} raises {type(error).__name__}: {error}"
        ) from error


def _share_pandas(obj: Any, writable: bool, copy: str) -> View:
    name = type(obj).__name__
    if writable and copy == "never":
        raise ReadOnlyError(f"view({name}, writable=True): pandas memory is shared; use df.mojo.lease() or assign()")
    try:
        view = obj.mojo.view(copy=copy)
    except MaskError:  # as for masked arrays: with a mask if elements are missing
        view = obj.mojo.view(copy=copy, na="mask")
    if not isinstance(view, View):
        raise ArgumentError(
            f"view({name}): expected one array, got an object that holds several; use its accessor, .mojo.view()"
        )
    return view


def _share_masked(array: MaskedArray[Any, Any], writable: bool) -> View:
    values = from_array(array.data, writable)
    if array.mask is np.ma.nomask:
        return values
    if array.ndim > 2 or array.ndim == 0 or array.dtype.names is not None:
        raise MaskError(
            f"view(masked array): expected 1 or 2 dimensions and a plain dtype, got {array.ndim} of {array.dtype}; "
            "view array.data and array.mask"
        )
    return _construct.with_mask(values, from_array(np.asarray(array.mask), False))


def _duplicate(obj: Any, writable: bool) -> View:
    if isinstance(obj, View) and obj.masked:
        return _construct.with_mask(_duplicate(obj.data, writable), _duplicate(obj.mask, False))
    if isinstance(obj, MaskedArray):
        values = _duplicate(obj.data, writable)
        return values if obj.mask is np.ma.nomask else _construct.with_mask(values, _duplicate(obj.mask, False))
    if not isinstance(obj, View) and has_accessor(obj):
        return _share_pandas(obj, writable, "always")
    if not isinstance(obj, ndarray | View):
        try:
            shared = _share(obj, False)
        except (ZeroCopyError, ArgumentError):
            if _interface_of(obj) is not None:  # its interface is invalid; NumPy would accept it
                raise
        else:  # not through NumPy, which converts integers with nulls to floats
            return _duplicate(shared if isinstance(shared, View) else in_place(shared), writable)
    if isinstance(obj, Mapping) and not hasattr(obj, "__array__"):
        raise ArgumentError(
            f"view({type(obj).__name__}): expected an array, got a mapping, of which NumPy takes the keys"
        )
    try:
        array = np.asarray(obj)
    except MojoViewError:
        raise
    except Exception as error:
        raise ArgumentError(f"view({type(obj).__name__}): NumPy cannot make an array of it ({error})") from error
    dtype_info(array.dtype)  # refuses references with our own error
    return from_array(aligned_copy(array), writable)


def _flag(what: str, value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise ArgumentError(f"{what}: expected a bool, got {type(value).__name__}")
    return bool(value)


def _refusal(obj: Any, writable: bool, error: Exception) -> MojoViewError:
    name = type(obj).__name__
    if isinstance(error, BufferError) and writable:
        return ReadOnlyError(f"view({name}, writable=True): {error}")
    if isinstance(error, BufferError | ValueError | NotImplementedError):
        return ZeroCopyError(f"view({name}): the exporter refuses its buffer: {error}")
    return ArgumentError(
        f"view({name}): expected an ndarray, the buffer protocol, __array_interface__, __dlpack__, "
        "Arrow's PyCapsule interface or __cuda_array_interface__; copy='if_needed' converts through NumPy"
    )
