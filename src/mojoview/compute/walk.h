/* N-d iteration: a coalesced loop nest over arrays of the same shape, walked in runs of elements that are not missing.
 *
 * Inner loops take (pointers, byte strides, count) like NumPy's and handle neither dimensions nor masks. Any range of
 * the flat iteration order can be walked by itself, which is how work is split over threads. */
#ifndef MOJOVIEW_WALK_H
#define MOJOVIEW_WALK_H

#include <stdint.h>
#include <string.h>

#include "../memory/abi.h"

#define MV_MAX_OPERANDS 4
#define MV_MASK_BLOCK 1024

/* Byte masks: `start` and `stride` count bytes from `base`; bit masks: bits. */
typedef struct mv_mask_walk {
    const uint8_t *base;
    int64_t start;
    int64_t stride[MV_MAX_NDIM];
    int bits;
} mv_mask_walk;

typedef struct mv_nest {
    int ndim, operands, masks;
    int64_t size;
    int64_t shape[MV_MAX_NDIM];
    char *base[MV_MAX_OPERANDS];
    int64_t stride[MV_MAX_NDIM][MV_MAX_OPERANDS];
    mv_mask_walk mask[MV_MAX_OPERANDS];
} mv_nest;

/* MV_ORDER_C: elements come in C order, for results that are positions.
 * MV_ORDER_ANY: in the order that suits the memory. */
enum { MV_ORDER_C, MV_ORDER_ANY };

/* One inner run: `index` is the flat position of its first element in the order of the walk. */
typedef void (*mv_step)(void *state, char *const *p, const int64_t *stride, int64_t n, int64_t index);

static inline int64_t mv_magnitude(int64_t x) { return x < 0 ? -x : x; }

static inline void mv_nest_swap(mv_nest *nest, int i, int j) {
    int64_t n = nest->shape[i];
    nest->shape[i] = nest->shape[j];
    nest->shape[j] = n;
    for (int k = 0; k < nest->operands; k++) {
        int64_t s = nest->stride[i][k];
        nest->stride[i][k] = nest->stride[j][k];
        nest->stride[j][k] = s;
    }
    for (int k = 0; k < nest->masks; k++) {
        int64_t s = nest->mask[k].stride[i];
        nest->mask[k].stride[i] = nest->mask[k].stride[j];
        nest->mask[k].stride[j] = s;
    }
}

/* Reverses and sorts dimensions so that the last operand (an output, if there is one) is walked upwards, densely. */
static inline void mv_nest_reorder(mv_nest *nest) {
    const int lead = nest->operands - 1;
    for (int d = 0; d < nest->ndim; d++) {
        if (nest->stride[d][lead] >= 0)
            continue;
        for (int k = 0; k < nest->operands; k++) {
            nest->base[k] += nest->stride[d][k] * (nest->shape[d] - 1);
            nest->stride[d][k] = -nest->stride[d][k];
        }
        for (int k = 0; k < nest->masks; k++) {
            nest->mask[k].start += nest->mask[k].stride[d] * (nest->shape[d] - 1);
            nest->mask[k].stride[d] = -nest->mask[k].stride[d];
        }
    }
    for (int d = 1; d < nest->ndim; d++)
        for (int e = d; e > 0 && nest->stride[e - 1][lead] < nest->stride[e][lead]; e--)
            mv_nest_swap(nest, e - 1, e);
}

static inline int mv_nest_mergeable(const mv_nest *nest, int outer, int inner) {
    for (int k = 0; k < nest->operands; k++)
        if (nest->stride[outer][k] != nest->stride[inner][k] * nest->shape[inner])
            return 0;
    for (int k = 0; k < nest->masks; k++)
        if (nest->mask[k].stride[outer] != nest->mask[k].stride[inner] * nest->shape[inner])
            return 0;
    return 1;
}

static inline void mv_nest_copy_dim(mv_nest *nest, int to, int from) {
    nest->shape[to] = nest->shape[from];
    for (int k = 0; k < nest->operands; k++)
        nest->stride[to][k] = nest->stride[from][k];
    for (int k = 0; k < nest->masks; k++)
        nest->mask[k].stride[to] = nest->mask[k].stride[from];
}

static inline int32_t mv_nest_add_mask(mv_nest *nest, const mv_desc *d) {
    mv_mask_walk *mask = &nest->mask[nest->masks++];
    mask->bits = (d->flags & MV_MASK_BITS) != 0;
    mask->base = d->mask;
    if (mask->bits) {
        if (d->ndim != 1)
            return MV_E_MASK;
        mask->start = d->mask_offset;
        mask->stride[0] = 1;
        return MV_OK;
    }
    if (d->ndim > 2 || d->mask_offset % 8)
        return MV_E_MASK;
    mask->start = d->mask_offset / 8;
    for (int i = 0; i < d->ndim; i++)
        mask->stride[i] = d->mask_stride[i];
    return MV_OK;
}

