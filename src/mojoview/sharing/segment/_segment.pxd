from libc.stdint cimport int64_t, uint64_t

from mojoview.sharing.segment._header cimport (
    MV_KIND_ARRAY, MV_KIND_FRAME, MV_KIND_RING_BROADCAST, MV_KIND_RING_MPSC, MV_KIND_RING_SPSC, MV_KIND_SNAPSHOT, MV_KIND_STATE,
    MV_LOCK_ATTACHED, MV_LOCK_OWNER, MV_LOCK_ROW, MV_OWNER_ACTIVE, MV_SEGMENT_HEADER, mv_segment,
)


cdef extern from "sharing/segment/segment.h" nogil:
    ctypedef struct mv_byte_lock:
        int fd
        int forked


cdef uint64_t forks() noexcept  # grows at each fork, in parent and child

cdef class Mapping:
    """Bytes of a segment in this address space; unmapped when the last view on it is gone."""
    cdef char *base
    cdef size_t size
    cdef readonly bint writable


cdef class Segment:
    cdef readonly Mapping mapping       # the whole segment; None after close(). Views hold it too, and outlive the handle
    cdef mv_segment *header             # the start of `mapping`
    cdef int fd                         # the description that is mapped: carries the "attached" lock, is what handles pass on
    cdef mv_byte_lock owner_lock        # on a description of its own, never mapped
    cdef bint committed
    cdef bytes hidden                   # name of a file on its way to its own; empty where files can be nameless
    cdef readonly str name              # what the user called it, or a random name where it is anonymous
    cdef readonly str path              # None where anonymous
    cdef readonly bytes uuid
    cdef readonly dict facts            # the header's constants, read once from a checked copy
    cdef object __weakref__

    cdef char *address(self, int64_t offset, int64_t bytes) except NULL
    cdef int require_owner(self, str operation) except -1
    cdef Mapping map_part(self, int64_t offset, int64_t bytes, bint writable)


cdef class ByteLock:
    cdef mv_byte_lock lock
