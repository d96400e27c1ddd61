/* Reduction loops: for each operation and dtype a step that takes a strided run of elements into an accumulator. */
#ifndef MOJOVIEW_REDUCE_H
#define MOJOVIEW_REDUCE_H

#include "accumulate.h"

/* ---- blocks: dense elements are read in place, others are gathered first; float16 is widened to float32 */
typedef uint8_t mv_at_b8 __attribute__((aligned(1), may_alias));
#define MV_DEFINE_BLOCK(name, T)                                                                                      \
    MV_INLINE const mv_at_##name *mv_block_##name(const char *p, int64_t stride, int64_t n, T *buffer) {              \
        if (stride == (int64_t)sizeof(T))                                                                             \
            return (const mv_at_##name *)p;                                                                           \
        for (int64_t i = 0; i < n; i++)                                                                               \
            buffer[i] = *(const mv_at_##name *)(p + i * stride);                                                      \
        return (const mv_at_##name *)buffer;                                                                          \
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
/* any nonzero byte is True: made 1, so that the loops may take bools for numbers */
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

#define MV_STEP(fn, name, T, BLOCK)                                                                                   \
    MV_CLONES static void fn(void *state, char *const *p, const int64_t *s, int64_t n, int64_t index) {               \
        T buffer[MV_BLOCK];                                                                                           \
        for (int64_t done = 0; done < n; done += MV_BLOCK) {                                                          \
            const int64_t size = n - done < MV_BLOCK ? n - done : MV_BLOCK;                                           \
            BLOCK(state, mv_block_##name(p[0] + done * s[0], s[0], size, buffer), size, index + done);                \
        }                                                                                                             \
    }

#define MV_STEP2(fn, name, T, BLOCK)                                                                                  \
    MV_CLONES static void fn(void *state, char *const *p, const int64_t *s, int64_t n, int64_t index) {               \
        T buffer[2][MV_BLOCK];                                                                                        \
        for (int64_t done = 0; done < n; done += MV_BLOCK) {                                                          \
            const int64_t size = n - done < MV_BLOCK ? n - done : MV_BLOCK;                                           \
            BLOCK(state, mv_block_##name(p[0] + done * s[0], s[0], size, buffer[0]),                                  \
                  mv_block_##name(p[1] + done * s[1], s[1], size, buffer[1]), size);                                  \
        }                                                                                                             \
    }

/* ---- sums of a block */
#define MV_FLOAT_SUM(name, at)                                                                                        \
    MV_INLINE double mv_sum_##name(const at *x, int64_t n) {                                                          \
        double lane[MV_LANES] = {0};                                                                                  \
        MV_OVER_LANES(n, lane[l] += x[i]);                                                                            \
        return mv_add_lanes(lane);                                                                                    \
    }                                                                                                                 \
    MV_INLINE void mv_take_sum_##name(mv_acc *a, const at *x, int64_t n, int64_t index) {                             \
        a->n += n;                                                                                                    \
        mv_add_compensated(a, mv_sum_##name(x, n));                                                                   \
    }                                                                                                                 \
    MV_INLINE void mv_take_dot_##name(mv_acc *a, const at *x, const at *y, int64_t n) {                               \
        double lane[MV_LANES] = {0};                                                                                  \
        MV_OVER_LANES(n, lane[l] += (double)x[i] * (double)y[i]);                                                     \
        a->n += n;                                                                                                    \
        mv_add_compensated(a, mv_add_lanes(lane));                                                                    \
    }
MV_FLOAT_SUM(f32, mv_at_f32)
MV_FLOAT_SUM(f64, mv_at_f64)

/* up to 32 bits: a block cannot overflow 64 */
#define MV_NARROW_SUM(name)                                                                                           \
    MV_INLINE mv_wide mv_sum_##name(const mv_at_##name *x, int64_t n) {                                               \
        int64_t sum = 0;                                                                                              \
        for (int64_t i = 0; i < n; i++)                                                                               \
            sum += x[i];                                                                                              \
        return sum;                                                                                                   \
    }
MV_NARROW_SUM(b8)
MV_NARROW_SUM(i8)
MV_NARROW_SUM(i16)
MV_NARROW_SUM(i32)
MV_NARROW_SUM(u8)
MV_NARROW_SUM(u16)
MV_NARROW_SUM(u32)
/* 64 bits: the halves apart, so that neither can overflow; BIAS makes signed numbers unsigned */
#define MV_WIDE_SUM(name, BIAS)                                                                                       \
    MV_INLINE mv_wide mv_sum_##name(const mv_at_##name *x, int64_t n) {                                               \
        uint64_t low = 0, high = 0;                                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                                             \
            const uint64_t u = (uint64_t)x[i] ^ (BIAS);                                                               \
            low += u & UINT32_MAX;                                                                                    \
            high += u >> 32;                                                                                          \
        }                                                                                                             \
        return (mv_wide)low + ((mv_wide)high << 32) - (mv_wide)(BIAS) * n;                                            \
    }
