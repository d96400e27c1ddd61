/* mpsc.h: many producers, one consumer, lossless. Claim and commit per frame, after Aeron's many-to-one ring buffer.

   producer   announces the claim in its slot, moves `tail` by CAS, stores the header word with a negative length
              (claimed), fills the frame, stores the positive length (committed)
   consumer   takes committed frames in order of position, records them in `consumed`, zeroes the header words, releases
              the bytes by `head`

   A producer that dies leaves a gap, which blocks the frames after it:
     claimed    the header word has its slot and epoch: without a living owner of that epoch, skip the frame
     unwritten  it died between CAS and header word, so the size is unknown. Free memory has no header words, so the gap
                extends at most to the next one. Every claim was announced before its CAS: if no living slot announces a
                claim in that range, and the range is still empty afterwards, no producer will write it: skip it.
   The order of these steps matters: `tail`, which slots are alive, the announcements, the range again
   (mv_mpsc_measure_gap, the caller's query, mv_mpsc_unblock). The model in tests/sharing/ring_model.py explores every
   interleaving and shows what breaks without each step. A stopped (SIGSTOP) producer is alive: the ring waits for
   it. */
#ifndef MOJOVIEW_RING_MPSC_H
#define MOJOVIEW_RING_MPSC_H

#include "layout.h"

/* Store the header, its first word last. REL: the frame is complete when the word is visible. */
static inline void mv_mpsc_seal(mv_ring *r, uint64_t pos, mv_ring_header *h) {
    h->check = mv_header_check(h, pos);
    memcpy(r->data + (pos & r->mask) + 8, (const uint8_t *)h + 8, sizeof *h - 8);
    mv_atomic_store(mv_word_at(r, pos), h->word, memory_order_release);
}

/* Take over a slot whose lock the caller holds. The predecessor's announcement is cleared first. */
static inline int mv_mpsc_acquire_slot(mv_ring *r, int slot, uint32_t pid) {
    mv_ring_slot *own = &r->ctl->slot[slot];
    mv_atomic_store(&own->need, 0, memory_order_relaxed); /* before the epoch, which is released */
    uint32_t epoch = (atomic_load_explicit(&own->epoch, memory_order_relaxed) + 1) & 1023;
    atomic_store_explicit(&own->pid, pid, memory_order_relaxed);
    atomic_store_explicit(&own->epoch, epoch, memory_order_release); /* before any claim that carries it */
    r->slot = slot;
    r->source = (unsigned)slot | epoch << 6;
    r->next_seq = mv_atomic_load(&own->next_seq, memory_order_acquire);
    r->bytes = mv_atomic_load(&own->bytes, memory_order_relaxed);
    return MV_RING_OK;
}

/* Reserve a frame. Each claim is completed by mv_mpsc_commit; several may be open. */
static inline int mv_mpsc_claim(mv_ring *r, uint64_t n, int type, int flags, uint64_t *pos) {
    mv_ring_slot *own = &r->ctl->slot[r->slot];
    uint64_t rec = mv_record_bytes(n + MV_RING_HEADER), tail = mv_atomic_load(&r->ctl->tail, memory_order_relaxed), pad;
    if (n > mv_max_payload(r))
        return MV_RING_TOO_BIG;
    for (;;) {
        uint64_t head =
            mv_atomic_load(&r->ctl->head, memory_order_acquire); /* the bytes were read and zeroed before we write */
        atomic_thread_fence(
            memory_order_release); /* an observer that copies a byte of ours sees that they were consumed */
        pad = mv_padding(r, tail, rec);
        if (tail - head > r->capacity || tail + pad + rec - head > r->capacity) {
            uint64_t seen = tail;
            tail = mv_atomic_load(&r->ctl->tail, memory_order_relaxed);
            if (tail == seen)
                return tail - head > r->capacity ? MV_RING_CORRUPT : MV_RING_FULL;
            continue; /* `tail` was stale */
        }
        if (tail & (MV_RING_LINE - 1))
            return MV_RING_CORRUPT;
        /* REL: a later announcement is seen only with the header words of the claims before it */
        mv_atomic_store(&own->pos, tail, memory_order_release);
        mv_atomic_store(&own->need, pad + rec, memory_order_release);
        /* REL: a process that sees the new tail sees the announcement. A failed CAS yields only a hint. */
        if (atomic_compare_exchange_strong_explicit(&r->ctl->tail, &tail, tail + pad + rec, memory_order_release,
                                                    memory_order_relaxed))
            break;
        /* Withdraw: if the ring is full now, the consumer would wait for this claim at a dead winner's gap, and we for
           it. */
        mv_atomic_store(&own->need, 0, memory_order_release);
    }
    if (pad) {
        mv_ring_header h = {mv_header_word((uint32_t)pad, MV_FRAME_PAD, MV_FLAG_WHOLE, r->source), 0, 0, 0, 0};
        mv_mpsc_seal(r, tail, &h);
    }
    *pos = tail + pad;
    mv_ring_header claimed = {mv_header_word((uint32_t)-(int32_t)(n + MV_RING_HEADER), type, flags, r->source),
                              r->next_seq++, 0, 0, 0};
    mv_mpsc_seal(r, *pos, &claimed);
    mv_atomic_store(&own->next_seq, r->next_seq, memory_order_relaxed); /* before the commit: no number is used twice */
    return MV_RING_OK;
}

