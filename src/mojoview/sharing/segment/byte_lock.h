/* Locks on single bytes, which the operating system releases when a process exits: proof that the owner of a segment, a
 * ring peer or a reader is still running.
 *
 * Each lock is on a file description of its own, which is never mapped. A forked child inherits the descriptor, which
 * would keep a killed parent's lock held: the child closes all of them before fork() returns and marks its handles.
 * Included by one translation unit, sharing/segment/_segment. */
#ifndef MOJOVIEW_BYTE_LOCK_H
#define MOJOVIEW_BYTE_LOCK_H

#include <pthread.h>

#include "platform.h"
#include "segment.h"

static pthread_mutex_t mv_byte_locks_mutex = PTHREAD_MUTEX_INITIALIZER;
static mv_byte_lock mv_byte_locks = {-1, 0, &mv_byte_locks, &mv_byte_locks};

static _Atomic uint64_t mv_forks; /* number of forks so far: identifies what was made before a fork */

static void mv_byte_locks_before_fork(void) { pthread_mutex_lock(&mv_byte_locks_mutex); }
static void mv_byte_locks_in_parent(void) {
    atomic_fetch_add_explicit(&mv_forks, 1, memory_order_relaxed);
    pthread_mutex_unlock(&mv_byte_locks_mutex);
}
static void mv_byte_locks_in_child(void) {
    atomic_fetch_add_explicit(&mv_forks, 1, memory_order_relaxed);
    mv_byte_lock *lock = mv_byte_locks.next;
    while (lock != &mv_byte_locks) {
        mv_byte_lock *next = lock->next;
        close(lock->fd);
        lock->fd = -1;
        lock->forked = 1;
        lock->prev = lock->next = NULL;
        lock = next;
    }
    mv_byte_locks.prev = mv_byte_locks.next = &mv_byte_locks;
    pthread_mutex_unlock(&mv_byte_locks_mutex);
}

static int mv_byte_locks_watch_forks(void) {
    return -pthread_atfork(mv_byte_locks_before_fork, mv_byte_locks_in_parent, mv_byte_locks_in_child);
}

/* Lock a byte of the file behind the descriptor `any`: 0, or -EBUSY if it is locked. */
static int mv_byte_lock_acquire(mv_byte_lock *lock, int any, int64_t byte) {
    int fd;
    pthread_mutex_lock(&mv_byte_locks_mutex); /* no fork between opening the descriptor and listing it */
    fd = mv_os_claim(any, byte);
    if (fd >= 0) {
        lock->fd = fd;
        lock->forked = 0;
        lock->prev = &mv_byte_locks;
        lock->next = mv_byte_locks.next;
        mv_byte_locks.next->prev = lock;
        mv_byte_locks.next = lock;
    }
    pthread_mutex_unlock(&mv_byte_locks_mutex);
    return fd < 0 ? fd : 0;
}

static void mv_byte_lock_release(mv_byte_lock *lock) {
    pthread_mutex_lock(&mv_byte_locks_mutex);
    if (lock->fd >= 0) {
        close(lock->fd);
        lock->fd = -1;
        lock->prev->next = lock->next;
        lock->next->prev = lock->prev;
        lock->prev = lock->next = NULL;
    }
    pthread_mutex_unlock(&mv_byte_locks_mutex);
}

#endif
