"""What a check or a kernel has refused, as exceptions."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memset

from mojoview.calls._scalars cimport dtype_of_desc
from mojoview.calls.call_args cimport (
    MV_TAKES_MASKS, MV_TAKES_STRIDES, mv_array_param, mv_check_call, mv_fault, mv_call_args, mv_spec, mv_type_index, raise_pending,
)
from mojoview.memory.abi cimport MV_E_DTYPE, MV_E_INTERRUPTED, MV_SWAPPED, mv_desc

from mojoview.calls.binding import kernel_error, argument_error


cdef extern from "Python.h":
    PyObject *PyErr_Occurred()


cdef object argument_error_of(object signature, const mv_spec *spec, const uint8_t *array_at, PyObject *const *args, mv_call_args *frame, int status,
                   mv_fault fault):
    """The exception for arguments that the check or the kernel's table of loops refused."""
    cdef const mv_array_param *wanted = &spec.array[fault.which]
    arrays = [p for p in signature.params if p.role != "value"]
    objects = [<object>args[array_at[k]] for k in range(spec.arrays)]
    wants = arrays[fault.which].dtype
    if wants == "T":
        first = next(k for k, p in enumerate(arrays) if p.dtype == "T")
        wants = None if fault.which == first else str(dtype_of_desc(frame.args[first]))
    return argument_error(signature, status, f"argument '{arrays[fault.which].name}'", described(objects[fault.which], frame.args[fault.which]),
                   arrays[fault.other].name if fault.other >= 0 else None,
                   described(objects[fault.other], frame.args[fault.other]) if fault.other >= 0 else None,
                   wants, wanted.ndim, frame.args[fault.which].flags & MV_SWAPPED != 0, wanted.contiguous != 0)


cdef tuple described(object obj, const mv_desc *d):
    return (type(obj).__name__, d.dtype_code, d.dtype_bits, d.logical, tuple([d.shape[k] for k in range(d.ndim)]),
            tuple([d.strides[k] for k in range(d.ndim)]))


cdef object no_loop_error(object signature, str name, const mv_desc *d):
    return argument_error(signature, MV_E_DTYPE, name, described(None, d), None, None, None, 0, False, False)


cdef int check_input(object signature, str name, object obj, mv_desc *d) except -1:
    """One array of any shape, strides and mask that is only read."""
    cdef mv_spec spec
    cdef mv_fault fault
    memset(&spec, 0, sizeof(spec))
    spec.arrays = 1
    spec.flags = MV_TAKES_MASKS | MV_TAKES_STRIDES
    spec.array[0].ndim = -1
    cdef int status = mv_check_call(&spec, &d, &fault)
    if status:
        raise argument_error(signature, status, name, described(obj, d), None, None, None, -1, d.flags & MV_SWAPPED != 0, False)
    if mv_type_index(d) < 0:
        raise no_loop_error(signature, name, d)
    return 0


cdef int raise_status(object signature, object origin, int64_t word) except -1:
    """The exception for a failure word; an interrupt has set its own. `origin`: knows where the source stands, or None."""
    cdef int status = <int>(word & 0xff)
    if status == MV_E_INTERRUPTED and PyErr_Occurred() is not NULL:
        raise_pending()
    index = (word >> 8) - 1 if word >> 8 > 0 else None
    if origin is None or status == MV_E_INTERRUPTED:
        raise kernel_error(signature, status, index)
    raise origin.failure(signature, status, index)
