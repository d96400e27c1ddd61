from libc.stdint cimport int64_t, uint8_t, uint64_t

from mojoview.memory._lease cimport Lease
from mojoview.sharing.segment._segment cimport ByteLock, Mapping, Segment
from mojoview.sharing.ring.operations cimport mv_ring_frame, mv_ring


cdef class Handle:
    cdef mv_ring ring
    cdef Mapping mapping         # the memory that `ring` points into; regions, and so views, keep the handle
    cdef ByteLock consumer       # None before the first read; regions give bytes back only while it is held
    cdef bint closing            # the seat is given up when the last region is gone
    cdef uint64_t *ends          # regions that were handed out, oldest first: a queue in an array
    cdef uint8_t *over
    cdef Py_ssize_t first, count, room
    cdef uint64_t serial         # of the oldest

    cdef object hand_out(self)
    cdef int settle(self, uint64_t serial) noexcept
    cdef int give_back(self) noexcept
    cdef int leave(self) noexcept


cdef class Region:
    cdef Handle handle           # in whose memory the frames lie
    cdef uint64_t serial


cdef class Batch:
    cdef mv_ring_frame *frames
    cdef int count
    cdef Lease lease             # on the region, or on the copy; None once released
    cdef list views              # weak references to the views that were handed out
    cdef object dtype            # the ring's records; None: bytes
    cdef Py_ssize_t exports      # consumers of a frame's own buffer


cdef class Frame:
    cdef Batch batch
    cdef mv_ring_frame *info          # in the batch
    cdef Py_ssize_t shape[1]


cdef Batch make_batch(object owner, const mv_ring_frame *frames, int count, object dtype)
cdef Frame one_frame(Batch batch, int k)
