from cpython.object cimport PyObject
from mojoview.calls.call_args cimport mv_call_args, mv_fast_plan


# What they take is held until release_arguments().
cdef int acquire(object obj, bint writes, bint masks, mv_call_args *frame, int at, str operation) except -1
cdef bint get_fast_buffers(const mv_fast_plan *plain, PyObject *const *args, mv_call_args *frame) except -1
cdef void release_arguments(mv_call_args *frame) noexcept
