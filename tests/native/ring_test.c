/* The rings without Python: single steps, counters about to wrap, deaths at every step of a claim, flipped bytes, and
   threads at full speed. Built and run by tests/sharing/test_ring_native.py under the sanitizers. `ring_test NAME
   [SCALE]`. */
#include "ring_support.h"
#include "ring_threads.h"

static void test_crc(void) {
    uint8_t data[3 * MV_CRC_LONG + 3 * MV_CRC_SHORT + 40], copy[sizeof data];
    uint64_t state = 88172645463325252u;
    CHECK(mv_crc32c(0, "123456789", 9) == 0xe3069283u); /* RFC 3720, B.4: also zeros, ones, ascending */
    memset(data, 0, 32);
    CHECK(mv_crc32c(0, data, 32) == 0x8a9136aau);
    memset(data, 255, 32);
    CHECK(mv_crc32c(0, data, 32) == 0x62a8ab43u);
    for (int i = 0; i < 32; i++)
        data[i] = (uint8_t)i;
    CHECK(mv_crc32c(0, data, 32) == 0x46dd794eu);
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)random_u64(&state);
    int hardware = mv_crc_hardware;
#if defined(__x86_64__)
    int folds = mv_crc_folds;
#endif
    for (int round = 0; round < 300; round++) {
        size_t from = random_u64(&state) % 64, n = random_u64(&state) % (sizeof data - from),
               cut = random_u64(&state) % (n + 1);
        mv_crc_hardware = 0;
        uint32_t expected = mv_crc32c(0, data + from, n);
        mv_crc_hardware = hardware;
#if defined(__x86_64__) /* all methods of the processor, in turn */
        mv_crc_folds = folds && round % 2;
#endif
        CHECK(mv_crc32c(0, data + from, n) == expected);
        CHECK(mv_crc32c(mv_crc32c(0, data + from, cut), data + from + cut, n - cut) == expected);
        memset(copy, 0, sizeof copy);
        CHECK(mv_crc32c_copy(0, copy + 1, data + from, n < sizeof copy - 1 ? n : sizeof copy - 1) ==
              (n < sizeof copy - 1 ? expected : mv_crc32c(0, data + from, sizeof copy - 1)));
        CHECK(memcmp(copy + 1, data + from, n < sizeof copy - 1 ? n : sizeof copy - 1) == 0);
    }
    for (size_t n = 0; n < 2100; n++) { /* lengths around the steps of folding, all alignments of both sides */
        size_t from = n % 67, to = n % 71;
        mv_crc_hardware = 0;
        uint32_t expected = mv_crc32c(7, data + from, n);
        mv_crc_hardware = hardware;
#if defined(__x86_64__)
        mv_crc_folds = folds;
#endif
        memset(copy, 0, 2300);
        CHECK(mv_crc32c(7, data + from, n) == expected);
        CHECK(mv_crc32c_copy(7, copy + to, data + from, n) == expected);
        CHECK(memcmp(copy + to, data + from, n) == 0 && copy[to + n] == 0 && (to == 0 || copy[to - 1] == 0));
    }
}

