/* Clocks in nanoseconds. */
#ifndef MOJOVIEW_CLOCK_H
#define MOJOVIEW_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t mv_clock_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}
static inline uint64_t mv_realtime_ns(void) { return mv_clock_ns(CLOCK_REALTIME); }
static inline uint64_t mv_monotonic_ns(void) { return mv_clock_ns(CLOCK_MONOTONIC); }

#endif
