/* Publication of large memory in N slots: readers pin the slot they read, the writer fills another one.
 *
 * `map` = number << 8 | slot names the newest publication and its slot in one word. A reader stores that word in its
 * row, then checks that the slot still holds that publication; the writer marks a slot odd, then checks that no row
 * names it. Each side stores, then loads what the other stored: with a full fence on both sides at least one of them
 * sees the other (store buffering), so a pinned slot is never written to. Number and slot must change in one word: in
 * two words, the unpinning of one slot and the announcement of the next can be seen out of order on aarch64, and the
 * writer acquires a slot that is still being read.
 *
 * The payload is plain memory: it is not read while it is written, and the release of the mark publishes it. A writer
 * that dies leaves an odd mark in a slot that `map` does not name. A reader that dies leaves its row pinned, but the
 * operating system frees the lock of the row, and mv_slots_reap() clears it. */
#ifndef MOJOVIEW_SLOTS_H
#define MOJOVIEW_SLOTS_H

#include "../segment/platform.h" /* first: it enables the system's extensions */

#include <stdatomic.h>
#include <stdint.h>

#include "../segment/failpoint.h"
#include "../segment/segment.h"

#define MV_SLOTS_MAX 64 /* the map can hold 256 */

typedef struct mv_slots_head {
    _Atomic uint64_t map;   /* 0 = nothing published; its low half is the futex word of readers */
    _Atomic uint64_t slots; /* slots in use; never shrinks */
    uint64_t pad[14];
} mv_slots_head;

typedef struct mv_slot {
    _Atomic uint64_t mark;   /* 2n = holds publication n; odd = being written; 0 = never written */
    uint64_t bytes, time_ns; /* published with the payload */
    uint64_t pad[13];
} mv_slot;

typedef struct mv_pin_row {    /* in the readers' pages: row 0 is for waiting, the others for pins */
    _Atomic uint64_t pinned;   /* 0 = free, else the map word */
    _Atomic uint64_t released; /* row 0: +1 at each unpin while the writer waits */
    _Atomic uint32_t sleepers; /* row 0: readers that wait for a publication */
    _Atomic uint32_t writers;  /* row 0: whether the writer waits for a slot */
    uint64_t pad[13];
} mv_pin_row;

_Static_assert(sizeof(mv_slots_head) == 128 && sizeof(mv_slot) == 128 && sizeof(mv_pin_row) == 128, "a line each");

typedef struct mv_slots_ref {
    mv_slots_head *head; /* the table of slots follows it */
    mv_pin_row *rows;    /* row 0 is for waiting */
    uint64_t row_count;  /* pins use rows 1 to row_count */
    uint64_t slot_limit; /* slots that fit in the segment: limits what a peer writes */
} mv_slots_ref;

/* Value of a claimed row without a pin. Without locks it must differ from a free row, and name no slot. */
#if MV_OS_LOCKS
#define MV_SLOTS_IDLE UINT64_C(0)
#else
#define MV_SLOTS_IDLE UINT64_C(255)
#endif

enum { MV_SLOTS_NONE = 0, MV_SLOTS_PINNED = 1, MV_SLOTS_BUSY = -1, MV_SLOTS_DAMAGED = -2 };

static inline mv_slot *mv_slot_at(const mv_slots_ref *r, uint64_t slot) {
    return (mv_slot *)(void *)(r->head + 1) + slot;
}

