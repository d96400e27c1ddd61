"""Make views: find the protocol of an exporter, read and check its description; alias, mask and rebind views."""

from cpython.buffer cimport PyBUF_FULL, PyBUF_FULL_RO, PyBUF_SIMPLE, PyBUF_WRITABLE, PyObject_CheckBuffer
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint64_t, uintptr_t

from mojoview.memory._lease cimport Lease, lease_buffer, lease_owner
from mojoview.memory.abi cimport MV_DEVICE_SHIFT, MV_HAS_MASK, MV_MASK_BITS, MV_MAX_NDIM, MV_READONLY, mv_desc
from mojoview.views._geometry cimport as_int64, int64_tuple, read_geometry
from mojoview.views._view cimport View, alias_of, make_view
from mojoview.views._window cimport copy_fields

import numpy as np

from mojoview.memory._dtype import KNOWN as _KNOWN, dtype_info, dtype_of_format
from mojoview.memory.errors import (
    ArgumentError, InterfaceError, LayoutError, MaskError, ReadOnlyError, ShapeError, ZeroCopyError,
)
from mojoview.memory.extension_points import ACCESSOR


cdef extern from "Python.h":
    PyObject *_PyType_Lookup(type kind, object name)

cdef extern from "views/geometry.h" nogil:
    bint mv_extent(int ndim, const int64_t *shape, const int64_t *strides, int64_t item, int64_t *low, int64_t *high)
    void mv_c_strides(int ndim, const int64_t *shape, int64_t itemsize, int64_t *strides)
    int64_t mv_count_elements(int ndim, const int64_t *shape, int64_t itemsize)
    bint mv_may_self_overlap(int ndim, const int64_t *shape, const int64_t *strides, int64_t itemsize)

cdef dict known_dtypes = _KNOWN
cdef type ndarray = np.ndarray
cdef object INT64 = np.dtype("i8")
cdef object BOOL = np.dtype(bool)
cdef object accessor = ACCESSOR


# -- which protocol ---------------------------------------------------------------------------------------------------


def has_accessor(obj):
    """has_accessor(obj)

    Return whether the type has mojoview's `mojo` accessor; other attributes of that name do not count.

    Parameters
    ----------
    obj : object

    Returns
    -------
    bool

    Notes
    -----
    Thread safety: any thread.

    Examples
    --------
    >>> has_accessor(3)
    False
    """
    cdef PyObject *found = _PyType_Lookup(type(obj), accessor)
    return found is not NULL and getattr(<object>found, "of_mojoview", False) is True


def protocol_of(obj):
    """protocol_of(obj)

    Return the protocol that describes the object's memory best.

    Parameters
    ----------
    obj : object
        Not an ndarray or View.

    Returns
    -------
    str or None
        "pandas" for objects with mojoview's accessor, which finds their blocks; "arrow", which unlike buffers has
        validity; "dlpack" if there is neither a buffer nor `__array_interface__`; None: try the others in turn.

    Notes
    -----
    Thread safety: any thread.
    """
    cdef type kind = type(obj)
    if has_accessor(obj):
        return "pandas"
    if _PyType_Lookup(kind, "__arrow_c_array__") is not NULL or _PyType_Lookup(kind, "__arrow_c_stream__") is not NULL:
        return "arrow"
    if PyObject_CheckBuffer(obj) or _PyType_Lookup(kind, "__array_interface__") is not NULL:
        return None
    if _PyType_Lookup(kind, "__dlpack__") is not NULL:
        return "dlpack"
    if _PyType_Lookup(kind, "__arrow_c_device_array__") is not NULL \
            or _PyType_Lookup(kind, "__arrow_c_device_stream__") is not NULL:
        return "arrow"
    return None


# -- from exporters and addresses -------------------------------------------------------------------------------------


def from_array(array, bint writable):
    """from_array(array, writable)

    Open a view on an ndarray. Its NumPy dtype has more detail than a buffer format.
    """
    # A subclass may override its dtype; the plain array on the same memory cannot.
    exporter = array if type(array) is ndarray else ndarray.view(array, ndarray)
    dtype = exporter.dtype
    info = known_dtypes.get(dtype)
    if info is None:
        info = dtype_info(dtype)
    if info.format is None:
        # No PEP 3118 format, or none that NumPy would read back: export the same bytes under a dtype that has one.
        exporter = exporter.view(INT64 if dtype.kind in "Mm" else f"V{dtype.itemsize}")
    # For reading even if `writable`: NumPy would warn about broadcast arrays, which are refused below.
    return view_of(lease_buffer(exporter, array, PyBUF_FULL_RO), dtype, writable)


def from_buffer(exporter, bint writable):
    """from_buffer(exporter, writable)

    Open a view through the buffer protocol; the exporter's own exception passes through.
    """
    return view_of(lease_buffer(exporter, exporter, PyBUF_FULL if writable else PyBUF_FULL_RO), None, writable)


