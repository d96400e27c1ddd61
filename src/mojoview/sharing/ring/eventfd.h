/* ring_bell.h: a descriptor for epoll and asyncio that becomes readable when a ring has something to say.

   An eventfd cannot be found by a process that did not inherit it, so the producer does not know of it: a thread of the reader's own
   process sleeps on the ring and rings the bell. It looks only while armed; the reader arms it when it has found the ring empty. */
#ifndef MOJOVIEW_RING_EVENTFD_H
#define MOJOVIEW_RING_EVENTFD_H

#include <sys/eventfd.h>

#include "../segment/platform.h"
#include "operations.h"

enum { MV_NOTIFIER_IDLE = 0, MV_NOTIFIER_ARMED = 1, MV_NOTIFIER_STOP = 2 };

typedef struct {
    mv_ring ring;            /* a copy: where the reader stood when it armed us */
    uint64_t observer;
    int event_fd, lock_fd;   /* lock_fd: asks whether the producer lives; -1 = do not ask */
    int64_t lock_byte;
    _Atomic uint32_t state;
} mv_notifier;

/* REL: the copy before the order. Armed already, it will ring for an older position: once in vain. */
static inline void mv_notifier_arm(mv_notifier *b, const mv_ring *r) {
    uint64_t drained;
    uint32_t idle = MV_NOTIFIER_IDLE;
    while (read(b->event_fd, &drained, 8) == 8) {}
    if (atomic_load_explicit(&b->state, memory_order_acquire) != MV_NOTIFIER_IDLE) return; /* ACQ: the thread is done with the copy */
    b->ring = *r;
    if (atomic_compare_exchange_strong_explicit(&b->state, &idle, MV_NOTIFIER_ARMED, memory_order_release, memory_order_relaxed))
        mv_futex_wake(&b->state);
}

static inline void mv_notifier_stop(mv_notifier *b) {
    atomic_store_explicit(&b->state, MV_NOTIFIER_STOP, memory_order_release);
    mv_futex_wake(&b->state);
    mv_ring_wake(&b->ring.ctl->data);
}

/* Something to read, or no more to come: the reader finds out which. */
static inline int mv_notifier_due(mv_notifier *b) {
    int rc = mv_ring_wait(&b->ring, &b->ring.ctl->data, mv_ring_has_data, b->observer, MV_WAIT_FUTEX, 0, UINT64_MAX, 0);
    if (rc != MV_RING_EMPTY || b->lock_fd < 0) return rc != MV_RING_EMPTY;
    int side = mv_ring_side(&b->ring, MV_PRODUCER);
    return side == MV_SIDE_CLOSED || (side == MV_SIDE_ACTIVE && mv_os_locked(b->lock_fd, b->lock_byte) == 0);
}

static inline void mv_notifier_run(mv_notifier *b) {
    const uint64_t one = 1;
    for (;;) {
        uint32_t state = atomic_load_explicit(&b->state, memory_order_acquire);
        if (state == MV_NOTIFIER_STOP) return;
        if (state == MV_NOTIFIER_IDLE) {
            (void)mv_futex_wait(&b->state, MV_NOTIFIER_IDLE, INT64_C(1000000000));
            continue;
        }
        uint32_t armed = MV_NOTIFIER_ARMED;
        if (mv_notifier_due(b) && atomic_compare_exchange_strong_explicit(&b->state, &armed, MV_NOTIFIER_IDLE, memory_order_release,
                                                                      memory_order_relaxed) &&
            write(b->event_fd, &one, 8) != 8)
            return; /* the descriptor is gone */
    }
}

#endif
