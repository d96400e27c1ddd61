/* The K-slot latch: a small record with one writer and any number of readers, without locks and without torn reads.
 *
 * Publication n is in slot n mod K. Its mark is 2n once it is complete and odd while it is written. A reader that
 * loaded n from `latest` copies the slot, then requires the mark to be exactly 2n: each copied word is of n or newer,
 * and a reader of a newer word also sees the odd mark stored before it. Checking the mark before the copy would add
 * nothing; accepting any even mark would accept torn copies. A reader retries only if the writer has made K - 1 further
 * publications during the copy. A writer that dies leaves an odd mark in a slot that `latest` does not name: no reader
 * uses it, and the next writer, which continues at latest + 1, writes it again.
 *
 * After Boehm, "Can seqlocks get along with programming language memory models?" (MSPC 2012) and Linux's
 * seqcount_latch. The payload is copied as relaxed atomic words: memcpy between the fences is a data race in C11.
 * Readers store nothing, so they may map the memory read-only and do not contend with each other. MV_LATCH_FENCE_FREE
 * builds the variant without fences, for ThreadSanitizer, which does not model them. */
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
    _Atomic uint64_t latest; /* number of the newest publication, 0 = none; its low half is the futex word */
    uint64_t pad[15];        /* no other data in its line */
} mv_latch;

typedef struct mv_latch_slot {
    _Atomic uint64_t mark;
    _Atomic uint64_t time_ns; /* CLOCK_MONOTONIC; part of the record */
    _Atomic uint64_t words[];
} mv_latch_slot;

/* A latch as mapped in this process. */
typedef struct mv_latch_ref {
    char *base;      /* an mv_latch, then the slots */
    uint64_t mask;   /* K - 1 */
    uint64_t stride; /* from slot to slot, bytes */
    uint64_t bytes;  /* of a record */
} mv_latch_ref;

enum { MV_LATCH_NONE = 0, MV_LATCH_READ = 1, MV_LATCH_BUSY = -1, MV_LATCH_GONE = -2 };

_Static_assert(sizeof(mv_latch) == MV_LATCH_LINE, "latest is alone in its line");
_Static_assert(offsetof(mv_latch_slot, words) == 16, "slot");

static inline uint64_t mv_latch_stride(uint64_t bytes) {
    return (16 + bytes + MV_LATCH_LINE - 1) & ~(uint64_t)(MV_LATCH_LINE - 1);
}
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
    return atomic_load_explicit(&mv_latch_head(r)->latest, memory_order_acquire); /* ACQ: with the slot of n */
}

/* Publish `record` as number latest + 1, and return the number. One thread at a time. */
static inline uint64_t mv_latch_write(const mv_latch_ref *r, const void *record, uint64_t time_ns) {
    mv_latch *head = mv_latch_head(r);
    uint64_t n = atomic_load_explicit(&head->latest, memory_order_relaxed) + 1; /* RLX: no other writer */
    mv_latch_slot *slot = mv_latch_slot_of(r, n);
    const char *from = (const char *)record;
    uint64_t i, whole = r->bytes / 8, rest = r->bytes % 8;
    MV_FAILPOINT("latch.before_mark");
#ifdef MV_LATCH_FENCE_FREE
    /* ACQ: the payload's stores stay below it */
    atomic_exchange_explicit(&slot->mark, 2 * n - 1, memory_order_acquire);
#else
    atomic_store_explicit(&slot->mark, 2 * n - 1, memory_order_relaxed); /* RLX: the fence below orders it */
    /* REL: no payload store moves above the odd mark; a release store of the mark would not prevent it */
    atomic_thread_fence(memory_order_release);
#endif
    MV_FAILPOINT("latch.after_mark");
    atomic_store_explicit(&slot->time_ns, time_ns, MV_LATCH_PUT);
    for (i = 0; i < whole; i++) {
        uint64_t word;
        memcpy(&word, from + 8 * i, 8);
        atomic_store_explicit(&slot->words[i], word, MV_LATCH_PUT); /* RLX: any order between the two marks */
        if (i == whole / 2)
            MV_FAILPOINT("latch.mid_payload");
    }
    if (rest) {
        uint64_t last = 0;
        memcpy(&last, from + 8 * whole, rest);
        atomic_store_explicit(&slot->words[whole], last, MV_LATCH_PUT);
    }
    MV_FAILPOINT("latch.after_payload");
    /* REL: the even mark comes after the whole payload */
    atomic_store_explicit(&slot->mark, 2 * n, memory_order_release);
    MV_FAILPOINT("latch.before_latest");
    atomic_store_explicit(&head->latest, n, memory_order_release); /* REL: a reader of n sees its slot complete */
    MV_FAILPOINT("latch.after_latest");
    return n;
}

