/* Calls of foreign kernels: functions with a C ABI that take descriptors, element pointers and scalars. A call runs on
 * whole arrays or in chunks of rows. */
#ifndef MOJOVIEW_FOREIGN_CALL_H
#define MOJOVIEW_FOREIGN_CALL_H

#include "checks.h"
#include "parallel.h"
#include "registers.h"

/* Ways to pass a parameter. */
enum { MV_PASS_DESC, MV_PASS_POINTER, MV_PASS_INT, MV_PASS_F64, MV_PASS_F32 };
/* Result types of a function. */
enum { MV_GIVES_NOTHING, MV_GIVES_STATUS, MV_GIVES_STATUS_INDEX, MV_GIVES_VALUE };

typedef struct mv_foreign {
    uintptr_t address;
    int params, returns, gives;
    uint8_t pass[MV_MAX_PARAMS];
} mv_foreign;

/* Returns whether this ABI can pass the parameters. */
static inline bool mv_foreign_fits(const mv_foreign *f) {
    mv_registers r;
    r.ints = r.floats = r.slots = 0;
    for (int k = 0; k < f->params; k++)
        if (f->pass[k] == MV_PASS_F64 || f->pass[k] == MV_PASS_F32 ? mv_push_f64(&r, 0) : mv_push_int(&r, 0))
            return false;
    return MV_INT_REGISTERS > 0;
}

/* Calls the function. Arrays and scalars are separate lists, each in parameter order. */
static inline mv_value mv_foreign_call(const mv_foreign *f, mv_desc *const *arrays, const mv_value *scalars) {
    mv_registers r;
    r.ints = r.floats = r.slots = 0;
    for (int k = 0; k < f->params; k++) {
        switch (f->pass[k]) {
        case MV_PASS_DESC: mv_push_int(&r, (int64_t)(uintptr_t)*arrays++); break;
        case MV_PASS_POINTER: mv_push_int(&r, (int64_t)(uintptr_t)(*arrays++)->data); break;
        case MV_PASS_INT: mv_push_int(&r, (scalars++)->i64); break;
        case MV_PASS_F64: mv_push_f64(&r, (scalars++)->f64); break;
        default: mv_push_f32(&r, (float)(scalars++)->f64); break;
        }
    }
    return mv_call_registers(f->address, &r, f->returns);
}

/* Returns the failure word of a returned status. A status outside 0 to 255 violates the contract and counts as 255. */
static inline int64_t mv_foreign_word(const mv_foreign *f, mv_value returned) {
    if (f->gives == MV_GIVES_STATUS_INDEX)
        return returned.i64;
    if (f->gives != MV_GIVES_STATUS)
        return 0;
    const int32_t status = (int32_t)returned.i64; /* the upper half of the register is undefined */
    return status < 0 || status > 255 ? 255 : status;
}

/* A call in chunks of rows: each receives its part of every array. */
typedef struct mv_foreign_split {
    const mv_foreign *f;
    mv_desc *const *arrays;
    const mv_value *scalars;
    int count;
    int64_t rows, rows_a_chunk;
} mv_foreign_split;

static inline int64_t mv_foreign_chunk(void *state, int64_t i) {
    const mv_foreign_split *s = state;
    _Alignas(MV_DESC_ALIGN) mv_desc part[MV_MAX_PARAMS];
    mv_desc *parts[MV_MAX_PARAMS];
    const int64_t lo = i * s->rows_a_chunk, hi = s->rows - lo < s->rows_a_chunk ? s->rows : lo + s->rows_a_chunk;
    for (int k = 0; k < s->count; k++) {
        mv_desc_rows(s->arrays[k], lo, hi, &part[k]);
        parts[k] = &part[k];
    }
    int64_t word = mv_foreign_word(s->f, mv_foreign_call(s->f, parts, s->scalars));
    if (word >> 8 > 0) /* the kernel counts elements from the start of its chunk */
        word += (s->arrays[0]->size / s->rows * lo) << 8;
    return word;
}

static inline int64_t mv_foreign_run(const mv_foreign *f, mv_desc *const *arrays, const mv_value *scalars, int count,
                                     const mv_run *run) {
    mv_foreign_split s = {f, arrays, scalars, count, arrays[0]->shape[0], 1};
    if (s.rows == 0)
        return 0;
    const int64_t row = arrays[0]->size / s.rows;
    if (row < MV_CHUNK)
        s.rows_a_chunk = MV_CHUNK / (row ? row : 1);
    return mv_run_chunks(run, (s.rows + s.rows_a_chunk - 1) / s.rows_a_chunk, mv_foreign_chunk, &s);
}

#endif