/* Random sizes through every mode, from start positions at which a narrower or a signed counter would break. */
static void round_trip(int mode, int crc, uint64_t start, uint64_t seq0) {
    const uint64_t capacity = 8192;
    void *memory = new_ring(capacity, start & ~UINT64_C(63), seq0);
    mv_ring w = open_ring(memory, capacity, mode, crc), r = open_ring(memory, capacity, mode, crc);
    uint64_t state = start ^ seq0 ^ 0x9e3779b97f4a7c15u, next = seq0, seen = seq0, seq;
    uint8_t buffer[8192], out[8192];
    CHECK((mode == MV_RING_SPSC   ? mv_spsc_produce(&w)
           : mode == MV_RING_MPSC ? mv_mpsc_acquire_slot(&w, 5, 1)
                                  : mv_lossy_produce(&w)) == 0);
    CHECK((mode == MV_RING_SPSC   ? mv_spsc_consume(&r)
           : mode == MV_RING_MPSC ? mv_mpsc_consume(&r)
                                  : mv_lossy_attach(&r, 0)) == 0);
    for (int round = 0; round < 1000; round++) {
        for (int k = (int)(random_u64(&state) % 6); k > 0; k--) {
            uint64_t n =
                random_u64(&state) % 4 ? random_u64(&state) % 200 : random_u64(&state) % (mv_max_payload(&w) + 1);
            fill(buffer, n, next);
            int rc = mv_ring_put(&w, buffer, n, MV_FRAME_DATA, MV_FLAG_WHOLE, 7, &seq);
            if (rc == MV_RING_FULL)
                break;
            CHECK(rc == MV_RING_OK && seq == next++);
            mv_ring_publish(&w);
        }
        CHECK(mv_ring_put(&w, buffer, mv_max_payload(&w) + 1, MV_FRAME_DATA, MV_FLAG_WHOLE, 7, &seq) ==
              MV_RING_TOO_BIG);
        mv_ring_frame frames[8];
        if (mode >= MV_RING_BROADCAST) {
            int rc;
            while ((rc = mv_lossy_next(&r, out, sizeof out, frames)) != MV_RING_EMPTY) {
                if (rc == MV_RING_LAPPED)
                    continue;
                CHECK(rc == MV_RING_OK && filled(out, frames->length, frames->seq) &&
                      frames->seq + 1 - seq0 > seen - seq0);
                seen = frames->seq + 1;
            }
            continue;
        }
        int n = mv_ring_peek(&r, frames, 1 + (int)(random_u64(&state) % 8), 1);
        CHECK(n > 0 || n == MV_RING_EMPTY);
        for (int k = 0; k < n; k++)
            CHECK(frames[k].seq == seen++ && filled(frames[k].payload, frames[k].length, frames[k].seq) &&
                  frames[k].t_ns == 7);
        mv_ring_release(&r, r.pos);
    }
    if (mode >= MV_RING_BROADCAST)
        CHECK(r.pos == w.tail);
    CHECK(next - seq0 > 500);
    free(memory);
}
static void test_wrap(void) {
    const uint64_t starts[] = {0, (UINT64_C(1) << 31) - 4096, (UINT64_C(1) << 32) - 4096, (UINT64_C(1) << 63) - 4096,
                               (uint64_t)0 - 4096};
    for (int mode = MV_RING_SPSC; mode <= MV_RING_RECORDER; mode++)
        for (int crc = 0; crc < 2; crc++)
            for (int k = 0; k < 5; k++)
                round_trip(mode, crc, starts[k], starts[k] + 4096 - 2);
}

