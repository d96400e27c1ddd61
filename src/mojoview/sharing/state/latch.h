/* The K-slot latch: a small record, one writer, any number of readers, no locks, never half an update.
 *
 * Publication n lives in slot n mod K. Its mark is 2n once it is whole and odd while it is written. A reader that took n from
 * `latest` copies, then demands exactly 2n: what it copied is n's or newer, and whoever has seen a newer word sees the odd mark that
 * came before it. A look before the copy would add nothing; "any even mark" would let torn copies pass. It retries only when the
 * writer has made K - 1 further publications during the copy. A writer that dies leaves an odd mark in a slot that `latest` does not name: nobody looks there,
 * and its successor, who continues at latest + 1, writes it again.
 *
 * After Boehm, "Can seqlocks get along with programming language memory models?" (MSPC 2012) and Linux's seqcount_latch. The
 * payload is copied as relaxed atomic words: memcpy between the fences is a data race in C11. Readers store nothing, so they may
 * map the memory read-only and do not disturb each other. MV_LATCH_FENCE_FREE builds the variant without fences, for
 * ThreadSanitizer, which does not know them. */
#ifndef MOJOVIEW_LATCH_H
#define MOJOVIEW_LATCH_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "../segment/failpoint.h"
#include "../segment/segment.h"

#define MV_LATCH_LINE 128

typedef struct mv_latch {
    _Atomic uint64_t latest; /* number of the newest publication; 0 = none. Its low half is the futex word of sleeping readers */
    uint64_t pad[15];        /* alone in its line */
} mv_latch;

typedef struct mv_latch_slot {
    _Atomic uint64_t mark;
    _Atomic uint64_t time_ns; /* CLOCK_MONOTONIC; part of the record */
    _Atomic uint64_t words[];
} mv_latch_slot;

/* Where a latch lies in this process; every function takes it. */
typedef struct mv_latch_ref {
    char *base;      /* an mv_latch, then the slots */
    uint64_t mask;   /* K - 1 */
    uint64_t stride; /* from slot to slot, bytes */
    uint64_t bytes;  /* of a record */
} mv_latch_ref;

enum { MV_LATCH_NONE = 0, MV_LATCH_READ = 1, MV_LATCH_BUSY = -1, MV_LATCH_GONE = -2 };

_Static_assert(sizeof(mv_latch) == MV_LATCH_LINE, "latest is alone in its line");
_Static_assert(offsetof(mv_latch_slot, words) == 16, "slot");

static inline uint64_t mv_latch_stride(uint64_t bytes) { return (16 + bytes + MV_LATCH_LINE - 1) & ~(uint64_t)(MV_LATCH_LINE - 1); }
static inline mv_latch *mv_latch_head(const mv_latch_ref *r) { return (mv_latch *)(void *)r->base; }
static inline mv_latch_slot *mv_latch_slot_of(const mv_latch_ref *r, uint64_t n) {
    return (mv_latch_slot *)(void *)(r->base + sizeof(mv_latch) + (n & r->mask) * r->stride);
}

#ifdef MV_LATCH_FENCE_FREE
#define MV_LATCH_PUT memory_order_release
#define MV_LATCH_GET memory_order_acquire
#else
#define MV_LATCH_PUT memory_order_relaxed
#define MV_LATCH_GET memory_order_relaxed
#endif

static inline uint64_t mv_latch_latest(const mv_latch_ref *r) {
    return atomic_load_explicit(&mv_latch_head(r)->latest, memory_order_acquire); /* ACQ: what n promises is visible */
}

/* Publishes `record` as number latest + 1, which it returns. One thread at a time. */
static inline uint64_t mv_latch_write(const mv_latch_ref *r, const void *record, uint64_t time_ns) {
    mv_latch *head = mv_latch_head(r);
    uint64_t n = atomic_load_explicit(&head->latest, memory_order_relaxed) + 1; /* RLX: only we write it */
    mv_latch_slot *slot = mv_latch_slot_of(r, n);
    const char *from = (const char *)record;
    uint64_t i, whole = r->bytes / 8, rest = r->bytes % 8;
    MV_FAILPOINT("latch.before_mark");
#ifdef MV_LATCH_FENCE_FREE
    atomic_exchange_explicit(&slot->mark, 2 * n - 1, memory_order_acquire); /* ACQ: the payload's stores stay below it */
#else
    atomic_store_explicit(&slot->mark, 2 * n - 1, memory_order_relaxed); /* RLX: the fence below orders it */
    atomic_thread_fence(memory_order_release); /* REL: no payload store rises above the odd mark. A release *store* would not do */
#endif
    MV_FAILPOINT("latch.after_mark");
    atomic_store_explicit(&slot->time_ns, time_ns, MV_LATCH_PUT);
    for (i = 0; i < whole; i++) {
        uint64_t word;
        memcpy(&word, from + 8 * i, 8);
        atomic_store_explicit(&slot->words[i], word, MV_LATCH_PUT); /* RLX: between the two marks any order will do */
        if (i == whole / 2) MV_FAILPOINT("latch.mid_payload");
    }
    if (rest) {
        uint64_t last = 0;
        memcpy(&last, from + 8 * whole, rest);
        atomic_store_explicit(&slot->words[whole], last, MV_LATCH_PUT);
    }
    MV_FAILPOINT("latch.after_payload");
    atomic_store_explicit(&slot->mark, 2 * n, memory_order_release); /* REL: the even mark comes after the whole payload */
    MV_FAILPOINT("latch.before_latest");
    atomic_store_explicit(&head->latest, n, memory_order_release); /* REL: who reads n finds its slot whole */
    MV_FAILPOINT("latch.after_latest");
    return n;
}

