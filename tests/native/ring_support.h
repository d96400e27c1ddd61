/* ring_support.h: rings in plain memory, random numbers and payloads for the C tests of the rings. */
#ifndef RING_SUPPORT_H
#define RING_SUPPORT_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "sharing/ring/operations.h"

#define CHECK(x) ((x) ? (void)0 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x), exit(1)))

static uint64_t scale = 1;

static void *new_ring(uint64_t capacity, uint64_t start, uint64_t seq) {
    void *memory = NULL;
    CHECK(posix_memalign(&memory, 4096, sizeof(mv_ring_ctl) + capacity) == 0);
    memset(memory, 0, sizeof(mv_ring_ctl) + capacity);
    mv_ring_format(memory, start, seq);
    return memory;
}
static mv_ring open_ring(void *memory, uint64_t capacity, int mode, int crc) {
    mv_ring r;
    CHECK(mv_ring_open(&r, memory, sizeof(mv_ring_ctl) + capacity, capacity, mode, crc) == MV_RING_OK);
    return r;
}
static uint64_t random_u64(uint64_t *state) { /* xorshift64* */
    *state ^= *state >> 12, *state ^= *state << 25, *state ^= *state >> 27;
    return *state * UINT64_C(0x2545f4914f6cdd1d);
}
static void fill(uint8_t *p, uint64_t n, uint64_t seq) {
    for (uint64_t i = 0; i < n; i++)
        p[i] = (uint8_t)(seq * 31 + i);
}
static int filled(const uint8_t *p, uint64_t n, uint64_t seq) {
    for (uint64_t i = 0; i < n; i++)
        if (p[i] != (uint8_t)(seq * 31 + i))
            return 0;
    return 1;
}

#endif
