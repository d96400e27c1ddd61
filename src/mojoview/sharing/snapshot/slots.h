/* Publication of large memory: N slots, readers pin the one they look at, the writer fills another.
 *
 * `map` = number << 8 | slot names the newest publication and its slot in one word. A reader writes that word into its row, then
 * looks whether the slot still holds that publication; the writer marks a slot odd, then looks whether a row names it. Each side
 * stores, then loads what the other stored: with a full fence on both sides at least one of them sees the other (store buffering),
 * so no pinned slot is ever written to. Number and slot must change in one word: in two, unpinning one slot and announcing the next
 * can be seen in the wrong order on aarch64, and the writer takes a slot whose last reads are still to come.
 *
 * The payload is plain memory: while it is written nobody reads it, and the release of the mark hands it over. A writer that dies
 * leaves an odd mark in a slot that `map` does not name. A reader that dies leaves its row pinned; the row's lock, kept by the
 * kernel, is then free, and mv_slots_reap() empties it. */
#ifndef MOJOVIEW_SLOTS_H
#define MOJOVIEW_SLOTS_H

#include "../segment/platform.h" /* first: it enables the system's extensions */

#include <stdatomic.h>
#include <stdint.h>

#include "../segment/failpoint.h"
#include "../segment/segment.h"

#define MV_SLOTS_MAX 64 /* most slots; the map has room for 256 */

typedef struct mv_slots_head {
    _Atomic uint64_t map;   /* 0 = nothing published. Its low half is the futex word of waiting readers */
    _Atomic uint64_t slots; /* in use; grows, never shrinks */
    uint64_t pad[14];
} mv_slots_head;

typedef struct mv_slot {
    _Atomic uint64_t mark;  /* 2n = holds publication n; odd = being written; 0 = never written */
    uint64_t bytes, time_ns; /* handed over with the payload */
    uint64_t pad[13];
} mv_slot;

typedef struct mv_pin_row { /* the readers' pages: a first row for waiting, then one for each pin */
    _Atomic uint64_t pinned; /* 0 = free, else the whole map word */
    _Atomic uint64_t released; /* first row: +1 at each unpin that a waiting writer should hear */
    _Atomic uint32_t sleepers; /* first row: readers that wait for a publication */
    _Atomic uint32_t writers;  /* first row: whether the writer waits for a slot */
    uint64_t pad[13];
} mv_pin_row;

_Static_assert(sizeof(mv_slots_head) == 128 && sizeof(mv_slot) == 128 && sizeof(mv_pin_row) == 128, "a line each");

typedef struct mv_slots_ref {
    mv_slots_head *head;  /* the slots' table follows it */
    mv_pin_row *rows;   /* row 0 is for waiting */
    uint64_t row_count;  /* of pins: rows 1 to row_count */
    uint64_t slot_limit; /* how many slots the segment has room for: no word of a peer may lead beyond */
} mv_slots_ref;

/* What a row holds while its owner pins nothing. Without locks the word itself says that the row has an owner: nonzero, and no slot. */
#if MV_OS_LOCKS
#define MV_SLOTS_IDLE UINT64_C(0)
#else
#define MV_SLOTS_IDLE UINT64_C(255)
#endif

enum { MV_SLOTS_NONE = 0, MV_SLOTS_PINNED = 1, MV_SLOTS_BUSY = -1, MV_SLOTS_DAMAGED = -2 };

static inline mv_slot *mv_slot_at(const mv_slots_ref *r, uint64_t slot) { return (mv_slot *)(void *)(r->head + 1) + slot; }

/* Pins the newest publication in `row`, which the caller owns and which is free: its map word in *map. */
static inline int mv_slots_pin(const mv_slots_ref *r, uint64_t row, uint64_t *map) {
    _Atomic uint64_t *pinned = &r->rows[row].pinned;
    int attempt;
    for (attempt = 0; attempt < 64; attempt++) {
        uint64_t m = atomic_load_explicit(&r->head->map, memory_order_acquire); /* ACQ: its slot's mark is visible */
        if (m == 0) return MV_SLOTS_NONE;
        if ((m & 255) >= r->slot_limit) return MV_SLOTS_DAMAGED;
        MV_FAILPOINT("slots.before_announce");
        atomic_store_explicit(pinned, m, memory_order_release); /* REL: after the reads of what this row pinned before */
        MV_FAILPOINT("slots.after_announce");
        atomic_thread_fence(memory_order_seq_cst); /* SC: the announcement comes before the look at the mark */
        /* ACQ: the payload's reads come after the look */
        if (atomic_load_explicit(&mv_slot_at(r, m & 255)->mark, memory_order_acquire) == 2 * (m >> 8)) {
            *map = m;
            MV_FAILPOINT("slots.pinned");
            return MV_SLOTS_PINNED;
        }
        atomic_store_explicit(pinned, MV_SLOTS_IDLE, memory_order_release);
    }
    return MV_SLOTS_BUSY;
}

static inline void mv_slots_unpin(const mv_slots_ref *r, uint64_t row) {
    atomic_store_explicit(&r->rows[row].pinned, MV_SLOTS_IDLE, memory_order_release); /* REL: the payload's reads come before it */
    atomic_thread_fence(memory_order_seq_cst); /* SC: the unpin comes before the look for a waiting writer (futex.h) */
    if (atomic_load_explicit(&r->rows[0].writers, memory_order_relaxed) != 0) { /* RLX: the fence orders it */
        atomic_fetch_add_explicit(&r->rows[0].released, 1, memory_order_release);
        mv_futex_wake((_Atomic uint32_t *)(void *)&r->rows[0].released);
    }
}

