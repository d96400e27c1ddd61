/* The sum and the extremes of a block in one pass, for `describe`.
 *
 * The portable form tests whether the block stays within the extremes so far, which compilers vectorise, and searches
 * the block only if it does not. No compiler emits the minimum instruction of x86 for C that keeps the meaning of NaN,
 * so that form is written out, for AVX and for the SSE2 that every x86-64 has. The lanes of the sum are those of
 * mv_sum_f64: the same bits everywhere. */
#ifndef MOJOVIEW_EXTENT_H
#define MOJOVIEW_EXTENT_H

#include "accumulator.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

/* WIDTH elements at a time. A NaN changes no extreme: these instructions then return their second operand. */
#define MV_EXTENT(fn, TARGET, PREFIX, VECTOR, WIDTH)                                                                   \
    TARGET static double fn(const mv_at_f64 *x, int64_t n, double *low, double *high) {                                \
        enum { VECTORS = MV_LANES / WIDTH };                                                                           \
        const double *p = (const double *)x;                                                                           \
        VECTOR sum[VECTORS], least[VECTORS], most[VECTORS];                                                            \
        double lane[MV_LANES], lows[MV_LANES], highs[MV_LANES], rest = 0, l = *low, h = *high;                         \
        for (int k = 0; k < VECTORS; k++) {                                                                            \
            sum[k] = PREFIX##_setzero_pd();                                                                            \
            least[k] = PREFIX##_set1_pd(l);                                                                            \
            most[k] = PREFIX##_set1_pd(h);                                                                             \
        }                                                                                                              \
        for (int64_t group = 0; group + MV_LANES <= n; group += MV_LANES)                                              \
            _Pragma("GCC unroll 8") for (int k = 0; k < VECTORS; k++) {                                                \
                const VECTOR v = PREFIX##_loadu_pd(p + group + WIDTH * k);                                             \
                sum[k] = PREFIX##_add_pd(sum[k], v);                                                                   \
                least[k] = PREFIX##_min_pd(v, least[k]);                                                               \
                most[k] = PREFIX##_max_pd(v, most[k]);                                                                 \
            }                                                                                                          \
        for (int k = 0; k < VECTORS; k++) {                                                                            \
            PREFIX##_storeu_pd(lane + WIDTH * k, sum[k]);                                                              \
            PREFIX##_storeu_pd(lows + WIDTH * k, least[k]);                                                            \
            PREFIX##_storeu_pd(highs + WIDTH * k, most[k]);                                                            \
        }                                                                                                              \
        for (int k = 0; k < MV_LANES; k++) {                                                                           \
            l = lows[k] < l ? lows[k] : l;                                                                             \
            h = highs[k] > h ? highs[k] : h;                                                                           \
        }                                                                                                              \
        MV_IN_REST(n, rest += x[i]; l = x[i] < l ? x[i] : l; h = x[i] > h ? x[i] : h)                                  \
        *low = l;                                                                                                      \
        *high = h;                                                                                                     \
        return mv_add_lanes(lane) + rest;                                                                              \
    }
MV_EXTENT(mv_extent_avx, __attribute__((target("avx"))), _mm256, __m256d, 4)
MV_EXTENT(mv_extent_sse2, , _mm, __m128d, 2)

static double mv_extent_f64(const mv_at_f64 *x, int64_t n, double *low, double *high) {
    return __builtin_cpu_supports("avx") ? mv_extent_avx(x, n, low, high) : mv_extent_sse2(x, n, low, high);
}
#define MV_EXTENT_f64 1
#endif
#endif
