/* Loops of the reductions: for each operation and dtype a function that accumulates a strided run of elements. */
#ifndef MOJOVIEW_REDUCE_LOOPS_H
#define MOJOVIEW_REDUCE_LOOPS_H

#include "accumulator.h"
#include "extent.h"
#include "simd.h"

/* ---- blocks: dense elements are read in place, others are gathered; float16 is widened to float32 */
typedef uint8_t mv_at_b8 __attribute__((aligned(1), may_alias));
#define MV_DEFINE_BLOCK(name, T)                                                                                       \
    MV_INLINE const mv_at_##name *mv_block_##name(const char *p, int64_t stride, int64_t n, T *buffer) {               \
        if (stride == (int64_t)sizeof(T))                                                                              \
            return (const mv_at_##name *)p;                                                                            \
        for (int64_t i = 0; i < n; i++)                                                                                \
            buffer[i] = *(const mv_at_##name *)(p + i * stride);                                                       \
        return (const mv_at_##name *)buffer;                                                                           \
    }
MV_DEFINE_BLOCK(i8, int8_t)
MV_DEFINE_BLOCK(i16, int16_t)
MV_DEFINE_BLOCK(i32, int32_t)
MV_DEFINE_BLOCK(i64, int64_t)
MV_DEFINE_BLOCK(u8, uint8_t)
MV_DEFINE_BLOCK(u16, uint16_t)
MV_DEFINE_BLOCK(u32, uint32_t)
MV_DEFINE_BLOCK(u64, uint64_t)
MV_DEFINE_BLOCK(f32, float)
MV_DEFINE_BLOCK(f64, double)
#undef MV_DEFINE_BLOCK
/* any nonzero byte is True; it becomes 1, so that the loops can treat bools as numbers */
MV_INLINE const mv_at_b8 *mv_block_b8(const char *p, int64_t stride, int64_t n, uint8_t *buffer) {
    if (stride == 1)
        for (int64_t i = 0; i < n; i++)
            buffer[i] = mv_load_b8(p + i);
    else
        for (int64_t i = 0; i < n; i++)
            buffer[i] = mv_load_b8(p + i * stride);
    return (const mv_at_b8 *)buffer;
}
MV_INLINE const mv_at_f32 *mv_block_f16(const char *p, int64_t stride, int64_t n, float *buffer) {
    for (int64_t i = 0; i < n; i++)
        buffer[i] = mv_load_f16(p + i * stride);
    return (const mv_at_f32 *)buffer;
}

#define MV_ACCUMULATE(fn, name, T, BLOCK)                                                                              \
    MV_CLONES static void fn(void *state, char *const *p, const int64_t *s, int64_t n, int64_t index) {                \
        T buffer[MV_BLOCK];                                                                                            \
        for (int64_t done = 0; done < n; done += MV_BLOCK) {                                                           \
            const int64_t size = n - done < MV_BLOCK ? n - done : MV_BLOCK;                                            \
            BLOCK(state, mv_block_##name(p[0] + done * s[0], s[0], size, buffer), size, index + done);                 \
        }                                                                                                              \
    }

#define MV_ACCUMULATE_PAIRS(fn, name, T, BLOCK)                                                                        \
    MV_CLONES static void fn(void *state, char *const *p, const int64_t *s, int64_t n, int64_t index) {                \
        T buffer[2][MV_BLOCK];                                                                                         \
        for (int64_t done = 0; done < n; done += MV_BLOCK) {                                                           \
            const int64_t size = n - done < MV_BLOCK ? n - done : MV_BLOCK;                                            \
            BLOCK(state, mv_block_##name(p[0] + done * s[0], s[0], size, buffer[0]),                                   \
                  mv_block_##name(p[1] + done * s[1], s[1], size, buffer[1]), size);                                   \
        }                                                                                                              \
    }

/* ---- sums of a block: in sixteen lanes, added to the sum so far with compensation */
MV_INLINE double mv_sum_f64(const mv_at_f64 *x, int64_t n) {
    double lane[MV_LANES] = {0}, rest = 0;
    for (int64_t group = 0; group + MV_LANES <= n; group += MV_LANES)
        for (int l = 0; l < MV_LANES; l++)
            lane[l] += x[group + l];
    for (int64_t i = n / MV_LANES * MV_LANES; i < n; i++)
        rest += x[i];
    return mv_add_lanes(lane) + rest;
}
MV_INLINE void mv_accumulate_sum_f64(mv_acc *a, const mv_at_f64 *x, int64_t n, int64_t index) {
    a->n += n;
    mv_add_compensated(a, mv_sum_f64(x, n));
}
MV_INLINE double mv_sum_f32(const mv_at_f32 *x, int64_t n) {
    double lane[MV_LANES] = {0}, rest = 0;
    for (int64_t group = 0; group + MV_LANES <= n; group += MV_LANES)
        for (int l = 0; l < MV_LANES; l++)
            lane[l] += x[group + l];
    for (int64_t i = n / MV_LANES * MV_LANES; i < n; i++)
        rest += x[i];
    return mv_add_lanes(lane) + rest;
}
MV_INLINE void mv_accumulate_sum_f32(mv_acc *a, const mv_at_f32 *x, int64_t n, int64_t index) {
    a->n += n;
    mv_add_compensated(a, mv_sum_f32(x, n));
}
MV_INLINE void mv_accumulate_dot_f64(mv_acc *a, const mv_at_f64 *x, const mv_at_f64 *y, int64_t n) {
    double lane[MV_LANES] = {0}, rest = 0;
    for (int64_t group = 0; group + MV_LANES <= n; group += MV_LANES)
        for (int l = 0; l < MV_LANES; l++)
            lane[l] += (double)x[group + l] * (double)y[group + l];
    for (int64_t i = n / MV_LANES * MV_LANES; i < n; i++)
        rest += (double)x[i] * (double)y[i];
    a->n += n;
    mv_add_compensated(a, mv_add_lanes(lane) + rest);
}
MV_INLINE void mv_accumulate_dot_f32(mv_acc *a, const mv_at_f32 *x, const mv_at_f32 *y, int64_t n) {
    double lane[MV_LANES] = {0}, rest = 0;
    for (int64_t group = 0; group + MV_LANES <= n; group += MV_LANES)
        for (int l = 0; l < MV_LANES; l++)
            lane[l] += (double)x[group + l] * (double)y[group + l];
    for (int64_t i = n / MV_LANES * MV_LANES; i < n; i++)
        rest += (double)x[i] * (double)y[i];
    a->n += n;
    mv_add_compensated(a, mv_add_lanes(lane) + rest);
}

/* up to 32 bits: a block cannot overflow 64 */
#define MV_NARROW_SUM(name)                                                                                            \
    MV_INLINE mv_wide mv_sum_##name(const mv_at_##name *x, int64_t n) {                                                \
        int64_t sum = 0;                                                                                               \
        for (int64_t i = 0; i < n; i++)                                                                                \
            sum += x[i];                                                                                               \
        return sum;                                                                                                    \
    }
MV_NARROW_SUM(b8)
MV_NARROW_SUM(i8)
MV_NARROW_SUM(i16)
MV_NARROW_SUM(i32)
MV_NARROW_SUM(u8)
MV_NARROW_SUM(u16)
MV_NARROW_SUM(u32)
/* 64 bits: the halves are summed separately, so that neither overflows; BIAS makes signed numbers unsigned */
#define MV_WIDE_SUM(name, BIAS)                                                                                        \
    MV_INLINE mv_wide mv_sum_##name(const mv_at_##name *x, int64_t n) {                                                \
        uint64_t low = 0, high = 0;                                                                                    \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const uint64_t u = (uint64_t)x[i] ^ (BIAS);                                                                \
            low += u & UINT32_MAX;                                                                                     \
            high += u >> 32;                                                                                           \
        }                                                                                                              \
        return (mv_wide)low + ((mv_wide)high << 32) - (mv_wide)(BIAS) * n;                                             \
    }
MV_WIDE_SUM(i64, UINT64_C(1) << 63)
MV_WIDE_SUM(u64, UINT64_C(0))

#define MV_INT_SUM(name, T, W)                                                                                         \
    MV_INLINE void mv_accumulate_sum_##name(mv_acc *a, const mv_at_##name *x, int64_t n, int64_t index) {              \
        a->n += n;                                                                                                     \
        a->total += mv_sum_##name(x, n);                                                                               \
    }                                                                                                                  \
    MV_INLINE void mv_accumulate_dot_##name(mv_acc *a, const mv_at_##name *x, const mv_at_##name *y, int64_t n) {      \
        uint64_t sum = 0; /* wraps, like NumPy's 64-bit integers */                                                    \
        for (int64_t i = 0; i < n; i++)                                                                                \
            sum += (uint64_t)x[i] * (uint64_t)y[i];                                                                    \
        a->n += n;                                                                                                     \
        a->total += sum;                                                                                               \
    }
