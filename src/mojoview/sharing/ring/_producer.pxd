from libc.stdint cimport int64_t, uint8_t, uint64_t

from mojoview.memory._lease cimport Lease
from mojoview.sharing.ring._handle cimport Handle
from mojoview.sharing.ring.operations cimport mv_ring_condition
from mojoview.views._view cimport View


cdef class Producer:
    cdef Handle handle
    cdef int full                # of FULL
    cdef bint writing            # a thread writes without the GIL
    cdef bint claimed            # the one claim of an SPSC ring is open
    cdef Py_ssize_t open_claims

    cdef int prepare(self, uint64_t n, str operation) except -1
    cdef int acquire(self) except -1
    cdef object write(self, object buffer, object type, object timeout)
    cdef object write_bytes(self, const uint8_t *src, uint64_t n, int type, object timeout)
    cdef bint make_room(self, uint64_t n, uint64_t deadline) except -1
    cdef int wait_for_room(self, uint64_t n, uint64_t deadline) except? -99
    cdef int wait_for_space(self, uint64_t nbytes, uint64_t deadline) except? -99
    cdef int wait_until(self, mv_ring_condition has_room, uint64_t n, uint64_t deadline) except? -99
    cdef object claim_fragments(self, const uint8_t *src, uint64_t n, int type, uint64_t whole)
    cdef object refuse_large(self, uint64_t n, uint64_t whole)
    cdef object write_large(self, const uint8_t *src, uint64_t n, int type, uint64_t deadline)
    cdef int64_t write_many(self, object rows, object type, object timeout) except -1
    cdef uint64_t resume(self) except? 0
    cdef int append(self, object frame, uint64_t seq, uint64_t timestamp_ns, int type) except -1
    cdef Claim claim(self, object nbytes, object type, object timeout)
    cdef int begin_claim(self, uint64_t n, int type, object timeout, uint64_t *pos, uint8_t **payload) except -1
    cdef uint64_t end_claim(self, uint64_t pos, const uint8_t *payload, uint64_t n, int type, bint good) noexcept


cdef class Claim:
    cdef Producer producer       # in whose ring the space is
    cdef uint64_t nbytes, pos
    cdef uint8_t *payload
    cdef int type
    cdef object timeout
    cdef View view               # while the block runs
    cdef object staging          # lossy rings: memory of the message's own
    cdef readonly object seq


cdef bint has_meaning_of(Handle handle, object buffer)
cdef Lease without_objects(Lease lease, str operation)
cdef (int64_t, int64_t) matrix(object dtype, Lease lease, str operation) except *
