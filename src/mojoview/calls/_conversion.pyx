"""Conversion of Python objects to descriptors and scalars and back, and the errors of arguments that do not fit."""

from cpython.buffer cimport PyBUF_FULL_RO, Py_buffer
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t, uint8_t, uintptr_t
from libc.string cimport memset

from mojoview.calls.call_args cimport (
    MV_TAKES_MASKS, MV_TAKES_STRIDES, mv_array_param, mv_call_args, mv_check_call, mv_desc_from_array, mv_fast_plan,
    mv_fault, mv_spec, mv_store_value, mv_type_index, raise_pending,
)
from mojoview.memory._lease cimport get_buffer, release_buffer
from mojoview.memory.abi cimport (
    MV_ALIGNED, MV_BOOL, MV_C_CONTIGUOUS, MV_E_DTYPE, MV_E_INTERRUPTED, MV_F_CONTIGUOUS, MV_FLOAT, MV_INT, MV_MAX_NDIM,
    MV_READONLY, MV_SWAPPED, MV_UINT, mv_desc, mv_value,
)
from mojoview.views._view cimport View, view_enter, view_leave

import array
import mmap

import numpy as np

from mojoview.calls.errors import argument_error, kernel_error, scalar_error
from mojoview.memory._dtype import dtype_of_code
from mojoview.memory.errors import ArgumentError, DTypeError, ShapeError
from mojoview.views import view
from mojoview.views._construct import has_accessor


cdef extern from "Python.h":
    PyObject *PyErr_Occurred()

cdef extern from "views/geometry.h" nogil:
    int mv_desc_derive(mv_desc *d, int64_t alignment)

cdef extern from "calls/native/ndarray.h":
    bint mv_desc_of_ndarray(mv_desc *d, object source)

cdef type NDARRAY = np.ndarray
# Buffer exporters of the standard library: they have no attribute to recognise them by.
cdef object ARRAY = array.array, MMAP = mmap.mmap

