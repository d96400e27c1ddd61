/* One way of a 64-byte frame between two processes in C, each on its own core: the limit of the ring's layout. Both
   sides poll. Prints the median in nanoseconds. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sharing/ring/operations.h"

static int compare(const void *a, const void *b) { return *(const uint64_t *)a < *(const uint64_t *)b ? -1 : 1; }

static void send_one(mv_ring *w, const uint8_t *message) {
    uint64_t seq;
    while (mv_ring_put(w, message, 64, MV_FRAME_DATA, MV_FLAG_WHOLE, mv_monotonic_ns(), &seq))
        mv_pause();
    mv_ring_publish(w);
}
static void receive_one(mv_ring *r, uint8_t *message) {
    mv_ring_frame f;
    while (mv_ring_take(r, message, 64, &f))
        mv_pause();
}

static void stay_on(int which) { /* 0: the first available core, 1: the last */
    cpu_set_t all, one;
    if (sched_getaffinity(0, sizeof all, &all))
        return;
    for (int core = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, &all)) {
            CPU_ZERO(&one);
            CPU_SET(core, &one);
            if (which == 0)
                break;
        }
    (void)sched_setaffinity(0, sizeof one, &one);
}

int main(void) {
    enum { ROUNDS = 20000, CAPACITY = 1 << 16, BYTES = MV_RING_CTL_BYTES + CAPACITY };
    static uint64_t times[ROUNDS];
    uint8_t message[64] = {0};
    mv_ring there, back;
    uint8_t *memory = mmap(NULL, 2 * BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return 1;
    for (int k = 0; k < 2; k++)
        mv_ring_format((mv_ring_ctl *)(memory + k * BYTES), 0, 0);
    mv_ring_open(&there, memory, BYTES, CAPACITY, MV_RING_SPSC, 0);
    mv_ring_open(&back, memory + BYTES, BYTES, CAPACITY, MV_RING_SPSC, 0);
    pid_t child = fork();
    if (child < 0)
        return 1;
    if (child == 0) {
        stay_on(1);
        mv_spsc_consume(&there), mv_spsc_produce(&back);
        for (int k = 0; k < ROUNDS; k++)
            receive_one(&there, message), send_one(&back, message);
        _exit(0);
    }
    stay_on(0);
    mv_spsc_produce(&there), mv_spsc_consume(&back);
    for (int k = 0; k < ROUNDS; k++) {
        uint64_t begin = mv_monotonic_ns();
        send_one(&there, message), receive_one(&back, message);
        times[k] = (mv_monotonic_ns() - begin) / 2;
    }
    waitpid(child, NULL, 0);
    qsort(times, ROUNDS, sizeof *times, compare);
    printf("%llu\n", (unsigned long long)times[ROUNDS / 2]);
    return 0;
}
