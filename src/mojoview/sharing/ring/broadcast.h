/* broadcast.h: one producer that never waits, and any number of readers that detect what they missed. Also the
   recorder (the same in a file) and the observer of a lossless ring, which reads without consuming.

   producer   moves `claim` (the bytes about to be overwritten), release fence, the frame as relaxed words, then `tail`
   reader     copies relaxed words from its own position, acquire fence, loads the floor: bytes below it may have been
              overwritten while they were copied, and are discarded

   The fences pair: a reader that copied a word of a later lap sees the claim that came before it. Views in place would
   not be safe, so readers copy. Missed frames are gaps in the sequence numbers, so their count is exact.

   The floor of a lossless ring is what its consumer has released (SPSC: `head`; MPSC: `consumed`, stored before the
   words are zeroed); its producers have a release fence between their load of `head` and the bytes that they write. A
   frame of an MPSC ring is complete if one acquire load of its commit word says so; the rest of the header is read
   after it. */
#ifndef MOJOVIEW_RING_BROADCAST_H
#define MOJOVIEW_RING_BROADCAST_H

#include "layout.h"

/* Return the floor; frames below it may be torn. A lossless ring overwrites only released bytes. RLX: after a fence. */
static inline uint64_t mv_lossy_floor(const mv_ring *r) {
    if (r->mode == MV_RING_SPSC)
        return mv_atomic_load(&r->ctl->head, memory_order_relaxed);
    if (r->mode == MV_RING_MPSC)
        return mv_atomic_load(&r->ctl->consumed, memory_order_relaxed);
    return mv_atomic_load(&r->ctl->claim, memory_order_relaxed) - r->capacity;
}

/* Load `tail`. ACQ: the frames before it are complete. Rounded down: a damaged tail must not lead off the grid of
   frames. */
static inline uint64_t mv_lossy_tail(const mv_ring *r) {
    return mv_atomic_load(&r->ctl->tail, memory_order_acquire) & ~(uint64_t)(MV_RING_LINE - 1);
}

static inline int mv_lossy_torn(const mv_ring *r, uint64_t pos) {
    atomic_thread_fence(memory_order_acquire); /* the copy comes before the load of the floor */
    return (int64_t)(pos - mv_lossy_floor(r)) < 0;
}

/* Start, or take over, as producer at the published tail. `claim` never decreases: torn bytes stay torn. */
static inline int mv_lossy_produce(mv_ring *r) {
    int rc = mv_read_tail_record(r, &r->tail, &r->next_seq, &r->bytes);
    return rc ? rc : r->tail & (MV_RING_LINE - 1) ? MV_RING_CORRUPT : MV_RING_OK;
}

static inline void mv_lossy_seal(mv_ring *r, uint64_t pos, mv_ring_header *h) {
    h->check = mv_header_check(h, pos);
    mv_copy_to_shared(r->data + (pos & r->mask), (const uint8_t *)h, sizeof *h);
}

/* Write a frame with the number `seq`, at least next_seq; visible after mv_lossy_publish. */
static inline int mv_lossy_write(mv_ring *r, const uint8_t *src, uint64_t n, int type, int flags, uint64_t seq,
                                 uint64_t t_ns) {
    if (n > mv_max_payload(r))
        return MV_RING_TOO_BIG;
    uint64_t rec = mv_record_bytes(n + MV_RING_HEADER), pad = mv_padding(r, r->tail, rec), claim = r->tail + pad + rec;
    if ((int64_t)(claim - mv_atomic_load(&r->ctl->claim, memory_order_relaxed)) > 0)
        mv_atomic_store(&r->ctl->claim, claim, memory_order_relaxed);
    atomic_thread_fence(memory_order_release); /* the claim comes before every word of the frame */
    if (pad) {
        mv_ring_header h = {mv_header_word((uint32_t)pad, MV_FRAME_PAD, MV_FLAG_WHOLE, 0), 0, 0, 0, 0};
        mv_lossy_seal(r, r->tail, &h);
        r->tail += pad;
    }
    mv_ring_header h = {mv_header_word((uint32_t)(n + MV_RING_HEADER), type, flags, 0), seq, t_ns, 0, 0};
    if (flags & MV_FLAG_CRC)
        h.crc = mv_crc32c(0, src, n);
    mv_copy_to_shared(r->data + (r->tail & r->mask) + MV_RING_HEADER, src, n);
    mv_lossy_seal(r, r->tail, &h);
    r->tail += rec;
    r->bytes += n;
    r->next_seq = seq + 1;
    return MV_RING_OK;
}

/* Publish all written frames. REL: they are complete before they are visible. */
static inline void mv_lossy_publish(mv_ring *r) {
    mv_record_tail(r, r->tail);
    mv_atomic_store(&r->ctl->tail, r->tail, memory_order_release);
}

