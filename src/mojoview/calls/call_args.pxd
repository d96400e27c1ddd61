"""The C structures of a call."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t, uintptr_t

from cpython.buffer cimport Py_buffer
from cpython.object cimport PyObject
from mojoview.calls._thread_pool cimport mv_run
from mojoview.memory.abi cimport mv_desc, mv_value


cdef extern from "calls/native/parallel.h" nogil:
    ctypedef int32_t (*mv_driver)(
        const void *ctx, mv_desc *const *args, const mv_value *values, mv_value *result, const mv_run *run
    ) noexcept nogil

cdef extern from "memory/numeric.h" nogil:
    enum:
        MV_NTYPES
    int mv_type_index(const mv_desc *d)
    void mv_store_value(char *p, int type, mv_value v)


cdef extern from "calls/native/checks.h" nogil:
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
        mv_array_param array[MV_MAX_PARAMS]
    ctypedef struct mv_fault:
        int which
        int other
    int32_t mv_check_call(const mv_spec *spec, mv_desc *const *d, mv_fault *fault)


cdef extern from "calls/native/foreign_call.h" nogil:
    enum:
        MV_INT_REGISTERS
        MV_PASS_DESC
        MV_PASS_POINTER
        MV_PASS_INT
        MV_PASS_F64
        MV_PASS_F32
        MV_GIVES_NOTHING
        MV_GIVES_STATUS
        MV_GIVES_STATUS_INDEX
        MV_GIVES_VALUE
        MV_RETURN_NOTHING
        MV_RETURN_INT
        MV_RETURN_F64
        MV_RETURN_F32
    ctypedef struct mv_foreign:
        uintptr_t address
        int params
        int returns
        int gives
        uint8_t pass_ "pass"[MV_MAX_PARAMS]
    bint mv_foreign_fits(const mv_foreign *f)
    mv_value mv_foreign_call(const mv_foreign *f, mv_desc *const *arrays, const mv_value *scalars)
    int64_t mv_foreign_word(const mv_foreign *f, mv_value returned)
    int64_t mv_foreign_run(
        const mv_foreign *f, mv_desc *const *arrays, const mv_value *scalars, int count, const mv_run *run
    )


cdef extern from "calls/native/call_args.h":
    ctypedef struct mv_call_args:
        mv_desc desc[MV_MAX_PARAMS]
        mv_desc *args[MV_MAX_PARAMS + 1]
        mv_value values[MV_MAX_PARAMS + 1]
        int64_t number[MV_MAX_PARAMS]
        PyObject *view[MV_MAX_PARAMS]
        Py_buffer buffer[MV_MAX_PARAMS]
        int views
        int buffers
    ctypedef struct mv_fast_param:
        int param
    ctypedef struct mv_fast_plan:
        int arrays
        int direct_arity
        mv_fast_param array[MV_MAX_PARAMS]
    int raise_pending "mv_raise_pending"() except -1
    void mv_desc_from_array(
        mv_desc *d, void *data, int ndim, const int64_t *shape, const int64_t *strides, int code, int log2item,
        uint64_t flags
    ) nogil
