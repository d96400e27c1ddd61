/* layout.h: the layout of all rings in shared memory, wrapping at the end, the frame header and its validation.

   Positions are 64-bit counts of bytes that only grow; the index is `position & mask`. There is no ABA and no unused
   slot, and fullness, lag and laps are subtractions that remain right when the counter wraps. Frames begin at multiples
   of 64.

   Shared memory is untrusted: a length is read into a local once and bounded before it is used, and a header is valid
   only if its check, which covers the absolute position, matches. A frame of an earlier lap, or bytes of a payload that
   look like a header, cannot pass for a frame. */
#ifndef MOJOVIEW_RING_LAYOUT_H
#define MOJOVIEW_RING_LAYOUT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "../crc32c.h"

enum { MV_RING_LINE = 64, MV_RING_HEADER = 32, MV_RING_SLOTS = 64, MV_RING_CTL_BYTES = 12288 };
enum { MV_RING_SPSC = 1, MV_RING_MPSC = 2, MV_RING_BROADCAST = 3, MV_RING_RECORDER = 4 };

/* Frame types below 16 are the ring's own, except DATA; users' types begin at 16. */
enum { MV_FRAME_DATA = 1, MV_FRAME_PAD = 2, MV_FRAME_ABORTED = 3, MV_FRAME_USER = 16 };
/* A whole message has both BEGIN and END; a fragment lacks one or both. */
enum { MV_FLAG_BEGIN = 1, MV_FLAG_END = 2, MV_FLAG_WHOLE = 3, MV_FLAG_CRC = 4 };

enum {
    MV_RING_OK = 0,
    MV_RING_EMPTY = -1,
    MV_RING_FULL = -2,
    MV_RING_TOO_BIG = -3,
    MV_RING_BROKEN = -4,
    MV_RING_LAPPED = -5,
    MV_RING_CORRUPT = -6,
    MV_RING_GAP = -7,
    MV_RING_SHORT_BUFFER = -8
};
enum { MV_BREAK_NONE = 0, MV_BREAK_HEADER, MV_BREAK_LENGTH, MV_BREAK_CRC, MV_BREAK_SEQUENCE };

/* The sequence number and byte count that belong to one value of `tail`. There are two, written alternately before
   `tail`: whenever a producer dies, one of them matches the published tail, and its successor continues from that
   one. */
typedef struct {
    _Atomic uint64_t tail, next_seq, bytes;
} mv_ring_tail_record;

/* Bytes of the segment's file whose locks prove that the owner of a role is alive; bytes 0 and 1 are the segment's. */
enum { MV_LOCK_PRODUCER = 2, MV_LOCK_CONSUMER = 3, MV_LOCK_SLOT = 16 };

/* Slot of a producer (MPSC) or of a reader (broadcast). The owner holds the segment's lock on the slot's byte. */
typedef struct {
    _Atomic uint32_t pid,
        epoch; /* epoch: incremented by each owner, which distinguishes its claims from a dead predecessor's */
    _Atomic uint64_t pos,
        need; /* producer: the claim, announced before `tail` moves. reader: its position, for statistics */
    _Atomic uint64_t next_seq; /* producer: the number of its next frame */
    _Atomic uint64_t bytes, dropped, lost;
    uint8_t unused[128 - 56];
} mv_ring_slot;

typedef struct {
    _Atomic uint32_t futex, waiters;
    uint8_t unused[120];
} mv_ring_waitqueue;

