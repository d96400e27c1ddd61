from libc.stdint cimport int64_t, uint32_t, uint64_t

from mojoview.memory._lease cimport Lease
from mojoview.sharing.ring._batch cimport Batch
from mojoview.sharing.ring._handle cimport Handle
from mojoview.sharing.ring.operations cimport mv_ring, mv_ring_frame


cdef class Consumer:
    cdef Handle handle
    cdef object start                # where a lossy reader begins: "newest", "oldest" or a sequence number
    cdef bint strict                 # raises BrokenFrame
    cdef bint reading                # a thread reads without the GIL
    cdef bint started                # is the reader
    cdef bint ended                  # the producer closed, and everything was read
    cdef mv_ring_frame *scratch      # headers of the frames of one read
    cdef int scratch_room
    cdef mv_ring_frame newest        # header of the message that was read last
    cdef object broken               # the last BrokenFrames
    cdef object pending              # a BrokenFrame to raise after the frames before it were returned
    cdef Batch unread_batch          # messages that were taken from the ring and not returned
    cdef list handed_out             # weak references to batches in the ring's memory
    cdef dict parts                  # fragments by source: [first number, next number, pieces]
    cdef uint64_t frames_read, overruns, abandoned, breaks, crc_errors

    cdef mv_ring *prepare(self, str operation) except NULL
    cdef int acquire(self) except -1
    cdef int wait_for_data(self, uint64_t deadline) except? -99
    cdef int detach_batches(self) except -1
    cdef int remember(self, Batch batch) except -1
    cdef bint poll_briefly(self, mv_ring *r) noexcept
    cdef int no_data(self) noexcept
    cdef int skip_dead_claims(self) except? -99
    cdef int fileno(self) except -1
    cdef Batch read(self, object max, object timeout)
    cdef Batch take_deferred(self)
    cdef int reserve(self, int count) except -1
    cdef Batch read_in_place(self, int limit)
    cdef Batch read_copies(self, int limit)
    cdef int check_read(self, int rc) except -1
    cdef object reassemble(self, const mv_ring_frame *f)
    cdef int record_break(self, bint later) except -1
    cdef object read_into(self, object buffer, object timeout)
    cdef bint reads_directly(self) noexcept
    cdef uint32_t finish_copy(self, mv_ring *r) noexcept
    cdef object copy_out(self, Lease lease, object timeout)
    cdef int64_t read_many(self, object rows, object timeout) except -1
    cdef int unread(self, Batch batch, int k) except -1
    cdef int seek(self, object seq) except -1
