from libc.stdint cimport uint32_t, uint64_t

from mojoview.memory._lease cimport Lease
from mojoview.sharing.ring._batch cimport Batch
from mojoview.sharing.ring._producer cimport RingWriter
from mojoview.sharing.ring.operations cimport mv_ring_frame, mv_ring


cdef class RingReader(RingWriter):
    cdef mv_ring_frame *scratch           # headers of the frames of one look
    cdef int scratch_room
    cdef mv_ring_frame newest             # header of the message that was read last
    cdef readonly object broken      # the last BrokenFrames
    cdef object pending              # a BrokenFrame that waits for the frames before it to be read
    cdef Batch waiting               # messages that were taken and not handed over, likewise
    cdef dict parts                  # fragments by source: [first number, next number, pieces]
    cdef readonly uint64_t frames_read, overruns, abandoned, breaks, crc_errors
    cdef uint64_t lost_before

    cdef mv_ring *sit(self, str operation) except NULL
    cdef bint copies(self) noexcept
    cdef Batch take_ready(self)
    cdef int reserve(self, int count) except -1
    cdef Batch read_in_place(self, int limit)
    cdef Batch read_copies(self, int limit)
    cdef int cannot_read(self, int rc) except -1
    cdef object collect(self, const mv_ring_frame *f)
    cdef int note_break(self, bint later) except -1
    cdef bint in_order(self) noexcept
    cdef uint32_t took(self, mv_ring *r) noexcept
    cdef object copy_out(self, Lease lease, object timeout)