typedef struct {
    /* written by the producer */
    _Atomic uint64_t tail;  /* bytes before it are published (MPSC: claimed) */
    _Atomic uint64_t claim; /* broadcast: bytes before `claim - capacity` may be torn */
    mv_ring_tail_record tail_record[2];
    _Atomic uint64_t dropped;
    _Atomic uint32_t producer; /* MV_SIDE_*, with pid */
    _Atomic uint32_t producer_pid;
    uint8_t unused0[48];
    /* written by the consumer */
    _Atomic uint64_t head;     /* bytes before it may be overwritten */
    _Atomic uint64_t consumed; /* MPSC: bytes before it were delivered and are being zeroed */
    _Atomic uint64_t frames, lost, broken, crc_errors, resyncs, unblocked;
    _Atomic uint32_t consumer, consumer_pid;
    uint8_t unused1[56];
    mv_ring_waitqueue data, space;
    /* constants, written at creation */
    uint64_t start_pos, start_seq;
    uint64_t clock, tick_base, ns_base, ns_per_tick; /* 32.32 fixed point */
    uint8_t unused2[4096 - 560];
    mv_ring_slot slot[MV_RING_SLOTS];
} mv_ring_ctl;

enum { MV_RING_CLAIM_AT = offsetof(mv_ring_ctl, claim) };

enum { MV_SIDE_NONE = 0, MV_SIDE_ACTIVE = 1, MV_SIDE_CLOSED = 2 };

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2, "atomics in shared memory must be lock-free");
_Static_assert(offsetof(mv_ring_ctl, head) == 128, "the two sides share neither a cache line nor a pair of lines");
_Static_assert(offsetof(mv_ring_ctl, data) == 256, "wait queue of readers");
_Static_assert(offsetof(mv_ring_ctl, space) == 384, "wait queue of producers");
_Static_assert(offsetof(mv_ring_ctl, start_pos) == 512, "constants");
_Static_assert(offsetof(mv_ring_ctl, slot) == 4096, "slots");
_Static_assert(sizeof(mv_ring_slot) == 128, "a slot is a pair of cache lines");
_Static_assert(sizeof(mv_ring_ctl) == MV_RING_CTL_BYTES, "control block");

/* Frame header in memory, little-endian. `word`: bits 0-31 length with header (MPSC: the commit word; negative =
   claimed, 0 = empty), 32-39 type, 40-47 flags, 48-63 source (MPSC: slot in the low 6 bits, its epoch above; else
   0). */
typedef struct {
    uint64_t word, seq, t_ns;
    uint32_t crc, check;
} mv_ring_header;
_Static_assert(sizeof(mv_ring_header) == MV_RING_HEADER, "frame header");

typedef struct { /* a validated frame */
    uint64_t pos, seq, t_ns;
    const uint8_t *payload;
    uint32_t length, crc;
    uint8_t type, flags;
    uint16_t source;
} mv_ring_frame;

typedef struct {
    uint64_t pos, seq;
    int seq_known, reason;
} mv_ring_break;

typedef struct { /* handle of one process, in its private memory */
    mv_ring_ctl *ctl;
    uint8_t *data;
    uint64_t capacity, mask;
    int mode, crc;
    int readonly; /* mapped without write access */
    int observer; /* reads a lossless ring without consuming or counting */
    /* producer */
    uint64_t tail, head_cache, next_seq, bytes;
    int tail_record; /* index of the record of the published tail */
    int slot;        /* slot of this handle, or -1 */
    unsigned source; /* MPSC: slot and epoch */
    /* consumer */
    uint64_t pos, tail_cache;
    uint64_t released; /* bytes before it are the producer's again; at most `pos` */
    uint64_t expected[MV_RING_SLOTS];
    uint64_t expected_valid; /* bit s: expected[s] is valid */
    int gaps_allowed;        /* a recording keeps the gaps of the recorded stream */
    uint64_t gap_expected;   /* bit s: after a break or a lap a gap in the numbers of s is counted, not reported */
    mv_ring_break broken;
    uint64_t gap_end; /* MPSC: end of the unwritten gap at `pos` */
    uint64_t lost, resyncs;
} mv_ring;

