/* ring_mpsc.h: many producers, one consumer, lossless. Claim and commit per frame, after Aeron's many-to-one ring buffer.

   producer   announces the claim in its seat, moves `tail` by CAS, stores the header word with a negative length (claimed),
              fills the frame, stores the positive length (committed)
   consumer   takes committed frames in order of position; notes them in `consumed`, zeroes the header words, gives the bytes
              back by `head`

   A dead producer leaves a hole that blocks the frames behind it:
     claimed   the header word names its seat and epoch; nobody in that seat, or another epoch: skip the frame
     unwritten between CAS and header word. Nobody knows its size, but free memory holds no header words, so it reaches at
               most to the next one. Every claim was announced before its CAS: if no living seat announces a claim in that
               range, and the range is still empty after looking, all of it is dead: skip it.
   Order matters there: `tail`, then who lives, then the announcements, then the range again (mv_mpsc_hole, the caller's
   query, mv_mpsc_unblock). The model in tests/sharing/ring_model.py runs every interleaving and shows what breaks without
   each of these steps. A SIGSTOPped producer lives: the ring waits for it. */
#ifndef MOJOVIEW_RING_MPSC_H
#define MOJOVIEW_RING_MPSC_H

#include "layout.h"

static inline _Atomic uint64_t *mv_word_at(const mv_ring *r, uint64_t pos) { return (_Atomic uint64_t *)(r->data + (pos & r->mask)); }

/* All but the header word, then the word. REL: what it announces is complete. */
static inline void mv_mpsc_seal(mv_ring *r, uint64_t pos, mv_head *h) {
    h->check = mv_head_check(h, pos);
    memcpy(r->data + (pos & r->mask) + 8, (const uint8_t *)h + 8, sizeof *h - 8);
    mv_st(mv_word_at(r, pos), h->word, memory_order_release);
}

/* Takes a seat whose lock the caller holds. The old announcement goes first: it is not ours. */
static inline int mv_mpsc_sit(mv_ring *r, int row, uint32_t pid) {
    mv_ring_row *seat = &r->ctl->row[row];
    mv_st(&seat->need, 0, memory_order_relaxed); /* before the epoch, which is released */
    uint32_t epoch = (atomic_load_explicit(&seat->epoch, memory_order_relaxed) + 1) & 1023;
    atomic_store_explicit(&seat->pid, pid, memory_order_relaxed);
    atomic_store_explicit(&seat->epoch, epoch, memory_order_release); /* before any claim that carries it */
    r->row = row;
    r->source = (unsigned)row | epoch << 6;
    r->next_seq = mv_ld(&seat->next_seq, memory_order_acquire);
    r->bytes = mv_ld(&seat->bytes, memory_order_relaxed);
    return MV_RING_OK;
}

/* Reserves a frame. Each claim is completed by mv_mpsc_commit; several may be open. */
static inline int mv_mpsc_claim(mv_ring *r, uint64_t n, int type, int flags, uint64_t *pos) {
    mv_ring_row *seat = &r->ctl->row[r->row];
    uint64_t rec = mv_record_bytes(n + MV_RING_HEADER), tail = mv_ld(&r->ctl->tail, memory_order_relaxed), pad;
    if (n > mv_largest(r)) return MV_RING_TOO_BIG;
    for (;;) {
        uint64_t head = mv_ld(&r->ctl->head, memory_order_acquire); /* the bytes were read and zeroed before we write */
        pad = mv_padding(r, tail, rec);
        if (tail - head > r->capacity || tail + pad + rec - head > r->capacity) {
            uint64_t seen = tail;
            tail = mv_ld(&r->ctl->tail, memory_order_relaxed);
            if (tail == seen) return tail - head > r->capacity ? MV_RING_CORRUPT : MV_RING_FULL;
            continue; /* `tail` was old */
        }
        if (tail & (MV_RING_LINE - 1)) return MV_RING_CORRUPT;
        /* REL: a later announcement is seen only with the header words of the claims before it */
        mv_st(&seat->pos, tail, memory_order_release);
        mv_st(&seat->need, pad + rec, memory_order_release);
        /* REL: whoever sees the new tail sees the announcement. A CAS that fails yields only a hint. */
        if (atomic_compare_exchange_strong_explicit(&r->ctl->tail, &tail, tail + pad + rec, memory_order_release, memory_order_relaxed))
            break;
        /* Withdrawn: were the ring full now, the consumer would wait for us at a dead winner's hole, and we for the consumer. */
        mv_st(&seat->need, 0, memory_order_release);
    }
    if (pad) {
        mv_head h = {mv_head_word((uint32_t)pad, MV_FRAME_PAD, MV_FLAG_WHOLE, r->source), 0, 0, 0, 0};
        mv_mpsc_seal(r, tail, &h);
    }
    *pos = tail + pad;
    mv_head claimed = {mv_head_word((uint32_t)-(int32_t)(n + MV_RING_HEADER), type, flags, r->source), r->next_seq++, 0, 0, 0};
    mv_mpsc_seal(r, *pos, &claimed);
    mv_st(&seat->next_seq, r->next_seq, memory_order_relaxed); /* before the commit: a number is never given twice */
    return MV_RING_OK;
}

