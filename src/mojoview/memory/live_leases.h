/* The number of live leases of this process. One translation unit includes it: memory/_lease. */
#ifndef MOJOVIEW_LIVE_LEASES_H
#define MOJOVIEW_LIVE_LEASES_H

#include <stdatomic.h>
#include <stdint.h>

static _Atomic int64_t mv_live_leases;

/* relaxed: the counter orders nothing; it is exact once the threads that changed it have been joined */
static inline void mv_live_leases_add(int64_t n) {
    atomic_fetch_add_explicit(&mv_live_leases, n, memory_order_relaxed);
}
static inline int64_t mv_live_leases_read(void) { return atomic_load_explicit(&mv_live_leases, memory_order_relaxed); }

#endif
