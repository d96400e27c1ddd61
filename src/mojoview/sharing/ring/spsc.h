/* spsc.h: one producer, one consumer, lossless.

   producer   claims a frame beyond `tail`, fills it, publishes `tail`   (one release store a batch)
   consumer   loads `tail`, reads in place, releases bytes by `head`     (one release store a batch)

   Between the two stores a byte belongs to exactly one side, so copies are plain memcpy. Each side caches the other's
   counter and reloads it only if the cached value is not enough (rigtorp SPSCQueue). A producer that dies leaves
   nothing to repair: bytes beyond `tail` are not part of the ring. */
#ifndef MOJOVIEW_RING_SPSC_H
#define MOJOVIEW_RING_SPSC_H

#include "layout.h"

/* Return whether `need` more bytes fit. ACQ: the consumer's reads of those bytes are over before they are
   overwritten. */
static inline int mv_spsc_room(mv_ring *r, uint64_t need) {
    if (r->tail + need - r->head_cache <= r->capacity)
        return MV_RING_OK;
    uint64_t head = mv_atomic_load(&r->ctl->head, memory_order_acquire);
    if (r->tail - head > r->capacity)
        return MV_RING_CORRUPT;
    atomic_thread_fence(memory_order_release); /* an observer that copies a byte of ours sees this `head` */
    r->head_cache = head;
    return r->tail + need - head <= r->capacity ? MV_RING_OK : MV_RING_FULL;
}

static inline int mv_spsc_seal(mv_ring *r, uint64_t pos, uint32_t length, int type, int flags, uint64_t seq,
                               uint64_t t_ns, uint32_t crc) {
    mv_ring_header h = {mv_header_word(length, type, flags, 0), seq, t_ns, crc, 0};
    h.check = mv_header_check(&h, pos);
    memcpy(r->data + (pos & r->mask), &h, sizeof h);
    return MV_RING_OK;
}

/* Reserve `n` contiguous bytes for a payload; it becomes visible by mv_spsc_commit and mv_spsc_publish. */
static inline int mv_spsc_claim(mv_ring *r, uint64_t n, uint8_t **payload) {
    if (n > mv_max_payload(r))
        return MV_RING_TOO_BIG;
    uint64_t rec = mv_record_bytes(n + MV_RING_HEADER), pad = mv_padding(r, r->tail, rec);
    int rc = mv_spsc_room(r, pad + rec);
    if (rc)
        return rc;
    if (pad) {
        mv_spsc_seal(r, r->tail, (uint32_t)pad, MV_FRAME_PAD, MV_FLAG_WHOLE, 0, 0, 0);
        r->tail += pad;
    }
    *payload = r->data + (r->tail & r->mask) + MV_RING_HEADER;
    return MV_RING_OK;
}

/* Complete the claimed frame; `n` may be less than was claimed. Return its sequence number. */
static inline uint64_t mv_spsc_commit(mv_ring *r, uint64_t n, int type, int flags, uint64_t t_ns, uint32_t crc) {
    mv_spsc_seal(r, r->tail, (uint32_t)(n + MV_RING_HEADER), type, flags, r->next_seq, t_ns, crc);
    r->tail += mv_record_bytes(n + MV_RING_HEADER);
    r->bytes += n;
    return r->next_seq++;
}

/* Publish all committed frames. REL: they are complete before they are visible. */
static inline void mv_spsc_publish(mv_ring *r) {
    mv_record_tail(r, r->tail);
    mv_atomic_store(&r->ctl->tail, r->tail, memory_order_release);
}

/* Start, or take over, as producer at the published tail. */
static inline int mv_spsc_produce(mv_ring *r) {
    int rc = mv_read_tail_record(r, &r->tail, &r->next_seq, &r->bytes);
    r->head_cache = mv_atomic_load(&r->ctl->head, memory_order_acquire); /* as in mv_spsc_room */
    atomic_thread_fence(memory_order_release);
    return rc                                                                        ? rc
           : (r->tail & (MV_RING_LINE - 1)) || r->tail - r->head_cache > r->capacity ? MV_RING_CORRUPT
                                                                                     : MV_RING_OK;
}

/* Start, or take over, as consumer at `head`: frames that the predecessor did not release are delivered again. */
static inline int mv_spsc_consume(mv_ring *r) {
    r->pos = r->released = r->tail_cache =
        mv_atomic_load(&r->ctl->head, memory_order_acquire); /* ACQ: after the predecessor's last read */
    mv_expect_from_start(r);
    return r->pos & (MV_RING_LINE - 1) ? MV_RING_CORRUPT : MV_RING_OK;
}

/* Return whether there is a frame to read. ACQ: the frames before `tail` are complete. */
static inline int mv_spsc_available(mv_ring *r) {
    if (r->pos != r->tail_cache)
        return MV_RING_OK;
    uint64_t tail = mv_atomic_load(&r->ctl->tail, memory_order_acquire);
    if (tail - r->pos > r->capacity || (tail & (MV_RING_LINE - 1)))
        return MV_RING_CORRUPT;
    r->tail_cache = tail;
    return tail == r->pos ? MV_RING_EMPTY : MV_RING_OK;
}

/* Return the next frames in place, up to `max`, from one load of `tail`; they stay until mv_spsc_release. Stops before
   a break, which the next call reports. A fragment is returned alone. `verify`: check payloads too. */
static inline int mv_spsc_peek(mv_ring *r, mv_ring_frame *out, int max, int verify) {
    int n = 0, rc = mv_spsc_available(r);
    if (rc)
        return rc;
    while (n < max && r->pos != r->tail_cache) {
        mv_ring_frame *f = &out[n];
        mv_ring_header h;
        memcpy(&h, r->data + (r->pos & r->mask), sizeof h);
        int fault = mv_validate_header(r, &h, r->pos, r->tail_cache - r->pos, f);
        if (fault)
            return n ? n : mv_report_break(r, 0, fault, mv_resync(r));
        uint64_t rec = mv_record_bytes(f->length + MV_RING_HEADER);
        if (f->type == MV_FRAME_PAD) {
            r->pos += rec;
            continue;
        }
        int fragment = mv_is_fragment(f);
        if (fragment && n)
            return n;
        if (r->expected_valid && f->seq != r->expected[0] && n)
            return n;
        fault = mv_check_sequence(r, f);
        if (fault)
            return mv_report_break(r, 0, fault, r->pos);
        if (verify && !mv_payload_valid(f))
            return mv_defer_bad_payload(r, f, n);
        r->pos += rec;
        n++;
        if (fragment)
            break;
    }
    return n ? n : MV_RING_EMPTY;
}

/* Release the bytes before `upto`. REL: their reads are over. */
static inline void mv_spsc_release(mv_ring *r, uint64_t upto) {
    mv_atomic_store(&r->ctl->head, upto, memory_order_release);
    r->released = upto;
}

#endif
