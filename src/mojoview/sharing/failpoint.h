/* Named points at which a test can kill the process. Nothing at all unless the build defines MV_FAILPOINTS. */
#ifndef MOJOVIEW_FAILPOINT_H
#define MOJOVIEW_FAILPOINT_H

#ifdef MV_FAILPOINTS
#include <signal.h>
#include <stdint.h>
#include <string.h>
static const char *mv_failpoint_name; /* which point */
static int64_t mv_failpoint_after;    /* how often it is passed before it kills */
static inline void mv_failpoint(const char *name) {
    if (mv_failpoint_name && strcmp(name, mv_failpoint_name) == 0 && mv_failpoint_after-- == 0) raise(SIGKILL);
}
#define MV_FAILPOINT(name) mv_failpoint(name)
#else
#define MV_FAILPOINT(name) ((void)0)
#endif

#endif
