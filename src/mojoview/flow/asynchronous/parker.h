/* A place for one thread to wait for its next job: without the GIL, and without a system call if the job comes soon. */
#ifndef MOJOVIEW_PARKER_H
#define MOJOVIEW_PARKER_H

#include "../../memory/futex.h"

typedef struct mv_parker {
    _Atomic uint64_t jobs; /* handed to the thread so far */
    _Atomic uint32_t sleepers;
    mv_spin spin;
} mv_parker;

/* Count a job that was handed over, and wake the thread. */
static inline void mv_parker_notify(mv_parker *parker) {
    atomic_fetch_add_explicit(&parker->jobs, 1, memory_order_release); /* REL: publishes the job */
    mv_counter_notify(&parker->jobs, &parker->sleepers);
}

/* Block until more than `seen` jobs were handed over; re-check at least every 60 s. On one core do not spin. */
static inline void mv_parker_wait(mv_parker *parker, uint64_t seen, int one_core) {
    if (!one_core && mv_spin_wait(&parker->spin, &parker->jobs, seen))
        return;
    while (atomic_load_explicit(&parker->jobs, memory_order_acquire) == seen) /* ACQ: the job */
        (void)mv_counter_wait(&parker->jobs, seen, &parker->sleepers, 0, INT64_C(60000000000));
}

#endif
