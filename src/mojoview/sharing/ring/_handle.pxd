from libc.stdint cimport int64_t, uint8_t, uint64_t

from mojoview.sharing.ring.operations cimport mv_ring, mv_ring_lossy
from mojoview.sharing.segment._segment cimport ByteLock, Mapping, Segment


cdef extern from "sharing/ring/eventfd.h" nogil:
    ctypedef struct mv_notifier:
        mv_ring ring
        uint64_t observer
        int event_fd, lock_fd
        int64_t lock_byte
    void mv_notifier_arm(mv_notifier *n, const mv_ring *r)
    void mv_notifier_stop(mv_notifier *n)
    void mv_notifier_run(mv_notifier *n)


cdef class RingMemory:
    cdef mv_ring ring
    cdef Mapping mapping         # the memory that `ring` points into; regions, and so views, keep it mapped
    cdef ByteLock reader         # None before the first read; regions release bytes only while it is held
    cdef bint closing            # the reader's role is released with the last region
    cdef uint64_t *ends          # regions that were handed out, oldest first: a queue in an array
    cdef uint8_t *over
    cdef Py_ssize_t first, count, room
    cdef uint64_t serial         # of the oldest region

    cdef object hand_out(self)
    cdef int settle(self, uint64_t serial) noexcept
    cdef int release_passed(self) noexcept
    cdef int release_reader(self) noexcept


cdef class Region:
    cdef RingMemory memory       # that the frames are in
    cdef uint64_t serial


cdef class EventNotifier:
    cdef mv_notifier notifier
    cdef RingMemory memory       # that the notifier's copy of the ring points into
    cdef object thread


cdef class Handle:
    cdef RingMemory memory           # None once closed
    cdef mv_ring *ring               # in `memory`; NULL once closed
    cdef readonly Segment segment
    cdef readonly object dtype       # structured dtype of the records; None: bytes
    cdef uint64_t record_bytes       # of the dtype; 0: a message may have any size
    cdef ByteLock producer           # our producer role; None before the first write
    cdef EventNotifier notifier      # None before fileno()
    cdef int wait                    # of WAITS
    cdef bint observer               # reads a lossless ring without consuming
    cdef bint wait_for_peer          # keeps waiting after the peer is gone
    cdef uint64_t spin_ns
    cdef uint64_t asked              # time of the last query which peers are alive
    cdef uint64_t lost               # final count, once closed

    cdef mv_ring *opened(self, str operation) except NULL
    cdef object corrupt(self)
    cdef object busy(self, str operation)
    cdef bint peer_gone(self, int side) except -1
    cdef uint64_t alive_slots(self) except? 0
    cdef int release_roles(self) noexcept


cdef inline bint copies(Handle handle) noexcept:
    """Return whether reading copies: frames of a lossy ring may be overwritten at any time."""
    return handle.observer or mv_ring_lossy(handle.ring)

cdef inline bint holds_producer(Handle handle) noexcept:
    """Return whether this process's handle is a producer; a forked child's is not."""
    return handle.producer is not None and handle.producer.lock.fd >= 0


cdef int frame_type(object type) except -1
cpdef uint64_t deadline_of(object timeout) except? 0
