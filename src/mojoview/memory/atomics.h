/* The few atomic operations that mojoview uses, each with the reason for its memory order. */
#ifndef MOJOVIEW_ATOMICS_H
#define MOJOVIEW_ATOMICS_H

#include <stdatomic.h>
#include <stdint.h>

typedef _Atomic int64_t mv_atomic;

/* Relaxed: the number alone matters, it publishes no other memory (tickets, and flags that request to stop soon). */
static inline int64_t mv_fetch_add_relaxed(mv_atomic *counter, int64_t n) {
    return atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static inline int64_t mv_load_relaxed(mv_atomic *value) { return atomic_load_explicit(value, memory_order_relaxed); }

static inline void mv_store_relaxed(mv_atomic *value, int64_t to) {
    atomic_store_explicit(value, to, memory_order_relaxed);
}

#endif
