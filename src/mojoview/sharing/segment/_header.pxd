from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef extern from "sharing/segment/segment.h" nogil:
    enum:
        MV_KIND_STATE
        MV_KIND_SNAPSHOT
        MV_KIND_RING_SPSC
        MV_KIND_RING_MPSC
        MV_KIND_RING_BROADCAST
        MV_KIND_ARRAY
        MV_KIND_FRAME
        MV_SEGMENT_OK
        MV_SEGMENT_TRUNCATED
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
    uint32_t mv_segment_closed(const mv_segment *h)
    uint32_t mv_segment_owner_state(const mv_segment *h)
    uint32_t mv_segment_owner_pid(const mv_segment *h)
    uint64_t mv_segment_owner_start(const mv_segment *h)
    uint64_t mv_segment_epoch(const mv_segment *h)


cdef uint64_t process_start() except? 0
cdef int fill_header(
    mv_segment *h, int kind, uint32_t flags, int64_t total, int64_t payload_off, int64_t payload_bytes,
    uint64_t schema_hash, bytes uuid, uint32_t itemsize, tuple shape, tuple strides, tuple params, bytes name,
    bytes dtype_text, bytes tag,
) except -1
cdef dict header_facts(const mv_segment *h)
cdef bint alive(int fd, uint32_t state, uint32_t pid, uint64_t start, bytes boot_id) except -1
