/* operations.h: the operations of a handle, selected by its mode. */
#ifndef MOJOVIEW_RING_OPERATIONS_H
#define MOJOVIEW_RING_OPERATIONS_H

#include "broadcast.h"
#include "timestamps.h"
#include "mpsc.h"
#include "spsc.h"
#include "wait.h"

static inline int mv_ring_lossy(const mv_ring *r) { return r->mode >= MV_RING_BROADCAST; }

/* Conditions for mv_ring_wait. */
static int mv_ring_has_data(mv_ring *r, uint64_t observer) {
    if (observer || mv_ring_lossy(r))
        return mv_lossy_available(r);
    return r->mode == MV_RING_SPSC ? mv_spsc_available(r) : mv_mpsc_available(r);
}
static int mv_ring_has_room(mv_ring *r, uint64_t n) {
    uint64_t rec = mv_record_bytes(n + MV_RING_HEADER);
    if (mv_ring_lossy(r))
        return MV_RING_OK;
    if (r->mode == MV_RING_SPSC)
        return mv_spsc_room(r, mv_padding(r, r->tail, rec) + rec);
    uint64_t head = mv_atomic_load(&r->ctl->head, memory_order_relaxed),
             tail = mv_atomic_load(&r->ctl->tail, memory_order_relaxed); /* a hint */
    return tail + mv_padding(r, tail, rec) + rec - head <= r->capacity ? MV_RING_OK : MV_RING_FULL;
}

static int mv_ring_has_space(mv_ring *r, uint64_t bytes) { return mv_spsc_room(r, bytes); } /* SPSC */

/* Payload of a fragment of a message that is larger than a frame: a quarter of the ring with its header. */
static inline uint64_t mv_fragment_payload(const mv_ring *r) { return r->capacity / 4 - MV_RING_LINE; }

/* Return the bytes that a message of `n` bytes takes in fragments, from the producer's position on (MPSC: about). */
static inline uint64_t mv_fragments_bytes(mv_ring *r, uint64_t n) {
    uint64_t step = mv_fragment_payload(r), count = n / step;
    uint64_t rest = n % step ? mv_record_bytes(n % step + MV_RING_HEADER) : 0,
             rec = mv_record_bytes(step + MV_RING_HEADER);
    if (count > 4) /* larger than the ring, wherever it begins */
        return count * rec + rest;
    uint64_t begin = r->mode == MV_RING_MPSC ? mv_atomic_load(&r->ctl->tail, memory_order_relaxed) : r->tail,
             end = begin;
    for (uint64_t k = 0; k < count; k++)
        end += mv_padding(r, end, rec) + rec;
    return end + (rest ? mv_padding(r, end, rest) + rest : 0) - begin;
}

/* MPSC: fill and commit a claim. Return its number. */
static inline uint64_t mv_mpsc_fill(mv_ring *r, uint64_t pos, const uint8_t *src, uint64_t n, int type, int flags,
                                    uint64_t t_ns) {
    uint32_t crc = 0;
    if (r->crc)
        flags |= MV_FLAG_CRC, crc = mv_crc32c_copy(0, mv_mpsc_payload(r, pos), src, n);
    else
        memcpy(mv_mpsc_payload(r, pos), src, n);
    return mv_mpsc_commit(r, pos, n, type, flags, t_ns, crc);
}

static inline void mv_ring_publish(mv_ring *r) {
    if (r->mode == MV_RING_SPSC)
        mv_spsc_publish(r);
    else if (mv_ring_lossy(r))
        mv_lossy_publish(r);
}

/* Copy one frame into the ring without publishing it (an MPSC commit publishes itself). `seq` returns its number. */
static inline int mv_ring_put(mv_ring *r, const uint8_t *src, uint64_t n, int type, int flags, uint64_t t_ns,
                              uint64_t *seq) {
    uint32_t crc = 0;
    uint64_t pos;
    uint8_t *payload;
    int rc;
    if (r->crc)
        flags |= MV_FLAG_CRC;
    switch (r->mode) {
    case MV_RING_SPSC:
        if ((rc = mv_spsc_claim(r, n, &payload)))
            return rc;
        if (r->crc)
            crc = mv_crc32c_copy(0, payload, src, n);
        else
            memcpy(payload, src, n);
        *seq = mv_spsc_commit(r, n, type, flags, t_ns, crc);
        return MV_RING_OK;
    case MV_RING_MPSC:
        if ((rc = mv_mpsc_claim(r, n, type, flags, &pos)))
            return rc;
        *seq = mv_mpsc_fill(r, pos, src, n, type, flags, t_ns);
        return MV_RING_OK;
    default: *seq = r->next_seq; return mv_lossy_write(r, src, n, type, flags, r->next_seq, t_ns);
    }
}

/* Copy and publish one message, and wake readers. */
static inline int mv_ring_send(mv_ring *r, const uint8_t *src, uint64_t n, int type, uint64_t *seq) {
    int rc = mv_ring_put(r, src, n, type, MV_FLAG_WHOLE, mv_ring_now(r->ctl), seq);
    if (rc)
        return rc;
    mv_ring_publish(r);
    mv_ring_wake(&r->ctl->data);
    return MV_RING_OK;
}

