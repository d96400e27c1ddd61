"""Geometry of descriptors: shapes, strides and indices from Python, read, checked and applied; buffer requests."""

from cpython.buffer cimport (
    PyBUF_ANY_CONTIGUOUS, PyBUF_C_CONTIGUOUS, PyBUF_F_CONTIGUOUS, PyBUF_FORMAT, PyBUF_ND, PyBUF_STRIDES, PyBUF_WRITABLE,
)
from cpython.slice cimport PySlice_AdjustIndices, PySlice_Unpack
from libc.stdint cimport int64_t, uint64_t

from mojoview.memory.abi cimport (
    MV_C_CONTIGUOUS, MV_F_CONTIGUOUS, MV_HAS_MASK, MV_MASK_BITS, MV_MAX_NDIM, MV_READONLY, mv_desc,
)

import operator

import numpy as np

from mojoview.memory.errors import (
    ArgumentError, IndexingError, InterfaceError, LayoutError, MaskError, ReadOnlyError, ShapeError, ZeroCopyError,
)


cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object number, int *overflow) except? -1

cdef extern from "views/geometry.h" nogil:
    void mv_c_strides(int ndim, const int64_t *shape, int64_t itemsize, int64_t *strides)
    int64_t mv_count_elements(int ndim, const int64_t *shape, int64_t itemsize)
    bint mv_reshape(const mv_desc *d, int ndim, const int64_t *shape, int64_t *strides)

cdef object BOOLS = (bool, np.bool_)
cdef object as_index = operator.index


cdef int64_t as_int64(object value, str what, object error) except? -1:
    """Convert an integer from Python; raise `error` if it is not one or has more than 64 bits. A bool is refused as a
    probable mistake."""
    cdef int overflow = 0
    cdef int64_t number
    if type(value) is not int:
        if isinstance(value, BOOLS):
            raise error(f"{what}: expected an int, got a bool")
        try:
            value = as_index(value)
        except Exception as cause:
            raise error(f"{what}: expected an int, got {type(value).__name__}") from cause
    number = PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow:
        raise error(f"{what}: an integer of {value.bit_length()} bits does not fit 64")
    return number


cdef int read_geometry(object sizes, object steps, int64_t item, int64_t *shape, int64_t *strides) except -1:
    """Read a shape, and strides or None for C order; return the number of dimensions."""
    cdef int k, ndim
    for what, value in (("shape", sizes), ("strides", steps)):
        if not isinstance(value, (tuple, list)) and (value is not None or what == "shape"):
            raise ArgumentError(f"{what}: expected a tuple of ints, got {type(value).__name__}")
    sizes = list_items(sizes)
    if len(sizes) > MV_MAX_NDIM:
        raise ShapeError(f"shape: {len(sizes)} dimensions, the descriptor holds {MV_MAX_NDIM}")
    ndim = len(sizes)
    for k in range(ndim):
        shape[k] = as_int64(sizes[k], "shape", ArgumentError)
        if shape[k] < 0:
            raise InterfaceError(f"shape: negative size {shape[k]} in dimension {k}")
    if mv_count_elements(ndim, shape, item) < 0:
        raise InterfaceError(f"shape {int64_tuple(shape, ndim)}: items of {item} bytes do not fit an address space")
    if steps is None:
        mv_c_strides(ndim, shape, item, strides)
        return ndim
    steps = list_items(steps)
    if len(steps) != ndim:
        raise InterfaceError(f"strides: {len(steps)} for {ndim} dimensions")
    for k in range(ndim):
        strides[k] = as_int64(steps[k], "strides", ArgumentError)
    return ndim