/* Return whether there is something to read. MPSC: a claim that is not committed is nothing yet. RLX: a hint. */
static inline int mv_lossy_available(mv_ring *r) {
    if (mv_lossy_tail(r) == r->pos)
        return MV_RING_EMPTY;
    if (r->mode == MV_RING_MPSC && !mv_mpsc_committed(mv_atomic_load(mv_word_at(r, r->pos), memory_order_relaxed)))
        return mv_lossy_torn(r, r->pos) ? MV_RING_OK : MV_RING_EMPTY;
    return MV_RING_OK;
}

/* Read the header at `pos`: return 0 if it is valid, MV_RING_LAPPED, MV_RING_GAP (MPSC: not committed), or the fault.
   ACQ: with a commit word comes the rest of its header. The word is not looked at twice. */
static inline int mv_lossy_header(mv_ring *r, uint64_t pos, uint64_t limit, mv_ring_frame *f) {
    mv_ring_header h;
    h.word = mv_atomic_load(mv_word_at(r, pos), memory_order_acquire);
    mv_copy_from_shared((uint8_t *)&h + 8, r->data + (pos & r->mask) + 8, sizeof h - 8);
    int fault =
        r->mode == MV_RING_MPSC && !mv_mpsc_committed(h.word) ? MV_RING_GAP : mv_validate_header(r, &h, pos, limit, f);
    return mv_lossy_torn(r, pos) ? MV_RING_LAPPED : fault;
}

/* Return the position of the first valid frame from `from` on, or `tail`. */
static inline uint64_t mv_lossy_find(mv_ring *r, uint64_t from, uint64_t tail) {
    mv_ring_frame f;
    from &= ~(uint64_t)(MV_RING_LINE - 1);
    if (tail - from > r->capacity)
        return tail;
    for (; from != tail; from += MV_RING_LINE)
        if (mv_lossy_header(r, from, tail - from, &f) == MV_BREAK_NONE)
            return from;
    return tail;
}

/* Continue at the first valid frame from `from` on, but not beyond the `tail` that the caller loaded: frames before a
   later tail could be skipped without a frame after them to show the gap. */
static inline void mv_lossy_jump(mv_ring *r, uint64_t from, uint64_t tail) {
    r->pos = mv_lossy_find(r, from, tail);
    r->gap_expected = ~UINT64_C(0);
    r->resyncs++;
}

/* After a lap: continue in the middle of the ring, or at the floor of a lossless one, where a frame begins, which may
   not be committed yet. */
static inline void mv_lossy_catch_up(mv_ring *r, uint64_t tail) {
    if (r->mode >= MV_RING_BROADCAST) {
        mv_lossy_jump(r, tail - r->capacity / 2, tail);
        return;
    }
    uint64_t floor = mv_lossy_floor(r) & ~(uint64_t)(MV_RING_LINE - 1);
    r->pos = tail - floor > r->capacity ? tail : floor;
    r->gap_expected = ~UINT64_C(0);
    r->resyncs++;
}

/* Return the position of the oldest frames: the floor, or the ring's first position until it is full. A little above
   the floor of a broadcast ring, which may move. RLX: checked again at every copy. */
static inline uint64_t mv_lossy_oldest(mv_ring *r) {
    uint64_t tail = mv_lossy_tail(r), floor = mv_lossy_floor(r), start = mv_ring_start(r);
    int full = tail - start >= r->capacity || r->mode < MV_RING_BROADCAST;
    return !full ? start : r->mode == MV_RING_BROADCAST ? floor + r->capacity / 8 : floor;
}

/* Start as reader after the newest frame, with the next number known, or at the oldest frame. */
static inline int mv_lossy_attach(mv_ring *r, int oldest) {
    uint64_t bytes;
    r->expected_valid = r->gap_expected = 0;
    if (oldest) {
        r->pos = mv_lossy_oldest(r);
        if (r->pos == mv_ring_start(r) && r->mode >= MV_RING_BROADCAST)
            mv_expect_from_start(r); /* also if the first frame is damaged */
        else if (r->mode == MV_RING_MPSC)
            r->pos &= ~(uint64_t)(MV_RING_LINE - 1);
        else
            r->pos = mv_lossy_find(r, r->pos, mv_lossy_tail(r));
        return MV_RING_OK;
    }
    if (r->mode == MV_RING_MPSC) {
        r->pos = mv_lossy_tail(r);
        return MV_RING_OK;
    }
    r->expected_valid = 1;
    int rc = mv_read_tail_record(r, &r->pos, &r->expected[0], &bytes);
    if (rc == MV_RING_OK)
        r->pos &= ~(uint64_t)(MV_RING_LINE - 1);
    return rc;
}

/* Copy the next frame's payload to `dst`. MV_RING_SHORT_BUFFER: it needs f->length bytes. MV_RING_LAPPED: it was
   overwritten before it was read; the reader continues in the middle of the ring. */