cdef dict RANGES = {str(np.dtype(c)): (int(np.iinfo(c).min), int(np.iinfo(c).max)) for c in "bhiqBHIQ"}
# NumPy dtypes in the order of MV_T_BOOL to MV_T_F64
cdef list DTYPES = [np.dtype(name) for name in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")]


# -- arrays -----------------------------------------------------------------------------------------------------------

cdef int acquire(object obj, bint writes, bint masks, mv_call_args *call, int index, str operation) except -1:
    """Fill call.args[index] from an array of any kind; release_arguments() releases what it holds."""
    call.args[index] = &call.desc[index]
    if type(obj) is NDARRAY and mv_desc_of_ndarray(call.args[index], obj):
        return 0
    if is_standard_exporter(obj):
        if acquire_buffer(obj, writes, call, index):
            return 0
    elif isinstance(obj, View):
        return enter(call, index, <View>obj)
    elif has_accessor(obj):
        column = obj.mojo.view(na="mask") if masks else obj.mojo.view()
        if not isinstance(column, View):
            raise ArgumentError(f"{operation}(): expected one array or column, got a {type(obj).__name__}")
        return enter(call, index, <View>column)
    shared = view(obj, writable=writes)
    if not isinstance(shared, View):  # Arrow's strings, bits, lists and chunks are not a single array
        raise DTypeError(f"{operation}(): expected one array whose items have their bytes in place, got a "
                         f"{type(shared).__name__}; take its parts or its chunks, or "
                         "mojoview.view(obj, copy='if_needed')")
    return enter(call, index, <View>shared)


cdef bint get_fast_buffers(const mv_fast_plan *plan, PyObject *const *args, mv_call_args *call) except -1:
    """Acquire buffers of the non-ndarray arguments; false if one is not a standard-library exporter."""
    cdef int k
    if plan.arrays == 0:
        return False
    for k in range(plan.arrays):
        obj = <object>args[plan.array[k].param]
        if type(obj) is not NDARRAY:
            if not is_standard_exporter(obj):
                return False
            get_buffer(obj, &call.buffer[call.buffers], PyBUF_FULL_RO)
            call.buffers += 1
    return True


cdef void release_arguments(mv_call_args *call) noexcept:
    """Release the views and buffers that the call holds."""
    cdef int k
    for k in range(call.views):
        view_leave(<View>call.view[k])
        Py_DECREF(<View>call.view[k])
    for k in range(call.buffers):
        release_buffer(&call.buffer[k])
    call.views = call.buffers = 0


cdef inline int enter(mv_call_args *call, int index, View entered) except -1:
    """Keep a view from being released while the call runs."""
    call.args[index] = view_enter(entered)
    Py_INCREF(entered)
    call.view[call.views] = <PyObject *>entered
    call.views += 1
    return 0


cdef inline bint is_standard_exporter(object obj) noexcept:
    return (
        type(obj) is ARRAY or type(obj) is memoryview or type(obj) is bytes or type(obj) is bytearray
        or type(obj) is MMAP
    )


cdef inline bint acquire_buffer(object obj, bint writes, mv_call_args *call, int index) except -1:
    """Describe an exporter's buffer; false if view() must report its fault."""
    get_buffer(obj, &call.buffer[call.buffers], PyBUF_FULL_RO)
    call.buffers += 1
    cdef const Py_buffer *buffer = &call.buffer[call.buffers - 1]
    return not (writes and buffer.readonly) and fill_from_buffer(buffer, call.args[index])


cdef bint fill_from_buffer(const Py_buffer *buffer, mv_desc *d) noexcept:
    """Describe a buffer of plain native numbers; false if it is of another kind or inconsistent."""
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
        mv_desc_from_array(d, buffer.buf, buffer.ndim, <int64_t *>buffer.shape, <int64_t *>buffer.strides, code,
                           log2item, 0)
        if mv_desc_derive(d, stride) or d.size << log2item != buffer.len:
            return False
    if buffer.readonly:
        d.flags |= MV_READONLY
    return True


cdef object allocate_output(mv_call_args *call, int inputs, int axis, int type):
    """Return a new array for the result along an axis; it is the argument after the inputs."""
    cdef mv_desc *d = call.args[0]
    shape = tuple([d.shape[k] for k in range(d.ndim) if k != axis])
    out = np.empty(shape, dtype_of_type(type, d))
    mv_desc_of_ndarray(&call.desc[inputs], out.view(np.int64) if out.dtype.kind in "mM" else out)
    call.args[inputs] = &call.desc[inputs]
    return out


cdef int reduced_axis(str name, object axis, int ndim) except? -1:
    """Return the axis, not negative; NO_AXIS for the only axis of a 1-D array: its reduction is one number."""
    if not hasattr(axis, "__index__") or isinstance(axis, bool):
        raise ArgumentError(f"{name}(): axis: expected None or an int, got {axis.__class__.__name__}")
    number = axis.__index__()
    if not -ndim <= number < ndim:
        raise ShapeError(f"{name}(): axis {number} is out of range for {ndim} dimension(s)")
    return number % ndim if ndim > 1 else NO_AXIS


# -- scalars ----------------------------------------------------------------------------------------------------------

cdef bint is_number(object obj):
    return isinstance(obj, (float, int, np.generic))


cdef int convert_any_scalar(object signature, int param, object obj, int code, int bits, mv_value *value) except -1:
    """Convert a Python number to a scalar of the dtype: integers exactly, never through a float."""
    cdef str name = signature.params[param].name if param >= 0 else "ddof"  # -1: the option of var() and std()
    if code == MV_FLOAT:
        if not isinstance(obj, (float, int, np.floating, np.integer, np.bool_)):
            raise scalar_error(signature, name, f"float{bits}", obj, True)
        try:
            value.f64 = float(obj)
        except OverflowError:
            raise scalar_error(signature, name, f"float{bits}", obj, False) from None
        if bits == 16:  # rounded once, as NumPy does: kernels compute in float32
            with np.errstate(over="ignore", under="ignore"):
                value.f64 = float(np.float16(value.f64))
        return 0
    if code == MV_BOOL:
        if not isinstance(obj, (bool, np.bool_)):
            raise scalar_error(signature, name, "bool", obj, True)
        value.i64 = 1 if obj else 0
        return 0
    dtype = f"{'u' if code == MV_UINT else ''}int{bits}"
    if not isinstance(obj, (int, np.integer)):
        raise scalar_error(signature, name, dtype, obj, True)
    number = int(obj)
    low, high = RANGES[dtype]
    if not low <= number <= high:
        raise scalar_error(signature, name, dtype, obj, False)
    if code == MV_UINT:
        value.u64 = number
    else:
        value.i64 = number
    return 0


cdef int broadcast_scalar(
    object signature, int index, int param, object obj, mv_desc *template, mv_call_args *call
) except -1:
    """Fill call.args[index] with an array shaped like `template` whose elements are all one number (strides of 0)."""
    cdef mv_value value
    cdef mv_desc *d = &call.desc[index]
    cdef int k
    convert_scalar(signature, param, obj, template.dtype_code, template.dtype_bits, &value)
    d[0] = template[0]
    mv_store_value(<char *>&call.number[index], mv_type_index(template), value)
    d.data = &call.number[index]
    for k in range(d.ndim):
        d.strides[k] = 0
    d.stride[0] = d.stride[1] = 0
    d.flags = MV_ALIGNED | MV_READONLY
    call.args[index] = d
    return 0


cdef object dtype_of_desc(const mv_desc *d):
    try:
        return dtype_of_code(d.dtype_code, d.dtype_bits, d.logical)
    except DTypeError:
        return "an opaque dtype"


cdef object dtype_of_type(int type, const mv_desc *d):
    """Return the NumPy dtype of one of MV_T_BOOL to MV_T_F64; of the array for MV_T_TIME."""
    return DTYPES[type] if type < len(DTYPES) else dtype_of_desc(d)


cdef object scalar_result(int type, mv_value value, const mv_desc *d):
    """Return a reduction's result as a Python number, or as a NumPy scalar for datetimes and timedeltas."""
    if type == 0:
        return value.i64 != 0
    if type <= 4:
        return value.i64
    if type <= 8:
        return value.u64
    if type < len(DTYPES):
        return value.f64
    return np.int64(value.i64).view(dtype_of_desc(d))


cdef object python_value(mv_value value, const mv_desc *d):
    """Return an element kept in an accumulator in the array's dtype."""
    return scalar_result(mv_type_index(d), value, d)


cdef object returned_scalar(mv_value returned, int code, int bits):
    """Return the result of a foreign function; bits of a register above the result's width are undefined."""
    cdef int unused = 64 - bits
    if code == MV_FLOAT:
        return returned.f64
    if code == MV_BOOL:
        return (returned.i64 & 1) != 0  # the ABIs define only bit 0 of a returned bool
    if code == MV_UINT:
        return returned.u64 << unused >> unused
    return <int64_t>(returned.u64 << unused) >> unused


# -- errors -----------------------------------------------------------------------------------------------------------

cdef object refused_argument(
    object signature, const mv_spec *spec, const uint8_t *array_at, PyObject *const *args, mv_call_args *call,
    int status, mv_fault fault
):
    """Return the exception for an argument that mv_check_call() refused."""
    cdef const mv_array_param *wanted = &spec.array[fault.which]
    cdef const mv_desc *d = call.args[fault.which]
    arrays = [p for p in signature.params if p.role != "value"]
    dtype, other = arrays[fault.which].dtype, None
    if dtype == "T":
        first = next(k for k, p in enumerate(arrays) if p.dtype == "T")
        dtype = None if fault.which == first else str(dtype_of_desc(call.args[first]))
    if fault.other >= 0:
        other = (arrays[fault.other].name, tuple([call.args[fault.other].shape[k]
                                                  for k in range(call.args[fault.other].ndim)]))
    return argument_error(signature, status, f"argument '{arrays[fault.which].name}'",
                          described(<object>args[array_at[fault.which]], d), other, dtype, wanted.ndim,
                          d.flags & MV_SWAPPED != 0, wanted.contiguous != 0)


cdef tuple described(object obj, const mv_desc *d):
    return (type(obj).__name__, d.dtype_code, d.dtype_bits, d.logical, tuple([d.shape[k] for k in range(d.ndim)]),
            tuple([d.strides[k] for k in range(d.ndim)]))


cdef object no_loop_error(object signature, str name, const mv_desc *d):
    return argument_error(signature, MV_E_DTYPE, name, described(None, d))


cdef int check_input(object signature, str name, object obj, mv_desc *d) except -1:
    """Check an array of any shape, strides and mask that is only read."""
    cdef mv_spec spec
    cdef mv_fault fault
    memset(&spec, 0, sizeof(spec))
    spec.arrays = 1
    spec.flags = MV_TAKES_MASKS | MV_TAKES_STRIDES
    spec.array[0].ndim = -1
    cdef int status = mv_check_call(&spec, &d, &fault)
    if status:
        raise argument_error(signature, status, name, described(obj, d), swapped=d.flags & MV_SWAPPED != 0)
    if mv_type_index(d) < 0:
        raise no_loop_error(signature, name, d)
    return 0


cdef int raise_status(object signature, object origin, int64_t word) except -1:
    """Raise the exception of a failure word; after an interrupt the one already set.

    `origin` is the kernel's SourceLocation or None.
    """
    cdef int status = <int>(word & 0xff)
    if status == MV_E_INTERRUPTED and PyErr_Occurred() is not NULL:
        raise_pending()
    index = (word >> 8) - 1 if word >> 8 > 0 else None
    if origin is None or status == MV_E_INTERRUPTED:
        raise kernel_error(signature, status, index)
    raise origin.failure(signature, status, index)