#define MV_LATCH_WORD(k) (word = atomic_load_explicit(from + (k), MV_LATCH_GET), memcpy(to + 8 * (k), &word, 8))

/* Copies publication n out, if its slot still holds it: MV_LATCH_READ, or MV_LATCH_GONE and `record` is a mixture. n is at most what
 * mv_latch_latest() has given this thread. */
static inline int mv_latch_read_at(const mv_latch_ref *r, uint64_t n, void *record, uint64_t *time_ns) {
    mv_latch_slot *slot = mv_latch_slot_of(r, n);
    char *to = (char *)record;
    uint64_t time, word, whole = r->bytes / 8, rest = r->bytes % 8;
    const _Atomic uint64_t *from = slot->words;
    time = atomic_load_explicit(&slot->time_ns, MV_LATCH_GET);
    for (; whole >= 8; whole -= 8, from += 8, to += 64) { /* by hand: compilers leave loops over atomic words as they are */
        MV_LATCH_WORD(0), MV_LATCH_WORD(1), MV_LATCH_WORD(2), MV_LATCH_WORD(3);
        MV_LATCH_WORD(4), MV_LATCH_WORD(5), MV_LATCH_WORD(6), MV_LATCH_WORD(7);
    }
    for (; whole >= 2; whole -= 2, from += 2, to += 16) MV_LATCH_WORD(0), MV_LATCH_WORD(1);
    if (whole) MV_LATCH_WORD(0), from++, to += 8;
    if (rest) {
        uint64_t last = atomic_load_explicit(from, MV_LATCH_GET);
        memcpy(to, &last, rest);
    }
#ifndef MV_LATCH_FENCE_FREE
    atomic_thread_fence(memory_order_acquire); /* ACQ: no payload load sinks below the look. An acquire *load* of it would not do */
#endif
    if (atomic_load_explicit(&slot->mark, memory_order_relaxed) != 2 * n) return MV_LATCH_GONE; /* RLX: the fence orders it */
    *time_ns = time;
    return MV_LATCH_READ;
}

#undef MV_LATCH_WORD

/* Copies the newest publication out. MV_LATCH_NONE before the first; MV_LATCH_BUSY where the writer lapped 64 attempts in a row:
 * yield, then ask again. `record` is whole only after MV_LATCH_READ. */
static inline int mv_latch_read(const mv_latch_ref *r, void *record, uint64_t *number, uint64_t *time_ns, uint64_t *retries) {
    int attempt;
    for (attempt = 0; attempt < 64; attempt++) {
        uint64_t n = mv_latch_latest(r);
        if (n == 0) return MV_LATCH_NONE;
        if (mv_latch_read_at(r, n, record, time_ns) == MV_LATCH_READ) {
            *number = n;
            *retries += (uint64_t)attempt;
            return MV_LATCH_READ;
        }
    }
    *retries += 64;
    return MV_LATCH_BUSY;
}

/* For native code that has mapped a State segment: 0, or -1 where it is none. The parameters are K, stride and record bytes. */
static inline int mv_latch_of_segment(const void *base, uint64_t mapped_bytes, mv_latch_ref *r) {
    const mv_segment *h = (const mv_segment *)base;
    uint64_t k, room;
    if (mapped_bytes < MV_SEGMENT_HEADER || h->kind != MV_KIND_STATE || h->payload_off > mapped_bytes) return -1;
    k = (uint64_t)h->params[0];
    r->stride = (uint64_t)h->params[1];
    r->bytes = (uint64_t)h->params[2];
    r->mask = k - 1;
    room = mapped_bytes - h->payload_off;
    if (k < 2 || k > 4096 || (k & r->mask) || r->bytes == 0 || r->bytes > 4096 || r->stride != mv_latch_stride(r->bytes) ||
        room < sizeof(mv_latch) + k * r->stride)
        return -1;
    r->base = (char *)(uintptr_t)base + h->payload_off;
    return 0;
}

#endif