static inline int mv_slots_is_pinned(const mv_slots_ref *r, uint64_t slot) {
    uint64_t row;
    for (row = 1; row <= r->row_count; row++) {
        uint64_t m = atomic_load_explicit(&r->rows[row].pinned, memory_order_acquire); /* ACQ: a reader that left has read */
        if (m != 0 && (m & 255) == slot) return 1;
    }
    return 0;
}

/* A slot for the writer to fill, marked odd; -1 where readers pin every one but the newest. One thread at a time. */
static inline int64_t mv_slots_acquire(const mv_slots_ref *r) {
    uint64_t map = atomic_load_explicit(&r->head->map, memory_order_relaxed); /* RLX: only the writer writes it */
    uint64_t slots = atomic_load_explicit(&r->head->slots, memory_order_relaxed), n = (map >> 8) + 1, k;
    if (slots > r->slot_limit) slots = r->slot_limit;
    for (k = 1; k <= slots; k++) {
        uint64_t slot = ((map & 255) + k) % slots, before;
        mv_slot *s = mv_slot_at(r, slot);
        if (map != 0 && slot == (map & 255)) continue;
        before = atomic_load_explicit(&s->mark, memory_order_relaxed);
        atomic_store_explicit(&s->mark, 2 * n - 1, memory_order_relaxed); /* RLX: the fence orders it */
        atomic_thread_fence(memory_order_seq_cst); /* SC: the odd mark comes before the look at the rows, and before the payload */
        MV_FAILPOINT("slots.after_mark");
        if (!mv_slots_is_pinned(r, slot)) return (int64_t)slot;
        atomic_store_explicit(&s->mark, before, memory_order_release); /* REL: it still holds what it held */
    }
    return -1;
}

/* Publishes a slot that mv_slots_acquire() gave and the caller has filled. */
static inline uint64_t mv_slots_publish(const mv_slots_ref *r, uint64_t slot, uint64_t bytes, uint64_t time_ns) {
    mv_slot *s = mv_slot_at(r, slot);
    uint64_t n = (atomic_load_explicit(&r->head->map, memory_order_relaxed) >> 8) + 1;
    MV_FAILPOINT("slots.before_mark");
    s->bytes = bytes;
    s->time_ns = time_ns;
    atomic_store_explicit(&s->mark, 2 * n, memory_order_release); /* REL: after the payload */
    MV_FAILPOINT("slots.before_map");
    atomic_store_explicit(&r->head->map, n << 8 | slot, memory_order_release); /* REL: after the mark */
    MV_FAILPOINT("slots.after_map");
    return n;
}

/* Empties the rows of dead readers. `any` is a descriptor of the segment. Holding the row's lock keeps a new reader out of it
 * meanwhile. Returns how many. */
static inline int mv_slots_reap(const mv_slots_ref *r, int any) {
    int reaped = 0;
#if MV_OS_LOCKS
    uint64_t row;
    for (row = 1; row <= r->row_count; row++) {
        int fd;
        if (atomic_load_explicit(&r->rows[row].pinned, memory_order_relaxed) == 0) continue;
        if (mv_os_locked(any, MV_LOCK_ROW + (int64_t)row) != 0) continue;
        fd = mv_os_claim(any, MV_LOCK_ROW + (int64_t)row);
        if (fd < 0) continue;
        atomic_store_explicit(&r->rows[row].pinned, 0, memory_order_release);
        close(fd);
        reaped++;
    }
#else
    (void)r, (void)any; /* without locks nobody can tell a dead reader from a slow one: its slot stays pinned */
#endif
    return reaped;
}

/* A row of one's own: its number, and in *fd the descriptor that holds its lock; -EBUSY where all are taken. */
static inline int64_t mv_slots_claim_row(const mv_slots_ref *r, int any, int *fd) {
    uint64_t row;
    for (row = 1; row <= r->row_count; row++) {
        if (atomic_load_explicit(&r->rows[row].pinned, memory_order_relaxed) != 0 && mv_os_locked(any, MV_LOCK_ROW + (int64_t)row) != 0)
            continue;
#if MV_OS_LOCKS
        *fd = mv_os_claim(any, MV_LOCK_ROW + (int64_t)row);
        if (*fd == -EBUSY) continue;
        if (*fd < 0) return *fd;
        atomic_store_explicit(&r->rows[row].pinned, 0, memory_order_release); /* what a dead reader left */
        return (int64_t)row;
#else
        {
            uint64_t free = 0;
            if (!atomic_compare_exchange_strong_explicit(&r->rows[row].pinned, &free, MV_SLOTS_IDLE, memory_order_acq_rel,
                                                         memory_order_relaxed))
                continue;
            *fd = mv_os_reopen(any, 1);
            return *fd < 0 ? *fd : (int64_t)row;
        }
#endif
    }
    return -EBUSY;
}

/* The end of a row of one's own, which pins nothing. Where there are locks, closing its descriptor says the same. */
static inline void mv_slots_drop_row(const mv_slots_ref *r, uint64_t row) {
    atomic_store_explicit(&r->rows[row].pinned, 0, memory_order_release); /* REL: whoever claims it comes after */
}

#endif