#define MV_LATCH_WORD(k) (word = atomic_load_explicit(from + (k), MV_LATCH_GET), memcpy(to + 8 * (k), &word, 8))

/* Copy publication n, if its slot still holds it: MV_LATCH_READ; else MV_LATCH_GONE, and `record` is undefined. n is at
 * most the last mv_latch_latest() of this thread. */
static inline int mv_latch_read_at(const mv_latch_ref *r, uint64_t n, void *record, uint64_t *time_ns) {
    mv_latch_slot *slot = mv_latch_slot_of(r, n);
    char *to = (char *)record;
    uint64_t time, word, whole = r->bytes / 8, rest = r->bytes % 8;
    const _Atomic uint64_t *from = slot->words;
    time = atomic_load_explicit(&slot->time_ns, MV_LATCH_GET);
    /* unrolled by hand: compilers do not unroll loops over atomic words */
    for (; whole >= 8; whole -= 8, from += 8, to += 64) {
        MV_LATCH_WORD(0), MV_LATCH_WORD(1), MV_LATCH_WORD(2), MV_LATCH_WORD(3);
        MV_LATCH_WORD(4), MV_LATCH_WORD(5), MV_LATCH_WORD(6), MV_LATCH_WORD(7);
    }
    for (; whole >= 2; whole -= 2, from += 2, to += 16)
        MV_LATCH_WORD(0), MV_LATCH_WORD(1);
    if (whole)
        MV_LATCH_WORD(0), from++, to += 8;
    if (rest) {
        uint64_t last = atomic_load_explicit(from, MV_LATCH_GET);
        memcpy(to, &last, rest);
    }
#ifndef MV_LATCH_FENCE_FREE
    /* ACQ: no payload load moves below the check; an acquire load of the mark would not prevent it */
    atomic_thread_fence(memory_order_acquire);
#endif
    /* RLX: the fence orders it */
    if (atomic_load_explicit(&slot->mark, memory_order_relaxed) != 2 * n)
        return MV_LATCH_GONE;
    *time_ns = time;
    return MV_LATCH_READ;
}

#undef MV_LATCH_WORD

/* Copy the newest publication. MV_LATCH_NONE before the first; MV_LATCH_BUSY if the writer lapped 64 attempts in a row:
 * yield, then call again. `record` is valid only after MV_LATCH_READ. */
static inline int mv_latch_read(const mv_latch_ref *r, void *record, uint64_t *number, uint64_t *time_ns,
                                uint64_t *retries) {
    int attempt;
    for (attempt = 0; attempt < 64; attempt++) {
        uint64_t n = mv_latch_latest(r);
        if (n == 0)
            return MV_LATCH_NONE;
        if (mv_latch_read_at(r, n, record, time_ns) == MV_LATCH_READ) {
            *number = n;
            *retries += (uint64_t)attempt;
            return MV_LATCH_READ;
        }
    }
    *retries += 64;
    return MV_LATCH_BUSY;
}

/* Find the latch of a mapped State segment: 0, or -1 if it is not a State. Its parameters are K, stride and record
 * bytes. */
static inline int mv_latch_of_segment(const void *base, uint64_t mapped_bytes, mv_latch_ref *r) {
    const mv_segment *h = (const mv_segment *)base;
    uint64_t k, room;
    if (mapped_bytes < MV_SEGMENT_HEADER || h->kind != MV_KIND_STATE || h->payload_off > mapped_bytes)
        return -1;
    k = (uint64_t)h->params[0];
    r->stride = (uint64_t)h->params[1];
    r->bytes = (uint64_t)h->params[2];
    r->mask = k - 1;
    room = mapped_bytes - h->payload_off;
    if (k < 2 || k > 4096 || (k & r->mask) || r->bytes == 0 || r->bytes > 4096 ||
        r->stride != mv_latch_stride(r->bytes) || room < sizeof(mv_latch) + k * r->stride)
        return -1;
    r->base = (char *)(uintptr_t)base + h->payload_off;
    return 0;
}

#endif
