/* The K-slot latch alone: one writer, readers in threads or processes, every word of a publication its number.
 *
 * latch_test stress BYTES SLOTS READS READERS MODE [PAUSE]   MODE: threads, processes, stopped (SIGSTOP/SIGCONT of the
 * writer) latch_test wrap                                             across the 2^32 mark of the counter latch_test
 * kill POINT TIMES BYTES                           a writer killed at a fail point, a successor, readers throughout
 * latch_test history BYTES SLOTS / */
#define _GNU_SOURCE
#define MV_FAILPOINTS
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>

#include "sharing/state/latch.h"
#include "sharing/segment/platform.h"

#define CHECK(truth)                                                                                                   \
    do {                                                                                                               \
        if (!(truth)) {                                                                                                \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #truth);                                                \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

typedef struct shared {
    _Atomic uint64_t stop, torn, backwards, reads, retries, busy;
    uint64_t readers, quota;
    mv_latch_ref latch;
    int pause;
} shared;

static void fill(char *record, uint64_t bytes, uint64_t n) {
    uint64_t i;
    for (i = 0; i < bytes; i++)
        record[i] = (char)(n >> 8 * (i % 8));
}

static int whole(const char *record, uint64_t bytes, uint64_t n) {
    uint64_t i;
    for (i = 0; i < bytes; i++)
        if (record[i] != (char)(n >> 8 * (i % 8)))
            return 0;
    return 1;
}

static shared *make(uint64_t bytes, uint64_t slots) {
    uint64_t stride = mv_latch_stride(bytes), size = 4096 + sizeof(mv_latch) + slots * stride;
    char *memory = (char *)mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared *s = (shared *)(void *)memory;
    CHECK(memory != MAP_FAILED);
    s->latch = (mv_latch_ref){memory + 4096, slots - 1, stride, bytes};
    return s;
}

static void *reader(void *argument) {
    shared *s = (shared *)argument;
    char record[4096];
    uint64_t n = 0, last = 0, time = 0, retries = 0, count = 0, torn = 0, backwards = 0, busy = 0;
    while (count < s->quota && (count < 10 || !atomic_load_explicit(&s->stop, memory_order_relaxed))) {
        int status = mv_latch_read(&s->latch, record, &n, &time, &retries);
        if (status == MV_LATCH_NONE)
            continue;
        if (status == MV_LATCH_BUSY) {
            busy++;
            sched_yield();
            continue;
        }
        torn += !whole(record, s->latch.bytes, n) || time != n;
        backwards += n < last;
        last = n;
        count++;
    }
    atomic_fetch_add(&s->torn, torn);
    atomic_fetch_add(&s->backwards, backwards);
    atomic_fetch_add(&s->reads, count);
    atomic_fetch_add(&s->retries, retries);
    atomic_fetch_add(&s->busy, busy);
    return NULL;
}

static void *writer(void *argument) {
    shared *s = (shared *)argument;
    char record[4096];
    uint64_t n = mv_latch_latest(&s->latch);
    mv_failpoint_dice = s->pause ? 1 : 0;
    while (!atomic_load_explicit(&s->stop, memory_order_relaxed)) {
        fill(record, s->latch.bytes, ++n);
        CHECK(mv_latch_write(&s->latch, record, n) == n);
        if (s->pause && n % 1000 == 0) {
            struct timespec nap = {0, (long)(n * 2654435761u % 200000)};
            nanosleep(&nap, NULL);
        }
    }
    return NULL;
}

static int report(shared *s, uint64_t writes) {
    printf("reads %llu torn %llu backwards %llu retries %llu busy %llu writes %llu\n", (unsigned long long)s->reads,
           (unsigned long long)s->torn, (unsigned long long)s->backwards, (unsigned long long)s->retries,
           (unsigned long long)s->busy, (unsigned long long)writes);
    return s->torn || s->backwards || s->reads < s->quota * s->readers;
}

static int stress(uint64_t bytes, uint64_t slots, uint64_t reads, uint64_t readers, const char *mode, int pause) {
    shared *s = make(bytes, slots);
    uint64_t k;
    s->readers = readers;
    s->quota = reads / readers;
    s->pause = pause;
    if (strcmp(mode, "threads") == 0) {
        pthread_t writing, reading[64];
        CHECK(pthread_create(&writing, NULL, writer, s) == 0);
        for (k = 0; k < readers; k++)
            CHECK(pthread_create(&reading[k], NULL, reader, s) == 0);
        for (k = 0; k < readers; k++)
            pthread_join(reading[k], NULL);
        atomic_store(&s->stop, 1);
        pthread_join(writing, NULL);
    } else {
        pid_t child = fork(), reading[64];
        CHECK(child >= 0);
        if (child == 0) {
            writer(s);
            _exit(0);
        }
        for (k = 0; k < readers; k++)
            if ((reading[k] = fork()) == 0) {
                reader(s);
                _exit(0);
            }
        if (strcmp(mode, "stopped") == 0) {
            for (k = 0; k < 200; k++) { /* stops the writer wherever it is; the readers must go on */
                struct timespec nap = {0, 300000};
                uint64_t before;
                kill(child, SIGSTOP);
                before = mv_latch_latest(&s->latch);
                nanosleep(&nap, NULL);
                if (before) {
                    char record[4096];
                    uint64_t n = 0, time = 0, retries = 0;
                    CHECK(mv_latch_read(&s->latch, record, &n, &time, &retries) == MV_LATCH_READ);
                    CHECK(whole(record, bytes, n) && n >= before);
                }
                kill(child, SIGCONT);
                nanosleep(&nap, NULL);
            }
        }
        for (k = 0; k < readers; k++)
            CHECK(waitpid(reading[k], NULL, 0) == reading[k]);
        atomic_store(&s->stop, 1);
        CHECK(waitpid(child, NULL, 0) == child);
    }
    return report(s, mv_latch_latest(&s->latch));
}

static int wrap(void) {
    shared *s = make(24, 4);
    char record[24];
    uint64_t n = (UINT64_C(1) << 32) - 3, k, got = 0, time = 0, retries = 0;
    atomic_store(&mv_latch_head(&s->latch)->latest, n);
    for (k = 0; k < 8; k++) {
        fill(record, 24, ++n);
        CHECK(mv_latch_write(&s->latch, record, n) == n);
        CHECK(mv_latch_read(&s->latch, record, &got, &time, &retries) == MV_LATCH_READ);
        CHECK(got == n && whole(record, 24, n) && retries == 0);
    }
    CHECK(mv_latch_read_at(&s->latch, n - 4, record, &time) == MV_LATCH_GONE);
    /* what 32 bits would mix up */
    CHECK(mv_latch_read_at(&s->latch, n - (UINT64_C(1) << 32), record, &time) == MV_LATCH_GONE);
    return 0;
}

static int killed(const char *point, uint64_t times, uint64_t bytes) {
    shared *s = make(bytes, 8);
    char record[4096];
    uint64_t k, n = 0, time = 0, retries = 0, before = 0, worst = 0;
    pid_t reading;
    s->quota = UINT64_MAX;
    fill(record, bytes, 1);
    mv_latch_write(&s->latch, record, 1);
    if ((reading = fork()) == 0) {
        reader(s);
        _exit(0);
    }
    for (k = 0; k < times; k++) {
        int status;
        uint64_t begin;
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            mv_failpoint_name = point;
            mv_failpoint_after = (int64_t)(k % 17);
            writer(s);
            _exit(3);
        }
        CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        CHECK(mv_latch_read(&s->latch, record, &n, &time, &retries) == MV_LATCH_READ && retries == 0);
        CHECK(whole(record, bytes, n) && n >= before); /* what was published before the kill is still there */
        begin = mv_monotonic_ns();                     /* the successor goes on with the next number */
        fill(record, bytes, n + 1);
        CHECK(mv_latch_write(&s->latch, record, n + 1) == n + 1);
        if (mv_monotonic_ns() - begin > worst)
            worst = mv_monotonic_ns() - begin;
        CHECK(mv_latch_read(&s->latch, record, &before, &time, &retries) == MV_LATCH_READ && before == n + 1);
    }
    atomic_store(&s->stop, 1);
    waitpid(reading, NULL, 0);
    printf("kills %llu worst takeover %llu ns reads %llu torn %llu backwards %llu\n", (unsigned long long)times,
           (unsigned long long)worst, (unsigned long long)s->reads, (unsigned long long)s->torn,
           (unsigned long long)s->backwards);
    return s->torn || s->backwards;
}

static int history(uint64_t bytes, uint64_t slots) {
    shared *s = make(bytes, slots);
    char record[4096];
    uint64_t n, time = 0;
    for (n = 1; n <= 3 * slots; n++) {
        fill(record, bytes, n);
        mv_latch_write(&s->latch, record, n);
    }
    for (n = 1; n <= 3 * slots; n++) {
        int expected = n > 2 * slots ? MV_LATCH_READ : MV_LATCH_GONE;
        CHECK(mv_latch_read_at(&s->latch, n, record, &time) == expected);
        if (expected == MV_LATCH_READ)
            CHECK(whole(record, bytes, n) && time == n);
    }
    return 0;
}

int main(int argc, char **argv) {
#define NUMBER(k) (argc > (k) ? strtoull(argv[k], NULL, 10) : 0)
    if (argc >= 7 && strcmp(argv[1], "stress") == 0)
        return stress(NUMBER(2), NUMBER(3), NUMBER(4), NUMBER(5), argv[6], (int)NUMBER(7));
    if (argc == 2 && strcmp(argv[1], "wrap") == 0)
        return wrap();
    if (argc == 5 && strcmp(argv[1], "kill") == 0)
        return killed(argv[2], NUMBER(3), NUMBER(4));
    if (argc == 4 && strcmp(argv[1], "history") == 0)
        return history(NUMBER(2), NUMBER(3));
    return 64;
}
