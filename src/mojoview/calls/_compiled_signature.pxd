from libc.stdint cimport int64_t, uint8_t

from mojoview.calls.call_args cimport MV_MAX_PARAMS, mv_foreign, mv_spec
from mojoview.memory.abi cimport mv_desc, mv_value


cdef struct mv_signature:
    int params
    uint8_t array_at[MV_MAX_PARAMS]    # parameters that are arrays, in order
    int common                         # the first array that has the common dtype, or -1
    uint8_t value_at[MV_MAX_PARAMS]    # parameters that are scalars, in order
    uint8_t value_code[MV_MAX_PARAMS]
    uint8_t value_bits[MV_MAX_PARAMS]  # 0: the arrays' common dtype
    int values
    uint8_t return_code
    uint8_t return_bits

cdef extern from "calls/native/sizes.h" nogil:
    ctypedef struct mv_size:
        int64_t value
        int64_t most
        int place
        int count
        uint8_t array[MV_MAX_PARAMS]
        signed char axis[MV_MAX_PARAMS]
    ctypedef struct mv_sizes:
        int count
        int passed
        mv_size size[MV_MAX_PARAMS]


cdef int compile_signature(object signature, mv_signature *compiled, mv_spec *spec, mv_foreign *foreign) except -1
cdef int compile_result(object signature, mv_signature *compiled, mv_spec *spec, mv_foreign *foreign) except -1
cdef int compile_sizes(mv_sizes *sizes, object signature, mv_foreign *foreign) except -1
cdef int fill_sizes(
    const mv_sizes *sizes, object signature, mv_desc *const *arrays, mv_value *scalars, int given
) except -1
cdef int check_splittable(
    object signature, const mv_spec *spec, const mv_foreign *foreign, mv_desc *const *arrays
) except -1
