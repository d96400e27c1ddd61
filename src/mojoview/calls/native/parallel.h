/* Interface between kernels and the thread pool: tasks, chunks, and the calling convention of built-in kernels. */
#ifndef MOJOVIEW_PARALLEL_H
#define MOJOVIEW_PARALLEL_H

#include <stdint.h>

#include "../../memory/abi.h"

/* The way built-in kernels and split foreign kernels run chunks; in the caller if there is no run or no `parallel`. A
 * task returns 0 or a failure word: status code in the low byte, element + 1 above it. */
typedef int64_t (*mv_task)(void *state, int64_t chunk);
typedef struct mv_run {
    int64_t (*parallel)(const struct mv_run *run, int64_t chunks, mv_task task, void *state);
    int32_t threads; /* most threads that take part, the caller included; 0: as many as the machine has */
    int32_t axis;    /* reductions: the axis to reduce, or -1 for all */
} mv_run;

/* Elements of a chunk. Fixed, so that results have the same bits for any number of threads. */
#define MV_CHUNK INT64_C(65536)

static inline int64_t mv_run_chunks(const mv_run *run, int64_t chunks, mv_task task, void *state) {
    if (run && run->parallel && chunks > 1)
        return run->parallel(run, chunks, task, state);
    for (int64_t i = 0; i < chunks; i++) {
        int64_t word = task(state, i);
        if (word)
            return word;
    }
    return 0;
}

/* The calling convention of built-in kernels. */
typedef int32_t (*mv_driver)(const void *ctx, mv_desc *const *args, const mv_value *values, mv_value *result,
                             const mv_run *run);

#endif