MV_WIDE_SUM(i64, UINT64_C(1) << 63)
MV_WIDE_SUM(u64, UINT64_C(0))

#define MV_INT_SUM(name, T, W)                                                                                        \
    MV_INLINE void mv_take_sum_##name(mv_acc *a, const mv_at_##name *x, int64_t n, int64_t index) {                   \
        a->n += n;                                                                                                    \
        a->total += mv_sum_##name(x, n);                                                                              \
    }                                                                                                                 \
    MV_INLINE void mv_take_dot_##name(mv_acc *a, const mv_at_##name *x, const mv_at_##name *y, int64_t n) {           \
        uint64_t sum = 0; /* wraps, like NumPy's 64-bit integers */                                                   \
        for (int64_t i = 0; i < n; i++)                                                                               \
            sum += (uint64_t)x[i] * (uint64_t)y[i];                                                                   \
        a->n += n;                                                                                                    \
        a->total += sum;                                                                                              \
    }
MV_INT_SUM(b8, uint8_t, )
MV_EACH_INT(MV_INT_SUM)
MV_EACH_UINT(MV_INT_SUM)

/* ---- second moments, in float64, about the block's mean */
#define MV_MOMENTS(name, at)                                                                                          \
    MV_INLINE double mv_spread_##name(const at *x, int64_t n, double mean) {                                          \
        double lane[MV_LANES] = {0};                                                                                  \
        MV_OVER_LANES(n, const double apart = (double)x[i] - mean; lane[l] += apart * apart);                         \
        return mv_add_lanes(lane);                                                                                    \
    }                                                                                                                 \
    MV_INLINE void mv_take_moments_##name(mv_acc *a, const at *x, int64_t n, int64_t index) {                         \
        const double sum = (double)mv_sum_##name(x, n);                                                               \
        mv_add_moments(a, n, sum, 0, mv_spread_##name(x, n, sum / (double)n));                                        \
    }
#define MV_INT_MOMENTS(name, T, W) MV_MOMENTS(name, mv_at_##name)
MV_MOMENTS(b8, mv_at_b8)
MV_EACH_INT(MV_INT_MOMENTS)
MV_EACH_UINT(MV_INT_MOMENTS)
MV_MOMENTS(f32, mv_at_f32)
MV_MOMENTS(f64, mv_at_f64)

/* ---- smallest and largest, with NumPy's rules: the first NaN (NaT) wins, else the first among equals */
#define MV_FIRST(x, n, i, CONDITION)                                                                                  \
    int64_t i = 0;                                                                                                    \
    while (i < (n)-1 && !(CONDITION))                                                                                 \
        i++

/* UNORDERED(v) tells NaN or NaT, MARK is what the result then is */
#define MV_EXTREME(fn, at, T, kind, OP, UNORDERED, MARK)                                                              \
    MV_INLINE void fn(mv_acc *a, const at *x, int64_t n, int64_t index, int position) {                               \
        if (a->unordered)                                                                                             \
            return;                                                                                                   \
        a->n += n;                                                                                                    \
        T best;                                                                                                       \
        int found;                                                                                                    \
        MV_BEST_##kind(T, x, n, OP, UNORDERED, best, found);                                                          \
        if (found) {                                                                                                  \
            MV_FIRST(x, n, i, UNORDERED(x[i]));                                                                       \
            a->unordered = 1;                                                                                         \
            a->low.kind = MARK;                                                                                       \
            a->low_at = index + i;                                                                                    \
        } else if (a->n == n || best OP a->low.kind) {                                                                \
            a->low.kind = best;                                                                                       \
            if (position) {                                                                                           \
                MV_FIRST(x, n, i, x[i] == best);                                                                      \
                a->low_at = index + i;                                                                                \
            }                                                                                                         \
        }                                                                                                             \
    }
#define MV_BEST_i64(T, x, n, OP, UNORDERED, best, found)                                                              \
    best = x[0];                                                                                                      \
    found = 0;                                                                                                        \
    for (int64_t i = 0; i < (n); i++) {                                                                               \
        best = x[i] OP best ? x[i] : best;                                                                            \
        found |= UNORDERED(x[i]);                                                                                     \
    }
