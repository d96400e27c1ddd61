from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t

from mojoview.calls.call_args cimport mv_fault, mv_call_args, mv_spec
from mojoview.memory.abi cimport mv_desc


cdef object argument_error_of(object signature, const mv_spec *spec, const uint8_t *array_at, PyObject *const *args, mv_call_args *frame, int status,
                   mv_fault fault)
cdef object no_loop_error(object signature, str name, const mv_desc *d)
cdef int check_input(object signature, str name, object obj, mv_desc *d) except -1
cdef int raise_status(object signature, object origin, int64_t word) except -1