cdef int apply_index(mv_desc *d, object key) except -1:
    """Apply a basic index (integers, slices, Ellipsis, None) to a descriptor; size and flags remain to be derived."""
    cdef mv_desc whole = d[0]
    cdef tuple parts = list_items(key) if isinstance(key, tuple) else (key,)
    cdef bint masked = (d.flags & MV_HAS_MASK) != 0, bits = (d.flags & MV_MASK_BITS) != 0, rest_given = False
    cdef int most = dimensions_held(d)
    cdef int axis = 0, ndim = 0, consumed = 0, kept = 0, k
    cdef Py_ssize_t start, stop, step, count
    cdef int64_t offset = 0, mask_offset = 0, bit_offset = 0, i
    for part in parts:
        if part is Ellipsis:
            if rest_given:
                raise IndexingError("index: only one Ellipsis can stand for the other dimensions")
            rest_given = True
        elif part is None:
            kept += 1
        else:
            consumed += 1
            kept += isinstance(part, slice)
    if consumed > whole.ndim:
        raise IndexingError(f"index: the view has {whole.ndim} dimensions, got {consumed} indices")
    if kept + whole.ndim - consumed > most:
        raise ShapeError(f"index: {kept + whole.ndim - consumed} dimensions result, a "
                         f"{'masked ' if masked else ''}view has at most {most}")
    for part in parts if rest_given else (*parts, Ellipsis):
        if part is None:
            set_axis(d, ndim, 1, 0, 0)
            ndim += 1
        elif part is Ellipsis:
            for _ in range(whole.ndim - consumed):
                set_axis(d, ndim, whole.shape[axis], whole.strides[axis], whole.mask_stride[axis] if masked else 0)
                ndim += 1
                axis += 1
        elif isinstance(part, slice):
            try:
                PySlice_Unpack(part, &start, &stop, &step)
            except Exception as cause:
                raise ArgumentError(f"index: {cause}") from cause
            count = PySlice_AdjustIndices(whole.shape[axis], &start, &stop, step)
            if count == 0:
                start, step = 0, 1
            if bits and step != 1 and count > 1:
                raise ZeroCopyError("index: a bitmap mask is read in steps of 1 only; index view.data and view.mask")
            bit_offset += start  # bitmaps have one dimension
            # A step that is never taken may be of any size; NumPy, too, lets the stride of such an axis wrap.
            set_axis(d, ndim, count, wrapping_product(whole.strides[axis], step),
                     wrapping_product(whole.mask_stride[axis], step) if masked else 0)
            if whole.size:
                offset += start * whole.strides[axis]
                mask_offset += start * whole.mask_stride[axis] if masked else 0
            ndim += 1
            axis += 1
        else:
            i = as_int64(part, "index: integers, slices, Ellipsis and None select without a copy, "
                               "np.asarray(view)[...] makes one", IndexingError)
            if i < -whole.shape[axis] or i >= whole.shape[axis]:
                raise IndexingError(f"index: {i} is out of bounds for axis {axis} with size {whole.shape[axis]}")
            i += whole.shape[axis] if i < 0 else 0
            bit_offset += i
            if whole.size:
                offset += i * whole.strides[axis]
                mask_offset += i * whole.mask_stride[axis] if masked else 0
            axis += 1
    for k in range(ndim, whole.ndim):
        set_axis(d, k, 0, 0, 0)
    d.ndim = ndim
    d.data = <char *>whole.data + offset
    if bits:
        d.mask_offset = whole.mask_offset + bit_offset
    elif masked:
        d.mask = whole.mask + mask_offset
    return 0


cdef int dimensions_held(const mv_desc *d) noexcept:
    """Return the most dimensions a view can have: a descriptor holds 8, a byte mask 2, a bitmap 1."""
    return MV_MAX_NDIM if not d.flags & MV_HAS_MASK else 1 if d.flags & MV_MASK_BITS else 2


