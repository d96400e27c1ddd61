/* The thread pool: persistent threads that help the caller with the chunks of a job. Included in one translation unit.
 *
 * A job is on its caller's stack. Pool threads join and leave it under the mutex and take chunks by ticket. The caller
 * unlinks the job first, so it knows when the last pool thread has left; the mutex also publishes what they wrote.
 * Chunks are begun in order. When one fails, later ones are not begun and earlier ones are finished: the reported
 * failure is the first in chunk order, whatever the number of threads.
 *
 * After fork() the child has no pool threads: it gets an empty pool, and a job that was running ends as interrupted. */
#ifndef MOJOVIEW_THREAD_POOL_H
#define MOJOVIEW_THREAD_POOL_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sched.h>
#endif

#include "../../memory/atomics.h"
#include "parallel.h"

#define MV_POOL_MOST 256 /* pool threads */
#define MV_POLL_NANOSECONDS INT64_C(50000000)

/* Called by the caller's thread about every 50 ms: nonzero stops the job. `forked`: this is a child, which does not
 * have the job's pool threads. */
typedef int (*mv_poll)(int forked);

typedef struct mv_job {
    struct mv_job *next;
    mv_task task;
    void *state;
    int64_t chunks;
    mv_atomic ticket; /* the next chunk */
    mv_atomic stop;   /* chunks from this one on are not begun */
    int room;         /* pool threads that may still join */
    int inside;       /* pool threads that have joined and not left */
    int64_t failed;   /* first chunk that failed, and its failure word */
    int64_t word;
    int64_t generation; /* of the pool when the job began */
} mv_job;

static struct {
    pthread_mutex_t mutex; /* guards everything here and `next room inside failed word` of the jobs */
    pthread_cond_t work;   /* a job can take another pool thread */
    pthread_cond_t left;   /* a pool thread left a job */
    mv_job *jobs;
    pthread_t worker[MV_POOL_MOST];
    int workers;
    int limit;          /* most threads of a job; 0: no limit */
    bool stopped;       /* the interpreter is shutting down: jobs run in their callers */
    bool ready;         /* fork handlers are installed */
    int64_t generation; /* incremented in the child of a fork */
} mv_pool = {.mutex = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER, .left = PTHREAD_COND_INITIALIZER};

static inline void mv_job_fail(mv_job *job, int64_t chunk, int64_t word) {
    pthread_mutex_lock(&mv_pool.mutex);
    if (chunk < job->failed) {
        job->failed = chunk;
        job->word = word;
        mv_store_relaxed(&job->stop, chunk);
    }
    pthread_mutex_unlock(&mv_pool.mutex);
}

static inline bool mv_job_step(mv_job *job) {
    int64_t chunk = mv_fetch_add_relaxed(&job->ticket, 1);
    if (chunk >= job->chunks || chunk >= mv_load_relaxed(&job->stop))
        return false;
    int64_t word = job->task(job->state, chunk);
    if (word)
        mv_job_fail(job, chunk, word);
    return true;
}

static inline void mv_job_unlink(mv_job *job) {
    for (mv_job **at = &mv_pool.jobs; *at; at = &(*at)->next)
        if (*at == job) {
            *at = job->next;
            return;
        }
}

static void *mv_pool_worker(void *unused) {
    pthread_mutex_lock(&mv_pool.mutex);
    while (!mv_pool.stopped) {
        mv_job *job = mv_pool.jobs;
        if (!job) {
            pthread_cond_wait(&mv_pool.work, &mv_pool.mutex);
            continue;
        }
        job->inside++;
        if (--job->room == 0)
            mv_job_unlink(job);
        pthread_mutex_unlock(&mv_pool.mutex);
        while (mv_job_step(job))
            ;
        pthread_mutex_lock(&mv_pool.mutex);
        if (--job->inside == 0)
            pthread_cond_broadcast(&mv_pool.left);
    }
    pthread_mutex_unlock(&mv_pool.mutex);
    return unused;
}

static void mv_pool_before_fork(void) { pthread_mutex_lock(&mv_pool.mutex); }
static void mv_pool_in_parent(void) { pthread_mutex_unlock(&mv_pool.mutex); }
static void mv_pool_in_child(void) {
    pthread_mutex_init(&mv_pool.mutex, NULL);
    pthread_cond_init(&mv_pool.work, NULL);
    pthread_cond_init(&mv_pool.left, NULL);
    mv_pool.jobs = NULL;
    mv_pool.workers = 0;
    mv_pool.generation++;
}