#define MV_BEST_u64 MV_BEST_i64
#define MV_BEST_f64(T, x, n, OP, UNORDERED, best, found)                                                              \
    T lane[MV_LANES];                                                                                                 \
    int64_t nan[MV_LANES] = {0};                                                                                      \
    for (int l = 0; l < MV_LANES; l++)                                                                                \
        lane[l] = x[0];                                                                                               \
    MV_OVER_LANES(n, const T v = x[i]; lane[l] = v OP lane[l] ? v : lane[l]; nan[l] |= UNORDERED(v));                 \
    best = lane[0];                                                                                                   \
    found = nan[0] != 0;                                                                                              \
    for (int l = 1; l < MV_LANES; l++) {                                                                              \
        best = lane[l] OP best ? lane[l] : best;                                                                      \
        found |= nan[l] != 0;                                                                                         \
    }
#define MV_NEVER(v) 0
#define MV_IS_NAN(v) ((v) != (v))
#define MV_IS_NAT(v) ((v) == MV_NAT)
#define MV_EXTREMES(name, at, T, kind, UNORDERED, MARK)                                                               \
    MV_EXTREME(mv_low_##name, at, T, kind, <, UNORDERED, MARK)                                                        \
    MV_EXTREME(mv_high_##name, at, T, kind, >, UNORDERED, MARK)                                                       \
    MV_INLINE void mv_take_min_##name(mv_acc *a, const at *x, int64_t n, int64_t i) { mv_low_##name(a, x, n, i, 0); } \
    MV_INLINE void mv_take_max_##name(mv_acc *a, const at *x, int64_t n, int64_t i) { mv_high_##name(a, x, n, i, 0); } \
    MV_INLINE void mv_take_argmin_##name(mv_acc *a, const at *x, int64_t n, int64_t i) { mv_low_##name(a, x, n, i, 1); } \
    MV_INLINE void mv_take_argmax_##name(mv_acc *a, const at *x, int64_t n, int64_t i) { mv_high_##name(a, x, n, i, 1); }
#define MV_INT_EXTREMES(name, T, W) MV_EXTREMES(name, mv_at_##name, T, i64, MV_NEVER, 0)
#define MV_UINT_EXTREMES(name, T, W) MV_EXTREMES(name, mv_at_##name, T, u64, MV_NEVER, 0)
MV_EACH_INT(MV_INT_EXTREMES)
MV_EACH_UINT(MV_UINT_EXTREMES)
MV_EXTREMES(b8, mv_at_b8, uint8_t, u64, MV_NEVER, 0)
MV_EXTREMES(f32, mv_at_f32, double, f64, MV_IS_NAN, NAN)
MV_EXTREMES(f64, mv_at_f64, double, f64, MV_IS_NAN, NAN)
MV_EXTREMES(time, mv_at_i64, int64_t, i64, MV_IS_NAT, MV_NAT)

/* ---- counts */
#define MV_COUNT(name, at, MISSING)                                                                                   \
    MV_INLINE void mv_take_count_##name(mv_acc *a, const at *x, int64_t n, int64_t index) {                           \
        int64_t missing = 0;                                                                                          \
        for (int64_t i = 0; i < n; i++)                                                                               \
            missing += MISSING(x[i]);                                                                                 \
        a->n += n - missing;                                                                                          \
    }
MV_COUNT(f32, mv_at_f32, MV_IS_NAN)
MV_COUNT(f64, mv_at_f64, MV_IS_NAN)
MV_COUNT(time, mv_at_i64, MV_IS_NAT)

#define MV_HITS(name, at)                                                                                             \
    MV_INLINE void mv_take_hits_##name(mv_acc *a, const at *x, int64_t n, int64_t index) {                            \
        int64_t hits = 0;                                                                                             \
        for (int64_t i = 0; i < n; i++)                                                                               \
            hits += x[i] != 0;                                                                                        \
        a->n += n;                                                                                                    \
        a->hits += hits;                                                                                              \
    }
#define MV_INT_HITS(name, T, W) MV_HITS(name, mv_at_##name)
MV_HITS(b8, mv_at_b8)
MV_EACH_INT(MV_INT_HITS)
MV_EACH_UINT(MV_INT_HITS)
MV_HITS(f32, mv_at_f32)
MV_HITS(f64, mv_at_f64)

