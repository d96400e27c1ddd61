/* eventfd.h: a descriptor for epoll and asyncio that becomes readable when there may be something to read.

   The producer cannot write to it: an eventfd reaches only processes that inherit it. A thread of the reader's process
   sleeps on the ring and writes to the eventfd. It waits only while armed; the reader arms it when it has found the
   ring empty. */
#ifndef MOJOVIEW_RING_EVENTFD_H
#define MOJOVIEW_RING_EVENTFD_H

#include <unistd.h>

#include "../segment/platform.h"
#include "operations.h"

enum { MV_NOTIFIER_IDLE = 0, MV_NOTIFIER_ARMED = 1, MV_NOTIFIER_STOP = 2 };

typedef struct {
    mv_ring ring; /* copy, with the reader's position when it armed the notifier */
    uint64_t observer;
    int event_fd, lock_fd; /* lock_fd: to query whether the producer is alive; -1 = no query */
    int64_t lock_byte;
    _Atomic uint32_t state;
} mv_notifier;

/* Make the eventfd unreadable and wait for data from here on. REL: the copy is complete before the state changes. If
   the notifier is armed already, for an older position, one notification is spurious. */
static inline void mv_notifier_arm(mv_notifier *n, const mv_ring *r) {
    uint64_t drained;
    uint32_t idle = MV_NOTIFIER_IDLE;
    while (read(n->event_fd, &drained, 8) == 8) {
    }
    if (atomic_load_explicit(&n->state, memory_order_acquire) != MV_NOTIFIER_IDLE)
        return; /* ACQ: the thread no longer reads the copy */
    n->ring = *r;
    if (atomic_compare_exchange_strong_explicit(&n->state, &idle, MV_NOTIFIER_ARMED, memory_order_release,
                                                memory_order_relaxed))
        mv_futex_wake(&n->state);
}

static inline void mv_notifier_stop(mv_notifier *n) {
    atomic_store_explicit(&n->state, MV_NOTIFIER_STOP, memory_order_release);
    mv_futex_wake(&n->state);
    mv_ring_wake(&n->ring.ctl->data);
}

/* Return whether there is something to read, or the ring may have ended: the reader finds out which. */
static inline int mv_notifier_due(mv_notifier *n) {
    int rc = mv_ring_wait(&n->ring, &n->ring.ctl->data, mv_ring_has_data, n->observer, MV_WAIT_FUTEX, 0, UINT64_MAX, 0);
    if (rc != MV_RING_EMPTY || n->lock_fd < 0)
        return rc != MV_RING_EMPTY;
    int side = mv_ring_side(&n->ring, MV_PRODUCER);
    return side == MV_SIDE_CLOSED || (side == MV_SIDE_ACTIVE && mv_os_locked(n->lock_fd, n->lock_byte) == 0);
}

static inline void mv_notifier_run(mv_notifier *n) {
    const uint64_t one = 1;
    for (;;) {
        uint32_t state = atomic_load_explicit(&n->state, memory_order_acquire);
        if (state == MV_NOTIFIER_STOP)
            return;
        if (state == MV_NOTIFIER_IDLE) {
            (void)mv_futex_wait(&n->state, MV_NOTIFIER_IDLE, INT64_C(1000000000));
            continue;
        }
        uint32_t armed = MV_NOTIFIER_ARMED;
        if (mv_notifier_due(n) &&
            atomic_compare_exchange_strong_explicit(&n->state, &armed, MV_NOTIFIER_IDLE, memory_order_release,
                                                    memory_order_relaxed) &&
            write(n->event_fd, &one, 8) != 8)
            return; /* the descriptor is closed */
    }
}

#endif