static inline uint64_t mv_atomic_load(const _Atomic uint64_t *p, memory_order order) {
    return atomic_load_explicit(p, order);
}
static inline void mv_atomic_store(_Atomic uint64_t *p, uint64_t v, memory_order order) {
    atomic_store_explicit(p, v, order);
}
/* Add to a counter that has one writer: no locked instruction is needed. RLX: it orders nothing. */
static inline void mv_count(_Atomic uint64_t *p, uint64_t n) {
    mv_atomic_store(p, mv_atomic_load(p, memory_order_relaxed) + n, memory_order_relaxed);
}

static inline uint64_t mv_record_bytes(uint64_t length) {
    return (length + MV_RING_LINE - 1) & ~(uint64_t)(MV_RING_LINE - 1);
}
static inline uint64_t mv_max_payload(const mv_ring *r) {
    return r->capacity / 2 - MV_RING_HEADER;
} /* fits with padding in front */

static inline uint64_t mv_header_word(uint32_t length, int type, int flags, unsigned source) {
    return length | (uint64_t)(uint8_t)type << 32 | (uint64_t)(uint8_t)flags << 40 | (uint64_t)(uint16_t)source << 48;
}
static inline uint32_t mv_header_check(const mv_ring_header *h, uint64_t pos) {
    const uint64_t words[5] = {h->word, h->seq, h->t_ns, h->crc, pos};
    return mv_crc32c_words(words, 5);
}

/* Copy from and to memory that another process may be writing: relaxed 64-bit words, since memcpy would be a data race.
   `shared` is aligned to 8, and the word of a frame's last bytes belongs to its record. */
static inline void mv_copy_from_shared(uint8_t *dst, const uint8_t *shared, uint64_t n) {
    const _Atomic uint64_t *words = (const _Atomic uint64_t *)shared;
    for (; n >= 8; n -= 8, dst += 8)
        mv_store64(dst, mv_atomic_load(words++, memory_order_relaxed));
    if (n) {
        uint64_t word = mv_atomic_load(words, memory_order_relaxed);
        memcpy(dst, &word, n);
    }
}
static inline void mv_copy_to_shared(uint8_t *shared, const uint8_t *src, uint64_t n) {
    _Atomic uint64_t *words = (_Atomic uint64_t *)shared;
    for (; n >= 8; n -= 8, src += 8)
        mv_atomic_store(words++, mv_load64(src), memory_order_relaxed);
    if (n) {
        uint64_t word = 0;
        memcpy(&word, src, n);
        mv_atomic_store(words, word, memory_order_relaxed);
    }
}

/* Return the padding before a record of `rec` bytes at `tail`: the rest of the lap if the record would not be
   contiguous. */
static inline uint64_t mv_padding(const mv_ring *r, uint64_t tail, uint64_t rec) {
    uint64_t rest = r->capacity - (tail & r->mask);
    return rest < rec ? rest : 0;
}

/* Validate the header `h` read at `pos`, from where `limit` bytes are known to be written. */
static inline int mv_validate_header(const mv_ring *r, const mv_ring_header *h, uint64_t pos, uint64_t limit,
                                     mv_ring_frame *f) {
    uint32_t length = (uint32_t)h->word;
    uint64_t rest = r->capacity - (pos & r->mask), rec = mv_record_bytes(length);
    if (h->check != mv_header_check(h, pos))
        return MV_BREAK_HEADER;
    f->type = (uint8_t)(h->word >> 32);
    if (length < MV_RING_HEADER || rec > limit || rec > rest || (f->type == MV_FRAME_PAD && rec != rest))
        return MV_BREAK_LENGTH;
    f->flags = (uint8_t)(h->word >> 40);
    f->source = (uint16_t)(h->word >> 48);
    f->pos = pos;
    f->seq = h->seq;
    f->t_ns = h->t_ns;
    f->crc = h->crc;
    f->length = length - MV_RING_HEADER;
    f->payload = r->data + (pos & r->mask) + MV_RING_HEADER;
    return MV_BREAK_NONE;
}