/* ---- describe: everything in one pass over memory; missing elements are skipped */
#define MV_IMPROVE(kind, n, best_low, best_high, PRESENT)                                                             \
    if (before == 0 || best_low < a->low.kind) {                                                                      \
        a->low.kind = best_low;                                                                                       \
        MV_FIRST(x, n, i, PRESENT && x[i] == best_low);                                                               \
        a->low_at = index + i;                                                                                        \
    }                                                                                                                 \
    if (before == 0 || best_high > a->high.kind) {                                                                    \
        a->high.kind = best_high;                                                                                     \
        MV_FIRST(x, n, i, PRESENT && x[i] == best_high);                                                              \
        a->high_at = index + i;                                                                                       \
    }
#define MV_FLOAT_DESCRIBE(name, at)                                                                                   \
    MV_INLINE void mv_take_describe_##name(mv_acc *a, const at *x, int64_t n, int64_t index) {                        \
        double sum[MV_LANES] = {0}, low[MV_LANES], high[MV_LANES], spread[MV_LANES] = {0};                            \
        int64_t present[MV_LANES] = {0}, count = 0;                                                                   \
        for (int l = 0; l < MV_LANES; l++) {                                                                          \
            low[l] = INFINITY;                                                                                        \
            high[l] = -INFINITY;                                                                                      \
        }                                                                                                             \
        MV_OVER_LANES(n, const double v = x[i]; present[l] += v == v; sum[l] += v == v ? v : 0;                       \
                      low[l] = v < low[l] ? v : low[l]; high[l] = v > high[l] ? v : high[l]);                         \
        double best_low = low[0], best_high = high[0];                                                                \
        for (int l = 0; l < MV_LANES; l++) {                                                                          \
            count += present[l];                                                                                      \
            best_low = low[l] < best_low ? low[l] : best_low;                                                         \
            best_high = high[l] > best_high ? high[l] : best_high;                                                    \
        }                                                                                                             \
        if (count == 0)                                                                                               \
            return;                                                                                                   \
        const double total = mv_add_lanes(sum), mean = total / (double)count;                                         \
        const int64_t before = a->n;                                                                                  \
        if (count == n)                                                                                               \
            MV_OVER_LANES(n, const double apart = x[i] - mean; spread[l] += apart * apart);                           \
        else                                                                                                          \
            MV_OVER_LANES(n, const double v = x[i]; const double apart = v == v ? v - mean : 0;                       \
                          spread[l] += apart * apart);                                                                \
        mv_add_moments(a, count, total, 0, mv_add_lanes(spread));                                                     \
        MV_IMPROVE(f64, n, best_low, best_high, 1)                                                                    \
    }
#define MV_INT_DESCRIBE(name, T, W) MV_EXACT_DESCRIBE(name, mv_at_##name, T, i64)
#define MV_UINT_DESCRIBE(name, T, W) MV_EXACT_DESCRIBE(name, mv_at_##name, T, u64)
#define MV_EXACT_DESCRIBE(name, at, T, kind)                                                                          \
    MV_INLINE void mv_take_describe_##name(mv_acc *a, const at *x, int64_t n, int64_t index) {                        \
        T best_low = x[0], best_high = x[0];                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                                             \
            best_low = x[i] < best_low ? x[i] : best_low;                                                             \
            best_high = x[i] > best_high ? x[i] : best_high;                                                          \
        }                                                                                                             \
        const int64_t before = a->n;                                                                                  \
        const mv_wide total = mv_sum_##name(x, n);                                                                    \
        a->total += total;                                                                                            \
        mv_add_moments(a, n, (double)total, 0, mv_spread_##name(x, n, (double)total / (double)n));                    \
        MV_IMPROVE(kind, n, best_low, best_high, 1)                                                                   \
    }
MV_FLOAT_DESCRIBE(f32, mv_at_f32)
MV_FLOAT_DESCRIBE(f64, mv_at_f64)
MV_EXACT_DESCRIBE(b8, mv_at_b8, uint8_t, u64)
MV_EACH_INT(MV_INT_DESCRIBE)
MV_EACH_UINT(MV_UINT_DESCRIBE)
/* stretches between NaTs */
MV_INLINE void mv_take_describe_time(mv_acc *a, const mv_at_i64 *x, int64_t n, int64_t index) {
    for (int64_t i = 0; i < n;) {
        int64_t end = i;
        while (end < n && x[end] != MV_NAT)
            end++;
        if (end > i)
            mv_take_describe_i64(a, x + i, end - i, index + i);
        i = end + 1;
    }
}

#endif