/* Starts pool threads, with the mutex held. Fewer than requested are not an error: the caller works too. */
static inline void mv_pool_grow(int workers) {
    sigset_t all, before;
    if (!mv_pool.ready)
        mv_pool.ready = pthread_atfork(mv_pool_before_fork, mv_pool_in_parent, mv_pool_in_child) == 0;
    if (!mv_pool.ready)
        return;       /* without the handlers a fork would deadlock */
    sigfillset(&all); /* signals are handled by the interpreter's main thread */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (mv_pool.workers < workers && mv_pool.workers < MV_POOL_MOST &&
           pthread_create(&mv_pool.worker[mv_pool.workers], NULL, mv_pool_worker, NULL) == 0)
        mv_pool.workers++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Stops the pool threads and waits for them. Afterwards every job runs in its caller. */
static inline void mv_pool_stop(void) {
    pthread_mutex_lock(&mv_pool.mutex);
    mv_pool.stopped = true;
    pthread_cond_broadcast(&mv_pool.work);
    int workers = mv_pool.workers;
    mv_pool.workers = 0;
    pthread_mutex_unlock(&mv_pool.mutex);
    for (int i = 0; i < workers; i++)
        pthread_join(mv_pool.worker[i], NULL);
}

/* Returns the number of CPUs that this process may run on. */
static inline int mv_pool_cpus(void) {
#ifdef CPU_COUNT
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return CPU_COUNT(&set);
#endif
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

static inline int64_t mv_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Returns the number of pool threads for a job. Waking them takes tens of microseconds, so a short job stays in the
 * caller unless the caller requested threads. */
static inline int mv_pool_helpers(int threads, int64_t chunks) {
    if (threads == 0)
        threads = chunks < 4 ? 1 : mv_pool_cpus();
    if (mv_pool.limit && threads > mv_pool.limit)
        threads = mv_pool.limit;
    if (threads > chunks)
        threads = (int)chunks;
    return threads - 1 > MV_POOL_MOST ? MV_POOL_MOST : threads - 1;
}

/* Waits, polling, until the last pool thread has left. Returns false after a fork, when none can. */
static inline bool mv_job_leave(mv_job *job, mv_poll poll) {
    bool intact = true;
    pthread_mutex_lock(&mv_pool.mutex);
    if (job->generation == mv_pool.generation) {
        mv_job_unlink(job);
        while (job->inside > 0) {
            struct timespec until;
            clock_gettime(CLOCK_REALTIME, &until); /* the clock of condition variables */
            until.tv_nsec += MV_POLL_NANOSECONDS;
            until.tv_sec += until.tv_nsec / 1000000000;
            until.tv_nsec %= 1000000000;
            if (pthread_cond_timedwait(&mv_pool.left, &mv_pool.mutex, &until) == 0 || !poll)
                continue;
            pthread_mutex_unlock(&mv_pool.mutex);
            bool stop = mv_load_relaxed(&job->stop) > 0 && poll(0);
            if (stop)
                mv_job_fail(job, -1, MV_E_INTERRUPTED);
            pthread_mutex_lock(&mv_pool.mutex);
            if (job->generation != mv_pool.generation)
                break;
        }
    }
    intact = job->generation == mv_pool.generation;
    pthread_mutex_unlock(&mv_pool.mutex);
    return intact;
}

/* Runs task(state, 0 .. chunks - 1) on up to `threads` threads, the caller included (0: chosen by size). Returns 0, the
 * failure word of the first failed chunk, or MV_E_INTERRUPTED if `poll` stopped the job. No chunk runs after that. */
static inline int64_t mv_pool_run(int threads, int64_t chunks, mv_task task, void *state, mv_poll poll) {
    mv_job job = {.task = task, .state = state, .chunks = chunks, .failed = chunks};
    int helpers = mv_pool_helpers(threads, chunks);
    mv_store_relaxed(&job.ticket, 0);
    mv_store_relaxed(&job.stop, chunks);
    if (helpers > 0) {
        pthread_mutex_lock(&mv_pool.mutex);
        if (!mv_pool.stopped)
            mv_pool_grow(helpers);
        if (helpers > mv_pool.workers)
            helpers = mv_pool.workers;
        job.generation = mv_pool.generation;
        job.room = helpers;
        if (helpers > 0) {
            job.next = mv_pool.jobs;
            mv_pool.jobs = &job;
            pthread_cond_broadcast(&mv_pool.work);
        }
        pthread_mutex_unlock(&mv_pool.mutex);
    }
    int64_t due = poll ? mv_now() + MV_POLL_NANOSECONDS : 0;
    while (mv_job_step(&job)) {
        if (!poll || mv_now() < due)
            continue;
        if (poll(0))
            mv_job_fail(&job, -1, MV_E_INTERRUPTED);
        due = mv_now() + MV_POLL_NANOSECONDS;
        if (helpers > 0 && job.generation != mv_pool.generation)
            break;
    }
    if (helpers > 0 && !mv_job_leave(&job, poll)) {
        if (poll && job.failed != -1)
            poll(1);
        return MV_E_INTERRUPTED;
    }
    return job.word;
}

#endif
