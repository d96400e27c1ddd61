"""`view()` and `from_ptr()`: the first protocol that fits, and never a copy unless it was asked for."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from mojoview.memory._dtype import dtype_info
from mojoview.memory.errors import ArgumentError, MaskError, MojoViewError, ReadOnlyError, ZeroCopyError
from mojoview.views import _acquire, _view
from mojoview.views._arrow_import import from_arrow
from mojoview.views._cuda_interface import from_cuda_interface
from mojoview.views._dlpack_import import from_dlpack
from mojoview.views._interface import from_interface
from mojoview.views._view import View

__all__ = ["from_ptr", "view"]


def view(obj: Any, *, writable: bool = False, copy: Literal["never", "if_needed", "always"] = "never") -> View:
    """A zero-copy view of an object's memory.

    Parameters
    ----------
    obj : array-like
        ndarray (also masked), View, anything with the buffer protocol, `__array_interface__`, Arrow's PyCapsule interface, DLPack or
        `__cuda_array_interface__`, or an object with a `mojo` accessor (pandas Series and Index). At most 8 dimensions.
    writable : bool
        Whether the view may write. Needs writable memory in which no element is reached twice.
    copy : {"never", "if_needed", "always"}
        "never" refuses where the memory cannot be shared; "if_needed" copies then; "always" copies.

    Returns
    -------
    View
        Borrows the memory of `obj` and keeps it alive; owns a fresh, 64-byte aligned one after a copy.

    Raises
    ------
    ZeroCopyError
        The memory cannot be shared; the message says why, and what helps.
    ReadOnlyError, LayoutError
        ``writable=True`` on read-only memory; on memory where elements overlap (stride 0).
    DTypeError
        Items are references (object, variable-width strings).
    InterfaceError, ShapeError, ArgumentError
        The exporter's description is malformed, has more than 8 dimensions, or `obj` exports nothing.

    Notes
    -----
    Thread safety: any thread. The caller's array is never touched, not even its flags.

    Examples
    --------
    >>> import numpy as np, mojoview as mv
    >>> a = np.arange(4, dtype="i4")
    >>> v = mv.view(a)
    >>> (v.ptr == a.ctypes.data, v.readonly, v.shape)
    (True, True, (4,))
    """
    if copy == "never":
        return _share(obj, writable)
    if copy == "always":
        return _duplicate(obj, writable)
    if copy != "if_needed":
        raise ArgumentError(f"view(copy={copy!r}): expected 'never', 'if_needed' or 'always'")
    try:
        return _share(obj, writable)
    except (ZeroCopyError, ArgumentError, ReadOnlyError):
        return _duplicate(obj, writable)


def from_ptr(ptr: int, shape: int | tuple[int, ...], dtype: Any, *, strides: tuple[int, ...] | None = None, owner: object,
             readonly: bool = True) -> View:
    """A view on memory at an address, for native authors.

    Parameters
    ----------
    ptr : int
        Address of element [0, ..., 0]; 0 only for empty arrays.
    shape : int or tuple of int
    dtype : dtype-like
    strides : tuple of int, optional
        Bytes; C order when absent.
    owner : object
        Keeps the memory valid as long as it lives; the view holds it. None is refused: an address that nobody keeps dangles.
    readonly : bool

    Returns
    -------
    View
        Borrows the memory. mojoview cannot verify that it is there.

    Raises
    ------
    ArgumentError, InterfaceError, ShapeError, DTypeError, LayoutError
        An argument of the wrong type, a NULL or overflowing extent, more than 8 dimensions, items that are references, or
        ``readonly=False`` with overlapping elements.

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
    sizes = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    return _acquire.from_address(ptr, owner, sizes, strides, np.dtype(dtype), bool(readonly))


