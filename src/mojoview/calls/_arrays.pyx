"""From an object to a descriptor: ndarrays, views, columns, and whatever exports a buffer."""

from cpython.buffer cimport PyBUF_FULL_RO, Py_buffer
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t, uintptr_t

from mojoview.calls.call_args cimport mv_desc_from_array, mv_call_args, mv_fast_plan
from mojoview.memory.abi cimport (
    MV_ALIGNED, MV_BOOL, MV_C_CONTIGUOUS, MV_F_CONTIGUOUS, MV_FLOAT, MV_INT, MV_MAX_NDIM, MV_READONLY, MV_UINT, mv_desc,
)
from mojoview.memory._lease cimport get_buffer, release_buffer
from mojoview.views._view cimport View, view_enter, view_leave

import array
import mmap

import numpy as np

from mojoview.memory.errors import ArgumentError, DTypeError
from mojoview.views import view
from mojoview.views._construct import has_accessor


cdef extern from "views/layout.h" nogil:
    int mv_desc_derive(mv_desc *d, int64_t alignment)

cdef extern from "calls/ndarray.h":
    bint mv_desc_of_ndarray(mv_desc *d, object source)

cdef type NDARRAY = np.ndarray


cdef bint fill_from_buffer(const Py_buffer *buffer, mv_desc *d) noexcept:
    """False where the buffer is none of plain native numbers, or does not hang together."""
    cdef const char *format = b"B"
    cdef int64_t shape = 0, stride = buffer.itemsize
    cdef int code, log2item
    if buffer.format is not NULL:
        format = buffer.format
    if format[0] in (c"@", c"=", c"<"):
        format += 1
    if format[0] == 0 or format[1] != 0 or buffer.ndim > MV_MAX_NDIM or buffer.suboffsets is not NULL:
        return False
    if format[0] in (c"b", c"h", c"i", c"l", c"q", c"n"):
        code = MV_INT
    elif format[0] in (c"B", c"H", c"I", c"L", c"Q", c"N"):
        code = MV_UINT
    elif format[0] in (c"e", c"f", c"d"):
        code = MV_FLOAT
    elif format[0] == c"?":
        code = MV_BOOL
    else:
        return False
    log2item = 3 if stride == 8 else 2 if stride == 4 else 1 if stride == 2 else 0
    if stride != 1 << log2item:
        return False
    if buffer.ndim == 1 and (buffer.strides is NULL or buffer.strides[0] == stride):
        shape = buffer.len >> log2item
        if buffer.shape is not NULL and buffer.shape[0] != shape:
            return False
        mv_desc_from_array(d, buffer.buf, 1, &shape, &stride, code, log2item, MV_C_CONTIGUOUS | MV_F_CONTIGUOUS
                           | (MV_ALIGNED if <uintptr_t>buffer.buf & (stride - 1) == 0 else 0))
    elif buffer.shape is NULL or buffer.strides is NULL:
        return False
    else:
        mv_desc_from_array(d, buffer.buf, buffer.ndim, <int64_t *>buffer.shape, <int64_t *>buffer.strides, code, log2item, 0)
        if mv_desc_derive(d, stride) or d.size << log2item != buffer.len:
            return False
    if buffer.readonly:
        d.flags |= MV_READONLY
    return True


cdef inline int enter(mv_call_args *frame, int at, View entered) except -1:
    frame.args[at] = view_enter(entered)
    Py_INCREF(entered)
    frame.view[frame.views] = <PyObject *>entered
    frame.views += 1
    return 0


cdef void release_arguments(mv_call_args *frame) noexcept:
    """Ends what the call took."""
    cdef int k
    for k in range(frame.views):
        view_leave(<View>frame.view[k])
        Py_DECREF(<View>frame.view[k])
    for k in range(frame.buffers):
        release_buffer(&frame.buffer[k])
    frame.views = frame.buffers = 0


# Exporters of the standard library, which have no other way to be looked for.
cdef object ARRAY = array.array, MMAP = mmap.mmap


cdef inline bint is_plain_exporter(object obj) noexcept:
    return (type(obj) is ARRAY or type(obj) is memoryview or type(obj) is bytes or type(obj) is bytearray or type(obj) is MMAP)


cdef bint get_fast_buffers(const mv_fast_plan *plain, PyObject *const *args, mv_call_args *frame) except -1:
    """The buffers of all arguments that are no ndarrays; False where one is no exporter of the standard library."""
    cdef int k
    if plain.arrays == 0:
        return False
    for k in range(plain.arrays):
        obj = <object>args[plain.array[k].at]
        if type(obj) is not NDARRAY:
            if not is_plain_exporter(obj):
                return False
            get_buffer(obj, &frame.buffer[frame.buffers], PyBUF_FULL_RO)
            frame.buffers += 1
    return True


cdef inline bint take_buffer(object obj, bint writes, mv_call_args *frame, int at) except -1:
    """False where view() has to look."""
    get_buffer(obj, &frame.buffer[frame.buffers], PyBUF_FULL_RO)
    frame.buffers += 1
    return not (writes and frame.buffer[frame.buffers - 1].readonly) and fill_from_buffer(&frame.buffer[frame.buffers - 1],
                                                                                        frame.args[at])


cdef int acquire(object obj, bint writes, bint masks, mv_call_args *frame, int at, str operation) except -1:
    """Fills frame.args[at] from an array of any kind; what it takes is held until release_arguments()."""
    frame.args[at] = &frame.desc[at]
    if type(obj) is NDARRAY and mv_desc_of_ndarray(frame.args[at], obj):
        return 0
    if is_plain_exporter(obj):
        if take_buffer(obj, writes, frame, at):
            return 0
    elif isinstance(obj, View):
        return enter(frame, at, <View>obj)
    elif has_accessor(obj):
        column = obj.mojo.view(na="mask") if masks else obj.mojo.view()
        if not isinstance(column, View):
            raise ArgumentError(f"{operation}(): expected one array or column, got a {type(obj).__name__}")
        return enter(frame, at, <View>column)
    shared = view(obj, writable=writes)
    if not isinstance(shared, View):  # Arrow's strings, bits, lists and chunks have no array of their own
        raise DTypeError(f"{operation}(): expected one array whose items have their bytes in place, got a "
                         f"{type(shared).__name__}; take its parts or its chunks, or mojoview.view(obj, copy='if_needed')")
    return enter(frame, at, <View>shared)
