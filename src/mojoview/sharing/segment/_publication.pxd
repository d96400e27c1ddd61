from libc.stdint cimport int64_t, uint64_t

from mojoview.sharing.segment._segment cimport Mapping, Segment


cdef extern from "memory/futex.h" nogil:
    """
    static inline void mv_publication_notify(void *counter, void *sleepers) {
        mv_counter_notify((_Atomic uint64_t *)counter, (_Atomic uint32_t *)sleepers);
    }
    """
    void mv_publication_notify(void *counter, void *sleepers)


cdef class Publication:
    cdef readonly Segment segment
    cdef Mapping mapping            # keeps the memory valid: other threads may close the segment
    cdef Mapping page               # of the words that readers write to, likewise; None until it is needed
    cdef void *counter              # the 64-bit word that grows with each publication; NULL once closed
    cdef int number_shift           # its bits below the publication's number
    cdef void *sleepers             # how many readers sleep; NULL until it is needed, or where it cannot be written to
    cdef readonly object dtype
    cdef object __weakref__

    cdef uint64_t word(self) noexcept
    cdef int check_open(self, str operation) except -1
    cdef int map_waiter_count(self) except -1
    cdef uint64_t wait_for_newer(self, uint64_t number, object timeout) except? 0
