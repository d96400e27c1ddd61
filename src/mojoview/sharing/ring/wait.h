/* wait.h: waiting for data or space without lost wake-ups and without a lock.

   waiter   reads the futex word, increments `waiters`, SC fence, tests once more, sleeps while the word is unchanged
   waker    publishes, SC fence, reads `waiters`, changes the word, wakes

   Both fences are needed (store buffering): without them each side may miss the other's store, and the waiter sleeps
   although there is data. Every sleep ends after at most 100 ms, so that the caller can check signals, its deadline and
   whether the peer is alive. A waiter that died leaves its increment, which costs the waker a system call and nothing
   else. */
#ifndef MOJOVIEW_RING_WAIT_H
#define MOJOVIEW_RING_WAIT_H

#include "../../memory/futex.h" /* first: it enables the system's extensions */

#include <sched.h>

#include "layout.h"
#include "timestamps.h"

enum { MV_WAIT_SPIN = 1, MV_WAIT_HYBRID = 2, MV_WAIT_FUTEX = 3, MV_WAIT_POLL = 4, MV_WAIT_EVENT = 5 };
enum { MV_WAIT_SPIN_NS = 20000, MV_WAIT_YIELDS = 50, MV_WAIT_SLICE_NS = 100000000 };
enum { MV_ASK_INTERVAL_NS = 10000000 }; /* querying which peers are alive costs a system call */

typedef int (*mv_ring_condition)(mv_ring *r, uint64_t argument); /* MV_RING_OK = do not wait */

/* Wake waiters after a publication. The fence is the waker's half of the protocol; without waiters it is the whole
   cost. */
static inline void mv_ring_wake(mv_ring_waitqueue *queue) {
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&queue->waiters, memory_order_relaxed) == 0)
        return;
    atomic_fetch_add_explicit(&queue->futex, 1,
                              memory_order_relaxed); /* RLX: the futex call compares it under its own lock */
    mv_futex_wake(&queue->futex);
}

/* Announce the wait, test once, then sleep at most `ns`. Without write access to announce it, test every
   millisecond. */
static inline int mv_ring_sleep(mv_ring *r, mv_ring_waitqueue *queue, mv_ring_condition test, uint64_t argument,
                                uint64_t ns) {
    if (r->readonly) {
        const struct timespec pause = {0, ns < 1000000 ? (long)ns : 1000000};
        nanosleep(&pause, NULL);
        return test(r, argument);
    }
    uint32_t seen = atomic_load_explicit(&queue->futex, memory_order_relaxed);
    atomic_fetch_add_explicit(&queue->waiters, 1, memory_order_seq_cst);
    atomic_thread_fence(memory_order_seq_cst); /* the announcement comes before the test */
    int rc = test(r, argument);
    if (rc == MV_RING_EMPTY || rc == MV_RING_FULL) {
        (void)mv_futex_wait(&queue->futex, seen, (int64_t)ns); /* woken, timed out or interrupted: tested again */
        rc = test(r, argument);
    }
    atomic_fetch_sub_explicit(&queue->waiters, 1,
                              memory_order_relaxed); /* a stale count only causes a spurious wake-up */
    return rc;
}

/* Wait until `test` returns something else than empty or full, until `deadline` (CLOCK_MONOTONIC), or for a slice of
   100 ms. Return its last result. `round` counts the calls of one wait: only the first spins. */
static inline int mv_ring_wait(mv_ring *r, mv_ring_waitqueue *queue, mv_ring_condition test, uint64_t argument,
                               int strategy, uint64_t spin_ns, uint64_t deadline, int round) {
    int rc = test(r, argument);
    if (!(rc == MV_RING_EMPTY || rc == MV_RING_FULL) || strategy == MV_WAIT_POLL)
        return rc;
    uint64_t now = mv_monotonic_ns(), end = now + MV_WAIT_SLICE_NS;
    if (deadline < end)
        end = deadline;
    if (now >= end)
        return rc;
    if (strategy == MV_WAIT_SPIN || (strategy == MV_WAIT_HYBRID && round == 0)) {
        uint64_t spin_end = strategy == MV_WAIT_SPIN || now + spin_ns > end ? end : now + spin_ns;
        do {
            for (int i = 0; i < 16; i++) {
                rc = test(r, argument);
                if (!(rc == MV_RING_EMPTY || rc == MV_RING_FULL))
                    return rc;
                mv_pause();
            }
            now = mv_monotonic_ns();
        } while (now < spin_end);
        if (strategy == MV_WAIT_SPIN)
            return rc;
        for (int i = 0; i < MV_WAIT_YIELDS && now < end; i++) {
            sched_yield();
            rc = test(r, argument);
            if (!(rc == MV_RING_EMPTY || rc == MV_RING_FULL))
                return rc;
        }
        now = mv_monotonic_ns();
        if (now >= end)
            return rc;
    }
    return mv_ring_sleep(r, queue, test, argument, end - now);
}

#endif
