/* Reductions of all elements or along one axis, in parallel, with the same bits for any number of threads. */
#include <stdlib.h>

#include "../memory/atomics.h"
#include "builtin.h"
#include "reduce_loops.h"
#include "walk.h"

#define ACCUMULATE(op, name, T) MV_ACCUMULATE(op##_##name, name, T, mv_accumulate_##op##_##name)
#define ACCUMULATE_EACH(op)                                                                                            \
    ACCUMULATE(op, b8, uint8_t)                                                                                        \
    ACCUMULATE(op, i8, int8_t)                                                                                         \
    ACCUMULATE(op, i16, int16_t)                                                                                       \
    ACCUMULATE(op, i32, int32_t)                                                                                       \
    ACCUMULATE(op, i64, int64_t)                                                                                       \
    ACCUMULATE(op, u8, uint8_t)                                                                                        \
    ACCUMULATE(op, u16, uint16_t)                                                                                      \
    ACCUMULATE(op, u32, uint32_t)                                                                                      \
    ACCUMULATE(op, u64, uint64_t)                                                                                      \
    ACCUMULATE(op, f32, float) ACCUMULATE(op, f64, double) MV_ACCUMULATE(op##_f16, f16, float, mv_accumulate_##op##_f32)
#define ACCUMULATE_TIME(op) MV_ACCUMULATE(op##_time, i64, int64_t, mv_accumulate_##op##_time)
ACCUMULATE_EACH(sum)
ACCUMULATE_EACH(moments)
ACCUMULATE_EACH(min)
ACCUMULATE_EACH(max)
ACCUMULATE_EACH(argmin)
ACCUMULATE_EACH(argmax)
ACCUMULATE_EACH(nonzero)
ACCUMULATE_TIME(min)
ACCUMULATE_TIME(max)
ACCUMULATE_TIME(argmin)
ACCUMULATE_TIME(argmax)
ACCUMULATE_TIME(count)
#define ACCUMULATE_DESCRIBE(name, T, kind)                                                                             \
    MV_ACCUMULATE_DESCRIBE(describe_##name, name, T, kind, mv_accumulate_describe_##name)
#define DESCRIBE_INT(name, T, W) ACCUMULATE_DESCRIBE(name, T, i64)
#define DESCRIBE_UINT(name, T, W) ACCUMULATE_DESCRIBE(name, T, u64)
MV_EACH_INT(DESCRIBE_INT)
MV_EACH_UINT(DESCRIBE_UINT)
ACCUMULATE_DESCRIBE(b8, uint8_t, u64)
ACCUMULATE_DESCRIBE(f32, float, f64)
ACCUMULATE_DESCRIBE(f64, double, f64)
MV_ACCUMULATE_DESCRIBE(describe_f16, f16, float, f64, mv_accumulate_describe_f32)
MV_ACCUMULATE_DESCRIBE(describe_time, i64, int64_t, i64, mv_accumulate_describe_time)
ACCUMULATE(count, f32, float)
ACCUMULATE(count, f64, double)
MV_ACCUMULATE(count_f16, f16, float, mv_accumulate_count_f32)
#define ACCUMULATE_DOT(name, T, W) MV_ACCUMULATE_PAIRS(dot_##name, name, T, mv_accumulate_dot_##name)
MV_EACH_INT(ACCUMULATE_DOT)
MV_EACH_UINT(ACCUMULATE_DOT)
ACCUMULATE_DOT(b8, uint8_t, )
ACCUMULATE_DOT(f32, float, )
ACCUMULATE_DOT(f64, double, )
MV_ACCUMULATE_PAIRS(dot_f16, f16, float, mv_accumulate_dot_f32)

/* every element counts if the dtype has no missing value */
static void count_all(void *state, char *const *p, const int64_t *s, int64_t n, int64_t index) {
    ((mv_acc *)state)->n += n;
}

/* The member of mv_value in which an accumulator keeps an element. */
enum { SIGNED, UNSIGNED, FLOATING };
static int accumulator_kind(int type) {
    return type == MV_T_BOOL || (type >= MV_T_U8 && type <= MV_T_U64) ? UNSIGNED
           : type >= MV_T_F16 && type <= MV_T_F64                     ? FLOATING
                                                                      : SIGNED;
}

static int below(mv_value a, mv_value b, int kind) {
    return kind == SIGNED ? a.i64 < b.i64 : kind == UNSIGNED ? a.u64 < b.u64 : a.f64 < b.f64;
}

static void merge_extreme(mv_acc *a, const mv_acc *b, int kind, int largest) {
    if (a->unordered || b->n == 0)
        return;
    if (a->n == 0 || b->unordered || (largest ? below(a->low, b->low, kind) : below(b->low, a->low, kind))) {
        const int64_t n = a->n;
        *a = *b;
        a->n = n;
    }
    a->n += b->n;
}

static void merge_describe(mv_acc *a, const mv_acc *b, int kind) {
    if (b->n == 0)
        return;
    if (a->n == 0 || below(b->low, a->low, kind)) {
        a->low = b->low;
        a->low_at = b->low_at;
    }
    if (a->n == 0 || below(a->high, b->high, kind)) {
        a->high = b->high;
        a->high_at = b->high_at;
    }
    mv_merge_moments(a, b);
}

struct mv_reduction {
    int op, operands;
    mv_step steps[MV_NTYPES];
};
#define TABLE(op, time)                                                                                                \
    {op##_b8,  op##_i8,  op##_i16, op##_i32, op##_i64, op##_u8, op##_u16,                                              \
     op##_u32, op##_u64, op##_f16, op##_f32, op##_f64, time}
static const mv_reduction reductions[MV_REDUCTIONS] = {
    [MV_SUM] = {MV_SUM, 1, TABLE(sum, NULL)},
    [MV_MEAN] = {MV_MEAN, 1, TABLE(sum, NULL)}, /* the loop of sum: NaN propagates */
    [MV_VAR] = {MV_VAR, 1, TABLE(moments, NULL)},
    [MV_STD] = {MV_STD, 1, TABLE(moments, NULL)},
    [MV_MIN] = {MV_MIN, 1, TABLE(min, min_time)},
    [MV_MAX] = {MV_MAX, 1, TABLE(max, max_time)},
    [MV_ARGMIN] = {MV_ARGMIN, 1, TABLE(argmin, argmin_time)},
    [MV_ARGMAX] = {MV_ARGMAX, 1, TABLE(argmax, argmax_time)},
    [MV_COUNT] = {MV_COUNT,
                  1,
                  {count_all, count_all, count_all, count_all, count_all, count_all, count_all, count_all, count_all,
                   count_f16, count_f32, count_f64, count_time}},
    [MV_ANY] = {MV_ANY, 1, TABLE(nonzero, NULL)},
    [MV_ALL] = {MV_ALL, 1, TABLE(nonzero, NULL)},
    [MV_DOT] = {MV_DOT, 2, TABLE(dot, NULL)},
};
static const mv_step describe_steps[MV_NTYPES] = TABLE(describe, describe_time);

const mv_reduction *mv_reduction_of(int op) { return &reductions[op]; }

int mv_reduction_result(const void *ctx, int type) {
    const int op = ((const mv_reduction *)ctx)->op;
    static const int wide[] = {MV_T_I64, MV_T_U64, -1};
    const int kind = accumulator_kind(type);
    switch (op) {
    case MV_SUM:
    case MV_DOT: return type == MV_T_BOOL ? MV_T_I64 : kind == FLOATING ? type : wide[kind];
    case MV_MEAN:
    case MV_VAR:
    case MV_STD: return kind == FLOATING ? type : MV_T_F64;
    case MV_MIN:
    case MV_MAX: return type;
    case MV_ANY:
    case MV_ALL: return MV_T_BOOL;
    default: return MV_T_I64;
    }
}

static void merge(int op, mv_acc *a, const mv_acc *b, int type) {
    switch (op) {
    case MV_VAR:
    case MV_STD: mv_merge_moments(a, b); break;
    case MV_MIN:
    case MV_ARGMIN: merge_extreme(a, b, accumulator_kind(type), 0); break;
    case MV_MAX:
    case MV_ARGMAX: merge_extreme(a, b, accumulator_kind(type), 1); break;
    default: mv_merge_sum(a, b); break;
    }
}

static int32_t finish(int op, const mv_acc *a, int type, double ddof, mv_value *out) {
    const int floating = accumulator_kind(type) == FLOATING;
    switch (op) {
    case MV_SUM:
    case MV_DOT:
        if (floating)
            out->f64 = mv_sum_of(a);
        else
            out->u64 = (uint64_t)a->total;
        return MV_OK;
    case MV_MEAN: out->f64 = !floating ? mv_exact_mean(a) : a->n ? mv_sum_of(a) / (double)a->n : NAN; return MV_OK;
    case MV_VAR:
    case MV_STD: {
        const double freedom = (double)a->n - ddof;
        const double variance = freedom > 0 ? a->m2 / freedom : NAN;
        out->f64 = op == MV_STD ? sqrt(variance) : variance;
        return MV_OK;
    }
    case MV_MIN:
    case MV_MAX: *out = a->low; return a->n ? MV_OK : MV_E_EMPTY;
    case MV_ARGMIN:
    case MV_ARGMAX: out->i64 = a->low_at; return a->n ? MV_OK : MV_E_EMPTY;
    case MV_COUNT: out->i64 = a->n; return MV_OK;
    case MV_ANY: out->i64 = a->nonzero > 0; return MV_OK;
    default: out->i64 = a->nonzero == a->n; return MV_OK; /* MV_ALL */
    }
}

static int64_t chunks_of(int64_t n) { return n / MV_CHUNK + (n % MV_CHUNK != 0); }

/* ---- all elements to one value */
typedef struct whole {
    mv_nest nest;
    const mv_reduction *op;
    mv_step step;
    mv_acc *partial;   /* one for each chunk */
    mv_atomic decided; /* any and all: the result is known, other chunks are skipped */
} whole;

static int64_t whole_chunk(void *state, int64_t i) {
    whole *w = state;
    const int64_t lo = i * MV_CHUNK, hi = w->nest.size - lo < MV_CHUNK ? w->nest.size : lo + MV_CHUNK;
    mv_acc acc = {0}; /* on the stack: elements of `partial` share cache lines between threads */
    if (mv_load_relaxed(&w->decided))
        return 0;
    mv_nest_walk(&w->nest, lo, hi, w->step, &acc);
    w->partial[i] = acc;
    if ((w->op->op == MV_ANY && acc.nonzero) || (w->op->op == MV_ALL && acc.nonzero < acc.n))
        mv_store_relaxed(&w->decided, 1);
    return 0;
}

/* Returns whether arrays are dense in C order, without masks, and no larger than a chunk. */
static int is_one_run(mv_desc *const *args, int operands) {
    for (int k = 0; k < operands; k++)
        if ((args[k]->flags & (MV_C_CONTIGUOUS | MV_HAS_MASK)) != MV_C_CONTIGUOUS || args[k]->size > MV_CHUNK)
            return 0;
    return 1;
}

/* One call of the loop, for arrays that are one run. */
static int32_t reduce_run(const mv_reduction *op, mv_step step, int type, mv_desc *const *args, double ddof,
                          mv_value *result) {
    char *p[2] = {args[0]->data, args[op->operands - 1]->data};
    const int64_t stride[2] = {args[0]->itemsize, args[0]->itemsize};
    mv_acc acc = {0};
    step(&acc, p, stride, args[0]->size, 0);
    return finish(op->op, &acc, type, ddof, result);
}

static int32_t reduce_whole(const mv_reduction *op, mv_step step, int type, mv_desc *const *args, double ddof,
                            mv_value *result, const mv_run *run) {
    const int positional = op->op == MV_ARGMIN || op->op == MV_ARGMAX;
    mv_acc first = {0};
    whole w = {.op = op, .step = step, .partial = &first};
    int32_t status = mv_nest_make(&w.nest, args, op->operands, positional ? MV_ORDER_C : MV_ORDER_ANY);
    if (status)
        return status;
    const int64_t chunks = chunks_of(w.nest.size);
    if (chunks > 1 && !(w.partial = calloc((size_t)chunks, sizeof *w.partial)))
        return MV_E_MEMORY;
    int64_t word = mv_run_chunks(run, chunks, whole_chunk, &w);
    for (int64_t i = 1; i < chunks; i++)
        merge(op->op, w.partial, &w.partial[i], type);
    status = word ? (int32_t)(word & 0xff) : finish(op->op, w.partial, type, ddof, result);
    if (w.partial != &first)
        free(w.partial);
    return status;
}

/* ---- along one axis: outputs in blocks, rows in ranges and within these in tiles that stay in the cache */
#define TILE 16384
typedef struct axis_job {
    mv_nest kept; /* the other dimensions; operands: the arrays, then the addresses of their masks */
    mv_nest axis; /* the reduced dimension; its bases and mask bases are set for each output */
    const mv_reduction *op;
    mv_step step;
    int type, out_type;
    double ddof;
    char *out;
    int64_t out_size, outputs, rows;
    int64_t block, blocks, range, ranges, tile;
    mv_acc *partial; /* ranges * outputs, if there is more than one range */
} axis_job;

typedef struct tile {
    const axis_job *job;
    mv_acc *acc;
    int64_t first, lo, hi;
} tile;

static void tile_run(void *state, char *const *p, const int64_t *stride, int64_t n, int64_t index) {
    const tile *t = state;
    const axis_job *job = t->job;
    mv_nest axis = job->axis;
    for (int64_t i = 0; i < n; i++) {
        char *q[MV_MAX_OPERANDS];
        int64_t at[MV_MAX_OPERANDS];
        mv_acc *acc = &t->acc[index + i - t->first];
        for (int k = 0; k < axis.operands; k++)
            q[k] = p[k] + i * stride[k] + t->lo * axis.stride[0][k];
        if (axis.masks == 0) {
            job->step(acc, q, axis.stride[0], t->hi - t->lo, t->lo);
            continue;
        }
        for (int k = 0; k < axis.masks; k++) {
            axis.mask[k].base = (const uint8_t *)p[axis.operands + k] + i * stride[axis.operands + k];
            at[k] = t->lo * axis.mask[k].stride[0];
        }
        mv_run_masked(&axis, q, at, t->hi - t->lo, t->lo, job->step, acc);
    }
}

static int32_t store_outputs(const axis_job *job, const mv_acc *acc, int64_t first, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        mv_value value;
        int32_t status = finish(job->op->op, &acc[i], job->type, job->ddof, &value);
        if (status)
            return status;
        mv_store_value(job->out + (first + i) * job->out_size, job->out_type, value);
    }
    return MV_OK;
}

static int64_t axis_chunk(void *state, int64_t i) {
    const axis_job *job = state;
    const int64_t first = i % job->blocks * job->block, range = i / job->blocks;
    const int64_t count = job->outputs - first < job->block ? job->outputs - first : job->block;
    const int64_t lo = range * job->range, hi = job->rows - lo < job->range ? job->rows : lo + job->range;
    mv_acc *acc = calloc((size_t)count, sizeof *acc);
    if (!acc)
        return MV_E_MEMORY;
    for (int64_t row = lo; row < hi; row += job->tile) {
        tile t = {job, acc, first, row, hi - row < job->tile ? hi : row + job->tile};
        mv_nest_walk(&job->kept, first, first + count, tile_run, &t);
    }
    int32_t status = MV_OK;
    if (job->ranges > 1)
        memcpy(job->partial + range * job->outputs + first, acc, (size_t)count * sizeof *acc);
    else
        status = store_outputs(job, acc, first, count);
    free(acc);
    return status;
}

/* Sets up `kept`, the dimensions of `args` without `axis`, and the axis alone. Masks become operands of `kept`. */
static int32_t drop_axis(axis_job *job, mv_desc *const *args, int axis) {
    mv_desc part[MV_MAX_OPERANDS], *parts[MV_MAX_OPERANDS];
    const int operands = job->op->operands == 2 ? 2 : 1;
    int masks = 0;
    mv_nest *run = &job->axis;
    *run = (mv_nest){.ndim = 1, .operands = operands, .size = job->rows, .shape = {job->rows}};
    for (int k = 0; k < operands; k++) {
        const mv_desc *d = args[k];
        part[k] = *d;
        part[k].ndim = 0;
        part[k].size = job->outputs;
        part[k].flags &= ~MV_HAS_MASK;
        for (int i = 0; i < d->ndim; i++)
            if (i != axis) {
                part[k].shape[part[k].ndim] = d->shape[i];
                part[k].strides[part[k].ndim++] = d->strides[i];
            }
        run->stride[0][k] = d->strides[axis];
        if (d->flags & MV_HAS_MASK) {
            if (d->ndim != 2 || d->flags & MV_MASK_BITS || d->mask_offset % 8)
                return MV_E_MASK;
            mv_desc *mask = &part[operands + masks];
            *mask = part[k];
            mask->data = (void *)(d->mask + d->mask_offset / 8);
            mask->strides[0] = d->mask_stride[1 - axis];
            run->mask[masks++] = (mv_mask_walk){.stride = {d->mask_stride[axis]}};
        }
    }
    run->masks = masks;
    for (int k = 0; k < operands + masks; k++)
        parts[k] = &part[k];
    return mv_nest_make(&job->kept, parts, operands + masks, MV_ORDER_C);
}

/* Divides the work by the shape of the array alone, so that results do not depend on the number of threads. */
static void plan(axis_job *job) {
    const int64_t rows = job->rows ? job->rows : 1;
    int64_t finest = INT64_MAX;
    for (int d = 0; d < job->kept.ndim; d++)
        if (job->kept.shape[d] > 1 && mv_magnitude(job->kept.stride[d][0]) < finest)
            finest = mv_magnitude(job->kept.stride[d][0]);
    job->block = TILE / rows > 256 ? TILE / rows : 256;
    if (job->block > job->outputs)
        job->block = job->outputs;
    job->blocks = (job->outputs + job->block - 1) / job->block;
    /* if the axis itself is the dense one, tiles would only shorten its runs */
    job->tile = mv_magnitude(job->axis.stride[0][0]) <= finest ? rows : TILE / job->block ? TILE / job->block : 1;
    int64_t worth = rows / (MV_CHUNK / job->block ? MV_CHUNK / job->block : 1), most = 64 / job->blocks;
    job->ranges = worth < most ? worth : most;
    if (job->ranges < 1)
        job->ranges = 1;
    job->range = (rows + job->ranges - 1) / job->ranges;
    job->ranges = (rows + job->range - 1) / job->range;
}

static int32_t reduce_axis(const mv_reduction *op, mv_step step, int type, mv_desc *const *args, double ddof,
                           const mv_run *run) {
    const mv_desc *out = args[op->operands];
    axis_job job = {.op = op,
                    .step = step,
                    .type = type,
                    .out_type = mv_type_index(out),
                    .ddof = ddof,
                    .out = out->data,
                    .out_size = out->itemsize,
                    .outputs = out->size,
                    .rows = args[0]->shape[run->axis]};
    if (job.outputs == 0)
        return MV_OK;
    int32_t status = drop_axis(&job, args, run->axis);
    if (status)
        return status;
    plan(&job);
    if (job.ranges > 1 && !(job.partial = calloc((size_t)(job.ranges * job.outputs), sizeof *job.partial)))
        return MV_E_MEMORY;
    status = (int32_t)(mv_run_chunks(run, job.blocks * job.ranges, axis_chunk, &job) & 0xff);
    if (!status && job.ranges > 1) {
        for (int64_t r = 1; r < job.ranges; r++)
            for (int64_t i = 0; i < job.outputs; i++)
                merge(op->op, &job.partial[i], &job.partial[r * job.outputs + i], type);
        status = store_outputs(&job, job.partial, 0, job.outputs);
    }
    free(job.partial);
    return status;
}

int32_t mv_run_reduction(const void *ctx, mv_desc *const *args, const mv_value *values, mv_value *result,
                         const mv_run *run) {
    const mv_reduction *op = ctx;
    const int type = mv_type_index(args[0]);
    if (type < 0 || !op->steps[type])
        return MV_E_DTYPE;
    const double ddof = op->op == MV_VAR || op->op == MV_STD ? values[0].f64 : 0;
    if (run && run->axis >= 0)
        return reduce_axis(op, op->steps[type], type, args, ddof, run);
    if (is_one_run(args, op->operands))
        return reduce_run(op, op->steps[type], type, args, ddof, result);
    return reduce_whole(op, op->steps[type], type, args, ddof, result, run);
}

/* ---- describe: the chunks of all columns are one batch */
typedef struct column {
    mv_nest nest;
    int type;
    int64_t first_chunk, chunks;
} column;
typedef struct batch {
    column *columns;
    int64_t count;
    mv_acc *partial;
} batch;

static int64_t batch_chunk(void *state, int64_t i) {
    const batch *b = state;
    int64_t lo = 0, hi = b->count; /* the last column that starts at or before chunk i */
    while (hi - lo > 1) {
        const int64_t middle = lo + (hi - lo) / 2;
        if (b->columns[middle].first_chunk <= i)
            lo = middle;
        else
            hi = middle;
    }
    const column *c = &b->columns[lo];
    const int64_t from = (i - c->first_chunk) * MV_CHUNK;
    const int64_t to = c->nest.size - from < MV_CHUNK ? c->nest.size : from + MV_CHUNK;
    mv_acc acc = {0};
    mv_nest_walk(&c->nest, from, to, describe_steps[c->type], &acc);
    b->partial[i] = acc;
    return 0;
}

static void describe(const mv_acc *a, int type, mv_description *out) {
    const int kind = accumulator_kind(type);
    *out = (mv_description){.count = a->n, .argmin = a->low_at, .argmax = a->high_at, .min = a->low, .max = a->high};
    out->mean = kind != FLOATING ? mv_exact_mean(a) : a->n ? mv_sum_of(a) / (double)a->n : NAN;
    out->var = a->n > 1 ? a->m2 / (double)(a->n - 1) : NAN;
    out->total = kind == FLOATING || a->n == 0 ? 0 : (int64_t)(a->total / a->n);
}

int32_t mv_run_describe(mv_desc *const *args, int64_t count, mv_description *out, const mv_run *run) {
    batch b = {.count = count, .columns = malloc((size_t)(count ? count : 1) * sizeof *b.columns)};
    if (!b.columns)
        return MV_E_MEMORY;
    int64_t chunks = 0;
    int32_t status = MV_OK;
    for (int64_t i = 0; i < count && !status; i++) {
        column *c = &b.columns[i];
        c->type = mv_type_index(args[i]);
        status = c->type < 0 ? MV_E_DTYPE : mv_nest_make(&c->nest, &args[i], 1, MV_ORDER_C);
        c->first_chunk = chunks;
        c->chunks = chunks_of(args[i]->size);
        chunks += c->chunks;
    }
    if (!status && !(b.partial = calloc((size_t)(chunks ? chunks : 1), sizeof *b.partial)))
        status = MV_E_MEMORY;
    if (!status)
        status = (int32_t)(mv_run_chunks(run, chunks, batch_chunk, &b) & 0xff);
    for (int64_t i = 0; i < count && !status; i++) {
        const column *c = &b.columns[i];
        mv_acc acc = {0};
        for (int64_t k = 0; k < c->chunks; k++)
            merge_describe(&acc, &b.partial[c->first_chunk + k], accumulator_kind(c->type));
        describe(&acc, c->type, &out[i]);
    }
    free(b.partial);
    free(b.columns);
    return status;
}