cdef View view_of(Lease lease, object dtype, bint writable):
    """Make a view of a whole export. If `dtype` is None, the exporter's format determines it."""
    cdef int64_t shape[8]
    cdef int64_t strides[8]
    cdef int64_t low, high, item = lease.buffer.itemsize
    cdef int k, ndim = lease.buffer.ndim
    if not 0 <= ndim <= MV_MAX_NDIM:
        raise ShapeError(f"view({name_of(lease)}): {ndim} dimensions, the descriptor holds {MV_MAX_NDIM}")
    if lease.buffer.suboffsets is not NULL and any([lease.buffer.suboffsets[k] >= 0 for k in range(ndim)]):
        raise ZeroCopyError(f"view({name_of(lease)}): its rows lie behind pointers (suboffsets); copy it first")
    if lease.buffer.shape is not NULL:
        for k in range(ndim):
            shape[k] = lease.buffer.shape[k]
    elif ndim == 1:
        shape[0] = lease.buffer.len // item if item > 0 else 0
    elif ndim > 1:
        raise InterfaceError(f"view({name_of(lease)}): {ndim} dimensions without a shape")
    if item < 0 or any_negative(ndim, shape):
        raise InterfaceError(f"view({name_of(lease)}): negative sizes in {int64_tuple(shape, ndim)} or {item} bytes")
    if mv_count_elements(ndim, shape, item) < 0 or mv_count_elements(ndim, shape, item) * item != lease.buffer.len:
        raise InterfaceError(f"view({name_of(lease)}): shape {int64_tuple(shape, ndim)} of {item} bytes does not make "
                             f"the {lease.buffer.len} bytes that it states")
    if dtype is None:
        dtype = dtype_of_lease(lease)
    if lease.buffer.strides is NULL:
        mv_c_strides(ndim, shape, item, strides)
    else:
        for k in range(ndim):
            strides[k] = lease.buffer.strides[k]
    if not mv_extent(ndim, shape, strides, item, &low, &high) or (lease.buffer.buf is NULL and high > low):
        raise InterfaceError(f"view({name_of(lease)}): strides {int64_tuple(strides, ndim)} of shape "
                             f"{int64_tuple(shape, ndim)} leave the address space")
    if writable:
        check_writable(lease, lease.buffer.readonly, ndim, shape, strides, item)
    return make_view(lease, lease.buffer.buf, ndim, shape, strides, dtype, not writable)


cdef object dtype_of_lease(Lease lease):
    """Return the dtype of the exporter's format. NumPy reads structured formats from an empty view that repeats them,
    since a second buffer of the exporter could have another format."""
    cdef int64_t nothing[1]
    cdef View empty
    if lease.buffer.format is NULL:
        return dtype_of_format("B", lease.buffer.itemsize, None, lease.owner)
    format = <bytes>lease.buffer.format
    nothing[0] = 0
    empty = make_view(lease, lease.buffer.buf, 1, nothing, nothing, np.dtype(f"V{lease.buffer.itemsize}"), True)
    empty._format = format
    return dtype_of_format(format.decode("latin-1"), lease.buffer.itemsize, empty, lease.owner)


def from_region(exporter, owner, offset, sizes, steps, dtype, bint writable):
    """from_region(exporter, owner, offset, sizes, steps, dtype, writable)

    Open a view on a part of a flat buffer; the extents must lie inside it.
    """
    cdef int64_t shape[8]
    cdef int64_t strides[8]
    cdef int64_t low, high, item = dtype.itemsize, start = as_int64(offset, "offset", ArgumentError)
    cdef int ndim = read_geometry(sizes, steps, item, shape, strides)
    cdef Lease lease = lease_buffer(exporter, owner, PyBUF_WRITABLE if writable else PyBUF_SIMPLE)
    if not 0 <= start <= lease.buffer.len:
        raise InterfaceError(f"view({name_of(lease)}): offset {start} lies outside the buffer of {lease.buffer.len} "
                             "bytes")
    if not mv_extent(ndim, shape, strides, item, &low, &high) or low < -start or high > lease.buffer.len - start:
        raise InterfaceError(f"view({name_of(lease)}): shape {int64_tuple(shape, ndim)} of {dtype} with strides "
                             f"{int64_tuple(strides, ndim)} at offset {start} leaves the buffer of "
                             f"{lease.buffer.len} bytes")
    if writable:
        check_writable(lease, lease.buffer.readonly, ndim, shape, strides, item)
    return make_view(lease, <char *>lease.buffer.buf + start, ndim, shape, strides, dtype, not writable)