/* A producer dies after each step of a claim; the consumer gets every committed frame and continues. */
static void die_at(int step, int pad_first) {
    const uint64_t capacity = 4096;
    void *memory = new_ring(capacity, 0, 0);
    mv_ring a = open_ring(memory, capacity, MV_RING_MPSC, 1), b = open_ring(memory, capacity, MV_RING_MPSC, 1),
            r = open_ring(memory, capacity, MV_RING_MPSC, 1);
    uint8_t payload[2048] = {1};
    uint64_t seq, pos;
    mv_ring_frame frames[16];
    mv_mpsc_acquire_slot(&a, 0, 1), mv_mpsc_acquire_slot(&b, 1, 2), mv_mpsc_consume(&r);
    if (pad_first) /* the next claim does not fit before the end of the lap */
        for (int k = 0; k < 2; k++) {
            CHECK(mv_ring_put(&a, payload, 1856, MV_FRAME_DATA, MV_FLAG_WHOLE, 0, &seq) == MV_RING_OK);
            CHECK(mv_ring_peek(&r, frames, 16, 1) == 1);
            mv_ring_release(&r, r.pos);
        }
    CHECK(mv_ring_put(&a, payload, 64, MV_FRAME_DATA, MV_FLAG_WHOLE, 0, &seq) == MV_RING_OK);
    uint64_t tail = mv_atomic_load(&b.ctl->tail, memory_order_relaxed), pad = mv_padding(&b, tail, 640);
    CHECK(!pad_first == !pad);
    mv_ring_slot *slot = &b.ctl->slot[1]; /* the steps of mv_mpsc_claim, up to `step` */
    if (step >= 1)
        mv_atomic_store(&slot->pos, tail, memory_order_release),
            mv_atomic_store(&slot->need, pad + 640, memory_order_release);
    if (step >= 2)
        mv_atomic_store(&b.ctl->tail, tail + pad + 640, memory_order_release);
    if (step >= 3 && pad) {
        mv_ring_header h = {mv_header_word((uint32_t)pad, MV_FRAME_PAD, MV_FLAG_WHOLE, b.source), 0, 0, 0, 0};
        mv_mpsc_seal(&b, tail, &h);
    }
    if (step >= 4) {
        mv_ring_header h = {mv_header_word((uint32_t)-(600 + MV_RING_HEADER), MV_FRAME_DATA, MV_FLAG_WHOLE, b.source),
                            b.next_seq++, 0, 0, 0};
        mv_mpsc_seal(&b, tail + pad, &h);
    }
    if (step >= 5)
        mv_atomic_store(&slot->next_seq, b.next_seq, memory_order_relaxed),
            memset(mv_mpsc_payload(&b, tail + pad), 9, 300);
    if (step >= 6)
        mv_mpsc_commit(&b, tail + pad, 600, MV_FRAME_DATA, MV_FLAG_WHOLE, 0,
                       mv_crc32c(0, mv_mpsc_payload(&b, tail + pad), 600));
    CHECK(mv_ring_put(&a, payload, 100, MV_FRAME_DATA, MV_FLAG_WHOLE, 0, &seq) == MV_RING_OK);
    int got = 0, n, asked = 0;
    while ((n = mv_ring_peek(&r, frames, 16, 1)) != MV_RING_EMPTY) {
        if (n == MV_RING_GAP) {
            mv_mpsc_measure_gap(&r);
            CHECK(mv_mpsc_unblock(&r, 3) == MV_RING_GAP); /* while b is alive nothing is skipped */
            CHECK(mv_mpsc_unblock(&r, 1) == MV_RING_OK);
            asked++;
            n = 0;
        }
        CHECK(n >= 0);
        got += n;
        mv_ring_release(&r, r.pos);
    }
    CHECK(got == 2 + (step >= 6) && asked == (step >= 2 && step < 6) && r.lost == 0);
    /* another process takes the slot: its frames follow, also after a number that was lost */
    mv_ring c = open_ring(memory, capacity, MV_RING_MPSC, 1);
    mv_mpsc_acquire_slot(&c, 1, 3);
    CHECK(mv_ring_put(&c, payload, 10, MV_FRAME_DATA, MV_FLAG_WHOLE, 0, &seq) == MV_RING_OK);
    CHECK(mv_ring_peek(&r, frames, 16, 1) == 1 && r.lost == 0);
    CHECK(mv_mpsc_claim(&a, 0, MV_FRAME_DATA, MV_FLAG_WHOLE, &pos) == MV_RING_OK); /* an empty frame, given up */
    mv_mpsc_commit(&a, pos, 0, MV_FRAME_ABORTED, MV_FLAG_WHOLE, 0, 0);
    CHECK(mv_ring_peek(&r, frames, 16, 1) == MV_RING_EMPTY && r.lost == 0);
    free(memory);
}
static void test_unblock(void) {
    for (int step = 0; step <= 6; step++)
        die_at(step, 0), die_at(step, 1);
}