/* Copy `count` frames of `n` bytes, `stride` bytes apart. Return how many were written before the ring was full, or an
   error if none. They are published in groups: a reader on another core starts while the rest is written. */
static inline int64_t mv_ring_put_many(mv_ring *r, const uint8_t *src, int64_t count, uint64_t n, int64_t stride,
                                       int type, uint64_t t_ns, uint64_t *seq) {
    int64_t done = 0;
    int rc = MV_RING_OK;
    for (; done < count; done++) {
        rc = mv_ring_put(r, src + done * stride, n, type, MV_FLAG_WHOLE, t_ns, seq);
        if (rc)
            break;
        if ((done & 63) == 63)
            mv_ring_publish(r);
    }
    if (done)
        mv_ring_publish(r);
    return done ? done : rc;
}

/* Return frames in place (SPSC, MPSC). */
static inline int mv_ring_peek(mv_ring *r, mv_ring_frame *out, int max, int verify) {
    return r->mode == MV_RING_SPSC ? mv_spsc_peek(r, out, max, verify) : mv_mpsc_peek(r, out, max, verify);
}
/* Release the bytes before `upto`, also of frames that peek skipped. */
static inline void mv_ring_release(mv_ring *r, uint64_t upto) {
    if (r->mode == MV_RING_SPSC)
        mv_spsc_release(r, upto);
    else
        mv_mpsc_release(r, upto);
}

/* Move back to a frame that was peeked and is not taken. */
static inline void mv_ring_unread(mv_ring *r, const mv_ring_frame *f) {
    r->expected[mv_source_slot(r, f)] = f->seq;
    r->pos = f->pos;
}

/* Copy the next message and release everything up to it. MV_RING_SHORT_BUFFER: a fragment, or larger than `room`; it
   stays. */
static inline int mv_ring_take(mv_ring *r, uint8_t *dst, uint64_t room, mv_ring_frame *f) {
    int rc = mv_ring_peek(r, f, 1, 0);
    if (rc <= 0)
        return rc;
    if (mv_is_fragment(f) || f->length > room)
        return mv_ring_unread(r, f), MV_RING_SHORT_BUFFER;
    if (!(f->flags & MV_FLAG_CRC)) {
        memcpy(dst, f->payload, f->length);
    } else if (mv_crc32c_copy(0, dst, f->payload, f->length) != f->crc) {
        return mv_report_bad_payload(r, f);
    }
    mv_ring_release(r, r->pos);
    return MV_RING_OK;
}

/* Copy complete frames of exactly `n` bytes to consecutive rows and release them; stop before any other frame. Return
   how many. Payloads are checked while they are copied. `last` is the last frame taken. */
static inline int64_t mv_ring_take_many(mv_ring *r, uint8_t *dst, int64_t count, uint64_t n, int64_t stride,
                                        mv_ring_frame *last) {
    int64_t done = 0;
    int rc = MV_RING_EMPTY;
    while (done < count) {
        mv_ring_frame frames[32];
        int want = count - done < 32 ? (int)(count - done) : 32;
        uint64_t gap_expected = r->gap_expected;
        rc = mv_ring_peek(r, frames, want, 0);
        if (rc == MV_RING_BROKEN && done) { /* return the valid frames first: the next call reports the break */
            r->pos = r->broken.pos;
            r->gap_expected = gap_expected;
            if (r->broken.reason != MV_BREAK_SEQUENCE)
                r->resyncs--;
        }
        if (rc <= 0)
            break;
        int k = 0;
        for (; k < rc; k++) {
            mv_ring_frame *f = &frames[k];
            uint8_t *row = dst + (done + k) * stride;
            if (f->length != n || mv_is_fragment(f))
                break;
            if (!(f->flags & MV_FLAG_CRC))
                memcpy(row, f->payload, n);
            else if (mv_crc32c_copy(0, row, f->payload, n) != f->crc)
                break;
            *last = *f;
        }
        done += k;
        if (k < rc) { /* back to the frame that was not taken; the next peek validates it */
            for (int j = rc - 1; j >= k; j--)
                mv_ring_unread(r, &frames[j]);
            rc = MV_RING_SHORT_BUFFER;
        }
        if (r->pos != r->released)
            mv_ring_release(r, r->pos);
        if (rc == MV_RING_SHORT_BUFFER)
            break;
    }
    return done ? done : rc;
}

/* -- state of the two sides, slots and counters
   --------------------------------------------------------------------- */

enum { MV_PRODUCER = 0, MV_CONSUMER = 1 };