static inline uint8_t *mv_mpsc_payload(const mv_ring *r, uint64_t pos) {
    return r->data + (pos & r->mask) + MV_RING_HEADER;
}

/* Complete a claim of `n` bytes; type MV_FRAME_ABORTED gives it up. Return its sequence number. */
static inline uint64_t mv_mpsc_commit(mv_ring *r, uint64_t pos, uint64_t n, int type, int flags, uint64_t t_ns,
                                      uint32_t crc) {
    mv_ring_header h;
    memcpy(&h, r->data + (pos & r->mask), sizeof h); /* our own claim */
    h.word = mv_header_word((uint32_t)(n + MV_RING_HEADER), type, flags, r->source);
    h.t_ns = t_ns;
    h.crc = crc;
    r->bytes += n;
    mv_atomic_store(&r->ctl->slot[r->slot].bytes, r->bytes, memory_order_relaxed); /* statistics */
    mv_mpsc_seal(r, pos, &h);
    return h.seq;
}

/* Zero the header words up to `upto`, then release the bytes. REL: reads and zeros come before. */
static inline void mv_mpsc_zero(mv_ring *r, uint64_t from, uint64_t upto) {
    for (uint64_t q = from; q != upto; q += MV_RING_LINE)
        mv_atomic_store(mv_word_at(r, q), 0, memory_order_relaxed); /* ordered by the store of `head` */
    mv_atomic_store(&r->ctl->head, upto, memory_order_release);
}

/* Release the bytes before `upto`. REL on `consumed`: a successor must not read frames whose words may be zeroed. */
static inline void mv_mpsc_release(mv_ring *r, uint64_t upto) {
    mv_atomic_store(&r->ctl->consumed, upto, memory_order_release);
    atomic_thread_fence(memory_order_release); /* `consumed` before the first zero */
    mv_mpsc_zero(r, r->released, upto);
    r->released = upto;
}

/* Start, or take over, as consumer; complete the zeroing that a dead predecessor had begun. */
static inline int mv_mpsc_consume(mv_ring *r) {
    uint64_t head = mv_atomic_load(&r->ctl->head, memory_order_acquire),
             consumed = mv_atomic_load(&r->ctl->consumed, memory_order_acquire);
    if (consumed - head > r->capacity || ((head | consumed) & (MV_RING_LINE - 1)))
        return MV_RING_CORRUPT;
    mv_mpsc_zero(r, head, consumed);
    r->pos = r->released = consumed;
    mv_expect_from_start(r);
    return MV_RING_OK;
}

/* Return whether there is a frame to read. RLX: hints. In a full ring the word at `tail` belongs to the oldest
   frame. */
static inline int mv_mpsc_available(mv_ring *r) {
    if (mv_atomic_load(&r->ctl->tail, memory_order_relaxed) == r->pos)
        return MV_RING_EMPTY;
    return mv_mpsc_committed(mv_atomic_load(mv_word_at(r, r->pos), memory_order_relaxed)) ? MV_RING_OK : MV_RING_EMPTY;
}

static inline int mv_mpsc_limit(mv_ring *r) { /* RLX: bounds only; frames are acquired one by one */
    r->tail_cache = mv_atomic_load(&r->ctl->tail, memory_order_relaxed);
    return r->tail_cache - r->pos > r->capacity || (r->tail_cache & (MV_RING_LINE - 1)) ? MV_RING_CORRUPT : MV_RING_OK;
}

