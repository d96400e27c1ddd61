from libc.stdint cimport uint64_t

from mojoview.sharing.ring._batch cimport Handle
from mojoview.sharing.segment._segment cimport ByteLock, Segment
from mojoview.sharing.ring.operations cimport mv_ring


cdef class RingBase:
    cdef Handle handle               # None once closed
    cdef readonly Segment segment
    cdef readonly object dtype       # structured dtype of the records; None: bytes
    cdef ByteLock producer           # our seat as a producer; None before the first write
    cdef uint64_t record_bytes       # of the dtype; 0: any number of bytes is a message
    cdef int wait, full              # of WAITS, FULL
    cdef bint observer               # looks at a lossless ring without taking
    cdef bint wait_for_peer                 # waits on where the other side is gone
    cdef bint strict                 # raises what is broken
    cdef bint writing, reading       # a thread is in there without the GIL
    cdef bint claimed                # the one claim of an SPSC ring is open
    cdef bint started                # reading has begun
    cdef readonly bint ended         # the producer closed, and all was read
    cdef uint64_t spin_ns
    cdef uint64_t asked              # when we last asked the kernel who lives
    cdef object start                # where a lossy reader begins: "newest", "oldest" or a sequence number
    cdef Py_ssize_t open_claims
    cdef public object _arm          # of the bell; None until fileno()

    cdef mv_ring *ring(self, str operation) except NULL
    cdef object corrupt(self)
    cdef object busy(self, str operation)
    cdef int stand_up(self) noexcept
    cdef int become_producer(self) except -1
    cdef int become_consumer(self) except -1
    cdef bint side_gone(self, int side) except -1
    cdef int wait_for_room(self, uint64_t n, uint64_t deadline) except? -99
    cdef int wait_for_data(self, uint64_t deadline) except? -99
    cdef bint soon(self, mv_ring *r) noexcept
    cdef int nothing(self) except? -99
    cdef int unblock(self) except? -99


cpdef uint64_t whole(object value, str what, uint64_t least=*, uint64_t most=*) except? 0
cdef int frame_type(object type) except -1
cpdef uint64_t deadline_of(object timeout) except? 0
