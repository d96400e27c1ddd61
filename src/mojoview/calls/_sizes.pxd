from libc.stdint cimport int32_t, int64_t, uint8_t

from mojoview.memory.abi cimport mv_desc, mv_value


cdef extern from "calls/sizes.h" nogil:
    ctypedef struct mv_size:
        int64_t value
        int64_t most
        int place
        int count
        uint8_t array[14]
        signed char axis[14]
    ctypedef struct mv_sizes:
        int count
        int passed
        mv_size size[14]


# For the call: reads the sizes of a signature, and fills them in.
cdef int compile_sizes(mv_sizes *sizes, object signature, uint8_t *passes, int *params, uint8_t how) except -1
cdef int fill_sizes(const mv_sizes *sizes, object signature, mv_desc *const *arrays, mv_value *scalars, int given) except -1