static inline uint8_t *mv_mpsc_payload(const mv_ring *r, uint64_t pos) { return r->data + (pos & r->mask) + MV_RING_HEADER; }

/* Completes a claim with the `n` bytes that were claimed; type MV_FRAME_ABORTED gives it up. Returns its sequence number. */
static inline uint64_t mv_mpsc_commit(mv_ring *r, uint64_t pos, uint64_t n, int type, int flags, uint64_t t_ns, uint32_t crc) {
    mv_head h;
    memcpy(&h, r->data + (pos & r->mask), sizeof h); /* our own claim */
    h.word = mv_head_word((uint32_t)(n + MV_RING_HEADER), type, flags, r->source);
    h.t_ns = t_ns;
    h.crc = crc;
    r->bytes += n;
    mv_st(&r->ctl->row[r->row].bytes, r->bytes, memory_order_relaxed); /* statistics */
    mv_mpsc_seal(r, pos, &h);
    return h.seq;
}

/* Header words of everything up to `upto` go to zero, then the bytes go back. REL: reads and zeros come before. */
static inline void mv_mpsc_zero(mv_ring *r, uint64_t from, uint64_t upto) {
    for (uint64_t q = from; q != upto; q += MV_RING_LINE) mv_st(mv_word_at(r, q), 0, memory_order_relaxed); /* `head` releases them */
    mv_st(&r->ctl->head, upto, memory_order_release);
}

/* REL on `consumed`: a successor must not read frames whose words may be gone. */
static inline void mv_mpsc_release(mv_ring *r, uint64_t upto) {
    mv_st(&r->ctl->consumed, upto, memory_order_release);
    atomic_thread_fence(memory_order_release); /* `consumed` before the first zero */
    mv_mpsc_zero(r, r->released, upto);
    r->released = upto;
}

/* A consumer starts, or takes over: it ends the zeroing in whose middle its predecessor died. */
static inline int mv_mpsc_consume(mv_ring *r) {
    uint64_t head = mv_ld(&r->ctl->head, memory_order_acquire), consumed = mv_ld(&r->ctl->consumed, memory_order_acquire);
    if (consumed - head > r->capacity || ((head | consumed) & (MV_RING_LINE - 1))) return MV_RING_CORRUPT;
    mv_mpsc_zero(r, head, consumed);
    r->pos = r->released = consumed;
    mv_follow_from_start(r);
    return MV_RING_OK;
}

static inline int mv_mpsc_committed(uint64_t word) { return (int32_t)(uint32_t)word > 0; }

/* RLX: hints. In a full ring the word at `tail` is that of the oldest frame, a lap before. */
static inline int mv_mpsc_available(mv_ring *r) {
    if (mv_ld(&r->ctl->tail, memory_order_relaxed) == r->pos) return MV_RING_EMPTY;
    return mv_mpsc_committed(mv_ld(mv_word_at(r, r->pos), memory_order_relaxed)) ? MV_RING_OK : MV_RING_EMPTY;
}

static inline int mv_mpsc_limit(mv_ring *r) { /* RLX: bounds only; the frames themselves are acquired one by one */
    r->tail_cache = mv_ld(&r->ctl->tail, memory_order_relaxed);
    return r->tail_cache - r->pos > r->capacity || (r->tail_cache & (MV_RING_LINE - 1)) ? MV_RING_CORRUPT : MV_RING_OK;
}

