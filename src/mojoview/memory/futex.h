/* Wait until a word changes: spin for a short while, then sleep. No wake-up is lost, and a waker without waiters makes
 * no system call.
 *
 * The waiter announces itself and loads the word once more; the waker changes the word and loads the number of waiters.
 * Each side stores, then loads what the other stored: only a full fence on both sides forbids that both loads come
 * first (store buffering). A waiter that dies leaves the number too high, which costs one system call per publication
 * and nothing else.
 *
 * Functions return -errno on failure. -DMV_OS_PORTABLE builds the branch for systems without futexes on Linux, for the
 * tests. */
#ifndef MOJOVIEW_FUTEX_H
#define MOJOVIEW_FUTEX_H

#ifndef _GNU_SOURCE /* before any system header */
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#if defined(__linux__) && !defined(MV_OS_PORTABLE)
#define MV_OS_LINUX 1
#include <linux/futex.h>
#include <sys/syscall.h>
#else
#define MV_OS_LINUX 0
#endif

#include "clock.h"

/* -- the system calls
 * -------------------------------------------------------------------------------------------------------- */

/* Sleep while *word == expected, at most `ns`: 0 = woken, value differs or spurious; -ETIMEDOUT; -EINTR. Works on a
 * read-only mapping, and across processes. The portable branch sleeps 0.2 ms at a time. */
static inline int mv_futex_wait(const _Atomic uint32_t *word, uint32_t expected, int64_t ns) {
#if MV_OS_LINUX
    struct timespec t = {ns / 1000000000, ns % 1000000000};
    if (syscall(SYS_futex, word, FUTEX_WAIT, expected, &t, NULL, 0) == 0 || errno == EAGAIN)
        return 0;
    return -errno;
#else
    const struct timespec nap = {0, 200000};
    for (; ns > 0; ns -= 200000) {
        uint32_t now;
        /* half of a 64-bit counter: read as bytes, not as another type */
        memcpy(&now, (const void *)(uintptr_t)word, sizeof now);
        if (now != expected)
            return 0;
        if (nanosleep(&nap, NULL) < 0)
            return -EINTR;
    }
    return -ETIMEDOUT;
#endif
}

/* Wake every waiter. */
static inline void mv_futex_wake(_Atomic uint32_t *word) {
#if MV_OS_LINUX
    (void)syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
#else
    (void)word;
#endif
}

/* The low half of a 64-bit counter, which the futex system call compares. */
static inline const _Atomic uint32_t *mv_low_word(const _Atomic uint64_t *counter) {
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return (const _Atomic uint32_t *)(const void *)counter + 1;
#else
    return (const _Atomic uint32_t *)(const void *)counter;
#endif
}

/* -- spinning
 * ---------------------------------------------------------------------------------------------------------------- */

/* Between two loads of a word that another core is about to change. */
static inline void mv_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __asm__ __volatile__("pause");
#elif defined(__aarch64__)
    __asm__ __volatile__("isb"); /* `yield` does nothing on most cores; `isb` does pause */
#endif
}

/* Spin until *counter differs from `seen`, for about `ns`, and for a few loads at least. Returns whether it does. */
static inline int mv_spin_while_equal(const _Atomic uint64_t *counter, uint64_t seen, uint64_t ns) {
    uint64_t begin = mv_monotonic_ns();
    int k;
    do {
        for (k = 0; k < 32; k++) {
            /* ACQ: with what the counter publishes */
            if (atomic_load_explicit(counter, memory_order_acquire) != seen)
                return 1;
            mv_pause();
        }
    } while (mv_monotonic_ns() - begin < ns);
    return 0;
}

/* about the time of two wake-ups; most rounds skipped in a row */
enum { MV_SPIN_NS = 20000, MV_SPIN_MAX_BACKOFF = 31 };

/* Spinning pays only if the other side runs on another core and answers soon. After a failure the next rounds are
 * skipped, more of them after each further failure. */
typedef struct mv_spin {
    uint32_t backoff; /* rounds that were skipped after the last failure */
    uint32_t skip;    /* rounds still to skip */
} mv_spin;

/* Spin for MV_SPIN_NS, unless this round is skipped. Returns whether *counter differs from `seen`. */
static inline int mv_spin_wait(mv_spin *spin, const _Atomic uint64_t *counter, uint64_t seen) {
    /* ACQ: with what the counter publishes */
    if (atomic_load_explicit(counter, memory_order_acquire) != seen)
        return 1;
    if (spin->skip) {
        spin->skip--;
        return 0;
    }
    if (mv_spin_while_equal(counter, seen, MV_SPIN_NS)) {
        spin->backoff = 0;
        return 1;
    }
    spin->skip = spin->backoff = spin->backoff < MV_SPIN_MAX_BACKOFF ? 2 * spin->backoff + 1 : MV_SPIN_MAX_BACKOFF;
    return 0;
}

/* -- waiting for a counter
 * --------------------------------------------------------------------------------------------------- */

/* Wake the waiters of a counter that was just stored with release. */
static inline void mv_counter_notify(_Atomic uint64_t *counter, _Atomic uint32_t *waiters) {
    atomic_thread_fence(memory_order_seq_cst); /* SC: the counter's store comes before the load of `waiters` */
    if (atomic_load_explicit(waiters, memory_order_relaxed) != 0) /* RLX: the fence orders it */
        mv_futex_wake((_Atomic uint32_t *)(uintptr_t)mv_low_word(counter));
}

/* Sleep while *counter == seen, at most `ns`, after spinning for `spin_ns`. `waiters` is NULL if the memory is read-
 * only: the counter is then loaded every millisecond. 0 = changed or spurious, -ETIMEDOUT, -EINTR. */
static inline int mv_counter_wait(const _Atomic uint64_t *counter, uint64_t seen, _Atomic uint32_t *waiters,
                                  int64_t spin_ns, int64_t ns) {
    int64_t nap;
    int rc = 0;
    if (mv_spin_while_equal(counter, seen, (uint64_t)spin_ns))
        return 0;
    if (waiters == NULL) {
        nap = ns < 1000000 ? ns : 1000000;
        rc = mv_futex_wait(mv_low_word(counter), (uint32_t)seen, nap);
        return rc == -ETIMEDOUT && nap < ns ? 0 : rc;
    }
    atomic_fetch_add_explicit(waiters, 1, memory_order_seq_cst);
    atomic_thread_fence(memory_order_seq_cst); /* SC: the announcement comes before the last load of the counter */
    if (atomic_load_explicit(counter, memory_order_acquire) == seen)
        rc = mv_futex_wait(mv_low_word(counter), (uint32_t)seen, ns);
    atomic_fetch_sub_explicit(waiters, 1, memory_order_relaxed); /* RLX: a stale count only costs a system call */
    return rc;
}

#endif
