/* ring_threads.h: producers, consumers, readers and observers of one ring in threads at full speed. */
#ifndef RING_THREADS_H
#define RING_THREADS_H

#include "ring_support.h"

/* Threads at full speed. The reader checks every payload; under TSan every copy is checked as well. */
typedef struct {
    void *memory;
    uint64_t capacity, count;
    int mode, slot;
} job;

static void wait_for(mv_ring *r, mv_ring_waitqueue *park, mv_ring_condition test, uint64_t argument) {
    int rc = MV_RING_EMPTY;
    for (int round = 0; rc == MV_RING_EMPTY || rc == MV_RING_FULL; round++)
        rc = mv_ring_wait(r, park, test, argument, MV_WAIT_HYBRID, 2000, UINT64_MAX, round);
    CHECK(rc == MV_RING_OK);
}
static void *produce(void *argument) {
    job *j = argument;
    mv_ring w = open_ring(j->memory, j->capacity, j->mode, 1);
    uint64_t state = 99 + (uint64_t)j->slot, seq;
    uint8_t payload[512];
    CHECK((w.mode == MV_RING_SPSC   ? mv_spsc_produce(&w)
           : w.mode == MV_RING_MPSC ? mv_mpsc_acquire_slot(&w, j->slot, 1)
                                    : mv_lossy_produce(&w)) == 0);
    for (uint64_t k = 0; k < j->count;) {
        uint64_t n = random_u64(&state) % sizeof payload;
        fill(payload, n, k);
        int rc = mv_ring_put(&w, payload, n, MV_FRAME_DATA, MV_FLAG_WHOLE, 0, &seq);
        if (rc == MV_RING_FULL) {
            wait_for(&w, &w.ctl->space, mv_ring_has_room, n);
            continue;
        }
        CHECK(rc == MV_RING_OK && seq == k++);
        mv_ring_publish(&w);
        mv_ring_wake(&w.ctl->data);
    }
    return NULL;
}
static void *produce_small(void *argument) {
    job *j = argument;
    mv_ring w = open_ring(j->memory, j->capacity, j->mode, 1);
    uint8_t payload[32];
    uint64_t seq;
    CHECK((w.mode == MV_RING_SPSC ? mv_spsc_produce(&w) : mv_mpsc_acquire_slot(&w, j->slot, 1)) == 0);
    for (uint64_t k = 0; k < j->count;) {
        uint64_t n = k % (sizeof payload + 1);
        fill(payload, n, k);
        int rc = mv_ring_put(&w, payload, n, MV_FRAME_DATA, MV_FLAG_WHOLE, 0, &seq);
        if (rc == MV_RING_FULL) {
            sched_yield();
            continue;
        }
        CHECK(rc == MV_RING_OK && seq == k++);
        mv_ring_publish(&w);
    }
    return NULL;
}
static void *observe(void *argument) {
    job *j = argument;
    mv_ring r = open_ring(j->memory, j->capacity, j->mode, 1);
    uint8_t out[4096];
    mv_ring_frame f;
    uint64_t got = 0, crc_broken = 0, seen = 0;
    CHECK(mv_lossy_attach(&r, 0) == MV_RING_OK);
    while (seen < j->count) {
        int rc = mv_lossy_next(&r, out, sizeof out, &f);
        if (rc == MV_RING_EMPTY) {
            wait_for(&r, &r.ctl->data, mv_ring_has_data, 1);
            continue;
        }
        if (rc == MV_RING_LAPPED)
            continue;
        CHECK(rc == MV_RING_OK && filled(out, f.length, f.seq) && f.seq >= seen);
        seen = f.seq + 1;
        got++;
    }
    CHECK(got + r.lost + crc_broken == j->count); /* exactly what was missed */
    return (void *)(uintptr_t)got;
}
/* An observer of a lossless ring beside its producers and its consumer: whole frames in the order of each producer, or
   frames that it missed; never a damaged one. Small frames, so that the ring laps as often as possible. */
