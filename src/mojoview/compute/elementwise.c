/* Elementwise kernels: one inner loop for each dtype, run over any strides and masks by `walk.h`.
 *
 * Elements that are missing in any argument are left unchanged in the output. */
#include "builtin.h"
#include "simd.h"
#include "walk.h"

typedef void (*loop)(char *const *p, const int64_t *s, int64_t n, const mv_value *v);

/* The three shapes of a binary loop: dense, dense with one value on the right, and strided.
 * LOAD and STORE name the element types. */
#define BINARY(fn, LOAD, SIZE, STORE, OUT_SIZE, EXPR)                                                                  \
    MV_CLONES static void fn(char *const *p, const int64_t *s, int64_t n, const mv_value *v) {                         \
        const char *a = p[0], *b = p[1];                                                                               \
        char *out = p[2];                                                                                              \
        if (s[0] == SIZE && s[2] == OUT_SIZE && s[1] == SIZE) {                                                        \
            MV_INDEPENDENT for (int64_t i = 0; i < n; i++) {                                                           \
                const __auto_type x = LOAD(a + i * SIZE);                                                              \
                const __auto_type y = LOAD(b + i * SIZE);                                                              \
                STORE(out + i * OUT_SIZE, EXPR);                                                                       \
            }                                                                                                          \
        } else if (s[0] == SIZE && s[2] == OUT_SIZE && s[1] == 0) {                                                    \
            const __auto_type y = LOAD(b);                                                                             \
            MV_INDEPENDENT for (int64_t i = 0; i < n; i++) {                                                           \
                const __auto_type x = LOAD(a + i * SIZE);                                                              \
                STORE(out + i * OUT_SIZE, EXPR);                                                                       \
            }                                                                                                          \
        } else {                                                                                                       \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                const __auto_type x = LOAD(a + i * s[0]);                                                              \
                const __auto_type y = LOAD(b + i * s[1]);                                                              \
                STORE(out + i * s[2], EXPR);                                                                           \
            }                                                                                                          \
        }                                                                                                              \
    }

/* One input and the output, which `axpy` also reads; `SETUP` declares the scalars. */
#define UNARY(fn, LOAD, STORE, SIZE, SETUP, EXPR)                                                                      \
    MV_CLONES static void fn(char *const *p, const int64_t *s, int64_t n, const mv_value *v) {                         \
        const char *in = p[0];                                                                                         \
        char *out = p[1];                                                                                              \
        SETUP;                                                                                                         \
        if (s[0] == SIZE && s[1] == SIZE) {                                                                            \
            MV_INDEPENDENT for (int64_t i = 0; i < n; i++) {                                                           \
                const __auto_type x = LOAD(in + i * SIZE);                                                             \
                char *const o = out + i * SIZE;                                                                        \
                STORE(o, EXPR);                                                                                        \
            }                                                                                                          \
        } else {                                                                                                       \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                const __auto_type x = LOAD(in + i * s[0]);                                                             \
                char *const o = out + i * s[1];                                                                        \
                STORE(o, EXPR);                                                                                        \
            }                                                                                                          \
        }                                                                                                              \
    }