MV_INT_SUM(b8, uint8_t, )
MV_EACH_INT(MV_INT_SUM)
MV_EACH_UINT(MV_INT_SUM)

/* ---- second moments, in float64, about the block's mean */
#define MV_SPREAD(fn, at)                                                                                              \
    MV_INLINE double fn(const at *x, int64_t n, double mean) {                                                         \
        double lane[MV_LANES] = {0}, rest = 0;                                                                         \
        MV_IN_LANES(n, const double delta = (double)x[i] - mean; lane[l] += delta * delta)                             \
        MV_IN_REST(n, const double delta = (double)x[i] - mean; rest += delta * delta)                                 \
        return mv_add_lanes(lane) + rest;                                                                              \
    }
#define MV_ACCUMULATE_MOMENTS(name)                                                                                    \
    MV_INLINE void mv_accumulate_moments_##name(mv_acc *a, const mv_at_##name *x, int64_t n, int64_t index) {          \
        const double sum = (double)mv_sum_##name(x, n);                                                                \
        mv_add_moments(a, n, sum, 0, mv_spread_##name(x, n, sum / (double)n));                                         \
    }
#define MV_MOMENTS(name)                                                                                               \
    MV_SPREAD(mv_spread_##name, mv_at_##name)                                                                          \
    MV_ACCUMULATE_MOMENTS(name)
MV_MOMENTS(b8)
MV_MOMENTS(i8)
MV_MOMENTS(i16)
MV_MOMENTS(i32)
MV_MOMENTS(u8)
MV_MOMENTS(u16)
MV_MOMENTS(u32)
MV_MOMENTS(f32)
MV_MOMENTS(f64)
/* Few CPUs convert vectors of 64-bit integers to doubles. From -2^50 (BELOW: how far under zero) up to 2^51 it is
 * exact to place them in the mantissa of 3 * 2^51. */
MV_INLINE double mv_small_to_double(uint64_t x) {
    union {
        uint64_t u;
        double d;
    } placed = {x + UINT64_C(0x4338000000000000)};
    return placed.d - 6755399441055744.0;
}
#define MV_WIDE_MOMENTS(name, BELOW)                                                                                   \
    MV_SPREAD(mv_spread_##name##_any, mv_at_##name)                                                                    \
    MV_INLINE double mv_spread_##name(const mv_at_##name *x, int64_t n, double mean) {                                 \
        uint64_t large = 0;                                                                                            \
        for (int64_t i = 0; i < n; i++)                                                                                \
            large |= ((uint64_t)x[i] + (BELOW)) >> 51;                                                                 \
        if (large)                                                                                                     \
            return mv_spread_##name##_any(x, n, mean);                                                                 \
        double lane[MV_LANES] = {0}, rest = 0;                                                                         \
        MV_IN_LANES(n, const double delta = mv_small_to_double((uint64_t)x[i]) - mean; lane[l] += delta * delta)       \
        MV_IN_REST(n, const double delta = mv_small_to_double((uint64_t)x[i]) - mean; rest += delta * delta)           \
        return mv_add_lanes(lane) + rest;                                                                              \
    }                                                                                                                  \
    MV_ACCUMULATE_MOMENTS(name)
MV_WIDE_MOMENTS(i64, UINT64_C(1) << 50)
MV_WIDE_MOMENTS(u64, UINT64_C(0))

/* ---- extremes by NumPy's rules: the first NaN (NaT) wins, else the first among equals */
#define MV_FIRST(x, n, i, CONDITION)                                                                                   \
    int64_t i = 0;                                                                                                     \
    while (i < (n) - 1 && !(CONDITION))                                                                                \
    i++

/* Returns whether a block has nothing better than `limit` and nothing unordered: the usual case, and a cheap test. The
 * masks are joined by `and`: compilers turn `or` with a negated mask into blends, three times as slow. */
#define MV_FLOAT_NO_IMPROVEMENT(fn, name, T, OP)                                                                       \
    MV_INLINE int fn(const mv_at_##name *x, int64_t n, T limit) {                                                      \
        mv_bits_##name fine[4];                                                                                        \
        int found = 0;                                                                                                 \
        for (int k = 0; k < 4; k++)                                                                                    \
            fine[k] = ~(mv_bits_##name){0};                                                                            \
        MV_IN_VECTORS(name, x, n, fine[k] &= v OP limit)                                                               \
        MV_AFTER_VECTORS(name, n, found |= !(x[i] OP limit))                                                           \
        const mv_bits_##name all = (fine[0] & fine[1]) & (fine[2] & fine[3]);                                          \
        for (int l = 0; l < MV_WIDTH_##name; l++)                                                                      \
            found |= all[l] == 0;                                                                                      \
        return !found;                                                                                                 \
    }
#define MV_FLOAT_WITHIN(fn, name, T)                                                                                   \
    MV_INLINE int fn(const mv_at_##name *x, int64_t n, T low, T high) {                                                \
        mv_bits_##name fine[4];                                                                                        \
        int found = 0;                                                                                                 \
        for (int k = 0; k < 4; k++)                                                                                    \
            fine[k] = ~(mv_bits_##name){0};                                                                            \
        MV_IN_VECTORS(name, x, n, fine[k] &= (v >= low) & (v <= high))                                                 \
        MV_AFTER_VECTORS(name, n, found |= !(x[i] >= low) | !(x[i] <= high))                                           \
        const mv_bits_##name all = (fine[0] & fine[1]) & (fine[2] & fine[3]);                                          \
        for (int l = 0; l < MV_WIDTH_##name; l++)                                                                      \
            found |= all[l] == 0;                                                                                      \
        return !found;                                                                                                 \
    }
#define MV_EXACT_NO_IMPROVEMENT(fn, name, T, OP)                                                                       \
    MV_INLINE int fn(const mv_at_##name *x, int64_t n, T limit) {                                                      \
        int odd = 0;                                                                                                   \
        for (int64_t i = 0; i < n; i++)                                                                                \
            odd |= !(x[i] OP limit);                                                                                   \
        return !odd;                                                                                                   \
    }
/* Returns the best of a block and `best`, ignoring unordered elements, and whether there are any. */
#define MV_FLOAT_BEST(fn, name, T, OP)                                                                                 \
    MV_INLINE T fn(const mv_at_##name *x, int64_t n, T best, int *unordered) {                                         \
        mv_vector_##name lane[4];                                                                                      \
        mv_bits_##name nan[4] = {{0}};                                                                                 \
        int odd = 0;                                                                                                   \
        for (int k = 0; k < 4; k++)                                                                                    \
            lane[k] = (mv_vector_##name){0} + best;                                                                    \
        MV_IN_VECTORS(name, x, n, const mv_bits_##name better = v OP lane[k];                                          \
                      lane[k] = MV_PICK(name, better, v, lane[k]); nan[k] |= v != v)                                   \
        for (int k = 0; k < 4; k++)                                                                                    \
            for (int l = 0; l < MV_WIDTH_##name; l++) {                                                                \
                best = lane[k][l] OP best ? lane[k][l] : best;                                                         \
                odd |= nan[k][l] != 0;                                                                                 \
            }                                                                                                          \
        MV_AFTER_VECTORS(name, n, best = x[i] OP best ? x[i] : best; odd |= x[i] != x[i])                              \
        *unordered = odd;                                                                                              \
        return best;                                                                                                   \
    }
#define MV_EXACT_BEST(fn, at, T, OP, UNORDERED)                                                                        \
    MV_INLINE T fn(const at *x, int64_t n, T best, int *unordered) {                                                   \
        int odd = 0;                                                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            best = x[i] OP best ? x[i] : best;                                                                         \
            odd |= UNORDERED(x[i]);                                                                                    \
        }                                                                                                              \
        *unordered = odd;                                                                                              \
        return best;                                                                                                   \
    }
/* UNORDERED(v) tests for NaN or NaT; NAN_RESULT is the result if there is one. */
#define MV_EXTREME(fn, at, T, kind, OP, NO_IMPROVEMENT, BEST, UNORDERED, NAN_RESULT)                                   \
    MV_INLINE void fn(mv_acc *a, const at *x, int64_t n, int64_t index, int position) {                                \
        const int first = a->n == 0;                                                                                   \
        if (a->unordered)                                                                                              \
            return;                                                                                                    \
        a->n += n;                                                                                                     \
        if (!first && NO_IMPROVEMENT(x, n, (T)a->low.kind))                                                            \
            return;                                                                                                    \
        int unordered;                                                                                                 \
        const T best = BEST(x, n, x[0], &unordered);                                                                   \
        if (unordered) {                                                                                               \
            MV_FIRST(x, n, i, UNORDERED(x[i]));                                                                        \
            a->unordered = 1;                                                                                          \
            a->low.kind = NAN_RESULT;                                                                                  \
            a->low_at = index + i;                                                                                     \
        } else if (first || best OP(T) a->low.kind) {                                                                  \
            a->low.kind = best;                                                                                        \
            if (position) {                                                                                            \
                MV_FIRST(x, n, i, x[i] == best);                                                                       \
                a->low_at = index + i;                                                                                 \
            }                                                                                                          \
        }                                                                                                              \
    }
#define MV_NEVER(v) 0
#define MV_IS_NAN(v) ((v) != (v))
#define MV_IS_NAT(v) ((v) == MV_NAT)
#define MV_ACCUMULATE_EXTREMES(name, at)                                                                               \
    MV_INLINE void mv_accumulate_min_##name(mv_acc *a, const at *x, int64_t n, int64_t i) {                            \
        mv_low_##name(a, x, n, i, 0);                                                                                  \
    }                                                                                                                  \
    MV_INLINE void mv_accumulate_max_##name(mv_acc *a, const at *x, int64_t n, int64_t i) {                            \
        mv_high_##name(a, x, n, i, 0);                                                                                 \
    }                                                                                                                  \
    MV_INLINE void mv_accumulate_argmin_##name(mv_acc *a, const at *x, int64_t n, int64_t i) {                         \
        mv_low_##name(a, x, n, i, 1);                                                                                  \
    }                                                                                                                  \
    MV_INLINE void mv_accumulate_argmax_##name(mv_acc *a, const at *x, int64_t n, int64_t i) {                         \
        mv_high_##name(a, x, n, i, 1);                                                                                 \
    }
#define MV_FLOAT_EXTREMES(name, T)                                                                                     \
    MV_FLOAT_NO_IMPROVEMENT(mv_none_below_##name, name, T, >=)                                                         \
    MV_FLOAT_NO_IMPROVEMENT(mv_none_above_##name, name, T, <=)                                                         \
    MV_FLOAT_BEST(mv_least_##name, name, T, <)                                                                         \
    MV_FLOAT_BEST(mv_most_##name, name, T, >)                                                                          \
    MV_EXTREME(mv_low_##name, mv_at_##name, T, f64, <, mv_none_below_##name, mv_least_##name, MV_IS_NAN, NAN)          \
    MV_EXTREME(mv_high_##name, mv_at_##name, T, f64, >, mv_none_above_##name, mv_most_##name, MV_IS_NAN, NAN)          \
    MV_ACCUMULATE_EXTREMES(name, mv_at_##name)
#define MV_EXACT_EXTREMES(name, T, kind)                                                                               \
    MV_EXACT_NO_IMPROVEMENT(mv_none_below_##name, name, T, >=)                                                         \
    MV_EXACT_NO_IMPROVEMENT(mv_none_above_##name, name, T, <=)                                                         \
    MV_EXACT_BEST(mv_least_##name, mv_at_##name, T, <, MV_NEVER)                                                       \
    MV_EXACT_BEST(mv_most_##name, mv_at_##name, T, >, MV_NEVER)                                                        \
    MV_EXTREME(mv_low_##name, mv_at_##name, T, kind, <, mv_none_below_##name, mv_least_##name, MV_NEVER, 0)            \
    MV_EXTREME(mv_high_##name, mv_at_##name, T, kind, >, mv_none_above_##name, mv_most_##name, MV_NEVER, 0)            \
    MV_ACCUMULATE_EXTREMES(name, mv_at_##name)
#define MV_INT_EXTREMES(name, T, W) MV_EXACT_EXTREMES(name, T, i64)
#define MV_UINT_EXTREMES(name, T, W) MV_EXACT_EXTREMES(name, T, u64)
MV_EACH_INT(MV_INT_EXTREMES)
MV_EACH_UINT(MV_UINT_EXTREMES)
MV_EXACT_EXTREMES(b8, uint8_t, u64)
MV_FLOAT_EXTREMES(f32, float)
MV_FLOAT_EXTREMES(f64, double)
/* datetimes: NaT is the smallest int64, so for the largest every element is tested */
#define MV_NEVER_WITHOUT_IMPROVEMENT(x, n, limit) 0
MV_EXACT_BEST(mv_least_time, mv_at_i64, int64_t, <, MV_IS_NAT)
MV_EXACT_BEST(mv_most_time, mv_at_i64, int64_t, >, MV_IS_NAT)
MV_EXTREME(mv_low_time, mv_at_i64, int64_t, i64, <, mv_none_below_i64, mv_least_time, MV_IS_NAT, MV_NAT)
MV_EXTREME(mv_high_time, mv_at_i64, int64_t, i64, >, MV_NEVER_WITHOUT_IMPROVEMENT, mv_most_time, MV_IS_NAT, MV_NAT)
MV_ACCUMULATE_EXTREMES(time, mv_at_i64)

/* ---- counts */
#define MV_COUNT(name, at, MISSING)                                                                                    \
    MV_INLINE void mv_accumulate_count_##name(mv_acc *a, const at *x, int64_t n, int64_t index) {                      \
        int64_t missing = 0;                                                                                           \
        for (int64_t i = 0; i < n; i++)                                                                                \
            missing += MISSING(x[i]);                                                                                  \
        a->n += n - missing;                                                                                           \
    }
MV_COUNT(f32, mv_at_f32, MV_IS_NAN)
MV_COUNT(f64, mv_at_f64, MV_IS_NAN)
MV_COUNT(time, mv_at_i64, MV_IS_NAT)

#define MV_NONZERO(name, at)                                                                                           \
    MV_INLINE void mv_accumulate_nonzero_##name(mv_acc *a, const at *x, int64_t n, int64_t index) {                    \
        int64_t nonzero = 0;                                                                                           \
        for (int64_t i = 0; i < n; i++)                                                                                \
            nonzero += x[i] != 0;                                                                                      \
        a->n += n;                                                                                                     \
        a->nonzero += nonzero;                                                                                         \
    }
#define MV_INT_NONZERO(name, T, W) MV_NONZERO(name, mv_at_##name)
MV_NONZERO(b8, mv_at_b8)
MV_EACH_INT(MV_INT_NONZERO)
MV_EACH_UINT(MV_INT_NONZERO)
MV_NONZERO(f32, mv_at_f32)
MV_NONZERO(f64, mv_at_f64)

/* ---- describe: all statistics in one pass over memory; missing elements are skipped */
/* The extremes that a block has changed: 1 the smallest, 2 the largest. Their positions are found at the end of the
 * run. */
#define MV_IMPROVE(kind, best_low, best_high)                                                                          \
    (((before == 0 || best_low < (__typeof__(best_low))a->low.kind) ? (a->low.kind = best_low, 1) : 0) |               \
     ((before == 0 || best_high > (__typeof__(best_high))a->high.kind) ? (a->high.kind = best_high, 2) : 0))
/* The usual block has nothing beyond the extremes so far, which is cheap to test. */
#define MV_FLOAT_EXTENT(name, T)                                                                                       \
    MV_FLOAT_WITHIN(mv_within_##name, name, T)                                                                         \
    MV_INLINE double mv_extent_##name(const mv_at_##name *x, int64_t n, T *low, T *high) {                             \
        int unordered;                                                                                                 \
        if (!mv_within_##name(x, n, *low, *high)) {                                                                    \
            *low = mv_least_##name(x, n, *low, &unordered);                                                            \
            *high = mv_most_##name(x, n, *high, &unordered);                                                           \
        }                                                                                                              \
        return mv_sum_##name(x, n);                                                                                    \
    }
MV_FLOAT_EXTENT(f32, float)
#ifndef MV_EXTENT_f64
MV_FLOAT_EXTENT(f64, double)
#endif
#define MV_FLOAT_DESCRIBE(name, T)                                                                                     \
    MV_INLINE double mv_sum_present_##name(const mv_at_##name *x, int64_t n) {                                         \
        double lane[MV_LANES] = {0}, rest = 0;                                                                         \
        MV_IN_LANES(n, const double v = x[i]; lane[l] += v == v ? v : 0)                                               \
        MV_IN_REST(n, const double v = x[i]; rest += v == v ? v : 0)                                                   \
        return mv_add_lanes(lane) + rest;                                                                              \
    }                                                                                                                  \
    MV_INLINE double mv_spread_present_##name(const mv_at_##name *x, int64_t n, double mean) {                         \
        double lane[MV_LANES] = {0}, rest = 0;                                                                         \
        MV_IN_LANES(n, const double v = x[i]; const double delta = v == v ? v - mean : 0; lane[l] += delta * delta)    \
        MV_IN_REST(n, const double v = x[i]; const double delta = v == v ? v - mean : 0; rest += delta * delta)        \
        return mv_add_lanes(lane) + rest;                                                                              \
    }                                                                                                                  \
    MV_INLINE int mv_accumulate_describe_##name(mv_acc *a, const mv_at_##name *x, int64_t n) {                         \
        const int64_t before = a->n;                                                                                   \
        T low = before ? (T)a->low.f64 : (T)INFINITY, high = before ? (T)a->high.f64 : -(T)INFINITY;                   \
        double total = mv_extent_##name(x, n, &low, &high), m2;                                                        \
        mv_acc counted = {.n = n};                                                                                     \
        if (total == total) {                                                                                          \
            m2 = mv_spread_##name(x, n, total / (double)n);                                                            \
        } else { /* a NaN, or infinities of both signs */                                                              \
            counted.n = 0;                                                                                             \
            mv_accumulate_count_##name(&counted, x, n, 0);                                                             \
            if (counted.n == 0)                                                                                        \
                return 0;                                                                                              \
            total = mv_sum_present_##name(x, n);                                                                       \
            m2 = mv_spread_present_##name(x, n, total / (double)counted.n);                                            \
        }                                                                                                              \
        mv_add_moments(a, counted.n, total, 0, m2);                                                                    \
        return MV_IMPROVE(f64, low, high);                                                                             \
    }
#define MV_INT_DESCRIBE(name, T, W) MV_EXACT_DESCRIBE(name, mv_at_##name, T, i64)
#define MV_UINT_DESCRIBE(name, T, W) MV_EXACT_DESCRIBE(name, mv_at_##name, T, u64)
#define MV_EXACT_DESCRIBE(name, at, T, kind)                                                                           \
    MV_INLINE int mv_accumulate_describe_##name(mv_acc *a, const at *x, int64_t n) {                                   \
        const int64_t before = a->n;                                                                                   \
        const mv_wide total = mv_sum_##name(x, n);                                                                     \
        a->total += total;                                                                                             \
        mv_add_moments(a, n, (double)total, 0, mv_spread_##name(x, n, (double)total / (double)n));                     \
        if (before > 0 && mv_none_below_##name(x, n, (T)a->low.kind) && mv_none_above_##name(x, n, (T)a->high.kind))   \
            return 0;                                                                                                  \
        int unordered;                                                                                                 \
        const T best_low = mv_least_##name(x, n, x[0], &unordered);                                                    \
        const T best_high = mv_most_##name(x, n, x[0], &unordered);                                                    \
        return MV_IMPROVE(kind, best_low, best_high);                                                                  \
    }
MV_FLOAT_DESCRIBE(f32, float)
MV_FLOAT_DESCRIBE(f64, double)
MV_EXACT_DESCRIBE(b8, mv_at_b8, uint8_t, u64)
MV_EACH_INT(MV_INT_DESCRIBE)
MV_EACH_UINT(MV_UINT_DESCRIBE)
/* stretches between NaTs */
MV_INLINE int mv_accumulate_describe_time(mv_acc *a, const mv_at_i64 *x, int64_t n) {
    int moved = 0;
    for (int64_t i = 0; i < n;) {
        int64_t end = i;
        while (end < n && x[end] != MV_NAT)
            end++;
        if (end > i)
            moved |= mv_accumulate_describe_i64(a, x + i, end - i);
        i = end + 1;
    }
    return moved;
}
#define MV_ACCUMULATE_DESCRIBE(fn, name, T, kind, TAKE)                                                                \
    MV_CLONES static void fn(void *state, char *const *p, const int64_t *s, int64_t n, int64_t index) {                \
        T buffer[MV_BLOCK];                                                                                            \
        mv_acc *a = state;                                                                                             \
        int64_t low_block = -1, high_block = -1;                                                                       \
        for (int64_t done = 0; done < n; done += MV_BLOCK) {                                                           \
            const int64_t size = n - done < MV_BLOCK ? n - done : MV_BLOCK;                                            \
            const int moved = TAKE(a, mv_block_##name(p[0] + done * s[0], s[0], size, buffer), size);                  \
            low_block = moved & 1 ? done : low_block;                                                                  \
            high_block = moved & 2 ? done : high_block;                                                                \
        }                                                                                                              \
        for (int which = 0; which < 2; which++) {                                                                      \
            const int64_t block = which ? high_block : low_block, size = n - block < MV_BLOCK ? n - block : MV_BLOCK;  \
            if (block < 0)                                                                                             \
                continue;                                                                                              \
            const T value = (T)(which ? a->high.kind : a->low.kind);                                                   \
            const __auto_type x = mv_block_##name(p[0] + block * s[0], s[0], size, buffer);                            \
            MV_FIRST(x, size, i, x[i] == value);                                                                       \
            *(which ? &a->high_at : &a->low_at) = index + block + i;                                                   \
        }                                                                                                              \
    }

#endif
