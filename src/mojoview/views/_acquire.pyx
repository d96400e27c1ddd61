"""From an exporter to a view: reads what the exporter says, checks it, and hands over."""

from cpython.buffer cimport PyBUF_FULL, PyBUF_FULL_RO, PyBUF_SIMPLE, PyBUF_WRITABLE
from libc.stdint cimport int64_t, uintptr_t

from mojoview.memory._lease cimport Lease, lease_buffer, lease_owner
from mojoview.memory.abi cimport MV_MAX_NDIM
from mojoview.views._view cimport View, make_view

from mojoview.memory._dtype import dtype_info, dtype_of_format
from mojoview.memory.errors import ArgumentError, InterfaceError, LayoutError, ReadOnlyError, ShapeError, ZeroCopyError


cdef extern from "layout.h" nogil:
    bint mv_extent(int ndim, const int64_t *shape, const int64_t *strides, int64_t itemsize, int64_t *low, int64_t *high)
    void mv_c_strides(int ndim, const int64_t *shape, int64_t itemsize, int64_t *strides)
    int64_t mv_count_elements(int ndim, const int64_t *shape, int64_t itemsize)
    bint mv_may_self_overlap(int ndim, const int64_t *shape, const int64_t *strides, int64_t itemsize)


def from_buffer(exporter, owner, dtype, bint writable):
    """from_buffer(exporter, owner, dtype, writable)

    A view through the buffer protocol. `dtype` replaces the exporter's format where the protocol has no code for it.
    """
    cdef Lease lease = lease_buffer(exporter, owner, PyBUF_FULL_RO)
    cdef int64_t shape[8]
    cdef int64_t strides[8]
    cdef int64_t item
    cdef int k, ndim
    if writable and lease.buffer.readonly and dtype is None:
        # Some exporters lend a writable buffer only on request. NumPy (which states its dtype) never does, and would warn
        # about broadcast arrays.
        lease = lease_buffer(exporter, owner, PyBUF_FULL)
    item = lease.buffer.itemsize
    ndim = lease.buffer.ndim
    check_ndim(f"view({type(owner).__name__})", ndim)
    if lease.buffer.shape is NULL and ndim > 1:
        raise InterfaceError(f"view({type(owner).__name__}): {ndim} dimensions without a shape")
    if lease.buffer.suboffsets is not NULL and any([lease.buffer.suboffsets[k] >= 0 for k in range(ndim)]):
        raise ZeroCopyError(f"view({type(owner).__name__}): its rows are reached through pointers (suboffsets); copy it first")
    if dtype is None:
        dtype = dtype_of_format(lease.buffer.format.decode() if lease.buffer.format is not NULL else None, item, exporter)
    if dtype.itemsize != item:
        raise InterfaceError(f"view({type(owner).__name__}): items of {dtype.itemsize} bytes expected, the exporter says {item}")
    if lease.buffer.shape is NULL:
        shape[0] = lease.buffer.len // item if item else 0  # unused in 0 dimensions
    for k in range(ndim if lease.buffer.shape is not NULL else 0):
        shape[k] = lease.buffer.shape[k]
        if shape[k] < 0:
            raise InterfaceError(f"view({type(owner).__name__}): negative size {shape[k]} in dimension {k}")
    if mv_count_elements(ndim, shape, item) * item != lease.buffer.len:
        raise InterfaceError(f"view({type(owner).__name__}): shape and item size do not give the {lease.buffer.len} bytes it states")
    if lease.buffer.strides is NULL:
        mv_c_strides(ndim, shape, item, strides)
    else:
        for k in range(ndim):
            strides[k] = lease.buffer.strides[k]
    if writable:
        check_writable(owner, lease.buffer.readonly, ndim, shape, strides, item)
    return make_view(lease, lease.buffer.buf, ndim, shape, strides, dtype, not writable)