/* Pin the newest publication in `row`, which the caller has claimed: its map word in *map. */
static inline int mv_slots_pin(const mv_slots_ref *r, uint64_t row, uint64_t *map) {
    _Atomic uint64_t *pinned = &r->rows[row].pinned;
    int attempt;
    for (attempt = 0; attempt < 64; attempt++) {
        uint64_t m = atomic_load_explicit(&r->head->map, memory_order_acquire); /* ACQ: with the mark of its slot */
        if (m == 0)
            return MV_SLOTS_NONE;
        if ((m & 255) >= r->slot_limit)
            return MV_SLOTS_DAMAGED;
        MV_FAILPOINT("slots.before_announce");
        atomic_store_explicit(pinned, m, memory_order_release); /* REL: after the reads of the previous pin */
        MV_FAILPOINT("slots.after_announce");
        atomic_thread_fence(memory_order_seq_cst); /* SC: the announcement comes before the load of the mark */
        /* ACQ: the payload is read after this load */
        if (atomic_load_explicit(&mv_slot_at(r, m & 255)->mark, memory_order_acquire) == 2 * (m >> 8)) {
            *map = m;
            MV_FAILPOINT("slots.pinned");
            return MV_SLOTS_PINNED;
        }
        atomic_store_explicit(pinned, MV_SLOTS_IDLE, memory_order_release);
    }
    return MV_SLOTS_BUSY;
}

/* Release the pin of a row, and wake a waiting writer. */
static inline void mv_slots_unpin(const mv_slots_ref *r, uint64_t row) {
    /* REL: after the reads of the payload */
    atomic_store_explicit(&r->rows[row].pinned, MV_SLOTS_IDLE, memory_order_release);
    atomic_thread_fence(memory_order_seq_cst); /* SC: the unpin comes before the load of `writers` (futex.h) */
    if (atomic_load_explicit(&r->rows[0].writers, memory_order_relaxed) != 0) { /* RLX: the fence orders it */
        atomic_fetch_add_explicit(&r->rows[0].released, 1, memory_order_release);
        mv_futex_wake((_Atomic uint32_t *)(void *)&r->rows[0].released);
    }
}

static inline int mv_slots_is_pinned(const mv_slots_ref *r, uint64_t slot) {
    uint64_t row;
    for (row = 1; row <= r->row_count; row++) {
        /* ACQ: after the reads of the unpinned payload */
        uint64_t m = atomic_load_explicit(&r->rows[row].pinned, memory_order_acquire);
        if (m != 0 && (m & 255) == slot)
            return 1;
    }
    return 0;
}

/* Return a slot for the writer to fill, marked odd; -1 if readers pin all but the newest. One thread at a time. */
static inline int64_t mv_slots_acquire(const mv_slots_ref *r) {
    uint64_t map = atomic_load_explicit(&r->head->map, memory_order_relaxed); /* RLX: no other writer */
    uint64_t slots = atomic_load_explicit(&r->head->slots, memory_order_relaxed), n = (map >> 8) + 1, k;
    if (slots > r->slot_limit)
        slots = r->slot_limit;
    for (k = 1; k <= slots; k++) {
        uint64_t slot = ((map & 255) + k) % slots, before;
        mv_slot *s = mv_slot_at(r, slot);
        if (map != 0 && slot == (map & 255))
            continue;
        before = atomic_load_explicit(&s->mark, memory_order_relaxed);
        atomic_store_explicit(&s->mark, 2 * n - 1, memory_order_relaxed); /* RLX: the fence orders it */
        /* SC: the odd mark comes before the loads of the rows, and before the payload */
        atomic_thread_fence(memory_order_seq_cst);
        MV_FAILPOINT("slots.after_mark");
        if (!mv_slots_is_pinned(r, slot))
            return (int64_t)slot;
        atomic_store_explicit(&s->mark, before, memory_order_release); /* REL: its contents are unchanged */
    }
    return -1;
}

/* Publish a slot of mv_slots_acquire() that the caller has filled; return the number. */
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

/* Clear the rows of dead readers, and return how many. `any` is a descriptor of the segment. The lock of a row keeps
 * new readers out while it is cleared. */
