/* Accumulators: the state of a reduction between blocks of elements, and how two of them are merged.
 *
 * Elements are taken in blocks that stay in the first-level cache. Within a block sixteen lanes run side by
 * side (a fixed number, so that every CPU gives the same bits); across blocks sums are compensated (Neumaier
 * 1974), integers are summed in 128 bits, and second moments are taken about the block's own mean and merged
 * pairwise (Chan, Golub, LeVeque 1979). */
#ifndef MOJOVIEW_ACCUMULATOR_H
#define MOJOVIEW_ACCUMULATOR_H

#include "../memory/numeric.h"

#define MV_BLOCK 2048
#define MV_LANES 16

__extension__ typedef __int128 mv_wide;

/* All zero is the state before the first element. */
typedef struct mv_acc {
    mv_wide total;   /* exact sum of integers */
    int64_t n;       /* elements that count */
    int64_t nonzero; /* of these not zero */
    int64_t low_at, high_at;
    mv_value low, high; /* smallest and largest: i64, u64 or f64 after the dtype */
    double sum, error;  /* the sum is sum + error */
    double m2;          /* sum of squared deviations from the mean */
    int unordered;      /* a NaN or NaT was found: low and its position are final */
} mv_acc;

/* The full groups of lanes of a block, then the rest one by one. Lanes stay in registers only if nothing else indexes
 * them, so the rest uses scalars of its own. BODY uses `i`, the element, and in lanes `l`, its lane. */
#define MV_IN_LANES(n, BODY)                                                                                           \
    for (int64_t group = 0; group + MV_LANES <= (n); group += MV_LANES)                                                \
        for (int l = 0; l < MV_LANES; l++) {                                                                           \
            const int64_t i = group + l;                                                                               \
            BODY;                                                                                                      \
        }
#define MV_IN_REST(n, BODY)                                                                                            \
    for (int64_t i = (n) / MV_LANES * MV_LANES; i < (n); i++) {                                                        \
        BODY;                                                                                                          \
    }

/* Vectors of 32 bytes, for comparisons that respect NaN: compilers do not vectorise them by themselves. */
typedef double mv_vector_f64 __attribute__((vector_size(32)));
typedef float mv_vector_f32 __attribute__((vector_size(32)));
typedef int64_t mv_bits_f64 __attribute__((vector_size(32)));
typedef int32_t mv_bits_f32 __attribute__((vector_size(32)));
typedef struct {
    mv_vector_f64 v;
} __attribute__((packed, aligned(1), may_alias)) mv_packed_f64;
typedef struct {
    mv_vector_f32 v;
} __attribute__((packed, aligned(1), may_alias)) mv_packed_f32;
enum { MV_WIDTH_f64 = 4, MV_WIDTH_f32 = 8 }; /* elements in a vector */
#define MV_PICK(name, mask, yes, no)                                                                                   \
    ((mv_vector_##name)(((mv_bits_##name)(yes) & (mask)) | ((mv_bits_##name)(no) & ~(mask))))
#if defined(__clang__)
#define MV_UNROLL4 _Pragma("clang loop unroll_count(4)")
#else
#define MV_UNROLL4 _Pragma("GCC unroll 4")
#endif
/* Whole groups of four vectors: BODY uses `v`, the vector, and `k`, its place in the
 * group. Afterwards the rest, one by one. */
#define MV_IN_VECTORS(name, x, n, BODY)                                                                                \
    for (int64_t group = 0; group + 4 * MV_WIDTH_##name <= (n); group += 4 * MV_WIDTH_##name)                          \
        MV_UNROLL4 for (int k = 0; k < 4; k++) {                                                                       \
            const mv_vector_##name v = ((const mv_packed_##name *)((x) + group + MV_WIDTH_##name * k))->v;             \
            BODY;                                                                                                      \
        }
#define MV_AFTER_VECTORS(name, n, BODY)                                                                                \
    for (int64_t i = (n) / (4 * MV_WIDTH_##name) * (4 * MV_WIDTH_##name); i < (n); i++) {                              \
        BODY;                                                                                                          \
    }

MV_INLINE double mv_add_lanes(const double *lane) {
    double half[MV_LANES / 2];
    for (int l = 0; l < MV_LANES / 2; l++)
        half[l] = lane[l] + lane[l + MV_LANES / 2];
    return ((half[0] + half[4]) + (half[2] + half[6])) + ((half[1] + half[5]) + (half[3] + half[7]));
}

static inline void mv_add_compensated(mv_acc *a, double x) {
    double sum = a->sum + x;
    a->error += fabs(a->sum) >= fabs(x) ? (a->sum - sum) + x : (x - sum) + a->sum;
    a->sum = sum;
}

/* Returns the sum. An infinite or overflowed one has no error term, which would be inf - inf. */
static inline double mv_sum_of(const mv_acc *a) { return isfinite(a->sum) ? a->sum + a->error : a->sum; }

static inline void mv_merge_sum(mv_acc *a, const mv_acc *b) {
    a->total += b->total;
    a->n += b->n;
    a->nonzero += b->nonzero;
    mv_add_compensated(a, b->sum);
    a->error += b->error;
}

/* Adds n elements with that sum and that sum of squared deviations from their own mean. */
static inline void mv_add_moments(mv_acc *a, int64_t n, double sum, double error, double m2) {
    if (n == 0)
        return;
    if (a->n == 0) {
        a->m2 = m2;
    } else {
        const double na = (double)a->n, nb = (double)n;
        const double delta = (sum + error) / nb - mv_sum_of(a) / na;
        a->m2 += m2 + delta * delta * (na / (na + nb)) * nb;
    }
    a->n += n;
    mv_add_compensated(a, sum);
    a->error += error;
}

static inline void mv_merge_moments(mv_acc *a, const mv_acc *b) {
    a->total += b->total;
    mv_add_moments(a, b->n, b->sum, b->error, b->m2);
}

/* Returns the double nearest to total / n: the quotient is split so that only one rounding remains. */
static inline double mv_exact_mean(const mv_acc *a) {
    if (a->n == 0)
        return NAN;
    return (double)(a->total / a->n) + (double)(a->total % a->n) / (double)a->n;
}

#endif
