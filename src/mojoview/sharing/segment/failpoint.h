/* Named points at which a test can kill or delay the process. They are empty unless MV_FAILPOINTS is defined. */
#ifndef MOJOVIEW_FAILPOINT_H
#define MOJOVIEW_FAILPOINT_H

#ifdef MV_FAILPOINTS
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
static const char *mv_failpoint_name;            /* the point that kills */
static int64_t mv_failpoint_after;               /* number of passes before it kills */
static _Thread_local uint64_t mv_failpoint_dice; /* nonzero: every point sleeps at random */
static inline void mv_failpoint(const char *name) {
    if (mv_failpoint_dice) {
        mv_failpoint_dice = mv_failpoint_dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        if (mv_failpoint_dice >> 58 == 0) {
            const struct timespec nap = {0, 20000};
            nanosleep(&nap, NULL);
        }
    }
    if (mv_failpoint_name && strcmp(name, mv_failpoint_name) == 0 && mv_failpoint_after-- == 0)
        raise(SIGKILL);
}
#define MV_FAILPOINT(name) mv_failpoint(name)
#else
#define MV_FAILPOINT(name) ((void)0)
#endif

#endif