/* Like mv_spsc_peek. MV_RING_GAP: the frame at `pos` is claimed or unwritten. */
static inline int mv_mpsc_peek(mv_ring *r, mv_ring_frame *out, int max, int verify) {
    int n = 0;
    if (mv_mpsc_limit(r))
        return MV_RING_CORRUPT;
    while (n < max && r->pos != r->tail_cache) {
        mv_ring_frame *f = &out[n];
        mv_ring_header h;
        uint64_t word = mv_atomic_load(mv_word_at(r, r->pos), memory_order_acquire); /* ACQ: the frame is complete */
        if ((uint32_t)word == 0
                ? word == 0
                : !mv_mpsc_committed(word) && -(int64_t)(int32_t)(uint32_t)word <= (int64_t)r->capacity / 2)
            return n ? n : MV_RING_GAP;
        memcpy((uint8_t *)&h + 8, r->data + (r->pos & r->mask) + 8, sizeof h - 8);
        h.word = word;
        int fault = mv_validate_header(r, &h, r->pos, r->tail_cache - r->pos, f);
        if (fault)
            return n ? n : mv_report_break(r, 0, fault, mv_resync(r));
        uint64_t rec = mv_record_bytes(f->length + MV_RING_HEADER);
        if (f->type == MV_FRAME_PAD) {
            r->pos += rec;
            continue;
        }
        unsigned s = mv_source_slot(r, f);
        int fragment = mv_is_fragment(f);
        if (n && (fragment || ((r->expected_valid >> s & 1) && f->seq != r->expected[s])))
            return n;
        fault = mv_check_sequence(r, f);
        if (fault)
            return mv_report_break(r, s, fault, r->pos);
        if (f->type == MV_FRAME_ABORTED) {
            r->pos += rec;
            continue;
        }
        if (verify && !mv_payload_valid(f))
            return mv_defer_bad_payload(r, f, n);
        r->pos += rec;
        n++;
        if (fragment)
            break;
    }
    return n ? n : MV_RING_EMPTY;
}

/* Return the position of the first header word after the gap at `pos`. ACQ: a later claim's header is complete. */
static inline uint64_t mv_mpsc_next_word(mv_ring *r, uint64_t pos, uint64_t tail) {
    while (pos != tail && mv_atomic_load(mv_word_at(r, pos), memory_order_acquire) == 0)
        pos += MV_RING_LINE;
    return pos;
}

/* First step: find the end of the gap at `pos`. ACQ on `tail`: the announcement of every claim before it is visible. */
static inline void mv_mpsc_measure_gap(mv_ring *r) {
    uint64_t tail = mv_atomic_load(&r->ctl->tail, memory_order_acquire) &
                    ~(uint64_t)(MV_RING_LINE - 1); /* on the grid also if damaged */
    r->gap_end = tail - r->pos > r->capacity ? r->pos : mv_mpsc_next_word(r, r->pos, tail);
}

/* Second step, with the slots (bits) that were alive after the first. Return MV_RING_OK if the gap was skipped, else
   MV_RING_GAP. */
static inline int mv_mpsc_unblock(mv_ring *r, uint64_t alive) {
    uint64_t word = mv_atomic_load(mv_word_at(r, r->pos), memory_order_acquire); /* ACQ: with the rest of the header */
    if (mv_mpsc_committed(word))
        return MV_RING_OK;
    if (word) {
        uint64_t rec = mv_record_bytes((uint64_t)-(int64_t)(int32_t)(uint32_t)word);
        unsigned source = (unsigned)(word >> 48), slot = source & 63;
        uint32_t epoch = atomic_load_explicit(&r->ctl->slot[slot].epoch, memory_order_acquire) & 1023;
        if ((alive >> slot & 1) && epoch == source >> 6)
            return MV_RING_GAP;
        /* Its owner is dead, but may have committed after the first load. */
        if (mv_mpsc_committed(mv_atomic_load(mv_word_at(r, r->pos), memory_order_acquire)))
            return MV_RING_OK;
        if (rec > r->capacity - (r->pos & r->mask))
            return MV_RING_CORRUPT;
        r->expected_valid &= ~(UINT64_C(1) << slot);
        r->pos += rec;
    } else {
        uint64_t length = r->gap_end - r->pos;
        if (length == 0 || length > r->capacity)
            return MV_RING_GAP;
        for (int slot = 0; slot < MV_RING_SLOTS; slot++) {
            if (!(alive >> slot & 1))
                continue;
            mv_ring_slot *other = &r->ctl->slot[slot];
            /* ACQ: a slot that announces a later claim has written the header words of the earlier one */
            uint64_t need = mv_atomic_load(&other->need, memory_order_acquire),
                     pos = mv_atomic_load(&other->pos, memory_order_acquire);
            if (need && (pos - r->pos < length || r->pos - pos < need))
                return MV_RING_GAP;
        }
        if (mv_mpsc_next_word(r, r->pos, r->gap_end) != r->gap_end)
            return MV_RING_GAP; /* it was written after all */
        r->pos = r->gap_end;
    }
    mv_count(&r->ctl->unblocked, 1);
    return MV_RING_OK;
}

#endif