#define ARITHMETIC(name, T, W)                                                                                         \
    BINARY(add_##name, mv_load_##name, sizeof(T), mv_store_##name, sizeof(T), (T_##name)((W)x + (W)y))                 \
    BINARY(subtract_##name, mv_load_##name, sizeof(T), mv_store_##name, sizeof(T), (T_##name)((W)x - (W)y))            \
    BINARY(multiply_##name, mv_load_##name, sizeof(T), mv_store_##name, sizeof(T), (T_##name)((W)x * (W)y))            \
    UNARY(scale_##name, mv_load_##name, mv_store_##name, sizeof(T), const W a = (W)MV_VALUE_##name(v[0]),              \
          (T_##name)(a * (W)x))                                                                                        \
    UNARY(axpy_##name, mv_load_##name, mv_store_##name, sizeof(T), const W a = (W)MV_VALUE_##name(v[0]),               \
          (T_##name)((W)mv_load_##name(o) + a * (W)x))

#define COMPARISONS(name, T, W)                                                                                        \
    BINARY(lt_##name, mv_load_##name, sizeof(T), mv_store_b8, 1, x < y)                                                \
    BINARY(le_##name, mv_load_##name, sizeof(T), mv_store_b8, 1, x <= y)                                               \
    BINARY(eq_##name, mv_load_##name, sizeof(T), mv_store_b8, 1, x == y)                                               \
    BINARY(ne_##name, mv_load_##name, sizeof(T), mv_store_b8, 1, x != y)                                               \
    BINARY(ge_##name, mv_load_##name, sizeof(T), mv_store_b8, 1, x >= y)                                               \
    BINARY(gt_##name, mv_load_##name, sizeof(T), mv_store_b8, 1, x > y)

/* The type an element has once loaded. */
typedef uint8_t T_b8;
typedef int8_t T_i8;
typedef int16_t T_i16;
typedef int32_t T_i32;
typedef int64_t T_i64;
typedef uint8_t T_u8;
typedef uint16_t T_u16;
typedef uint32_t T_u32;
typedef uint64_t T_u64;
typedef float T_f16;
typedef float T_f32;
typedef double T_f64;

/* minimum(maximum(x, lo), hi): a NaN in x remains; a NaN bound makes every element NaN, as in NumPy. */
#define CLIP(name, T, W)                                                                                               \
    MV_INLINE T_##name bounded_##name(T_##name x, T_##name lo, T_##name hi) {                                          \
        const T_##name raised = x < lo ? lo : x;                                                                       \
        return raised > hi ? hi : raised;                                                                              \
    }                                                                                                                  \
    UNARY(clip_##name, mv_load_##name, mv_store_##name, sizeof(T), const T_##name lo = MV_VALUE_##name(v[0]);          \
          const T_##name hi = MV_VALUE_##name(v[1]); const int unordered = !(lo <= hi) && !(lo > hi),                  \
                                                     unordered ? (T_##name)(lo + hi) : bounded_##name(x, lo, hi))

MV_EACH_INT(ARITHMETIC)
MV_EACH_UINT(ARITHMETIC)
MV_EACH_FLOAT(ARITHMETIC)
MV_EACH_INT(COMPARISONS)
MV_EACH_UINT(COMPARISONS)
MV_EACH_FLOAT(COMPARISONS)
COMPARISONS(b8, uint8_t, uint32_t)
MV_EACH_INT(CLIP)
MV_EACH_UINT(CLIP)
MV_EACH_FLOAT(CLIP)
CLIP(b8, uint8_t, uint32_t)
BINARY(add_b8, mv_load_b8, 1, mv_store_b8, 1, x | y)
BINARY(multiply_b8, mv_load_b8, 1, mv_store_b8, 1, x &y)

/* Copying keeps the bits, so only the item size matters. */
#define COPY(name, T) UNARY(copy_##name, mv_load_##name, mv_store_##name, sizeof(T), (void)v, x)
COPY(u8, uint8_t)
COPY(u16, uint16_t)
COPY(u32, uint32_t)
COPY(u64, uint64_t)

struct mv_elementwise {
    int operands;
    loop loops[MV_NTYPES];
};

#define NUMBERS(op)                                                                                                    \
    op##_i8, op##_i16, op##_i32, op##_i64, op##_u8, op##_u16, op##_u32, op##_u64, op##_f16, op##_f32, op##_f64
#define ALL(op) op##_b8, NUMBERS(op)
static const mv_elementwise elementwise[MV_ELEMENTWISE] = {
    [MV_ADD] = {3, {ALL(add)}},
    [MV_SUBTRACT] = {3, {NULL, NUMBERS(subtract)}},
    [MV_MULTIPLY] = {3, {ALL(multiply)}},
    [MV_SCALE] = {2, {NULL, NUMBERS(scale)}},
    [MV_AXPY] = {2, {NULL, NUMBERS(axpy)}},
    [MV_CLIP] = {2, {ALL(clip)}},
    [MV_COPY] = {2,
                 {copy_u8, copy_u8, copy_u16, copy_u32, copy_u64, copy_u8, copy_u16, copy_u32, copy_u64, copy_u16,
                  copy_u32, copy_u64, copy_u64}},
};
/* in the order of MV_LT to MV_GT */
static const mv_elementwise comparisons[] = {
    {3, {ALL(lt)}}, {3, {ALL(le)}}, {3, {ALL(eq)}}, {3, {ALL(ne)}}, {3, {ALL(ge)}}, {3, {ALL(gt)}},
};

const mv_elementwise *mv_elementwise_of(int op) { return &elementwise[op]; }

typedef struct work {
    mv_nest nest;
    loop run;
    const mv_value *values;
} work;

static void step(void *state, char *const *p, const int64_t *stride, int64_t n, int64_t index) {
    const work *w = state;
    w->run(p, stride, n, w->values);
}

static int64_t chunk(void *state, int64_t i) {
    const work *w = state;
    int64_t lo = i * MV_CHUNK, hi = w->nest.size - lo < MV_CHUNK ? w->nest.size : lo + MV_CHUNK;
    mv_nest_walk(&w->nest, lo, hi, step, state);
    return 0;
}

int32_t mv_run_elementwise(const void *ctx, mv_desc *const *args, const mv_value *values, mv_value *result,
                           const mv_run *run) {
    const mv_elementwise *op = ctx;
    const int type = mv_type_index(args[0]);
    if (type < 0 || !op->loops[type])
        return MV_E_DTYPE;
    work w = {.run = op->loops[type], .values = values};
    int32_t status = mv_nest_make(&w.nest, args, op->operands, MV_ORDER_ANY);
    if (status || w.nest.size == 0)
        return status;
    return (int32_t)mv_run_chunks(run, (w.nest.size + MV_CHUNK - 1) / MV_CHUNK, chunk, &w);
}

int32_t mv_run_compare(const void *ctx, mv_desc *const *args, const mv_value *values, mv_value *result,
                       const mv_run *run) {
    if (values[0].i64 < MV_LT || values[0].i64 > MV_GT)
        return MV_E_VALUE;
    return mv_run_elementwise(&comparisons[values[0].i64], args, values, result, run);
}