static inline int mv_slots_reap(const mv_slots_ref *r, int any) {
    int reaped = 0;
#if MV_OS_LOCKS
    uint64_t row;
    for (row = 1; row <= r->row_count; row++) {
        int fd;
        if (atomic_load_explicit(&r->rows[row].pinned, memory_order_relaxed) == 0)
            continue;
        if (mv_os_locked(any, MV_LOCK_ROW + (int64_t)row) != 0)
            continue;
        fd = mv_os_claim(any, MV_LOCK_ROW + (int64_t)row);
        if (fd < 0)
            continue;
        atomic_store_explicit(&r->rows[row].pinned, 0, memory_order_release);
        close(fd);
        reaped++;
    }
#else
    (void)r, (void)any; /* without locks a dead reader looks like a slow one: its slot stays pinned */
#endif
    return reaped;
}

/* Claim a row: its number, and in *fd the descriptor that holds its lock; -EBUSY if all are claimed. */
static inline int64_t mv_slots_claim_row(const mv_slots_ref *r, int any, int *fd) {
    uint64_t row;
    for (row = 1; row <= r->row_count; row++) {
        if (atomic_load_explicit(&r->rows[row].pinned, memory_order_relaxed) != 0 &&
            mv_os_locked(any, MV_LOCK_ROW + (int64_t)row) != 0)
            continue;
#if MV_OS_LOCKS
        *fd = mv_os_claim(any, MV_LOCK_ROW + (int64_t)row);
        if (*fd == -EBUSY)
            continue;
        if (*fd < 0)
            return *fd;
        atomic_store_explicit(&r->rows[row].pinned, 0, memory_order_release); /* left by a dead reader */
        return (int64_t)row;
#else
        {
            uint64_t free = 0;
            if (!atomic_compare_exchange_strong_explicit(&r->rows[row].pinned, &free, MV_SLOTS_IDLE,
                                                         memory_order_acq_rel, memory_order_relaxed))
                continue;
            *fd = mv_os_reopen(any, 1);
            return *fd < 0 ? *fd : (int64_t)row;
        }
#endif
    }
    return -EBUSY;
}

/* Free a claimed row without a pin. With locks, closing its descriptor has the same effect. */
static inline void mv_slots_drop_row(const mv_slots_ref *r, uint64_t row) {
    atomic_store_explicit(&r->rows[row].pinned, 0, memory_order_release); /* REL: before the next claim */
}

static inline uint64_t mv_slots_map(const mv_slots_ref *r) {
    return atomic_load_explicit(&r->head->map, memory_order_acquire); /* ACQ: the mark and the payload of its slot */
}

static inline uint64_t mv_slots_count(const mv_slots_ref *r) {
    return atomic_load_explicit(&r->head->slots, memory_order_acquire);
}

/* The words for waiting readers: the counter and the number of waiters. */
static inline void *mv_slots_map_word(const mv_slots_ref *r) { return &r->head->map; }
static inline void *mv_slots_waiters(const mv_slots_ref *r) { return &r->rows[0].sleepers; }

/* Announce further slots, whose memory is allocated. */
static inline void mv_slots_set_count(const mv_slots_ref *r, uint64_t n) {
    atomic_store_explicit(&r->head->slots, n, memory_order_release);
}

/* Wait for a free slot: announce the writer, try once more, then sleep until an unpin, at most `ns`. Gives the slot or
 * -1 in *slot; returns 0, -ETIMEDOUT or -EINTR. */
static inline int mv_slots_wait_free(const mv_slots_ref *r, int64_t ns, int64_t *slot) {
    uint64_t seen = atomic_load_explicit(&r->rows[0].released, memory_order_acquire);
    int rc = 0;
    atomic_store_explicit(&r->rows[0].writers, 1, memory_order_seq_cst);
    atomic_thread_fence(memory_order_seq_cst); /* SC: pairs with mv_slots_unpin() */
    *slot = mv_slots_acquire(r);
    if (*slot < 0)
        rc = mv_futex_wait(mv_low_word(&r->rows[0].released), (uint32_t)seen, ns);
    atomic_store_explicit(&r->rows[0].writers, 0, memory_order_relaxed);
    return rc;
}

#endif