static _Atomic int observed_end;
static void *observe_lossless(void *argument) {
    job *j = argument;
    mv_ring r = open_ring(j->memory, j->capacity, j->mode, 1);
    uint8_t out[4096];
    mv_ring_frame f;
    uint64_t got = 0, next[MV_RING_SLOTS] = {0};
    CHECK(mv_lossy_attach(&r, 1) == MV_RING_OK);
    for (int last = 0; !last;) {
        last = atomic_load(&observed_end);
        for (int rc; (rc = mv_lossy_next(&r, out, sizeof out, &f)) != MV_RING_EMPTY;) {
            if (rc == MV_RING_LAPPED)
                continue;
            if (rc != MV_RING_OK)
                fprintf(stderr, "frame at %llu: reason %d\n", (unsigned long long)r.broken.pos, r.broken.reason);
            CHECK(rc == MV_RING_OK && filled(out, f.length, f.seq));
            unsigned source = mv_source_slot(&r, &f);
            CHECK(f.seq >= next[source]);
            next[source] = f.seq + 1;
            got++;
        }
        sched_yield();
    }
    uint64_t seen = 0;
    for (int k = 0; k < MV_RING_SLOTS; k++)
        seen += next[k];
    CHECK(got + r.lost <= seen); /* what was missed before the first frame of a source has no number */
    return (void *)(uintptr_t)got;
}
static void test_observed(int mode, int producers) {
    const uint64_t capacity = 4096;
    void *memory = new_ring(capacity, (uint64_t)0 - 8192, 0), *observed = NULL;
    uint64_t count = 20000 * scale, got = 0, all = 0;
    pthread_t thread[4], observer[2];
    job jobs[4], watching = {memory, capacity, count, mode, -1};
    atomic_store(&observed_end, 0);
    for (int k = 0; k < 2; k++)
        CHECK(pthread_create(&observer[k], NULL, observe_lossless, &watching) == 0);
    for (int k = 0; k < producers; k++) {
        jobs[k] = (job){memory, capacity, count, mode, k * 7};
        CHECK(pthread_create(&thread[k], NULL, produce_small, &jobs[k]) == 0);
    }
    mv_ring r = open_ring(memory, capacity, mode, 1);
    CHECK((mode == MV_RING_SPSC ? mv_spsc_consume(&r) : mv_mpsc_consume(&r)) == 0);
    while (got < count * (uint64_t)producers) {
        mv_ring_frame frames[16];
        int n = mv_ring_peek(&r, frames, 16, 1);
        if (n == MV_RING_EMPTY || n == MV_RING_GAP) {
            sched_yield();
            continue;
        }
        CHECK(n > 0);
        got += (uint64_t)n;
        if (r.pos - r.released > capacity / 2) /* the rest stays for observers; every frame takes one line */
            mv_ring_release(&r, r.pos - capacity / 2);
    }
    mv_ring_release(&r, r.pos);
    for (int k = 0; k < producers; k++)
        CHECK(pthread_join(thread[k], NULL) == 0);
    atomic_store(&observed_end, 1);
    for (int k = 0; k < 2; k++) {
        CHECK(pthread_join(observer[k], &observed) == 0);
        all += (uintptr_t)observed;
    }
    CHECK(all > 0);
    printf("written %llu observed %llu broken 0\n", (unsigned long long)got, (unsigned long long)all);
    free(memory);
}
static void test_threads(int mode, int producers) {
    const uint64_t capacity = 16384;
    void *memory = new_ring(capacity, (uint64_t)0 - 8192, 0);
    uint64_t count = 20000 * scale, got = 0;
    pthread_t thread[4];
    job jobs[4];
    if (mode >= MV_RING_BROADCAST) {
        job j = {memory, capacity, count, mode, 0};
        for (int k = 0; k < 2; k++)
            CHECK(pthread_create(&thread[k], NULL, observe, &j) == 0);
        struct timespec pause = {0, 20000000}; /* both sides have started before the first frame */
        nanosleep(&pause, NULL);
        produce(&j);
        for (int k = 0; k < 2; k++)
            CHECK(pthread_join(thread[k], NULL) == 0);
        free(memory);
        return;
    }
    for (int k = 0; k < producers; k++) {
        jobs[k] = (job){memory, capacity, count, mode, k * 7};
        CHECK(pthread_create(&thread[k], NULL, produce, &jobs[k]) == 0);
    }
    mv_ring r = open_ring(memory, capacity, mode, 1);
    CHECK((mode == MV_RING_SPSC ? mv_spsc_consume(&r) : mv_mpsc_consume(&r)) == 0);
    while (got < count * (uint64_t)producers) {
        mv_ring_frame frames[16];
        int n = mv_ring_peek(&r, frames, 16, 1);
        if (n == MV_RING_EMPTY || n == MV_RING_GAP) {
            wait_for(&r, &r.ctl->data, mv_ring_has_data, 0);
            if (n == MV_RING_GAP)
                sched_yield();
            continue;
        }
        CHECK(n > 0);
        for (int k = 0; k < n; k++)
            CHECK(filled(frames[k].payload, frames[k].length, frames[k].seq));
        got += (uint64_t)n;
        mv_ring_release(&r, r.pos);
        mv_ring_wake(&r.ctl->space);
    }
    CHECK(r.lost == 0);
    for (int k = 0; k < producers; k++)
        CHECK(pthread_join(thread[k], NULL) == 0);
    free(memory);
}

#endif
