/* Where one thread waits for its next job, without the GIL, and without a system call where it has only just sat down. */
#ifndef MOJOVIEW_SEAT_H
#define MOJOVIEW_SEAT_H

#include "../../memory/spin.h"

#include "../../memory/futex_wait.h"

typedef struct mv_seat {
    _Atomic uint64_t jobs; /* that it was given */
    _Atomic uint32_t sleepers;
    mv_spin spin;
} mv_seat;

static inline void mv_seat_call(mv_seat *seat) {
    atomic_fetch_add_explicit(&seat->jobs, 1, memory_order_release); /* REL: with the job */
    mv_unpark(&seat->jobs, &seat->sleepers);
}

/* Until the job after the first `seen` is there. No sleep is longer than a minute without a look. */
static inline void mv_seat_wait(mv_seat *seat, uint64_t seen, int alone) {
    if (!alone && mv_spin_wait(&seat->spin, &seat->jobs, seen)) return;
    while (atomic_load_explicit(&seat->jobs, memory_order_acquire) == seen) /* ACQ: with the job */
        (void)mv_park(&seat->jobs, seen, &seat->sleepers, 0, INT64_C(60000000000));
}

#endif