/* Numbers that jump between intact frames: one break, with what was expected there, and every frame is delivered. */
static void jump(int mode, uint64_t by, int allowed) {
    const uint64_t capacity = 8192;
    void *memory = new_ring(capacity, 0, 0);
    mv_ring w = open_ring(memory, capacity, mode, 1), r = open_ring(memory, capacity, mode, 1);
    uint8_t message[64] = {7}, out[64];
    uint64_t seq, third = 0;
    mv_ring_frame f;
    int got = 0, breaks = 0, rc;
    CHECK((mode == MV_RING_SPSC   ? mv_spsc_produce(&w)
           : mode == MV_RING_MPSC ? mv_mpsc_acquire_slot(&w, 5, 1)
                                  : mv_lossy_produce(&w)) == 0);
    CHECK((mode == MV_RING_SPSC   ? mv_spsc_consume(&r)
           : mode == MV_RING_MPSC ? mv_mpsc_consume(&r)
                                  : mv_lossy_attach(&r, 0)) == 0);
    r.gaps_allowed = allowed;
    for (int k = 0; k < 5; k++) {
        if (k == 2)
            w.next_seq += by, third = mv_atomic_load(&w.ctl->tail, memory_order_relaxed);
        CHECK(mv_ring_send(&w, message, sizeof message, MV_FRAME_DATA, &seq) == MV_RING_OK);
    }
    while ((rc = mode < MV_RING_BROADCAST ? mv_ring_peek(&r, &f, 1, 1) : mv_lossy_next(&r, out, sizeof out, &f)) !=
           MV_RING_EMPTY) {
        if (rc == MV_RING_BROKEN) {
            CHECK(r.broken.reason == MV_BREAK_SEQUENCE && got == 2 && r.broken.pos == third);
            CHECK(r.broken.seq_known && r.broken.seq == 2);
            breaks++;
            continue;
        }
        CHECK(rc == (mode < MV_RING_BROADCAST ? 1 : MV_RING_OK));
        CHECK(f.seq == (uint64_t)got + (got < 2 ? 0 : by));
        got++;
    }
    int forward = by < UINT64_C(1) << 63;
    CHECK(got == 5 && breaks == (by != 0 && !(allowed && forward)) && r.lost == (forward ? by : 0));
    free(memory);
}
static void test_sequence(void) {
    const uint64_t jumps[] = {0, 1, 3, UINT64_C(1) << 40, (uint64_t)0 - 1, (uint64_t)0 - 2};
    for (int mode = MV_RING_SPSC; mode <= MV_RING_RECORDER; mode++)
        for (int k = 0; k < 6; k++)
            jump(mode, jumps[k], 0), jump(mode, jumps[k], 1);
}

/* One byte of a ring is changed: no frame passes that is not as it was written, and the counts say how many are
   missing. */
