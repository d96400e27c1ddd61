from libc.stdint cimport int64_t, uint64_t

from mojoview.sharing.segment._segment cimport Mapping, Segment


cdef extern from "memory/futex.h" nogil:
    """
    static inline void mv_publication_notify(void *counter, void *waiters) {
        mv_counter_notify((_Atomic uint64_t *)counter, (_Atomic uint32_t *)waiters);
    }
    """
    void mv_publication_notify(void *counter, void *waiters)


cdef class Publication:
    cdef readonly Segment segment
    cdef Mapping mapping            # keeps the memory valid: other threads may close the segment
    cdef Mapping page               # of the words that readers write to; None until it is needed
    cdef void *counter              # 64-bit word that grows with each publication; NULL once closed
    cdef int number_shift           # bits below the publication's number
    cdef void *waiters             # number of sleeping readers; NULL until needed, or if it is read-only
    cdef readonly object dtype
    cdef object __weakref__

    cdef uint64_t word(self) noexcept
    cdef int check_open(self, str operation) except -1
    cdef int map_waiter_count(self) except -1
    cdef uint64_t wait_for_newer(self, uint64_t number, object timeout) except? 0
