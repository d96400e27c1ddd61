from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t

from mojoview.calls.call_args cimport mv_call_args, mv_fast_plan, mv_fault, mv_spec
from mojoview.memory.abi cimport MV_FLOAT, mv_desc, mv_value


# Arrays. What these acquire is held until release_arguments().
cdef int acquire(object obj, bint writes, bint masks, mv_call_args *call, int index, str operation) except -1
cdef bint get_fast_buffers(const mv_fast_plan *plan, PyObject *const *args, mv_call_args *call) except -1
cdef void release_arguments(mv_call_args *call) noexcept
cdef object allocate_output(mv_call_args *call, int inputs, int axis, int type)

cdef enum:
    NO_AXIS = -1

cdef int reduced_axis(str name, object axis, int ndim) except? -1

# Scalars.
cdef bint is_number(object obj)
cdef int convert_any_scalar(object signature, int param, object obj, int code, int bits, mv_value *value) except -1
cdef int broadcast_scalar(
    object signature, int index, int param, object obj, mv_desc *template, mv_call_args *call
) except -1
cdef object scalar_result(int type, mv_value value, const mv_desc *d)
cdef object python_value(mv_value value, const mv_desc *d)
cdef object returned_scalar(mv_value returned, int code, int bits)

# Errors.
cdef object refused_argument(
    object signature, const mv_spec *spec, const uint8_t *array_at, PyObject *const *args, mv_call_args *call,
    int status, mv_fault fault
)
cdef object no_loop_error(object signature, str name, const mv_desc *d)
cdef int check_input(object signature, str name, object obj, mv_desc *d) except -1
cdef int raise_status(object signature, object origin, int64_t word) except -1


cdef inline int convert_scalar(object signature, int param, object obj, int code, int bits, mv_value *value) except -1:
    """Convert a Python number to a scalar of the dtype, the common case inline."""
    if type(obj) is float and code == MV_FLOAT and bits > 16:
        value.f64 = <double>obj
        return 0
    return convert_any_scalar(signature, param, obj, code, bits, value)
