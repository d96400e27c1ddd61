from libc.stdint cimport int64_t, uint8_t, uint64_t

from mojoview.memory._lease cimport Lease
from mojoview.sharing.ring._handle cimport RingBase
from mojoview.views._view cimport View


cdef class RingWriter(RingBase):
    cdef int ready(self, uint64_t n) except -1
    cdef object write_bytes(self, const uint8_t *src, uint64_t n, int type, object timeout)
    cdef bint make_room(self, uint64_t n, uint64_t deadline) except -1
    cdef object write_large(self, const uint8_t *src, uint64_t n, int type, uint64_t deadline)
    cdef int enter_claim(self, uint64_t n, int type, object timeout, uint64_t *pos, uint8_t **payload) except -1
    cdef object leave_claim(self, uint64_t pos, const uint8_t *payload, uint64_t n, int type, bint good)


cdef class Claim:
    cdef RingWriter ring         # whose room it is
    cdef uint64_t nbytes, pos
    cdef uint8_t *payload
    cdef int type
    cdef object timeout
    cdef View view               # while the block runs
    cdef object staging          # lossy rings: the message's own memory
    cdef readonly object seq


cdef Lease plain(Lease lease, str operation)
cdef (int64_t, int64_t) matrix(RingWriter ring, Lease lease, str operation) except *
