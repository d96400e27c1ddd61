"""Declarations of the ring's C headers."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef extern from "sharing/ring/operations.h" nogil:
    enum:
        MV_RING_SPSC
        MV_RING_MPSC
        MV_RING_BROADCAST
        MV_RING_RECORDER
        MV_RING_SLOTS
        MV_RING_LINE
        MV_RING_HEADER
        MV_RING_CTL_BYTES
        MV_RING_CLAIM_AT
        MV_FRAME_DATA
        MV_FRAME_ABORTED
        MV_FRAME_USER
        MV_FLAG_BEGIN
        MV_FLAG_END
        MV_FLAG_WHOLE
        MV_FLAG_CRC
        MV_RING_OK
        MV_RING_EMPTY
        MV_RING_FULL
        MV_RING_TOO_BIG
        MV_RING_BROKEN
        MV_RING_LAPPED
        MV_RING_CORRUPT
        MV_RING_GAP
        MV_RING_SHORT_BUFFER
        MV_BREAK_CRC
        MV_LOCK_PRODUCER
        MV_LOCK_CONSUMER
        MV_LOCK_SLOT
        MV_ASK_INTERVAL_NS
        MV_SIDE_NONE
        MV_SIDE_ACTIVE
        MV_SIDE_CLOSED
        MV_PRODUCER
        MV_CONSUMER
        MV_WAIT_SPIN
        MV_WAIT_HYBRID
        MV_WAIT_FUTEX
        MV_WAIT_POLL
        MV_WAIT_EVENT
        MV_WAIT_SPIN_NS

    ctypedef struct mv_ring_waitqueue:
        pass
    ctypedef struct mv_ring_ctl:
        uint64_t start_seq, clock
        mv_ring_waitqueue data, space
    ctypedef struct mv_ring_break:
        uint64_t pos, seq
        int seq_known, reason
    ctypedef struct mv_ring_frame:
        uint64_t pos, seq, t_ns
        const uint8_t *payload
        uint32_t length, crc
        uint8_t type, flags
        uint16_t source
    ctypedef struct mv_ring:
        mv_ring_ctl *ctl
        uint8_t *data
        uint64_t capacity, mask
        int mode, crc, readonly, observer, slot
        uint64_t tail, next_seq, pos, released, bytes, lost, resyncs
        mv_ring_break broken
    ctypedef struct mv_ring_stats:
        uint64_t tail, head, written, bytes, dropped, frames, lost, broken, crc_errors, resyncs, unblocked
        uint32_t producer_pid, consumer_pid, data_waiters, space_waiters
        int producer, consumer
    ctypedef int (*mv_ring_condition)(mv_ring *, uint64_t)

    uint64_t mv_ring_start(const mv_ring *r)
    void mv_ring_format(mv_ring_ctl *ctl, uint64_t start, uint64_t seq)
    int mv_ring_open(mv_ring *r, void *payload, uint64_t bytes, uint64_t capacity, int mode, int crc)
    int mv_clock_calibrate(mv_ring_ctl *ctl)
    uint64_t mv_ring_now(const mv_ring_ctl *ctl)
    uint64_t mv_monotonic_ns()
    uint64_t mv_max_payload(const mv_ring *r)
    uint32_t mv_crc32c(uint32_t crc, const void *src, size_t n)
    bint mv_ring_lossy(const mv_ring *r)

    int mv_ring_has_data(mv_ring *r, uint64_t observer)
    int mv_ring_has_room(mv_ring *r, uint64_t n)
    int mv_ring_has_space(mv_ring *r, uint64_t nbytes)
    uint64_t mv_fragment_payload(const mv_ring *r)
    uint64_t mv_fragments_bytes(mv_ring *r, uint64_t n)
    int mv_spsc_room(mv_ring *r, uint64_t need)
    uint64_t mv_mpsc_fill(mv_ring *r, uint64_t pos, const uint8_t *src, uint64_t n, int type, int flags, uint64_t t_ns)
    int mv_ring_wait(mv_ring *r, mv_ring_waitqueue *queue, mv_ring_condition test, uint64_t argument, int strategy,
                     uint64_t spin_ns, uint64_t deadline, int round)
    void mv_ring_wake(mv_ring_waitqueue *queue)
    void mv_pause()

    int mv_spsc_produce(mv_ring *r)
    int mv_spsc_claim(mv_ring *r, uint64_t n, uint8_t **payload)
    uint64_t mv_spsc_commit(mv_ring *r, uint64_t n, int type, int flags, uint64_t t_ns, uint32_t crc)
    int mv_spsc_consume(mv_ring *r)
    int mv_mpsc_acquire_slot(mv_ring *r, int slot, uint32_t pid)
    int mv_mpsc_claim(mv_ring *r, uint64_t n, int type, int flags, uint64_t *pos)
    uint8_t *mv_mpsc_payload(const mv_ring *r, uint64_t pos)
    uint64_t mv_mpsc_commit(mv_ring *r, uint64_t pos, uint64_t n, int type, int flags, uint64_t t_ns, uint32_t crc)
    int mv_mpsc_consume(mv_ring *r)
    void mv_mpsc_measure_gap(mv_ring *r)
    int mv_mpsc_unblock(mv_ring *r, uint64_t alive)
    int mv_lossy_produce(mv_ring *r)
    int mv_lossy_write(mv_ring *r, const uint8_t *src, uint64_t n, int type, int flags, uint64_t seq, uint64_t t_ns)
    int mv_lossy_attach(mv_ring *r, int oldest)
    int mv_lossy_next(mv_ring *r, uint8_t *dst, uint64_t room, mv_ring_frame *f)
    int mv_lossy_seek(mv_ring *r, uint64_t seq)
    uint64_t mv_lossy_tail(const mv_ring *r)
    int mv_recorder_recover(mv_ring *r)

    void mv_ring_publish(mv_ring *r)
    int mv_ring_put(mv_ring *r, const uint8_t *src, uint64_t n, int type, int flags, uint64_t t_ns, uint64_t *seq)
    int mv_ring_send(mv_ring *r, const uint8_t *src, uint64_t n, int type, uint64_t *seq)
    int64_t mv_ring_put_many(mv_ring *r, const uint8_t *src, int64_t count, uint64_t n, int64_t stride, int type,
                             uint64_t t_ns, uint64_t *seq)
    int mv_ring_peek(mv_ring *r, mv_ring_frame *out, int max, int verify)
    void mv_ring_release(mv_ring *r, uint64_t upto)
    int64_t mv_ring_take_many(mv_ring *r, uint8_t *dst, int64_t count, uint64_t n, int64_t stride,
                              mv_ring_frame *last)
    int mv_ring_take(mv_ring *r, uint8_t *dst, uint64_t room, mv_ring_frame *f)

    int mv_ring_side(const mv_ring *r, int side)
    uint32_t mv_ring_side_pid(const mv_ring *r, int side)
    void mv_ring_set_side(mv_ring *r, int side, int state, uint32_t pid)
    uint32_t mv_ring_slot_owner(const mv_ring *r, int slot)
    void mv_ring_release_slot(mv_ring *r)
    void mv_ring_assign_slot(mv_ring *r, int slot, uint32_t pid)
    void mv_ring_read_stats(mv_ring *r, mv_ring_stats *n)
    void mv_ring_count_dropped(mv_ring *r, uint64_t n)
    void mv_ring_count_read(mv_ring *r, uint64_t frames, uint64_t broken, uint64_t crc_errors)