def from_region(exporter, owner, int64_t offset, tuple sizes, steps, dtype, bint writable):
    """from_region(exporter, owner, offset, sizes, steps, dtype, writable)

    A view on a part of a flat buffer; the extents must lie inside it.
    """
    cdef Lease lease = lease_buffer(exporter, owner, PyBUF_WRITABLE if writable else PyBUF_SIMPLE)
    cdef int64_t shape[8]
    cdef int64_t strides[8]
    cdef int64_t low, high, item = dtype.itemsize
    cdef int ndim = read_geometry(owner, sizes, steps, item, shape, strides, &low, &high)
    if high > low and (offset + low < 0 or offset + high > lease.buffer.len):
        raise InterfaceError(f"view({type(owner).__name__}): shape {sizes} of {dtype} at offset {offset} covers bytes {offset + low} to "
                             f"{offset + high}, the buffer holds {lease.buffer.len}")
    if writable:
        check_writable(owner, lease.buffer.readonly, ndim, shape, strides, item)
    if offset < 0 or offset > lease.buffer.len:
        raise InterfaceError(f"view({type(owner).__name__}): offset {offset} lies outside the buffer of {lease.buffer.len} bytes")
    return make_view(lease, <char *>lease.buffer.buf + offset, ndim, shape, strides, dtype, not writable)


def from_address(address, owner, tuple sizes, steps, dtype, bint readonly):
    """from_address(address, owner, sizes, steps, dtype, readonly)

    A view on memory that nothing but `owner` vouches for; what can be checked is checked.
    """
    cdef int64_t shape[8]
    cdef int64_t strides[8]
    cdef int64_t low, high
    cdef uintptr_t start
    cdef int ndim
    if not hasattr(address, "__index__"):
        raise ArgumentError(f"address: expected an int, got {type(address).__name__}")
    number = address.__index__()
    if not 0 <= number < 2**63:
        raise InterfaceError(f"address: expected 0 to 2**63, got {number}")
    start = number
    dtype_info(dtype)
    ndim = read_geometry(owner, sizes, steps, dtype.itemsize, shape, strides, &low, &high)
    if start == 0 and high > low:
        raise InterfaceError(f"address: NULL for {mv_count_elements(ndim, shape, 1)} elements")
    if high > low and (number + low < 0 or number + high >= 2**63):
        raise InterfaceError(f"strides {steps} of shape {sizes}: the extents leave the address space")
    if not readonly:
        check_writable(owner, False, ndim, shape, strides, dtype.itemsize)
    return make_view(lease_owner(owner), <void *>start, ndim, shape, strides, dtype, readonly)


cdef int check_ndim(str what, Py_ssize_t ndim) except -1:
    if ndim > MV_MAX_NDIM:
        raise ShapeError(f"{what}: {ndim} dimensions, the descriptor holds {MV_MAX_NDIM}")
    return 0


cdef int check_writable(object owner, bint readonly, int ndim, const int64_t *shape, const int64_t *strides, int64_t item) except -1:
    if readonly:
        raise ReadOnlyError(f"view({type(owner).__name__}, writable=True): its memory is read-only")
    if mv_may_self_overlap(ndim, shape, strides, item):
        raise LayoutError(f"view({type(owner).__name__}, writable=True): strides {[strides[k] for k in range(ndim)]} of shape "
                          f"{[shape[k] for k in range(ndim)]} reach some bytes more than once; writing needs a copy")
    return 0


cdef int read_geometry(object owner, tuple sizes, object steps, int64_t item, int64_t *shape, int64_t *strides,
                       int64_t *low, int64_t *high) except -1:
    """Shape and strides from Python into C, with the extents that follow; returns the number of dimensions."""
    cdef Py_ssize_t k, ndim = len(sizes)
    check_ndim(f"view({type(owner).__name__})", ndim)
    if steps is not None and len(steps) != ndim:
        raise InterfaceError(f"view({type(owner).__name__}): {len(steps)} strides for {ndim} dimensions")
    for k in range(ndim):
        shape[k] = int64(sizes[k], "size")
        if shape[k] < 0:
            raise InterfaceError(f"view({type(owner).__name__}): negative size {shape[k]} in dimension {k}")
    if mv_count_elements(<int>ndim, shape, item) < 0:
        raise InterfaceError(f"view({type(owner).__name__}): shape {sizes} has more bytes than an address space holds")
    if steps is None:
        mv_c_strides(<int>ndim, shape, item, strides)
    else:
        for k in range(ndim):
            strides[k] = int64(steps[k], "stride")
    if not mv_extent(<int>ndim, shape, strides, item, low, high):
        raise InterfaceError(f"view({type(owner).__name__}): strides {steps} of shape {sizes} overflow")
    return <int>ndim


cdef int64_t int64(object value, str what) except? -1:
    if not hasattr(value, "__index__") or isinstance(value, bool):
        raise ArgumentError(f"{what}: expected an int, got {type(value).__name__}")
    number = value.__index__()
    if not -2**63 <= number < 2**63:
        raise InterfaceError(f"{what} {number} does not fit 64 bits")
    return number