def from_address(address, owner, sizes, steps, dtype, bint readonly):
    """from_address(address, owner, sizes, steps, dtype, readonly)

    Open a view on memory for which only `owner` vouches; everything that can be checked is checked.
    """
    cdef int64_t shape[8]
    cdef int64_t strides[8]
    cdef int64_t low, high, start = as_int64(address, "address", ArgumentError)
    cdef int ndim = read_geometry(sizes, steps, dtype.itemsize, shape, strides)
    cdef Lease lease
    if start < 0:
        raise InterfaceError(f"address: expected 0 to 2**63, got {start}")
    if not mv_extent(ndim, shape, strides, dtype.itemsize, &low, &high) or low < -start or high > 2**63 - 1 - start:
        raise InterfaceError(f"address {start:#x}: shape {int64_tuple(shape, ndim)} of {dtype} with strides "
                             f"{int64_tuple(strides, ndim)} leaves the address space")
    if start == 0 and high > low:
        raise InterfaceError(f"address: NULL for {mv_count_elements(ndim, shape, 1)} elements")
    lease = lease_owner(owner)
    if not readonly:
        check_writable(lease, False, ndim, shape, strides, dtype.itemsize)
    return make_view(lease, <void *><uintptr_t>start, ndim, shape, strides, dtype, readonly)


cdef str name_of(Lease lease):
    return type(lease.owner).__name__


cdef bint any_negative(int ndim, const int64_t *values) noexcept:
    cdef int k
    for k in range(ndim):
        if values[k] < 0:
            return True
    return False


cdef int check_writable(Lease lease, bint readonly, int ndim, const int64_t *shape, const int64_t *strides,
                        int64_t item) except -1:
    if readonly:
        raise ReadOnlyError(f"view({name_of(lease)}, writable=True): its memory is read-only")
    if mv_may_self_overlap(ndim, shape, strides, item):
        raise LayoutError(f"view({name_of(lease)}, writable=True): strides {int64_tuple(strides, ndim)} of shape "
                          f"{int64_tuple(shape, ndim)} do not keep the elements apart; writing needs a copy")
    return 0


# -- from views -------------------------------------------------------------------------------------------------------


def rebind(View target not None, View source not None, pin=None):
    """rebind(target, source, pin=None)

    Bind a fresh instance of a subclass (from ``cls.__new__(cls)``) to the memory of `source`; it keeps `pin` alive.
    """
    if target._dtype is not None:  # open or released: memory that consumers may still hold must not be replaced
        raise ArgumentError("rebind: expected a fresh view as target, got one that was opened before")
    copy_fields(target, source)
    if pin is not None:
        target._pin = pin if target._pin is None else (target._pin, pin)
    return target


def with_mask(View values not None, View mask not None):
    """with_mask(values, mask)

    Make a view of `values` whose elements are missing where `mask` is True.

    Parameters
    ----------
    values : View
        Any dtype, at most 2 dimensions.
    mask : View
        bool, of the same shape; its strides are its own.

    Returns
    -------
    View
        Borrows both.

    Raises
    ------
    MaskError
        The mask is not bool, not of the same shape, or has more than 2 dimensions.
    """
    cdef View other = alias_of(values)
    cdef View missing = alias_of(mask)
    cdef mv_desc *d = other.desc
    cdef mv_desc *m = missing.desc
    if (d.flags | m.flags) & MV_HAS_MASK:
        raise MaskError("mask: expected a view and a mask without masks of their own; use view.data")
    if missing._dtype != BOOL or m.ndim != d.ndim or not 1 <= d.ndim <= 2 or other.shape != missing.shape:
        raise MaskError(f"mask: expected bool of shape {other.shape} in 1 or 2 dimensions, got {missing._dtype} of "
                        f"shape {missing.shape}")
    other._mask_lease = missing._lease
    if missing._pin is not None:
        other._pin = missing._pin if other._pin is None else (other._pin, missing._pin)
    d.flags |= MV_HAS_MASK
    d.mask = <const uint8_t *>m.data
    d.mask_stride[0] = m.strides[0]
    d.mask_stride[1] = m.strides[1] if d.ndim == 2 else 0
    return other


cdef View with_bits(View values, Lease lease, const uint8_t *bits, int64_t offset):
    """Make a 1-D view whose zero bits in the bitmap are missing elements; the caller has checked its extent."""
    cdef View other = alias_of(values)
    other._mask_lease = lease
    other.desc.flags |= MV_HAS_MASK | MV_MASK_BITS
    other.desc.mask = bits
    other.desc.mask_offset = offset
    return other


def with_bitmap(View values not None, owner, uintptr_t address):
    """with_bitmap(values, owner, address)

    Make a 1-D view whose elements are missing where the bitmap at `address`, which `owner` keeps alive, has a 0.
    """
    return with_bits(values, lease_owner(owner), <const uint8_t *>address, 0)


def with_device(View source not None, int kind, int device_id, stream=None):
    """with_device(source, kind, device_id, stream=None)

    Make a view of the same memory marked as on a device (DLPack's numbering), with pending writes on `stream`.
    """
    cdef View other = alias_of(source)
    other.desc.flags |= <uint64_t>kind << MV_DEVICE_SHIFT
    other.desc.device_id = device_id
    other._stream = stream
    return other


def alias(View source not None, bint readonly):
    """alias(source, readonly)

    Make a second view of the same memory, read-only if `readonly`.
    """
    cdef View other = alias_of(source)
    if readonly:
        other.desc.flags |= MV_READONLY
    return other
