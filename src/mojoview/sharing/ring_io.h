/* ring_io.h: the operations of a handle whatever its mode. */
#ifndef MOJOVIEW_RING_IO_H
#define MOJOVIEW_RING_IO_H

#include "ring_broadcast.h"
#include "ring_clock.h"
#include "ring_mpsc.h"
#include "ring_spsc.h"
#include "ring_wait.h"

static inline int mv_ring_lossy(const mv_ring *r) { return r->mode >= MV_RING_BROADCAST; }

/* Tests for mv_ring_wait. */
static int mv_ring_has_data(mv_ring *r, uint64_t observer) {
    if (observer || mv_ring_lossy(r)) return mv_lossy_available(r);
    return r->mode == MV_RING_SPSC ? mv_spsc_available(r) : mv_mpsc_available(r);
}
static int mv_ring_has_room(mv_ring *r, uint64_t n) {
    uint64_t rec = mv_record_bytes(n + MV_RING_HEADER);
    if (mv_ring_lossy(r)) return MV_RING_OK;
    if (r->mode == MV_RING_SPSC) return mv_spsc_room(r, mv_padding(r, r->tail, rec) + rec);
    uint64_t head = mv_ld(&r->ctl->head, memory_order_relaxed), tail = mv_ld(&r->ctl->tail, memory_order_relaxed); /* a hint */
    return tail + mv_padding(r, tail, rec) + rec - head <= r->capacity ? MV_RING_OK : MV_RING_FULL;
}

static inline void mv_ring_publish(mv_ring *r) {
    if (r->mode == MV_RING_SPSC) mv_spsc_publish(r);
    else if (mv_ring_lossy(r)) mv_lossy_publish(r);
}

/* Copies one frame into the ring, without publishing it (an MPSC commit publishes itself). `seq` returns its number. */
static inline int mv_ring_put(mv_ring *r, const uint8_t *src, uint64_t n, int type, int flags, uint64_t t_ns, uint64_t *seq) {
    uint32_t crc = 0;
    uint64_t pos;
    uint8_t *payload;
    int rc;
    if (r->crc) flags |= MV_FLAG_CRC;
    switch (r->mode) {
    case MV_RING_SPSC:
        if ((rc = mv_spsc_claim(r, n, &payload))) return rc;
        if (r->crc) crc = mv_crc32c_copy(0, payload, src, n);
        else memcpy(payload, src, n);
        *seq = mv_spsc_commit(r, n, type, flags, t_ns, crc);
        return MV_RING_OK;
    case MV_RING_MPSC:
        if ((rc = mv_mpsc_claim(r, n, type, flags, &pos))) return rc;
        if (r->crc) crc = mv_crc32c_copy(0, mv_mpsc_payload(r, pos), src, n);
        else memcpy(mv_mpsc_payload(r, pos), src, n);
        *seq = mv_mpsc_commit(r, pos, n, type, flags, t_ns, crc);
        return MV_RING_OK;
    default:
        *seq = r->next_seq;
        return mv_lossy_write(r, src, n, type, flags, r->next_seq, t_ns);
    }
}

/* `count` frames of `n` bytes, `stride` bytes apart; returns how many went in before the ring was full, or an error for none.
   Published in groups: a reader on another core starts while the rest is written. */
static inline int64_t mv_ring_put_many(mv_ring *r, const uint8_t *src, int64_t count, uint64_t n, int64_t stride, int type, uint64_t t_ns,
                                       uint64_t *seq) {
    int64_t done = 0;
    int rc = MV_RING_OK;
    for (; done < count; done++) {
        rc = mv_ring_put(r, src + done * stride, n, type, MV_FLAG_WHOLE, t_ns, seq);
        if (rc) break;
        if ((done & 63) == 63) mv_ring_publish(r);
    }
    if (done) mv_ring_publish(r);
    return done ? done : rc;
}

/* Frames in place (SPSC, MPSC). */
static inline int mv_ring_peek(mv_ring *r, mv_frame *out, int max, int verify) {
    return r->mode == MV_RING_SPSC ? mv_spsc_peek(r, out, max, verify) : mv_mpsc_peek(r, out, max, verify);
}
static inline void mv_ring_release(mv_ring *r, uint64_t from, uint64_t upto) {
    if (r->mode == MV_RING_SPSC) {
        mv_spsc_release(r, upto);
    } else {
        mv_mpsc_release(r, from, upto);
    }
}

/* Copies whole frames of exactly `n` bytes to consecutive rows; returns how many, and stops before any other frame. Payloads are
   checked while they are copied. `last` is the last frame taken. */
static inline int64_t mv_ring_take_many(mv_ring *r, uint8_t *dst, int64_t count, uint64_t n, int64_t stride, mv_frame *last) {
    int64_t done = 0;
    int rc = MV_RING_EMPTY;
    while (done < count) {
        mv_frame frames[32];
        int want = count - done < 32 ? (int)(count - done) : 32;
        uint64_t pos = r->pos;
        rc = mv_ring_peek(r, frames, want, 0);
        if (rc <= 0) break;
        int k = 0;
        for (; k < rc; k++) {
            mv_frame *f = &frames[k];
            uint8_t *row = dst + (done + k) * stride;
            if (f->length != n || (f->flags & MV_FLAG_WHOLE) != MV_FLAG_WHOLE) break;
            if (!(f->flags & MV_FLAG_CRC)) memcpy(row, f->payload, n);
            else if (mv_crc32c_copy(0, row, f->payload, n) != f->crc) break;
            *last = *f;
        }
        done += k;
        if (k < rc) { /* back to the frame that was not taken; a plain read judges it */
            for (int j = rc - 1; j >= k; j--) r->expected[mv_seat(r, &frames[j])] = frames[j].seq;
            r->pos = frames[k].pos;
            rc = MV_RING_ROOM;
        }
        if (r->pos != pos) {
            if (r->mode == MV_RING_MPSC) mv_mpsc_consumed(r, r->pos);
            mv_ring_release(r, pos, r->pos);
        }
        if (rc == MV_RING_ROOM) break;
    }
    return done ? done : rc;
}

#endif