/* Makes the nest of arrays of the same shape. With no elements it has no dimensions, and there is nothing to walk. */
static inline int32_t mv_nest_make(mv_nest *nest, mv_desc *const *args, int count, int order) {
    nest->ndim = args[0]->ndim;
    nest->operands = count;
    nest->masks = 0;
    nest->size = args[0]->size;
    for (int d = 0; d < nest->ndim; d++)
        nest->shape[d] = args[0]->shape[d];
    for (int k = 0; k < count; k++) {
        if (args[k]->ndim != nest->ndim || args[k]->size != nest->size)
            return MV_E_SHAPE;
        nest->base[k] = (char *)args[k]->data;
        for (int d = 0; d < nest->ndim; d++)
            nest->stride[d][k] = args[k]->strides[d];
        if (args[k]->flags & MV_HAS_MASK) {
            int32_t status = mv_nest_add_mask(nest, args[k]);
            if (status)
                return status;
        }
    }
    if (nest->size == 0) {
        nest->ndim = 0;
        return MV_OK;
    }
    int kept = 0; /* a stride of an axis of length one may hold anything */
    for (int d = 0; d < nest->ndim; d++)
        if (nest->shape[d] != 1)
            mv_nest_copy_dim(nest, kept++, d);
    nest->ndim = kept;
    if (order == MV_ORDER_ANY)
        mv_nest_reorder(nest);
    kept = 0;
    for (int d = 1; d < nest->ndim; d++) {
        int64_t outer = nest->shape[kept];
        if (mv_nest_mergeable(nest, kept, d)) {
            mv_nest_copy_dim(nest, kept, d);
            nest->shape[kept] *= outer;
        } else {
            mv_nest_copy_dim(nest, ++kept, d);
        }
    }
    if (nest->ndim == 0) { /* one element */
        nest->shape[0] = 1;
        memset(nest->stride[0], 0, sizeof nest->stride[0]);
        for (int k = 0; k < nest->masks; k++)
            nest->mask[k].stride[0] = 0;
    }
    nest->ndim = kept + 1;
    return MV_OK;
}

/* missing[i] |= element i of the mask is missing, for the n elements from position `at`. */
static inline void mv_mask_expand(const mv_mask_walk *mask, int64_t at, int64_t stride, int64_t n, uint8_t *missing) {
    if (mask->bits) {
        for (int64_t i = 0; i < n; i++) {
            int64_t bit = at + i * stride;
            missing[i] |= (uint8_t)(~(mask->base[bit >> 3] >> (bit & 7)) & 1);
        }
    } else if (stride == 1) {
        const uint8_t *m = mask->base + at;
        for (int64_t i = 0; i < n; i++)
            missing[i] |= m[i] != 0;
    } else {
        for (int64_t i = 0; i < n; i++)
            missing[i] |= mask->base[at + i * stride] != 0;
    }
}

/* Calls `step` for every run of elements that are not missing in any mask. */
static inline void mv_run_masked(const mv_nest *nest, char *const *p, const int64_t *at, int64_t n, int64_t index,
                                 mv_step step, void *state) {
    const int inner = nest->ndim - 1;
    uint8_t missing[MV_MASK_BLOCK];
    char *q[MV_MAX_OPERANDS];
    for (int64_t done = 0; done < n; done += MV_MASK_BLOCK) {
        int64_t size = n - done < MV_MASK_BLOCK ? n - done : MV_MASK_BLOCK;
        memset(missing, 0, (size_t)size);
        for (int k = 0; k < nest->masks; k++) {
            int64_t stride = nest->mask[k].stride[inner];
            mv_mask_expand(&nest->mask[k], at[k] + done * stride, stride, size, missing);
        }
        for (int64_t i = 0; i < size;) {
            const uint8_t *hole = memchr(missing + i, 1, (size_t)(size - i));
            int64_t end = hole ? hole - missing : size;
            if (end > i) {
                for (int k = 0; k < nest->operands; k++)
                    q[k] = p[k] + (done + i) * nest->stride[inner][k];
                step(state, q, nest->stride[inner], end - i, index + done + i);
            }
            for (i = end; i < size && missing[i]; i++)
                ;
        }
    }
}

/* Walks the elements [lo, hi) of the flat order. */
static inline void mv_nest_walk(const mv_nest *nest, int64_t lo, int64_t hi, mv_step step, void *state) {
    const int inner = nest->ndim - 1;
    int64_t at[MV_MAX_NDIM], mask_at[MV_MAX_OPERANDS];
    char *p[MV_MAX_OPERANDS];
    if (hi <= lo)
        return;
    int64_t rest = lo;
    for (int d = inner; d >= 0; d--) {
        at[d] = rest % nest->shape[d];
        rest /= nest->shape[d];
    }
    for (int64_t index = lo; index < hi;) {
        int64_t n = nest->shape[inner] - at[inner];
        if (n > hi - index)
            n = hi - index;
        for (int k = 0; k < nest->operands; k++) {
            p[k] = nest->base[k];
            for (int d = 0; d <= inner; d++)
                p[k] += at[d] * nest->stride[d][k];
        }
        if (nest->masks == 0) {
            step(state, p, nest->stride[inner], n, index);
        } else {
            for (int k = 0; k < nest->masks; k++) {
                mask_at[k] = nest->mask[k].start;
                for (int d = 0; d <= inner; d++)
                    mask_at[k] += at[d] * nest->mask[k].stride[d];
            }
            mv_run_masked(nest, p, mask_at, n, index, step, state);
        }
        index += n;
        at[inner] += n;
        for (int d = inner; d > 0 && at[d] == nest->shape[d]; d--) {
            at[d] = 0;
            at[d - 1]++;
        }
    }
}

#endif