static void test_flip(void) {
    const uint64_t capacity = 8192;
    for (int mode = MV_RING_SPSC; mode <= MV_RING_RECORDER; mode++) {
        uint64_t state = 42 + (uint64_t)mode;
        for (uint64_t round = 0; round < 1500 * scale; round++) {
            void *memory = new_ring(capacity, 0, 0);
            mv_ring w = open_ring(memory, capacity, mode, 1), r = open_ring(memory, capacity, mode, 1);
            if (mode == MV_RING_SPSC)
                mv_spsc_produce(&w), mv_spsc_consume(&r);
            else if (mode == MV_RING_MPSC)
                mv_mpsc_acquire_slot(&w, 63, 1), mv_mpsc_consume(&r);
            else
                mv_lossy_produce(&w), mv_lossy_attach(&r, 0);
            uint8_t payload[256], out[4096], bytes_of[8192];
            uint64_t seq, written = 8, covered = 0;
            memset(bytes_of, 0, sizeof bytes_of);
            for (uint64_t k = 0; k < written; k++) {
                uint64_t n = random_u64(&state) % 257;
                fill(payload, n, k);
                memset(bytes_of + covered, 1, n + MV_RING_HEADER); /* bytes of frames; the others are unused */
                covered += mv_record_bytes(n + MV_RING_HEADER);
                CHECK(mv_ring_put(&w, payload, n, MV_FRAME_DATA, MV_FLAG_WHOLE, 0, &seq) == MV_RING_OK);
            }
            mv_ring_publish(&w);
            uint64_t at = random_u64(&state) % covered;
            r.data[at] ^= (uint8_t)(1 + random_u64(&state) % 255);
            mv_ring_frame frames[16];
            uint64_t good = 0, crc_broken = 0, breaks = 0;
            for (;;) {
                int n = mode < MV_RING_BROADCAST ? mv_ring_peek(&r, frames, 16, 1)
                                                 : mv_lossy_next(&r, out, sizeof out, frames);
                if (n == MV_RING_EMPTY)
                    break;
                if (n == MV_RING_BROKEN) {
                    CHECK(r.broken.pos <= at && at < r.broken.pos + 512);
                    breaks++;
                    crc_broken += r.broken.reason == MV_BREAK_CRC;
                    continue;
                }
                if (n == MV_RING_OK)
                    n = 1;
                CHECK(n > 0);
                for (int k = 0; k < n; k++)
                    CHECK(filled(frames[k].payload, frames[k].length, frames[k].seq));
                good += (uint64_t)n;
            }
            CHECK(breaks == bytes_of[at]); /* each flip in a frame is found once, flips in unused bytes never */
            uint64_t behind =
                written -
                r.expected[mode == MV_RING_MPSC ? 63 : 0]; /* the gap of the last frames shows only with a later one */
            CHECK(good + crc_broken + r.lost + behind == written);
            free(memory);
        }
    }
}

/* Hostile control words and data: any result except a crash or a frame outside the ring. */
static void test_hostile(void) {
    const uint64_t capacity = 4096;
    uint64_t state = 7;
    for (uint64_t round = 0; round < 20000 * scale; round++) {
        int mode = 1 + (int)(random_u64(&state) % 4);
        void *memory = new_ring(capacity, 0, 0);
        uint64_t *words = memory;
        for (uint64_t k = 0; k < 32; k++)
            words[random_u64(&state) % 70] = random_u64(&state) >> random_u64(&state) % 64;
        mv_ring_ctl *ctl = memory;
        if (round & 1) {
            ctl->tail &= ~UINT64_C(63);
            ctl->head &= ~UINT64_C(63);
            ctl->consumed &= ~UINT64_C(63);
        }
        if (round & 8)
            ctl->start_pos = ctl->tail - random_u64(&state) % capacity;
        for (uint64_t k = 0; k < capacity / 64; k++) { /* headers with a valid check and random lengths */
            mv_ring_header h = {random_u64(&state), random_u64(&state), 0, 0, 0};
            if (random_u64(&state) & 1)
                h.word = mv_header_word((uint32_t)(random_u64(&state) % 3000), (int)(random_u64(&state) % 5), 7, 0);
            h.check = mv_header_check(&h, ctl->tail - capacity + 64 * k);
            memcpy((uint8_t *)(ctl + 1) + ((ctl->tail + 64 * k) & (capacity - 1) & ~UINT64_C(63)), &h, sizeof h);
        }
        mv_ring r = open_ring(memory, capacity, mode, 1), w = open_ring(memory, capacity, mode, 1);
        uint8_t out[4096], payload[100] = {0};
        mv_ring_frame frames[16];
        uint64_t seq;
        int rc = mode == MV_RING_SPSC   ? mv_spsc_consume(&r)
                 : mode == MV_RING_MPSC ? mv_mpsc_consume(&r)
                                        : mv_lossy_attach(&r, (int)(round & 2));
        for (int k = 0; rc != MV_RING_CORRUPT && k < 200; k++) {
            rc = mode < MV_RING_BROADCAST && !(round & 4) ? mv_ring_peek(&r, frames, 16, 1)
                                                          : mv_lossy_next(&r, out, sizeof out, frames);
            for (int j = 0; j < rc; j++)
                CHECK(frames[j].payload >= r.data && frames[j].payload + frames[j].length <= r.data + capacity);
            if (rc == MV_RING_EMPTY || rc == MV_RING_SHORT_BUFFER)
                break;
            if (rc == MV_RING_GAP) {
                mv_mpsc_measure_gap(&r);
                if (mv_mpsc_unblock(&r, random_u64(&state)) != MV_RING_OK)
                    break;
            }
        }
        if (mode >= MV_RING_BROADCAST)
            mv_lossy_seek(&r, random_u64(&state));
        if (mode == MV_RING_RECORDER)
            mv_recorder_recover(&w);
        rc = mode == MV_RING_SPSC   ? mv_spsc_produce(&w)
             : mode == MV_RING_MPSC ? mv_mpsc_acquire_slot(&w, 1, 1)
                                    : mv_lossy_produce(&w);
        if (rc == MV_RING_OK)
            mv_ring_put(&w, payload, sizeof payload, MV_FRAME_DATA, MV_FLAG_WHOLE, 0, &seq);
        free(memory);
    }
    mv_ring r;
    char small[64] = {0};
    CHECK(mv_ring_open(&r, small, sizeof small, 4096, MV_RING_SPSC, 0) == MV_RING_CORRUPT);
}

