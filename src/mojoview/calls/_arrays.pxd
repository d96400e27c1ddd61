from cpython.object cimport PyObject
from mojoview.calls.call_args cimport mv_frame, mv_plain


# What they take is held until let_go().
cdef int acquire(object obj, bint writes, bint masks, mv_frame *frame, int at, str operation) except -1
cdef bint borrow_plain(const mv_plain *plain, PyObject *const *args, mv_frame *frame) except -1
cdef void let_go(mv_frame *frame) noexcept