/* As mv_spsc_peek. MV_RING_HOLE: the frame at `pos` is claimed or unwritten. */
static inline int mv_mpsc_peek(mv_ring *r, mv_frame *out, int max, int verify) {
    int n = 0;
    if (mv_mpsc_limit(r)) return MV_RING_CORRUPT;
    while (n < max && r->pos != r->tail_cache) {
        mv_frame *f = &out[n];
        mv_head h;
        uint64_t word = mv_ld(mv_word_at(r, r->pos), memory_order_acquire); /* ACQ: the frame is complete */
        if ((uint32_t)word == 0 ? word == 0 : !mv_mpsc_committed(word) && -(int64_t)(int32_t)(uint32_t)word <= (int64_t)r->capacity / 2)
            return n ? n : MV_RING_HOLE;
        memcpy((uint8_t *)&h + 8, r->data + (r->pos & r->mask) + 8, sizeof h - 8);
        h.word = word;
        int fault = mv_judge(r, &h, r->pos, r->tail_cache - r->pos, f);
        if (fault) return n ? n : mv_report(r, 0, fault, mv_resync(r));
        uint64_t rec = mv_record_bytes(f->length + MV_RING_HEADER);
        if (f->type == MV_FRAME_PAD) {
            r->pos += rec;
            continue;
        }
        unsigned s = mv_seat(r, f);
        int fragment = mv_is_fragment(f);
        if (n && (fragment || ((r->known >> s & 1) && f->seq != r->expected[s]))) return n;
        fault = mv_follow(r, f);
        if (fault) return mv_report(r, s, fault, r->pos);
        if (f->type == MV_FRAME_ABORTED) {
            r->pos += rec;
            continue;
        }
        if (verify && !mv_payload_good(f)) return mv_refuse_payload(r, f, n);
        r->pos += rec;
        n++;
        if (fragment) break;
    }
    return n ? n : MV_RING_EMPTY;
}

/* Where the header words begin again after the hole at `pos`. ACQ: a later claim's words are seen whole. */
static inline uint64_t mv_mpsc_next_word(mv_ring *r, uint64_t pos, uint64_t tail) {
    while (pos != tail && mv_ld(mv_word_at(r, pos), memory_order_acquire) == 0) pos += MV_RING_LINE;
    return pos;
}

/* First step: how far the hole at `pos` reaches. ACQ on `tail`: every claim before it was announced where we can see it. */
static inline void mv_mpsc_hole(mv_ring *r) {
    uint64_t tail = mv_ld(&r->ctl->tail, memory_order_acquire) & ~(uint64_t)(MV_RING_LINE - 1); /* damaged, it stays on the grid */
    r->hole_end = tail - r->pos > r->capacity ? r->pos : mv_mpsc_next_word(r, r->pos, tail);
}

/* Second step, with the seats (bits) that were found alive after the first. Skips a dead hole: MV_RING_OK; else MV_RING_HOLE. */
static inline int mv_mpsc_unblock(mv_ring *r, uint64_t alive) {
    uint64_t word = mv_ld(mv_word_at(r, r->pos), memory_order_acquire); /* ACQ: with the rest of the header */
    if (mv_mpsc_committed(word)) return MV_RING_OK;
    if (word) {
        uint64_t rec = mv_record_bytes((uint64_t)-(int64_t)(int32_t)(uint32_t)word);
        unsigned source = (unsigned)(word >> 48), seat = source & 63;
        uint32_t epoch = atomic_load_explicit(&r->ctl->row[seat].epoch, memory_order_acquire) & 1023;
        if ((alive >> seat & 1) && epoch == source >> 6) return MV_RING_HOLE;
        /* Nobody writes it any more, but a commit may have come between our two looks. */
        if (mv_mpsc_committed(mv_ld(mv_word_at(r, r->pos), memory_order_acquire))) return MV_RING_OK;
        if (rec > r->capacity - (r->pos & r->mask)) return MV_RING_CORRUPT;
        r->known &= ~(UINT64_C(1) << seat);
        r->pos += rec;
    } else {
        uint64_t length = r->hole_end - r->pos;
        if (length == 0 || length > r->capacity) return MV_RING_HOLE;
        for (int seat = 0; seat < MV_RING_ROWS; seat++) {
            if (!(alive >> seat & 1)) continue;
            mv_ring_row *row = &r->ctl->row[seat];
            /* ACQ: a seat that announces a later claim has written the header words of the earlier one */
            uint64_t need = mv_ld(&row->need, memory_order_acquire), pos = mv_ld(&row->pos, memory_order_acquire);
            if (need && (pos - r->pos < length || r->pos - pos < need)) return MV_RING_HOLE;
        }
        if (mv_mpsc_next_word(r, r->pos, r->hole_end) != r->hole_end) return MV_RING_HOLE; /* somebody wrote after all */
        r->pos = r->hole_end;
    }
    mv_bump(&r->ctl->unblocked, 1);
    return MV_RING_OK;
}

#endif
