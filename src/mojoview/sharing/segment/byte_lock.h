/* Locks on single bytes: proof, kept by the kernel, that a segment's writer, or whoever has a seat in it, lives.
 *
 * It sits on a file description of its own that is never mapped. A forked child inherits the descriptor, and would keep a killed
 * parent "alive" with it: the child closes all of them before fork() returns, and its handles know that they own nothing. One
 * translation unit includes this file (sharing/_segment). */
#ifndef MOJOVIEW_OWNER_H
#define MOJOVIEW_OWNER_H

#include <pthread.h>

#include "platform.h"
#include "segment.h"

static pthread_mutex_t mv_byte_locks_mutex = PTHREAD_MUTEX_INITIALIZER;
static mv_byte_lock mv_byte_locks = {-1, 0, &mv_byte_locks, &mv_byte_locks};

static _Atomic uint64_t mv_forks; /* how many this process, or those before it, has seen: tells what was made before a fork */

static void mv_byte_locks_before_fork(void) { pthread_mutex_lock(&mv_byte_locks_mutex); }
static void mv_byte_locks_in_parent(void) {
    atomic_fetch_add_explicit(&mv_forks, 1, memory_order_relaxed);
    pthread_mutex_unlock(&mv_byte_locks_mutex);
}
static void mv_byte_locks_in_child(void) {
    atomic_fetch_add_explicit(&mv_forks, 1, memory_order_relaxed);
    mv_byte_lock *o = mv_byte_locks.next;
    while (o != &mv_byte_locks) {
        mv_byte_lock *next = o->next;
        close(o->fd);
        o->fd = -1;
        o->forked = 1;
        o->prev = o->next = NULL;
        o = next;
    }
    mv_byte_locks.prev = mv_byte_locks.next = &mv_byte_locks;
    pthread_mutex_unlock(&mv_byte_locks_mutex);
}

static int mv_byte_locks_watch_forks(void) {
    return -pthread_atfork(mv_byte_locks_before_fork, mv_byte_locks_in_parent, mv_byte_locks_in_child);
}

/* 0 = this handle has the byte now (MV_LOCK_OWNER: owns the segment); -EBUSY = somebody else has. `any` is any descriptor of the file. */
static int mv_byte_lock_acquire(mv_byte_lock *o, int any, int64_t byte) {
    int fd;
    pthread_mutex_lock(&mv_byte_locks_mutex); /* no fork between opening the descriptor and listing it */
    fd = mv_os_claim(any, byte);
    if (fd >= 0) {
        o->fd = fd;
        o->forked = 0;
        o->prev = &mv_byte_locks;
        o->next = mv_byte_locks.next;
        mv_byte_locks.next->prev = o;
        mv_byte_locks.next = o;
    }
    pthread_mutex_unlock(&mv_byte_locks_mutex);
    return fd < 0 ? fd : 0;
}

static void mv_byte_lock_release(mv_byte_lock *o) {
    pthread_mutex_lock(&mv_byte_locks_mutex);
    if (o->fd >= 0) {
        close(o->fd);
        o->fd = -1;
        o->prev->next = o->next;
        o->next->prev = o->prev;
        o->prev = o->next = NULL;
    }
    pthread_mutex_unlock(&mv_byte_locks_mutex);
}

#endif
