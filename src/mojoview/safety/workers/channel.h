/* Request/response channel between a worker process and its parent: one message slot per direction in shared memory,
 * and a socket for larger payloads and for wake-ups.
 *
 * A message is a tag and up to MV_CHANNEL_VALUES scalars; the tag MV_CHANNEL_OUT_OF_LINE announces a payload on the
 * socket. A reader spins on the slot for a short while, then marks itself as waiting and polls the socket, where the
 * writer sends one byte to wake it. A quick answer therefore costs no system call, and the death of the other process
 * is noticed at once as the end of the socket. A faulty kernel may have overwritten the slot, so every field is
 * validated when it is read. */
#ifndef MOJOVIEW_CHANNEL_H
#define MOJOVIEW_CHANNEL_H

#include <poll.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "../../memory/abi.h"
#include "../../memory/futex.h"
#include "crash.h"

#ifndef MSG_NOSIGNAL /* where it is missing, SIGPIPE must be ignored, as Python does */
#define MSG_NOSIGNAL 0
#endif

enum { MV_CHANNEL_VALUES = 15, MV_CHANNEL_OUT_OF_LINE = -1 };
enum { MV_CHANNEL_NONE = 0, MV_CHANNEL_FLOAT, MV_CHANNEL_INT, MV_CHANNEL_UINT, MV_CHANNEL_BOOL };

typedef struct mv_message {                 /* the slot of one direction */
    _Alignas(64) _Atomic uint64_t sequence; /* messages sent so far */
    _Atomic uint32_t reader_waits;          /* 1 while the reader polls the socket */
    uint32_t count;                         /* of values */
    int64_t tag;
    uint8_t kind[MV_CHANNEL_VALUES + 1];
    mv_value value[MV_CHANNEL_VALUES];
} mv_message;

typedef struct mv_channel { /* the file that both processes map */
    mv_crash crash;
    mv_message request, reply;
} mv_channel;

/* Publish the message that was written into the slot. 0, or -errno if the socket is closed. */
static inline int mv_channel_send(mv_message *message, int socket) {
    uint64_t sequence = atomic_load_explicit(&message->sequence, memory_order_relaxed); /* RLX: no other writer */
    atomic_store_explicit(&message->sequence, sequence + 1, memory_order_release);      /* REL: message and arrays */
    atomic_thread_fence(memory_order_seq_cst); /* SC: the store precedes the check for a waiting reader */
    if (atomic_load_explicit(&message->reader_waits, memory_order_relaxed) == 0) /* RLX: ordered by the fence */
        return 0;
    if (atomic_exchange_explicit(&message->reader_waits, 0, memory_order_relaxed) == 0) /* RLX: who clears it, sends */
        return 0;
    while (send(socket, "", 1, MSG_NOSIGNAL) < 0)
        if (errno != EINTR)
            return -errno;
    return 0;
}

/* Return whether the message after number `seen` is there. No writer produces another number, so it does not count as
 * one. */
static inline int mv_channel_ready(const mv_message *message, uint64_t seen) {
    return atomic_load_explicit(&message->sequence, memory_order_acquire) == seen + 1; /* ACQ: message and arrays */
}

/* Wait for the message after number `seen`; `deadline` is a time of mv_monotonic_ns(). `spin` is NULL on one core;
 * `polling` carries the caller's state between calls for the same message; `process` is a pidfd of the writer, or -1.
 * 0, -ETIMEDOUT, -EINTR (call again), -EPIPE if the writer has exited. */
static inline int mv_channel_wait(mv_message *message, int socket, int process, uint64_t seen, mv_spin *spin,
                                  uint64_t deadline, int *polling) {
    uint64_t now, left_ms;
    struct pollfd at[2] = {{socket, POLLIN, 0}, {process, POLLIN, 0}}; /* poll() ignores a descriptor of -1 */
    char byte;
    ssize_t got;
    int rc;
    if (!*polling) {
        if (spin)
            (void)mv_spin_wait(spin, &message->sequence, seen);
        if (mv_channel_ready(message, seen))
            return 0;
        atomic_store_explicit(&message->reader_waits, 1, memory_order_relaxed); /* RLX: ordered by the fence */
        atomic_thread_fence(memory_order_seq_cst); /* SC: the mark precedes the last check */
        if (mv_channel_ready(message, seen) &&
            atomic_exchange_explicit(&message->reader_waits, 0, memory_order_relaxed)) /* RLX: who clears it, sends */
            return 0; /* cleared before the writer saw it: no byte will come */
        *polling = 1;
    }
    do {
        now = mv_monotonic_ns();
        if (now >= deadline)
            return -ETIMEDOUT;
        left_ms = (deadline - now) / 1000000u + 1;
        rc = poll(at, 2, left_ms > 1000000u ? 1000000 : (int)left_ms);
        if (rc < 0)
            return -errno;
    } while (rc == 0);
    if (at[0].revents == 0) /* the process has exited, and something else keeps its end of the socket open */
        return mv_channel_ready(message, seen) ? (*polling = 0) : -EPIPE;
    got = recv(socket, &byte, 1, 0);
    if (got < 0)
        return errno == EINTR || errno == EAGAIN ? -EINTR : -EPIPE;
    *polling = 0;
    return got && mv_channel_ready(message, seen) ? 0 : -EPIPE; /* a byte without a message is not the writer's */
}

#endif
