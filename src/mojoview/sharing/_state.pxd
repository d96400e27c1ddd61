from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from mojoview.sharing._published cimport Published


cdef extern from "latch.h" nogil:
    ctypedef struct mv_latch_ref:
        char *base
        uint64_t mask
        uint64_t stride
        uint64_t bytes
    enum:
        MV_LATCH_NONE
        MV_LATCH_READ
        MV_LATCH_BUSY
        MV_LATCH_GONE
    uint64_t mv_latch_latest(const mv_latch_ref *r)
    uint64_t mv_latch_write(const mv_latch_ref *r, const void *record, uint64_t time_ns)
    int mv_latch_read_at(const mv_latch_ref *r, uint64_t n, void *record, uint64_t *time_ns)
    int mv_latch_read(const mv_latch_ref *r, void *record, uint64_t *number, uint64_t *time_ns, uint64_t *retries)


cdef class State(Published):
    cdef mv_latch_ref latch         # for nogil readers: mv_latch_read(&state.latch, ...); base is NULL once closed
    cdef char *record               # the memory of `out`
    cdef readonly uint64_t number   # of the publication that `record` holds
    cdef bint reads                 # made as a reader: `out` is only written by refresh()
    cdef object number_object       # the same as a Python integer, made by refresh()
    cdef uint64_t time_ns           # when it was made
    cdef uint64_t retried
    cdef bint sleepers_known
    cdef void *mutex                # native lock of several writer threads; NULL without
    cdef readonly object out        # ndarray on memory that we own, so that nobody can resize it away
    cdef readonly object lock       # RLock, with lock=True
    cdef object store               # what owns `record`