/* MPSC: the header word at `pos`, which is also the commit word. */
static inline _Atomic uint64_t *mv_word_at(const mv_ring *r, uint64_t pos) {
    return (_Atomic uint64_t *)(r->data + (pos & r->mask));
}
static inline int mv_mpsc_committed(uint64_t word) { return (int32_t)(uint32_t)word > 0; }

static inline unsigned mv_source_slot(const mv_ring *r, const mv_ring_frame *f) {
    return r->mode == MV_RING_MPSC ? f->source & 63u : 0;
}

/* Check that the numbers of one source are consecutive. A gap is counted, and reported once unless a break or a lap
   explains it. In a recording a gap forward belongs to the recorded stream. A number that goes back is not counted. */
static inline int mv_check_sequence(mv_ring *r, const mv_ring_frame *f) {
    unsigned s = mv_source_slot(r, f);
    uint64_t bit = UINT64_C(1) << s, gap = r->expected_valid & bit ? f->seq - r->expected[s] : 0;
    int forward = gap < UINT64_C(1) << 63;
    if (gap && !(r->gap_expected & bit) && !(r->gaps_allowed && forward)) {
        r->gap_expected |= bit;
        return MV_BREAK_SEQUENCE;
    }
    if (forward)
        r->lost += gap;
    r->gap_expected &= ~bit;
    r->expected_valid |= bit;
    r->expected[s] = f->seq + 1;
    return MV_BREAK_NONE;
}

/* Return the ring's first position. Rounded down: a damaged word must not lead off the grid of frames. */
static inline uint64_t mv_ring_start(const mv_ring *r) { return r->ctl->start_pos & ~(uint64_t)(MV_RING_LINE - 1); }

/* A consumer that starts at the ring's first position has the first number of every source. */
static inline void mv_expect_from_start(mv_ring *r) {
    int begins = r->pos == mv_ring_start(r);
    for (int s = 0; s < MV_RING_SLOTS; s++)
        r->expected[s] = begins ? r->ctl->start_seq : 0;
    r->expected_valid = begins ? ~UINT64_C(0) : 0;
}

/* Report a damaged frame at `pos`; reading continues at `until`. */
static inline int mv_report_break(mv_ring *r, unsigned slot, int reason, uint64_t until) {
    r->broken.pos = r->pos;
    r->broken.seq = r->expected[slot];
    r->broken.seq_known = r->expected_valid >> slot & 1;
    r->broken.reason = reason;
    r->pos = until;
    return MV_RING_BROKEN;
}

/* Report a frame whose payload is damaged; its valid header has the number. */
static inline int mv_report_bad_payload(mv_ring *r, const mv_ring_frame *f) {
    r->pos = f->pos;
    mv_report_break(r, mv_source_slot(r, f), MV_BREAK_CRC, f->pos + mv_record_bytes(f->length + MV_RING_HEADER));
    r->broken.seq = f->seq;
    return MV_RING_BROKEN;
}

/* A peek found a damaged payload: return the `n` valid frames before it first; the next peek reports it. */
static inline int mv_defer_bad_payload(mv_ring *r, const mv_ring_frame *f, int n) {
    if (n == 0)
        return mv_report_bad_payload(r, f);
    r->expected[mv_source_slot(r, f)] = f->seq;
    return n;
}

static inline int mv_payload_valid(const mv_ring_frame *f) {
    return !(f->flags & MV_FLAG_CRC) || mv_crc32c(0, f->payload, f->length) == f->crc;
}
static inline int mv_is_fragment(const mv_ring_frame *f) { return (f->flags & MV_FLAG_WHOLE) != MV_FLAG_WHOLE; }