cdef int transpose(mv_desc *d) noexcept:
    """Reverse the order of the dimensions."""
    cdef int k, n = d.ndim
    for k in range(n // 2):
        d.shape[k], d.shape[n - 1 - k] = d.shape[n - 1 - k], d.shape[k]
        d.strides[k], d.strides[n - 1 - k] = d.strides[n - 1 - k], d.strides[k]
    if n == 2:
        d.mask_stride[0], d.mask_stride[1] = d.mask_stride[1], d.mask_stride[0]
    return 0


cdef int apply_shape(mv_desc *d, tuple shape) except -1:
    """Give the same elements in C order another shape; ZeroCopyError if the strides do not allow it."""
    cdef int64_t sizes[8]
    cdef int64_t strides[8]
    cdef int k, ndim = read_shape(shape, d.size, sizes)
    if d.flags & MV_HAS_MASK and (ndim != d.ndim or any([sizes[k] != d.shape[k] for k in range(ndim)])):
        raise MaskError("reshape: the mask has strides of its own; reshape view.data and view.mask")
    if not mv_reshape(d, ndim, sizes, strides):
        raise ZeroCopyError(f"reshape: strides {int64_tuple(d.strides, d.ndim)} of shape "
                            f"{int64_tuple(d.shape, d.ndim)} need a copy to become {int64_tuple(sizes, ndim)}; "
                            "use np.asarray(view).reshape(...)")
    d.ndim = ndim
    for k in range(ndim):
        d.shape[k] = sizes[k]
        d.strides[k] = strides[k]
    return 0


cdef int resize_items(mv_desc *d, object dtype) except -1:
    """Fit items of another size into the last axis, by NumPy's rules for `ndarray.view`."""
    cdef int64_t item = dtype.itemsize, old = d.itemsize, last
    cdef int axis = d.ndim - 1
    if item == old:
        return 0
    if d.flags & MV_HAS_MASK:
        raise MaskError(f"cast({dtype}): a mask belongs to items of {old} bytes; cast view.data")
    if axis < 0 or dtype.subdtype is not None:
        raise LayoutError(f"cast({dtype}): items of {item} bytes for items of {old} need a last axis to spread over")
    last = d.shape[axis]
    if last != 1 and d.size and d.strides[axis] != old:
        raise LayoutError(f"cast({dtype}): the last axis must be contiguous to change the item size, got strides "
                          f"{int64_tuple(d.strides, d.ndim)}")
    if item == 0 or (item < old and old % item) or last * old % item:
        raise LayoutError(f"cast({dtype}): {last} items of {old} bytes do not divide into items of {item}")
    d.shape[axis] = last * old // item
    d.strides[axis] = item
    return 0


cdef int read_shape(tuple shape, int64_t size, int64_t *sizes) except -1:
    """Read the arguments of reshape() for `size` elements; return the number of dimensions."""
    cdef int64_t known
    cdef int k, ndim, unknown = -1
    if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        shape = list_items(shape[0])
    if len(shape) > MV_MAX_NDIM:
        raise ShapeError(f"reshape: {len(shape)} dimensions, a view has at most {MV_MAX_NDIM}")
    ndim = len(shape)
    for k in range(ndim):
        sizes[k] = as_int64(shape[k], "reshape", ArgumentError)
        if sizes[k] == -1 and unknown < 0:
            unknown = k
            sizes[k] = 1
        elif sizes[k] < 0:
            raise ShapeError("reshape: expected sizes of at least 0 and at most one -1")
    known = mv_count_elements(ndim, sizes, 1)
    if unknown >= 0 and known > 0 and size % known == 0:
        sizes[unknown] = size // known
    elif unknown >= 0 or known != size:
        raise ShapeError(f"reshape: {size} elements do not fill the shape {int64_tuple(sizes, ndim)}"
                         + (f" with dimension {unknown} open" if unknown >= 0 else ""))
    return ndim


cdef int fill_buffer(Py_buffer *buffer, mv_desc *d, bytes format, object dtype, int flags) except -1:
    """Fill a buffer request from a descriptor, except for `obj`.

    The pointers refer to the descriptor and the format, which must stay valid as long as the export."""
    cdef str wanted = None
    if flags & PyBUF_FORMAT and format is None:
        hint = "view.cast('i8') for the integers" if dtype.kind in "Mm" else "its fields"
        raise ZeroCopyError(f"the buffer protocol has no format for dtype {dtype}; use {hint}, or np.asarray(view), "
                            "which keeps the dtype")
    if flags & PyBUF_WRITABLE and d.flags & MV_READONLY:
        raise ReadOnlyError("buffer export: a writable buffer was asked of a read-only view")
    if not d.flags & MV_C_CONTIGUOUS and (asks(flags, PyBUF_C_CONTIGUOUS) or not asks(flags, PyBUF_STRIDES)):
        wanted = "C order"
    elif not d.flags & MV_F_CONTIGUOUS and asks(flags, PyBUF_F_CONTIGUOUS):
        wanted = "Fortran order"
    elif not d.flags & (MV_C_CONTIGUOUS | MV_F_CONTIGUOUS) and asks(flags, PyBUF_ANY_CONTIGUOUS):
        wanted = "contiguous memory"
    if wanted is not None:
        raise LayoutError(f"buffer export: the consumer needs {wanted}, got strides {int64_tuple(d.strides, d.ndim)} "
                          f"of shape {int64_tuple(d.shape, d.ndim)}")
    buffer.buf = d.data
    buffer.len = d.size * <int64_t>d.itemsize
    buffer.itemsize = d.itemsize
    buffer.readonly = (d.flags & MV_READONLY) != 0
    buffer.ndim = d.ndim if flags & PyBUF_ND else 1  # without a shape: a row of bytes, as memoryview and bytes do
    buffer.format = <char *>format if flags & PyBUF_FORMAT else NULL
    buffer.shape = <Py_ssize_t *>d.shape if flags & PyBUF_ND and d.ndim else NULL
    buffer.strides = <Py_ssize_t *>d.strides if asks(flags, PyBUF_STRIDES) and d.ndim else NULL
    buffer.suboffsets = NULL
    buffer.internal = NULL
    return 0


cdef inline bint asks(int flags, int request) noexcept:
    return flags & request == request  # requests are several bits, which share some


cdef tuple int64_tuple(const int64_t *values, int n):
    return tuple([values[k] for k in range(n)])


cdef tuple list_items(object values):
    """Return the stored items of a list or tuple, whatever the iterator of a subclass yields."""
    return (<tuple>values)[:] if isinstance(values, tuple) else tuple((<list>values)[:])


cdef inline void set_axis(mv_desc *d, int k, int64_t size, int64_t stride, int64_t mask_stride) noexcept:
    d.shape[k] = size
    d.strides[k] = stride
    if k < 2:
        d.mask_stride[k] = mask_stride


cdef inline int64_t wrapping_product(int64_t a, int64_t b) noexcept:
    return <int64_t>(<uint64_t>a * <uint64_t>b)