/* A reader is lapped, and again between its load of `tail` and its search for a frame; then the producer ends. */
static void test_lapped(void) {
    const uint64_t capacity = 8192, count = 1000;
    void *memory = new_ring(capacity, 0, 0);
    mv_ring w = open_ring(memory, capacity, MV_RING_BROADCAST, 0),
            r = open_ring(memory, capacity, MV_RING_BROADCAST, 0);
    uint8_t message[64] = {0}, out[64];
    uint64_t seq, got = 0;
    mv_ring_frame f;
    CHECK(mv_lossy_produce(&w) == 0 && mv_lossy_attach(&r, 0) == 0);
    for (uint64_t k = 0; k < count / 2; k++)
        CHECK(mv_ring_send(&w, message, sizeof message, MV_FRAME_DATA, &seq) == MV_RING_OK);
    uint64_t tail = mv_lossy_tail(&r);
    for (uint64_t k = count / 2; k < count; k++)
        CHECK(mv_ring_send(&w, message, sizeof message, MV_FRAME_DATA, &seq) == MV_RING_OK);
    mv_lossy_jump(&r, tail - capacity / 2, tail);
    for (int rc; (rc = mv_lossy_next(&r, out, sizeof out, &f)) != MV_RING_EMPTY; got += rc == MV_RING_OK)
        CHECK(rc == MV_RING_OK || rc == MV_RING_LAPPED);
    CHECK(got > 0 && got + r.lost == count);
    free(memory);
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    if (argc > 2)
        scale = strtoull(argv[2], NULL, 10);
    if (!strcmp(name, "crc"))
        test_crc();
    else if (!strcmp(name, "wrap"))
        test_wrap();
    else if (!strcmp(name, "unblock"))
        test_unblock();
    else if (!strcmp(name, "observed-spsc"))
        test_observed(MV_RING_SPSC, 1);
    else if (!strcmp(name, "observed-mpsc"))
        test_observed(MV_RING_MPSC, 2);
    else if (!strcmp(name, "lapped"))
        test_lapped();
    else if (!strcmp(name, "sequence"))
        test_sequence();
    else if (!strcmp(name, "flip"))
        test_flip();
    else if (!strcmp(name, "hostile"))
        test_hostile();
    else if (!strcmp(name, "spsc"))
        test_threads(MV_RING_SPSC, 1);
    else if (!strcmp(name, "mpsc"))
        test_threads(MV_RING_MPSC, 3);
    else if (!strcmp(name, "broadcast"))
        test_threads(MV_RING_BROADCAST, 1);
    else
        return fprintf(stderr, "unknown test %s\n", name), 2;
    return 0;
}
