from libc.stdint cimport uint8_t

from cpython.object cimport PyObject
from mojoview.calls._compiled_signature cimport mv_signature
from mojoview.calls._sizes cimport mv_sizes
from mojoview.calls.call_args cimport mv_driver, mv_foreign, mv_fast_plan, mv_spec


ctypedef PyObject *(*vectorcallfunc)(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames) except NULL
ctypedef int (*mv_result_type)(const void *ctx, int type) noexcept nogil


cdef enum:
    GIL_WORTH = 4096  # elements from which the GIL is let go: that and taking it back costs some 40 ns
    OPTION_NONE = 0
    OPTION_DDOF
    OPTION_COMPARISON


cdef class Kernel:
    cdef vectorcallfunc vectorcall
    cdef mv_signature compiled
    cdef mv_foreign foreign          # how a foreign function is called; its address is 0 for built-in kernels
    cdef mv_fast_plan plain              # what the fast way compares
    cdef mv_spec spec
    cdef mv_sizes sizes              # arguments of it that nobody gives
    cdef mv_driver driver            # what runs a built-in kernel
    cdef const void *context
    cdef mv_result_type result_type  # built-in reductions: dtype of the result; NULL where nothing comes back
    cdef int option                  # an argument beside the signature's own: one of OPTION_...
    cdef object call_signature            # inspect.Signature
    cdef object handler              # called instead, with the arguments as they came; None for most kernels
    cdef bint needs_conversion                 # some arguments are not the caller's to pass
    cdef object plan                 # what calls of a foreign function may leave out
    cdef object origin               # makes the exceptions of failures; None for most kernels
    cdef object keeper               # keeps the code loaded
    cdef readonly object signature
    cdef object __weakref__


# For the modules that make kernels and run them on many arrays.
cdef Kernel native_kernel(object signature, mv_driver driver, const void *context, mv_result_type result_type,
                          int option, int flags)

# The parts of a call; `own`: one object for each parameter.
cdef int validate_bound(Kernel self, tuple own) except -1
cdef object invoke_with_options(Kernel self, tuple own, dict options)
