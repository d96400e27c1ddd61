/* timestamps.h: timestamps of frames: CLOCK_MONOTONIC, or the processor's counter scaled to it.

   Reading the counter costs a third of the system's call. Its rate and offset are measured once, when the ring is made,
   and stored in the ring, so that all processes convert alike; it may drift from CLOCK_MONOTONIC by some parts in a
   million. */
#ifndef MOJOVIEW_RING_TIMESTAMPS_H
#define MOJOVIEW_RING_TIMESTAMPS_H

#include "../../memory/clock.h"
#include "layout.h"

enum { MV_CLOCK_MONOTONIC = 0, MV_CLOCK_TICKS = 1 };

#if defined(__x86_64__)
#include <cpuid.h>
static inline uint64_t mv_ticks(void) {
    uint32_t low, high;
    __asm__ __volatile__("rdtsc" : "=a"(low), "=d"(high));
    return (uint64_t)high << 32 | low;
}
static inline int mv_ticks_usable(void) { /* invariant: one rate in all power states */
    uint32_t a, b, c, d;
    return __get_cpuid(0x80000007u, &a, &b, &c, &d) && (d >> 8 & 1);
}
#elif defined(__aarch64__)
static inline uint64_t mv_ticks(void) {
    uint64_t ticks;
    __asm__ __volatile__("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
}
static inline int mv_ticks_usable(void) { return 1; }
#else
static inline uint64_t mv_ticks(void) { return 0; }
static inline int mv_ticks_usable(void) { return 0; }
#endif

/* Sample both clocks: keep the tightest of 16 pairs, since a pair that was interrupted is not usable. */
static inline void mv_clock_sample(uint64_t *ticks, uint64_t *ns) {
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 16; i++) {
        uint64_t before = mv_ticks(), t = mv_monotonic_ns(), after = mv_ticks();
        if (after - before < best) {
            best = after - before;
            *ticks = before + best / 2;
            *ns = t;
        }
    }
}

/* Measure the rate over 10 ms. Return 0 if the processor has no usable counter: the ring uses CLOCK_MONOTONIC. */
static inline int mv_clock_calibrate(mv_ring_ctl *ctl) {
    uint64_t ticks0 = 0, ns0 = 0, ticks1 = 0, ns1 = 0;
    if (!mv_ticks_usable())
        return 0;
    const struct timespec pause = {0, 10000000};
    mv_clock_sample(&ticks0, &ns0);
    nanosleep(&pause, NULL);
    mv_clock_sample(&ticks1, &ns1);
    if (ticks1 <= ticks0 || ns1 <= ns0)
        return 0;
    ctl->ns_per_tick = (uint64_t)((long double)(ns1 - ns0) / (long double)(ticks1 - ticks0) * 4294967296.0L);
    ctl->tick_base = ticks1;
    ctl->ns_base = ns1;
    ctl->clock = MV_CLOCK_TICKS;
    return 1;
}

static inline uint64_t mv_ring_now(const mv_ring_ctl *ctl) {
    if (ctl->clock != MV_CLOCK_TICKS)
        return mv_monotonic_ns();
    uint64_t ticks = mv_ticks() - ctl->tick_base; /* in two halves: the product has up to 96 bits */
    return ctl->ns_base + (ticks >> 32) * ctl->ns_per_tick + ((ticks & UINT32_MAX) * ctl->ns_per_tick >> 32);
}

#endif
