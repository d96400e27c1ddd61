/* Looking at a counter for a short while before sleeping on it: worth it where the other side runs on a core of its own
 * and answers soon. Where looking was in vain it is left out for the next times, more of them each time it is tried again:
 * on a machine that has no core to spare, or between calls that are far apart, it would only be in the way. */
#ifndef MOJOVIEW_SPIN_H
#define MOJOVIEW_SPIN_H

#include <stdatomic.h>

#include "platform.h"

enum { MV_SPIN_NS = 20000, MV_SPIN_REST = 31 }; /* about what two wake-ups take; how often it is left out at most */

typedef struct mv_spin {
    uint32_t rest; /* how often it is left out after the next failure is 2 * rest + 1 */
    uint32_t left; /* how often it still is */
} mv_spin;

/* Whether the counter came to differ from `seen` meanwhile. */
static inline int mv_spin_on(mv_spin *spin, const _Atomic uint64_t *counter, uint64_t seen) {
    uint64_t end;
    int k;
    if (atomic_load_explicit(counter, memory_order_acquire) != seen) return 1; /* ACQ: with what the counter promises */
    if (spin->left) {
        spin->left--;
        return 0;
    }
    for (end = mv_os_monotonic() + MV_SPIN_NS; mv_os_monotonic() < end;)
        for (k = 0; k < 32; k++) {
            if (atomic_load_explicit(counter, memory_order_acquire) != seen) { /* ACQ: as above */
                spin->rest = 0;
                return 1;
            }
            mv_pause();
        }
    spin->left = spin->rest = spin->rest < MV_SPIN_REST ? 2 * spin->rest + 1 : MV_SPIN_REST;
    return 0;
}

#endif
