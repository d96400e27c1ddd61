/* Interface of the built-in kernels to the checked call: drivers, and the context of each kernel. */
#ifndef MOJOVIEW_BUILTIN_H
#define MOJOVIEW_BUILTIN_H

#include "../calls/native/parallel.h"
#include "../memory/numeric.h"

enum { MV_ADD, MV_SUBTRACT, MV_MULTIPLY, MV_SCALE, MV_AXPY, MV_CLIP, MV_COPY, MV_ELEMENTWISE };
typedef struct mv_elementwise mv_elementwise;
const mv_elementwise *mv_elementwise_of(int op);

enum { MV_LT, MV_LE, MV_EQ, MV_NE, MV_GE, MV_GT };

/* ctx: an mv_elementwise. Arguments: the inputs, then the output; values: the scalars in order. */
int32_t mv_run_elementwise(const void *ctx, mv_desc *const *args, const mv_value *values, mv_value *result,
                           const mv_run *run);
/* values[0].i64: MV_LT to MV_GT */
int32_t mv_run_compare(const void *ctx, mv_desc *const *args, const mv_value *values, mv_value *result,
                       const mv_run *run);

enum {
    MV_SUM,
    MV_MEAN,
    MV_VAR,
    MV_STD,
    MV_MIN,
    MV_MAX,
    MV_ARGMIN,
    MV_ARGMAX,
    MV_COUNT,
    MV_ANY,
    MV_ALL,
    MV_DOT,
    MV_REDUCTIONS
};
typedef struct mv_reduction mv_reduction;
const mv_reduction *mv_reduction_of(int op);

/* ctx: an mv_reduction. Arguments: the inputs and, if run->axis is not negative, the output, C-contiguous and of the
 * dtype with index mv_reduction_result(). values[0].f64 of var and std: ddof. Without an axis `result` holds i64, u64
 * or f64 after that dtype (floating results are not rounded to it). */
int32_t mv_run_reduction(const void *ctx, mv_desc *const *args, const mv_value *values, mv_value *result,
                         const mv_run *run);
int mv_reduction_result(const void *ctx, int type);

typedef struct mv_description {
    int64_t count, argmin, argmax; /* positions and extremes are undefined if count is 0 */
    double mean, var;              /* NaN if the divisor is 0; ddof 1 */
    mv_value min, max;
    int64_t total; /* integers: the mean, truncated */
} mv_description;
int32_t mv_run_describe(mv_desc *const *args, int64_t count, mv_description *out, const mv_run *run);

#endif
