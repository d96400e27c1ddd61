from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t, uintptr_t

from cpython.buffer cimport Py_buffer
from cpython.object cimport PyObject
from mojoview.kernels._pool cimport mv_run
from mojoview.kernels._sizes cimport mv_sizes
from mojoview.memory.abi cimport mv_desc, mv_value


cdef extern from "numeric.h" nogil:
    ctypedef int32_t (*mv_driver)(const void *ctx, mv_desc *const *args, const mv_value *values, mv_value *result,
                                  const mv_run *run) noexcept nogil


cdef extern from "checks.h" nogil:
    enum:
        MV_MAX_PARAMS
        MV_TAKES_MASKS
        MV_TAKES_STRIDES
        MV_TAKES_SAME
        MV_EQUAL_SHAPES
    ctypedef struct mv_array_param:
        uint8_t code
        uint8_t bits
        signed char ndim
        uint8_t writes
        uint8_t contiguous
        uint8_t scalar
    ctypedef struct mv_spec:
        int arrays
        int flags
        mv_array_param array[14]
    ctypedef struct mv_fault:
        int which
        int other


cdef extern from "foreign.h" nogil:
    ctypedef struct mv_foreign:
        uintptr_t address
        int params
        int returns
        int gives
        uint8_t pass_ "pass"[14]


cdef extern from "frame.h":
    ctypedef struct mv_frame:
        mv_desc desc[14]
        mv_desc *args[15]
        mv_value values[15]
        int64_t number[14]
        PyObject *view[14]
        Py_buffer buffer[14]
        int views
        int buffers
    ctypedef struct mv_plain:
        int arrays
        int direct


ctypedef object (*vectorcallfunc)(object callable, PyObject *const *args, size_t nargsf, PyObject *kwnames)
ctypedef int (*mv_result_type)(const void *ctx, int type) noexcept nogil


cdef enum:
    GIL_WORTH = 4096  # elements from which the GIL is let go: that and taking it back costs some 40 ns
    OPTION_NONE = 0
    OPTION_DDOF
    OPTION_COMPARISON


cdef class Kernel:
    cdef vectorcallfunc vectorcall
    cdef mv_spec spec
    cdef mv_plain plain              # what the fast way compares
    cdef mv_foreign foreign          # how a foreign function is called; its address is 0 for built-in kernels
    cdef mv_sizes sizes              # arguments of it that nobody gives
    cdef mv_driver driver            # what runs a built-in kernel
    cdef const void *context
    cdef mv_result_type result_type  # built-in reductions: dtype of the result; NULL where nothing comes back
    cdef int params
    cdef uint8_t array_at[14]        # parameters that are arrays, in order
    cdef uint8_t value_at[14]        # and those that are scalars
    cdef int common                  # the first array that has the common dtype, or -1
    cdef uint8_t value_code[14]      # scalars in their order; bits 0: the arrays' common dtype
    cdef uint8_t value_bits[14]
    cdef int values
    cdef int option                  # an argument beside the signature's own: one of OPTION_...
    cdef uint8_t return_code
    cdef uint8_t return_bits
    cdef object call_form            # inspect.Signature
    cdef object handler              # called instead, with the arguments as they came; None for most kernels
    cdef bint helped                 # some arguments are not the caller's to pass
    cdef object plan                 # what calls of a foreign function may leave out
    cdef object origin               # makes the exceptions of failures; None for most kernels
    cdef object keeper               # keeps the code loaded
    cdef readonly object signature
    cdef object __weakref__


# For the modules that make kernels and run them on many arrays.
cdef Kernel native_kernel(object signature, mv_driver driver, const void *context, mv_result_type result_type,
                          int option, int flags)
cdef int acquire(object obj, bint writes, bint masks, mv_frame *frame, int at, str operation) except -1
cdef void let_go(mv_frame *frame) noexcept
cdef int check_input(object signature, str name, object obj, mv_desc *d) except -1
cdef int raise_status(object signature, int64_t word) except -1
cdef object python_value(mv_value value, const mv_desc *d)

# The parts of a call; `own`: one object for each parameter.
cdef int check_bound(Kernel self, tuple own) except -1
cdef object invoke_bound(Kernel self, tuple own, dict options)