def _share(obj: Any, writable: bool) -> View:
    if isinstance(obj, np.ndarray):
        return _share_masked(obj, writable) if isinstance(obj, np.ma.MaskedArray) else _share_array(obj, writable)
    if isinstance(obj, View):
        if writable and obj.readonly:
            raise ReadOnlyError("view(View, writable=True): the view is read-only")
        return obj[...] if writable else _view.read_only(obj)
    if hasattr(type(obj), "mojo"):  # a pandas object: only its accessor knows its blocks
        if writable:
            raise ReadOnlyError(f"view({type(obj).__name__}, writable=True): pandas memory is shared; use df.mojo.lease() or assign()")
        return obj.mojo.view()  # type: ignore[no-any-return]
    kind = type(obj)
    if hasattr(kind, "__arrow_c_array__") or hasattr(kind, "__arrow_c_stream__"):  # says more than a buffer could: validity
        return from_arrow(obj, writable)
    refusal: Exception | None = None
    try:
        return _acquire.from_buffer(obj, obj, None, writable)
    except MojoViewError:
        raise
    except (TypeError, BufferError, ValueError, NotImplementedError) as error:  # the exporter's own words, or no exporter at all
        refusal = error
    if isinstance(obj, np.generic):
        raise _refusal(obj, writable, refusal) from refusal
    if hasattr(obj, "__array_interface__"):
        return from_interface(obj, obj.__array_interface__, writable)
    if hasattr(kind, "__dlpack__"):
        return from_dlpack(obj, writable)
    if hasattr(obj, "__cuda_array_interface__"):
        return from_cuda_interface(obj, obj.__cuda_array_interface__, writable)
    raise _refusal(obj, writable, refusal) from refusal


def _share_array(array: np.ndarray[Any, Any], writable: bool) -> View:
    dtype = array.dtype
    if dtype_info(dtype).format is not None:
        return _acquire.from_buffer(array, array, dtype, writable)
    # Datetimes have no PEP 3118 code. The same bytes under a dtype that has one export as well; the view keeps the real dtype.
    bytes_only = np.ndarray.view(array, np.ndarray).view(np.dtype(("V", dtype.itemsize)) if dtype.kind == "V" else "i8")
    return _acquire.from_buffer(bytes_only, array, dtype, writable)


def _share_masked(array: np.ma.MaskedArray[Any, Any], writable: bool) -> View:
    values = _share_array(array.data, writable)
    if array.mask is np.ma.nomask:
        return values
    if array.ndim > 2 or array.ndim == 0 or array.dtype.names is not None:
        raise MaskError(f"view(masked array): expected 1 or 2 dimensions and a plain dtype, got {array.ndim} of {array.dtype}; "
                        "view array.data and array.mask")
    return _view.with_mask(values, _share_array(np.asarray(array.mask), False))


def _duplicate(obj: Any, writable: bool) -> View:
    if not isinstance(obj, View) and (hasattr(type(obj), "__arrow_c_array__") or hasattr(type(obj), "__arrow_c_stream__")):
        from mojoview.views.arrow import in_place
        obj = in_place(_share(obj, False))  # not through NumPy, which turns integers with nulls into floats
    masked = isinstance(obj, np.ma.MaskedArray) or (isinstance(obj, View) and obj.masked)
    source = obj.data if masked else obj
    array = np.asarray(source)
    if array.dtype.hasobject:
        dtype_info(array.dtype)  # raises in our own words
    values = _share_array(_aligned_copy(array), writable)
    if not writable:
        values = _view.read_only(values)
    if not masked:
        return values
    mask = np.ma.getmaskarray(obj) if isinstance(obj, np.ma.MaskedArray) else np.asarray(obj.mask)
    return _view.with_mask(values, _share_array(_aligned_copy(mask), False))


def _aligned_copy(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy in native memory order whose first element lies on a 64-byte boundary, as vector units like it."""
    order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    raw = np.empty(array.nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    copy: np.ndarray[Any, Any] = raw[start:start + array.nbytes].view(array.dtype).reshape(array.shape, order=order) \
        if array.size and array.itemsize else np.empty(array.shape, array.dtype, order=order)
    copy[...] = array
    return copy


def _refusal(obj: Any, writable: bool, error: Exception) -> MojoViewError:
    name = type(obj).__name__
    if isinstance(error, BufferError) and writable:
        return ReadOnlyError(f"view({name}, writable=True): {error}")
    if isinstance(error, BufferError | ValueError | NotImplementedError):
        return ZeroCopyError(f"view({name}): the exporter refuses its buffer: {error}")
    return ArgumentError(f"view({name}): expected an ndarray, the buffer protocol, __array_interface__, __dlpack__, "
                         "Arrow's PyCapsule interface or __cuda_array_interface__; copy='if_needed' converts through NumPy")
