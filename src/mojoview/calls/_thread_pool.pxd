from libc.stdint cimport int32_t, int64_t


cdef extern from "calls/native/parallel.h" nogil:
    ctypedef int64_t (*mv_task)(void *state, int64_t chunk) noexcept nogil
    ctypedef struct mv_run:
        int64_t (*parallel)(const mv_run *run, int64_t chunks, mv_task task, void *state) noexcept nogil
        int32_t threads
        int32_t axis


cdef int64_t run_parallel(const mv_run *run, int64_t chunks, mv_task task, void *state) noexcept nogil
cdef int thread_count(object threads) except -1
