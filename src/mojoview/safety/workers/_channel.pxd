from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from mojoview.memory.abi cimport mv_value


cdef extern from "safety/workers/channel.h" nogil:
    ctypedef struct mv_crash:
        uint64_t begun
        uint64_t refused
        uint64_t arena
    ctypedef struct mv_letter:
        uint32_t count
        int64_t word
        uint8_t kind[16]
        mv_value value[15]
    ctypedef struct mv_spin:
        pass
    ctypedef struct mv_post:
        mv_crash crash
        mv_letter request, answer


cdef class Post:
    cdef mv_post *post
    cdef mv_letter *out      # to the other side
    cdef mv_letter *into     # from it
    cdef uint64_t seen       # letters from it
    cdef int channel
    cdef mv_spin spin        # of mv_post_wait(), as is the next
    cdef int asleep
