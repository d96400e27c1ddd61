/* The pool without Python, under the thread sanitizer: every chunk once, the first failure
 * wins, interrupts, many callers, forks. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "calls/native/thread_pool.h"

#define CHECK(what)                                                                                                    \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            fprintf(stderr, "thread_pool_test.c:%d: %s\n", __LINE__, #what);                                           \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)
#define CHUNKS 300

typedef struct sheet {
    int visits[CHUNKS]; /* plain: the sanitizer sees whether the pool orders them */
    int64_t fail_from;
} sheet;

static int64_t visit(void *state, int64_t i) {
    sheet *s = state;
    s->visits[i]++;
    return i >= s->fail_from ? 64 + ((i + 1) << 8) : 0;
}

static void run_all(int threads) {
    sheet s = {.fail_from = CHUNKS};
    CHECK(mv_pool_run(threads, CHUNKS, visit, &s, NULL) == 0);
    for (int i = 0; i < CHUNKS; i++)
        CHECK(s.visits[i] == 1);
    for (int64_t from = 0; from < CHUNKS; from += 37) {
        sheet f = {.fail_from = from};
        CHECK(mv_pool_run(threads, CHUNKS, visit, &f, NULL) == 64 + ((from + 1) << 8));
        for (int i = 0; i < CHUNKS; i++)
            CHECK(i <= from ? f.visits[i] == 1 : f.visits[i] <= 1);
    }
}

static void *caller(void *unused) {
    for (int k = 0; k < 20; k++)
        run_all(1 + k % 5);
    return unused;
}

static int polls;
static int stop_at_second(int forked) { return !forked && ++polls == 2; }
static int64_t slow(void *state, int64_t i) {
    (void)i;
    int64_t until = mv_now() + 5000000;
    while (mv_now() < until)
        ;
    __atomic_add_fetch((int *)state, 1, __ATOMIC_RELAXED);
    return 0;
}

int main(int argc, char **argv) {
    pthread_t callers[4];
    (void)argv;
    for (int threads = 0; threads < 9; threads++)
        run_all(threads);
    for (int k = 0; k < 4; k++)
        CHECK(pthread_create(&callers[k], NULL, caller, NULL) == 0);
    for (int k = 0; k < 4; k++)
        pthread_join(callers[k], NULL);

    int done = 0;
    CHECK(mv_pool_run(3, 1000000, slow, &done, stop_at_second) == MV_E_INTERRUPTED);
    CHECK(polls == 2 && done < 1000);
    int after = done;
    usleep(20000);
    CHECK(done == after); /* nobody works on after the caller has returned */

    if (argc > 1) { /* the sanitizer cannot follow fork */
        for (int k = 0; k < 5; k++) {
            pid_t child = fork();
            if (child == 0) {
                CHECK(mv_pool.workers == 0);
                run_all(4);
                CHECK(mv_pool.workers > 0);
                _exit(0);
            }
            int status;
            CHECK(waitpid(child, &status, 0) == child && status == 0);
        }
    }
    mv_pool_stop();
    run_all(4); /* in the caller */
    CHECK(mv_pool.workers == 0);
    puts("ok");
    return 0;
}
