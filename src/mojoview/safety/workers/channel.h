/* What a worker and its parent say to each other: one letter each way in memory that both map, and a socket beside it.
 *
 * A letter is a number, and up to MV_POST_VALUES scalars; what does not fit follows it through the socket (MV_POST_LONG).
 * A reader looks at the memory for a short while, then says that it sleeps and waits at the socket, where the writer
 * leaves one byte for it. So a death is noticed at once, as the end of the socket, and a quick answer costs no system
 * call. What lies in the letter may be the work of a wild kernel: it is read as numbers, each of which is looked at. */
#ifndef MOJOVIEW_POST_H
#define MOJOVIEW_POST_H

#include <poll.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "../../memory/abi.h"
#include "crash.h"
#include "../../memory/spin.h"

#ifndef MSG_NOSIGNAL /* then SIGPIPE must be ignored, as Python does */
#define MSG_NOSIGNAL 0
#endif

enum { MV_POST_VALUES = 15, MV_POST_LONG = -1 };
enum { MV_POST_NOTHING = 0, MV_POST_FLOAT, MV_POST_INT, MV_POST_UINT, MV_POST_BOOL };

typedef struct mv_letter { /* in one direction */
    _Alignas(64) _Atomic uint64_t number; /* letters so far */
    _Atomic uint32_t sleeps;              /* whether its reader waits at the socket */
    uint32_t count;                       /* of values */
    int64_t word;
    uint8_t kind[MV_POST_VALUES + 1];
    mv_value value[MV_POST_VALUES];
} mv_letter;

typedef struct mv_post { /* the whole file that a worker and its parent map */
    mv_crash crash;
    mv_letter request, answer;
} mv_post;

/* The letter is written: its reader may have it. 0, or -errno where nobody is there. */
static inline int mv_post_send(mv_letter *letter, int channel) {
    uint64_t number = atomic_load_explicit(&letter->number, memory_order_relaxed); /* RLX: this side alone writes it */
    atomic_store_explicit(&letter->number, number + 1, memory_order_release); /* REL: the letter, and the arrays */
    atomic_thread_fence(memory_order_seq_cst); /* SC: the number comes before the look for a sleeper (parking.h) */
    if (atomic_load_explicit(&letter->sleeps, memory_order_relaxed) == 0) /* RLX: the fence orders it */
        return 0;
    if (atomic_exchange_explicit(&letter->sleeps, 0, memory_order_relaxed) == 0) /* RLX: who takes the word sends the byte */
        return 0;
    while (send(channel, "", 1, MSG_NOSIGNAL) < 0)
        if (errno != EINTR) return -errno;
    return 0;
}

/* Whether the letter after the one numbered `seen` is there. Any other number is no writer's work, and not waited with. */
static inline int mv_post_has(const mv_letter *letter, uint64_t seen) {
    return atomic_load_explicit(&letter->number, memory_order_acquire) == seen + 1; /* ACQ: the letter, and the arrays */
}

/* Waits for the letter after the one numbered `seen`; `deadline` by mv_os_monotonic(). `spin` is NULL where there is one
 * core; `asleep` is the caller's memory between two calls for one letter. 0, -ETIMEDOUT, -EINTR (call again), -EPIPE where
 * the writer is gone. */
static inline int mv_post_wait(mv_letter *letter, int channel, uint64_t seen, mv_spin *spin, uint64_t deadline, int *asleep) {
    uint64_t now, left;
    struct pollfd at = {channel, POLLIN, 0};
    char byte;
    ssize_t got;
    int rc;
    if (!*asleep) {
        if (spin) (void)mv_spin_wait(spin, &letter->number, seen);
        if (mv_post_has(letter, seen)) return 0;
        atomic_store_explicit(&letter->sleeps, 1, memory_order_relaxed); /* RLX: the fence orders it */
        atomic_thread_fence(memory_order_seq_cst); /* SC: the word comes before the last look */
        if (mv_post_has(letter, seen) && atomic_exchange_explicit(&letter->sleeps, 0, memory_order_relaxed)) /* RLX: as above */
            return 0; /* taken back before the writer saw it: no byte will come */
        *asleep = 1;
    }
    do {
        now = mv_os_monotonic();
        if (now >= deadline) return -ETIMEDOUT;
        left = (deadline - now) / 1000000u + 1;
        rc = poll(&at, 1, left > 1000000u ? 1000000 : (int)left);
        if (rc < 0) return -errno;
    } while (rc == 0);
    got = recv(channel, &byte, 1, 0);
    if (got < 0) return errno == EINTR || errno == EAGAIN ? -EINTR : -EPIPE;
    *asleep = 0;
    return got && mv_post_has(letter, seen) ? 0 : -EPIPE; /* without a letter the byte was none of the writer's */
}

#endif
