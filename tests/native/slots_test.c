/* Reader pins alone: a writer that fills free slots, readers that look in place for a while; a pinned slot must never
 * change.
 *
 *   slots_test stress SLOTS READERS READS MODE       MODE: threads, processes
 *   slots_test kill POINT TIMES                      a writer killed at a fail point, a successor, a reader throughout
 *   slots_test reader POINT TIMES                    a reader killed at a fail point, reaped by the writer
 *   slots_test rows                                  claims, exhaustion, release
 */
#define _GNU_SOURCE
#define MV_FAILPOINTS
#include "sharing/snapshot/slots.h"

#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>

#define WORDS 512
#define ROWS 16
#define CHECK(truth)                                                                                                   \
    do {                                                                                                               \
        if (!(truth)) {                                                                                                \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #truth);                                                \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

typedef struct counts {
    _Atomic uint64_t stop, torn, backwards, reads, busy, lapped;
    uint64_t quota;
} counts;

typedef struct place {
    counts *c;
    mv_slots_ref pins;
    uint64_t (*data)[WORDS];
    int fd;
} place;

static place make(uint64_t slots) {
    place p;
    size_t head = 128 * (1 + slots), rows = 128 * (1 + ROWS),
           size = 4096 + head + rows + slots * sizeof(uint64_t[WORDS]);
    char *memory;
    p.fd = mv_os_anonymous("pins", "/tmp");
    CHECK(p.fd >= 0 && ftruncate(p.fd, (off_t)size) == 0);
    memory = (char *)mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, p.fd, 0);
    CHECK(memory != MAP_FAILED);
    p.c = (counts *)(void *)memory;
    p.pins = (mv_slots_ref){(mv_slots_head *)(void *)(memory + 4096), (mv_pin_row *)(void *)(memory + 4096 + head),
                            ROWS, slots};
    p.data = (uint64_t (*)[WORDS])(void *)(memory + 4096 + head + rows);
    atomic_store(&p.pins.head->slots, slots);
    return p;
}

static int whole(const uint64_t *data, uint64_t n) {
    int i;
    for (i = 0; i < WORDS; i++)
        if (data[i] != n)
            return 0;
    return 1;
}

static int64_t publish(place *p, int tries) {
    int64_t slot = -1;
    uint64_t n = (atomic_load(&p->pins.head->map) >> 8) + 1;
    int i;
    while (slot < 0 && tries-- > 0)
        if ((slot = mv_slots_acquire(&p->pins)) < 0)
            sched_yield();
    if (slot < 0)
        return -1;
    for (i = 0; i < WORDS; i++) {
        p->data[slot][i] = n;
        if (i == WORDS / 2)
            MV_FAILPOINT("slots.mid_payload");
    }
    return (int64_t)mv_slots_publish(&p->pins, (uint64_t)slot, WORDS * 8, n);
}

static void *writer(void *argument) {
    place *p = (place *)argument;
    mv_failpoint_dice = 1;
    while (!atomic_load_explicit(&p->c->stop, memory_order_relaxed))
        if (publish(p, 1) < 0) {
            atomic_fetch_add(&p->c->busy, 1);
            sched_yield();
        }
    return NULL;
}

static void *reader(void *argument) {
    place *p = (place *)argument;
    uint64_t map = 0, last = 0, done = 0, torn = 0, backwards = 0, lapped = 0;
    int fd = -1;
    int64_t row = mv_slots_claim_row(&p->pins, p->fd, &fd);
    CHECK(row > 0);
    mv_failpoint_dice = (uint64_t)row;
    while (done < p->c->quota && (done < 10 || !atomic_load_explicit(&p->c->stop, memory_order_relaxed))) {
        int status = mv_slots_pin(&p->pins, (uint64_t)row, &map);
        if (status == MV_SLOTS_NONE)
            continue;
        if (status == MV_SLOTS_BUSY) {
            lapped++;
            continue;
        }
        CHECK(status == MV_SLOTS_PINNED);
        torn += !whole(p->data[map & 255], map >> 8);
        if (done % 64 == 0)
            sched_yield(); /* keeps it pinned while the writer runs on */
        torn += !whole(p->data[map & 255], map >> 8);
        backwards += map >> 8 < last;
        last = map >> 8;
        done++;
        mv_slots_unpin(&p->pins, (uint64_t)row);
    }
    close(fd);
    atomic_fetch_add(&p->c->torn, torn);
    atomic_fetch_add(&p->c->backwards, backwards);
    atomic_fetch_add(&p->c->reads, done);
    atomic_fetch_add(&p->c->lapped, lapped);
    return NULL;
}

static int report(place *p, uint64_t wanted) {
    counts *c = p->c;
    printf("reads %llu torn %llu backwards %llu busy %llu lapped %llu writes %llu\n", (unsigned long long)c->reads,
           (unsigned long long)c->torn, (unsigned long long)c->backwards, (unsigned long long)c->busy,
           (unsigned long long)c->lapped, (unsigned long long)(atomic_load(&p->pins.head->map) >> 8));
    return c->torn || c->backwards || c->reads < wanted;
}

static int stress(uint64_t slots, uint64_t readers, uint64_t reads, const char *mode) {
    place p = make(slots);
    uint64_t k;
    p.c->quota = reads / readers;
    if (strcmp(mode, "threads") == 0) {
        pthread_t writing, reading[ROWS];
        CHECK(pthread_create(&writing, NULL, writer, &p) == 0);
        for (k = 0; k < readers; k++)
            CHECK(pthread_create(&reading[k], NULL, reader, &p) == 0);
        for (k = 0; k < readers; k++)
            pthread_join(reading[k], NULL);
        atomic_store(&p.c->stop, 1);
        pthread_join(writing, NULL);
    } else {
        pid_t child = fork(), reading[ROWS];
        if (child == 0) {
            writer(&p);
            _exit(0);
        }
        for (k = 0; k < readers; k++)
            if ((reading[k] = fork()) == 0) {
                reader(&p);
                _exit(0);
            }
        for (k = 0; k < readers; k++)
            CHECK(waitpid(reading[k], NULL, 0) == reading[k]);
        atomic_store(&p.c->stop, 1);
        CHECK(waitpid(child, NULL, 0) == child);
    }
    return report(&p, p.c->quota * readers);
}

static void expect_killed(pid_t child) {
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static int killed_writer(const char *point, uint64_t times) {
    place p = make(3);
    uint64_t k, before = 0, worst = 0;
    pid_t reading;
    p.c->quota = UINT64_MAX;
    CHECK(publish(&p, 1) == 1);
    if ((reading = fork()) == 0) {
        reader(&p);
        _exit(0);
    }
    for (k = 0; k < times; k++) {
        uint64_t map = 0, begin;
        int64_t n;
        pid_t child = fork();
        if (child == 0) {
            mv_failpoint_name = point;
            mv_failpoint_after = (int64_t)(k % 13);
            writer(&p);
            _exit(3);
        }
        expect_killed(child);
        map = atomic_load(&p.pins.head->map);
        CHECK(map >> 8 >= before && whole(p.data[map & 255], map >> 8)); /* the last publication stands */
        begin = mv_monotonic_ns();
        n = publish(&p, 1000000);
        if (mv_monotonic_ns() - begin > worst)
            worst = mv_monotonic_ns() - begin;
        CHECK(n == (int64_t)(map >> 8) + 1);
        before = (uint64_t)n;
    }
    atomic_store(&p.c->stop, 1);
    CHECK(waitpid(reading, NULL, 0) == reading);
    printf("kills %llu worst takeover %llu ns ", (unsigned long long)times, (unsigned long long)worst);
    return report(&p, 1);
}

static int killed_reader(const char *point, uint64_t times) {
    place p = make(3);
    uint64_t k;
    p.c->quota = UINT64_MAX;
    CHECK(publish(&p, 1) == 1);
    for (k = 0; k < times; k++) {
        pid_t child = fork();
        if (child == 0) {
            mv_failpoint_name = point;
            mv_failpoint_after = (int64_t)(k % 13);
            reader(&p);
            _exit(3);
        }
        expect_killed(child);
        CHECK(atomic_load(&p.pins.rows[1].pinned) != 0);
        CHECK(mv_slots_reap(&p.pins, p.fd) == 1 && atomic_load(&p.pins.rows[1].pinned) == 0);
        CHECK(publish(&p, 1) > 0 && publish(&p, 1) > 0 && publish(&p, 1) > 0);
    }
    printf("kills %llu\n", (unsigned long long)times);
    return 0;
}

static int rows(void) {
    place p = make(3);
    int fd[ROWS + 1], k;
    uint64_t map = 0;
    CHECK(mv_slots_pin(&p.pins, 1, &map) == MV_SLOTS_NONE);
    CHECK(publish(&p, 1) == 1);
    for (k = 0; k < ROWS; k++) {
        CHECK(mv_slots_claim_row(&p.pins, p.fd, &fd[k]) == k + 1);
        CHECK(mv_slots_pin(&p.pins, (uint64_t)k + 1, &map) == MV_SLOTS_PINNED);
    }
    CHECK(mv_slots_claim_row(&p.pins, p.fd, &fd[ROWS]) == -EBUSY);
    CHECK(mv_slots_reap(&p.pins, p.fd) == 0); /* all alive */
    CHECK(publish(&p, 1) == 2 && publish(&p, 1) == 3);
    CHECK(whole(p.data[map & 255], 1)); /* still what was pinned */
    mv_slots_unpin(&p.pins, 5);
    CHECK(mv_slots_pin(&p.pins, 5, &map) == MV_SLOTS_PINNED && map >> 8 == 3);
    CHECK(publish(&p, 1) == 4); /* slots: 1 pinned, 3 pinned, and what was 2 is free */
    CHECK(publish(&p, 1) == -1);
    close(fd[4]);
    mv_slots_unpin(&p.pins, 5);
    CHECK(publish(&p, 1) == 5);
    CHECK(mv_slots_claim_row(&p.pins, p.fd, &fd[4]) == 5);
    atomic_store(&p.pins.head->map, UINT64_C(9) << 8 | 200); /* what no writer writes */
    CHECK(mv_slots_pin(&p.pins, 5, &map) == MV_SLOTS_DAMAGED);
    return 0;
}

int main(int argc, char **argv) {
#define NUMBER(k) strtoull(argv[k], NULL, 10)
    if (argc == 6 && strcmp(argv[1], "stress") == 0)
        return stress(NUMBER(2), NUMBER(3), NUMBER(4), argv[5]);
    if (argc == 4 && strcmp(argv[1], "kill") == 0)
        return killed_writer(argv[2], NUMBER(3));
    if (argc == 4 && strcmp(argv[1], "reader") == 0)
        return killed_reader(argv[2], NUMBER(3));
    if (argc == 2 && strcmp(argv[1], "rows") == 0)
        return rows();
    return 64;
}
