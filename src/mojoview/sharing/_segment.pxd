from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef extern from "segment.h" nogil:
    enum:
        MV_KIND_STATE
        MV_KIND_SNAPSHOT
        MV_KIND_RING_SPSC
        MV_KIND_RING_MPSC
        MV_KIND_RING_BROADCAST
        MV_KIND_ARRAY
        MV_KIND_FRAME
        MV_SEGMENT_OK
        MV_SEGMENT_HEADER
        MV_SEGMENT_LINE
        MV_SEGMENT_TEXT
        MV_SEGMENT_NAME
        MV_SEGMENT_PARAMS
        MV_SEGMENT_MAJOR
        MV_SEGMENT_MINOR
        MV_SEGMENT_ORDER
        MV_OWNER_NONE
        MV_OWNER_ACTIVE
        MV_OWNER_CLOSED
        MV_LOCK_OWNER
        MV_LOCK_ATTACHED
        MV_LOCK_ROW

    const uint32_t MV_SEGMENT_SEALED
    const uint32_t MV_SEGMENT_FILE
    const uint32_t MV_SEGMENT_FORTRAN

    ctypedef struct mv_segment:
        uint16_t abi_major, abi_minor
        uint32_t header_bytes
        uint32_t kind, flags
        uint32_t byte_order
        uint16_t word_bytes, line_bytes
        uint64_t segment_bytes
        uint64_t payload_off, payload_bytes
        uint64_t schema_hash
        uint8_t uuid[16]
        uint8_t boot_id[16]
        uint32_t creator_pid, creator_uid
        uint64_t creator_start
        uint64_t created_ns
        uint32_t header_crc
        uint32_t ndim, itemsize
        uint32_t dtype_bytes, tag_bytes
        int64_t shape[8]
        int64_t strides[8]
        int64_t params[8]
        char name[560]
        char text[3072]

    ctypedef struct mv_owner:
        int fd
        int forked


cdef class Mapping:
    """Bytes of a segment in this address space; unmapped when the last view on it is gone."""
    cdef char *base
    cdef size_t size
    cdef readonly bint writable


cdef class Segment:
    cdef readonly Mapping mapping       # the whole segment; None after close(). Views hold it too, and outlive the handle
    cdef mv_segment *header             # the start of `mapping`
    cdef int fd                         # the description that is mapped: carries the "attached" lock, is what handles pass on
    cdef mv_owner owner                 # on a description of its own, never mapped
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
    cdef mv_owner owner