static inline int mv_lossy_next(mv_ring *r, uint8_t *dst, uint64_t room, mv_ring_frame *f) {
    for (;;) {
        uint64_t tail = mv_lossy_tail(r);
        if (tail == r->pos)
            return MV_RING_EMPTY;
        int fault = tail - r->pos > r->capacity ? MV_RING_LAPPED : mv_lossy_header(r, r->pos, tail - r->pos, f);
        if (fault == MV_RING_GAP)
            return MV_RING_EMPTY;
        if (fault == MV_RING_LAPPED) {
            mv_lossy_catch_up(r, tail);
            return MV_RING_LAPPED;
        }
        uint64_t here = r->pos;
        if (fault) {
            mv_lossy_jump(r, here + MV_RING_LINE, tail);
            uint64_t until = r->pos;
            r->pos = here;
            return mv_report_break(r, 0, fault, until);
        }
        uint64_t rec = mv_record_bytes(f->length + MV_RING_HEADER);
        if (f->type == MV_FRAME_PAD || f->type == MV_FRAME_ABORTED) {
            r->pos += rec;
            continue;
        }
        if (f->length > room)
            return MV_RING_SHORT_BUFFER;
        mv_copy_from_shared(dst, f->payload, f->length);
        if (mv_lossy_torn(r, here)) {
            mv_lossy_catch_up(r, tail);
            return MV_RING_LAPPED;
        }
        f->payload = dst;
        fault = mv_check_sequence(r, f);
        if (fault)
            return mv_report_break(r, mv_source_slot(r, f), fault, here);
        if ((f->flags & MV_FLAG_CRC) && mv_crc32c(0, dst, f->length) != f->crc)
            return mv_report_bad_payload(r, f);
        r->pos += rec;
        return MV_RING_OK;
    }
}

/* Move the reader to the first frame whose number is at least `seq`, following headers from the oldest. */
static inline int mv_lossy_seek(mv_ring *r, uint64_t seq) {
    mv_lossy_attach(r, 1);
    for (;;) {
        mv_ring_frame f;
        uint64_t tail = mv_lossy_tail(r);
        if (tail == r->pos)
            break;
        int fault = tail - r->pos > r->capacity ? MV_RING_LAPPED : mv_lossy_header(r, r->pos, tail - r->pos, &f);
        if (fault == MV_RING_GAP)
            break;
        if (fault) {
            mv_lossy_jump(r, fault == MV_RING_LAPPED ? mv_lossy_oldest(r) : r->pos + MV_RING_LINE, tail);
            continue;
        }
        if (f.type != MV_FRAME_PAD && (int64_t)(f.seq - seq) >= 0)
            break;
        r->pos += mv_record_bytes(f.length + MV_RING_HEADER);
    }
    r->expected_valid = r->mode != MV_RING_MPSC; /* frames from `seq` up to the first available one count as lost */
    r->expected[0] = seq;
    r->gap_expected = ~UINT64_C(0);
    return MV_RING_OK;
}

/* Recorder: find the end of the recording. Complete frames beyond the published tail count: the process died before it
   published them, or the page with `tail` did not reach the disk. Without a usable tail record, follow the frames from
   the oldest. */
static inline int mv_recorder_recover(mv_ring *r) {
    mv_ring_frame f;
    int marked =
        mv_read_tail_record(r, &r->tail, &r->next_seq, &r->bytes) == MV_RING_OK && !(r->tail & (MV_RING_LINE - 1));
    uint64_t walked = 0;
    if (!marked) {
        r->tail = mv_lossy_find(r, mv_lossy_oldest(r), mv_lossy_tail(r));
    }
    while (walked < r->capacity) {
        mv_ring_header h;
        mv_copy_from_shared((uint8_t *)&h, r->data + (r->tail & r->mask), sizeof h);
        if (mv_validate_header(r, &h, r->tail, r->capacity - walked, &f))
            break;
        if (f.type != MV_FRAME_PAD) {
            if (marked && (int64_t)(f.seq - r->next_seq) < 0)
                break;
            if ((f.flags & MV_FLAG_CRC) && mv_crc32c(0, f.payload, f.length) != f.crc)
                break;
            r->next_seq = f.seq + 1;
            r->bytes += f.length;
            marked = 1;
        }
        r->tail += mv_record_bytes(f.length + MV_RING_HEADER);
        walked += mv_record_bytes(f.length + MV_RING_HEADER);
    }
    if ((int64_t)(r->tail - mv_atomic_load(&r->ctl->claim, memory_order_relaxed)) > 0)
        mv_atomic_store(&r->ctl->claim, r->tail, memory_order_relaxed);
    mv_lossy_publish(r); /* RLX above: there is no other writer */
    return MV_RING_OK;
}

#endif
