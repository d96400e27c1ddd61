from libc.stdint cimport uint8_t

from mojoview.calls.call_args cimport mv_foreign, mv_spec


cdef struct mv_signature:
    int params
    uint8_t array_at[14]    # parameters that are arrays, in order
    int common              # the first array that has the common dtype, or -1
    uint8_t value_at[14]    # parameters that are scalars, in order
    uint8_t value_code[14]
    uint8_t value_bits[14]  # 0: the arrays' common dtype
    int values
    uint8_t return_code
    uint8_t return_bits


cdef int compile_signature(object signature, mv_signature *form, mv_spec *spec, mv_foreign *foreign) except -1
cdef int compile_result(object signature, mv_signature *form, mv_spec *spec, mv_foreign *foreign) except -1
