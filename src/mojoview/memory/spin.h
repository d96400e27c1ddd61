/* Spin on a counter for a short while before sleeping on it. Worth it if the other side runs on a core of its own and answers
 * soon. After a spin that ended without a change, the next calls skip it, more of them after each failure: on a machine without
 * a spare core, or with long pauses between calls, spinning only costs time. */
#ifndef MOJOVIEW_SPIN_H
#define MOJOVIEW_SPIN_H

#include <stdatomic.h>

#include "platform.h"

enum { MV_SPIN_NS = 20000, MV_SPIN_MAX_BACKOFF = 31 }; /* about the time of two wake-ups; the most calls that skip the spin */

typedef struct mv_spin {
    uint32_t backoff; /* calls that skipped the spin after the last failure */
    uint32_t skip;    /* calls that still have to skip it */
} mv_spin;

/* Return whether the counter changed from `seen`. */
static inline int mv_spin_wait(mv_spin *spin, const _Atomic uint64_t *counter, uint64_t seen) {
    uint64_t end;
    int k;
    if (atomic_load_explicit(counter, memory_order_acquire) != seen) return 1; /* ACQ: pairs with the release that counted */
    if (spin->skip) {
        spin->skip--;
        return 0;
    }
    for (end = mv_os_monotonic() + MV_SPIN_NS; mv_os_monotonic() < end;)
        for (k = 0; k < 32; k++) {
            if (atomic_load_explicit(counter, memory_order_acquire) != seen) { /* ACQ: as above */
                spin->backoff = 0;
                return 1;
            }
            mv_pause();
        }
    spin->skip = spin->backoff = spin->backoff < MV_SPIN_MAX_BACKOFF ? 2 * spin->backoff + 1 : MV_SPIN_MAX_BACKOFF;
    return 0;
}

#endif