static inline int mv_ring_side(const mv_ring *r, int side) { /* ACQ: a side that has closed has published everything */
    return (int)atomic_load_explicit(side == MV_PRODUCER ? &r->ctl->producer : &r->ctl->consumer, memory_order_acquire);
}
static inline uint32_t mv_ring_side_pid(const mv_ring *r, int side) { /* for messages */
    return atomic_load_explicit(side == MV_PRODUCER ? &r->ctl->producer_pid : &r->ctl->consumer_pid,
                                memory_order_relaxed);
}
static inline void mv_ring_set_side(mv_ring *r, int side, int state, uint32_t pid) {
    atomic_store_explicit(side == MV_PRODUCER ? &r->ctl->producer_pid : &r->ctl->consumer_pid, pid,
                          memory_order_relaxed);
    atomic_store_explicit(side == MV_PRODUCER ? &r->ctl->producer : &r->ctl->consumer, (uint32_t)state,
                          memory_order_release);
    mv_ring_wake(side == MV_PRODUCER ? &r->ctl->data : &r->ctl->space);
}
static inline uint32_t mv_ring_slot_owner(const mv_ring *r, int slot) { /* ACQ: with the claims of its owner */
    return atomic_load_explicit(&r->ctl->slot[slot].pid, memory_order_acquire);
}
static inline void mv_ring_release_slot(mv_ring *r) { /* REL: after the last commit */
    if (r->slot >= 0)
        atomic_store_explicit(&r->ctl->slot[r->slot].pid, 0, memory_order_release);
    r->slot = -1;
}
/* Give a broadcast reader a slot, which shows its position and losses to other processes. */
static inline void mv_ring_assign_slot(mv_ring *r, int slot, uint32_t pid) {
    r->slot = slot;
    atomic_store_explicit(&r->ctl->slot[slot].pid, pid, memory_order_relaxed);
}
static inline void mv_ring_publish_position(mv_ring *r) { /* RLX: statistics */
    if (r->slot < 0 || !mv_ring_lossy(r))
        return;
    mv_atomic_store(&r->ctl->slot[r->slot].pos, r->pos, memory_order_relaxed);
    mv_atomic_store(&r->ctl->slot[r->slot].lost, r->lost, memory_order_relaxed);
}

/* RLX throughout: each counter has one writer; the counters need not belong to one moment. */
typedef struct {
    uint64_t tail, head, written, bytes, dropped, frames, lost, broken, crc_errors, resyncs, unblocked;
    uint32_t producer_pid, consumer_pid, data_waiters, space_waiters;
    int producer, consumer;
} mv_ring_stats;

static inline void mv_ring_read_stats(mv_ring *r, mv_ring_stats *n) {
    mv_ring_ctl *c = r->ctl;
    const memory_order rlx = memory_order_relaxed;
    int newest =
        (int64_t)(mv_atomic_load(&c->tail_record[1].tail, rlx) - mv_atomic_load(&c->tail_record[0].tail, rlx)) > 0;
    memset(n, 0, sizeof *n);
    n->tail = mv_atomic_load(&c->tail, rlx), n->head = mv_atomic_load(&c->head, rlx);
    n->written = mv_atomic_load(&c->tail_record[newest].next_seq, rlx) - c->start_seq,
    n->bytes = mv_atomic_load(&c->tail_record[newest].bytes, rlx);
    n->dropped = mv_atomic_load(&c->dropped, rlx);
    if (r->mode == MV_RING_MPSC)
        for (int slot = 0; slot < MV_RING_SLOTS; slot++) {
            n->written += mv_atomic_load(&c->slot[slot].next_seq, rlx) - c->start_seq;
            n->bytes += mv_atomic_load(&c->slot[slot].bytes, rlx);
            n->dropped += mv_atomic_load(&c->slot[slot].dropped, rlx);
        }
    n->frames = mv_atomic_load(&c->frames, rlx), n->lost = mv_atomic_load(&c->lost, rlx),
    n->broken = mv_atomic_load(&c->broken, rlx);
    n->crc_errors = mv_atomic_load(&c->crc_errors, rlx), n->resyncs = mv_atomic_load(&c->resyncs, rlx),
    n->unblocked = mv_atomic_load(&c->unblocked, rlx);
    n->producer_pid = mv_ring_side_pid(r, MV_PRODUCER), n->consumer_pid = mv_ring_side_pid(r, MV_CONSUMER);
    n->producer = mv_ring_side(r, MV_PRODUCER), n->consumer = mv_ring_side(r, MV_CONSUMER);
    n->data_waiters = atomic_load_explicit(&c->data.waiters, rlx),
    n->space_waiters = atomic_load_explicit(&c->space.waiters, rlx);
}
static inline void mv_ring_count_dropped(mv_ring *r, uint64_t n) {
    mv_count(r->mode == MV_RING_MPSC ? &r->ctl->slot[r->slot].dropped : &r->ctl->dropped, n);
}
/* Update the consumer's counters after a read. In a lossy ring each reader has its own. */
static inline void mv_ring_count_read(mv_ring *r, uint64_t frames, uint64_t broken, uint64_t crc_errors) {
    if (r->observer)
        return;
    if (mv_ring_lossy(r)) {
        mv_ring_publish_position(r);
        return;
    }
    mv_count(&r->ctl->frames, frames);
    if (broken)
        mv_count(&r->ctl->broken, broken);
    if (crc_errors)
        mv_count(&r->ctl->crc_errors, crc_errors);
    mv_atomic_store(&r->ctl->lost, r->lost, memory_order_relaxed);
    mv_atomic_store(&r->ctl->resyncs, r->resyncs, memory_order_relaxed);
}

#endif
