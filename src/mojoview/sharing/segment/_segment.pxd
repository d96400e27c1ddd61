from libc.stdint cimport int64_t, uint64_t

from mojoview.sharing.segment._header cimport (
    MV_KIND_ARRAY, MV_KIND_FRAME, MV_KIND_RING_BROADCAST, MV_KIND_RING_MPSC, MV_KIND_RING_SPSC, MV_KIND_SNAPSHOT,
    MV_KIND_STATE,
    MV_LOCK_ATTACHED, MV_LOCK_OWNER, MV_LOCK_ROW, MV_OWNER_ACTIVE, MV_SEGMENT_HEADER, mv_segment,
)


cdef extern from "sharing/segment/segment.h" nogil:
    ctypedef struct mv_byte_lock:
        int fd
        int forked


cdef uint64_t forks() noexcept  # number of forks so far, in parent and child

cdef class Mapping:
    cdef char *base
    cdef size_t size
    cdef readonly bint writable


cdef class Segment:
    cdef readonly Mapping mapping       # the whole segment; None after close(). Views hold it too
    cdef mv_segment *header             # the start of `mapping`
    cdef int fd                         # the mapped description; holds the "attached" lock
    cdef mv_byte_lock owner_lock        # on a description of its own, never mapped
    cdef bint committed
    cdef bytes hidden                   # provisional file name; empty if files can be nameless
    cdef readonly str name              # given by the user, or random if anonymous
    cdef readonly str path              # None if anonymous
    cdef readonly bytes uuid
    cdef readonly dict facts            # constants of the checked header
    cdef object __weakref__

    cdef char *address(self, int64_t offset, int64_t bytes) except NULL
    cdef int require_owner(self, str operation) except -1
    cdef Mapping map_part(self, int64_t offset, int64_t bytes, bint writable)


cdef class ByteLock:
    cdef mv_byte_lock lock
