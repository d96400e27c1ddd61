from cpython.object cimport PyObject

from mojoview.calls._compiled_signature cimport mv_signature, mv_sizes
from mojoview.calls.call_args cimport mv_driver, mv_fast_plan, mv_foreign, mv_spec


ctypedef PyObject *(*vectorcallfunc)(
    PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames
) except NULL
ctypedef int (*mv_result_type)(const void *ctx, int type) noexcept nogil


cdef enum:
    GIL_WORTH = 4096  # elements from which the GIL is released: releasing and acquiring it costs some 40 ns
    OPTION_NONE = 0
    OPTION_DDOF
    OPTION_COMPARISON


cdef class Kernel:
    cdef vectorcallfunc vectorcall
    cdef mv_signature compiled
    cdef mv_foreign foreign          # how a foreign function is called; its address is 0 for built-in kernels
    cdef mv_fast_plan fast           # what the fast path compares
    cdef mv_spec spec
    cdef mv_sizes sizes              # arguments that the call fills in
    cdef mv_driver driver            # runs a built-in kernel
    cdef const void *context
    cdef mv_result_type result_type  # built-in reductions: dtype of the result; NULL for other kernels
    cdef int option                  # an argument beside the signature's own: one of OPTION_...
    cdef object call_signature       # inspect.Signature
    cdef object handler              # called instead, with the arguments as given; None for most kernels
    cdef bint needs_conversion       # some arguments are converted, whatever the caller passes
    cdef object plan                 # foreign functions: the ArgumentPlan
    cdef object origin               # makes the exceptions of failures; None for most kernels
    cdef object keeper               # keeps the code loaded
    cdef readonly object signature
    cdef object __weakref__


# For built-in kernels.
cdef Kernel native_kernel(
    object signature, mv_driver driver, const void *context, mv_result_type result_type, int option, int flags
)
