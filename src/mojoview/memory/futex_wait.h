/* Sleeping until a word changes, without a lost wake-up and without a system call where nobody sleeps.
 *
 * The sleeper announces itself and looks once more; the waker changes the word and looks for sleepers. Each side stores, then loads
 * what the other stored: only a full fence on both sides forbids that both loads come first (the store-buffering shape). A sleeper
 * that dies leaves the count too high, which costs a system call a publication and nothing else. */
#ifndef MOJOVIEW_PARKING_H
#define MOJOVIEW_PARKING_H

#include "platform.h" /* first: it asks the system for its extensions */

#include <stdatomic.h>

/* The low half of a 64-bit counter: what the kernel compares. */
static inline const _Atomic uint32_t *mv_low_word(const _Atomic uint64_t *counter) {
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return (const _Atomic uint32_t *)(const void *)counter + 1;
#else
    return (const _Atomic uint32_t *)(const void *)counter;
#endif
}

/* After the counter was stored with release. */
static inline void mv_unpark(_Atomic uint64_t *counter, _Atomic uint32_t *sleepers) {
    atomic_thread_fence(memory_order_seq_cst); /* SC: the counter's store comes before the look for sleepers */
    if (atomic_load_explicit(sleepers, memory_order_relaxed) != 0) /* RLX: the fence orders it */
        mv_os_wake((_Atomic uint32_t *)(uintptr_t)mv_low_word(counter));
}

/* Sleeps while *counter == seen, at most `ns`. Spins for `spin_ns` first. `sleepers` may be NULL where the memory is read-only: it
 * then looks every millisecond. 0 = changed or spurious, -ETIMEDOUT, -EINTR. */
static inline int mv_park(const _Atomic uint64_t *counter, uint64_t seen, _Atomic uint32_t *sleepers, int64_t spin_ns, int64_t ns) {
    int64_t begin = (int64_t)mv_os_monotonic(), nap;
    int rc = 0, k;
    do {
        for (k = 0; k < 64; k++) {
            if (atomic_load_explicit(counter, memory_order_acquire) != seen) return 0; /* ACQ: as the reader's own look */
            mv_pause();
        }
    } while ((int64_t)mv_os_monotonic() - begin < spin_ns);
    if (sleepers == NULL) {
        nap = ns < 1000000 ? ns : 1000000;
        rc = mv_os_wait(mv_low_word(counter), (uint32_t)seen, nap);
        return rc == -ETIMEDOUT && nap < ns ? 0 : rc;
    }
    atomic_fetch_add_explicit(sleepers, 1, memory_order_seq_cst);
    atomic_thread_fence(memory_order_seq_cst); /* SC: the announcement comes before the last look */
    if (atomic_load_explicit(counter, memory_order_acquire) == seen) rc = mv_os_wait(mv_low_word(counter), (uint32_t)seen, ns);
    atomic_fetch_sub_explicit(sleepers, 1, memory_order_relaxed); /* RLX: too high for a moment only costs a system call */
    return rc;
}

#endif