/* Return the position of the next valid header (MPSC: or claim) after a damaged one, or the last tail that was read. */
static inline uint64_t mv_resync(mv_ring *r) {
    uint64_t q = r->pos;
    mv_ring_frame f;
    mv_ring_header h;
    do {
        q += MV_RING_LINE;
        if (q == r->tail_cache)
            break;
        mv_copy_from_shared((uint8_t *)&h, r->data + (q & r->mask), sizeof h);
        if (r->mode == MV_RING_MPSC && (int32_t)(uint32_t)h.word < 0 && h.check == mv_header_check(&h, q))
            break;
    } while (mv_validate_header(r, &h, q, r->tail_cache - q, &f));
    r->gap_expected = ~UINT64_C(0); /* frames of any source may be among the damaged bytes */
    r->resyncs++;
    return q;
}

/* Record number and bytes for `tail` before it is published. RLX: ordered by the release of `tail` that follows. */
static inline void mv_record_tail(mv_ring *r, uint64_t tail) {
    mv_ring_tail_record *record = &r->ctl->tail_record[r->tail_record ^= 1];
    mv_atomic_store(&record->next_seq, r->next_seq, memory_order_relaxed);
    mv_atomic_store(&record->bytes, r->bytes, memory_order_relaxed);
    mv_atomic_store(&record->tail, tail, memory_order_relaxed);
}

/* Read the record of the published tail. Exact at rest and, in a broadcast ring, beside a running producer: a release
   fence is between one publication and the records of the next, so if a record was overwritten, the reloaded tail
   differs. */
static inline int mv_read_tail_record(mv_ring *r, uint64_t *tail, uint64_t *next_seq, uint64_t *bytes) {
    for (int attempt = 0; attempt < 1000; attempt++) {
        *tail = mv_atomic_load(&r->ctl->tail, memory_order_acquire);
        for (int k = 0; k < 2; k++) {
            mv_ring_tail_record *record = &r->ctl->tail_record[k];
            if (mv_atomic_load(&record->tail, memory_order_relaxed) != *tail)
                continue;
            *next_seq = mv_atomic_load(&record->next_seq, memory_order_relaxed);
            *bytes = mv_atomic_load(&record->bytes, memory_order_relaxed);
            atomic_thread_fence(memory_order_acquire);
            if (mv_atomic_load(&r->ctl->tail, memory_order_relaxed) == *tail)
                return r->tail_record = k, MV_RING_OK;
        }
    }
    return MV_RING_CORRUPT;
}

/* Format zeroed memory as a ring. `start` and `seq` are 0, except in tests of wrapping counters. */
static inline void mv_ring_format(mv_ring_ctl *ctl, uint64_t start, uint64_t seq) {
    ctl->start_pos = start;
    ctl->start_seq = seq;
    ctl->tail = ctl->claim = ctl->head = ctl->consumed = start;
    ctl->tail_record[0].tail = ctl->tail_record[1].tail = start;
    ctl->tail_record[0].next_seq = ctl->tail_record[1].next_seq = seq;
    for (int slot = 0; slot < MV_RING_SLOTS; slot++)
        ctl->slot[slot].next_seq = seq;
}

/* Open a handle on a ring of `bytes` bytes. Capacity, mode and crc come from the segment's header, which has a
   checksum. */
static inline int mv_ring_open(mv_ring *r, void *payload, uint64_t bytes, uint64_t capacity, int mode, int crc) {
    memset(r, 0, sizeof *r);
    if (bytes < sizeof *r->ctl || capacity < 4096 || capacity > bytes - sizeof *r->ctl || (capacity & (capacity - 1)) ||
        mode < MV_RING_SPSC || mode > MV_RING_RECORDER)
        return MV_RING_CORRUPT;
    r->ctl = (mv_ring_ctl *)payload;
    r->data = (uint8_t *)payload + sizeof *r->ctl;
    r->capacity = capacity;
    r->mask = capacity - 1;
    r->mode = mode;
    r->crc = crc;
    r->gaps_allowed = mode == MV_RING_RECORDER;
    r->slot = -1;
    return MV_RING_OK;
}

#endif
