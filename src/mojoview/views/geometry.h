/* Geometry of strided arrays: sizes, flags, extents, reshaping. Plain functions on the descriptor; nothing is read from
 * or written to the array's memory. */
#ifndef MOJOVIEW_GEOMETRY_H
#define MOJOVIEW_GEOMETRY_H

#include <stdbool.h>

#include "../memory/abi.h"

/* Return the number of elements; -1 if the number of bytes does not fit an int64. */
static inline int64_t mv_count_elements(int ndim, const int64_t *shape, int64_t itemsize) {
    int64_t size = 1, bytes = itemsize > 0 ? itemsize : 1;
    for (int k = 0; k < ndim; k++)
        if (shape[k] == 0)
            return 0; /* whatever the other dimensions */
    for (int k = 0; k < ndim; k++)
        if (__builtin_mul_overflow(size, shape[k], &size) || __builtin_mul_overflow(bytes, shape[k], &bytes))
            return -1;
    return size;
}

/* Compute the byte offsets of the first and of one past the last byte, relative to element [0, ..., 0];
 * false on overflow. */
static inline bool mv_extent(int ndim, const int64_t *shape, const int64_t *strides, int64_t itemsize, int64_t *low,
                             int64_t *high) {
    int64_t lo = 0, hi = itemsize;
    for (int k = 0; k < ndim; k++)
        if (shape[k] == 0) {
            *low = *high = 0;
            return true;
        }
    for (int k = 0; k < ndim; k++) {
        int64_t reach;
        if (__builtin_mul_overflow(shape[k] - 1, strides[k], &reach) ||
            __builtin_add_overflow(reach < 0 ? lo : hi, reach, reach < 0 ? &lo : &hi))
            return false;
    }
    *low = lo;
    *high = hi;
    return true;
}

static inline void mv_c_strides(int ndim, const int64_t *shape, int64_t itemsize, int64_t *strides) {
    uint64_t step = (uint64_t)itemsize; /* wraps only if another dimension is 0, and then it is never used */
    for (int k = ndim - 1; k >= 0; k--) {
        strides[k] = (int64_t)step;
        step *= (uint64_t)(shape[k] > 0 ? shape[k] : 1);
    }
}

static inline bool mv_is_contiguous(int ndim, const int64_t *shape, const int64_t *strides, int64_t itemsize,
                                    bool c_order) {
    int64_t step = itemsize;
    for (int k = 0; k < ndim; k++)
        if (shape[k] == 0)
            return true;
    for (int n = 0; n < ndim; n++) {
        int k = c_order ? ndim - 1 - n : n;
        if (shape[k] == 1)
            continue;
        if (strides[k] != step)
            return false;
        step *= shape[k];
    }
    return true;
}

/* Return whether two elements may share bytes: true if they do, and for some unusual strides if they do not. */
static inline bool mv_may_self_overlap(int ndim, const int64_t *shape, const int64_t *strides, int64_t itemsize) {
    int order[MV_MAX_NDIM], n = 0;
    uint64_t reach = (uint64_t)itemsize;
    for (int k = 0; k < ndim; k++) {
        if (shape[k] == 0)
            return false;
        if (shape[k] == 1)
            continue;
        int at = n++;
        uint64_t step = strides[k] < 0 ? 0 - (uint64_t)strides[k] : (uint64_t)strides[k];
        for (; at > 0; at--) {
            int64_t s = strides[order[at - 1]];
            if ((s < 0 ? 0 - (uint64_t)s : (uint64_t)s) <= step)
                break;
            order[at] = order[at - 1];
        }
        order[at] = k;
    }
    for (int i = 0; i < n; i++) {
        int64_t s = strides[order[i]];
        uint64_t step = s < 0 ? 0 - (uint64_t)s : (uint64_t)s;
        if (step < reach)
            return true;
        reach += step * (uint64_t)(shape[order[i]] - 1);
    }
    return false;
}

/* Derive size, element strides and flags from shape, strides, item size and address. -1 if the size overflows. */
static inline int mv_desc_derive(mv_desc *d, int64_t alignment) {
    const uint64_t derived = MV_C_CONTIGUOUS | MV_F_CONTIGUOUS | MV_ALIGNED | MV_BYTE_STRIDES;
    int64_t item = (int64_t)d->itemsize;
    uint64_t flags = d->flags & ~derived;
    int64_t size = mv_count_elements(d->ndim, d->shape, item);
    if (size < 0)
        return -1;
    d->size = size;
    d->stride[0] = d->stride[1] = 0;
    for (int k = d->ndim > 2 ? d->ndim - 2 : 0, slot = 0; k < d->ndim; k++, slot++)
        d->stride[slot] = item > 0 ? d->strides[k] / item : 0;
    bool aligned = alignment <= 1 || (uint64_t)(uintptr_t)d->data % (uint64_t)alignment == 0;
    for (int k = 0; k < d->ndim; k++) {
        if (d->shape[k] <= 1)
            continue;
        if (item > 0 && d->strides[k] % item != 0)
            flags |= MV_BYTE_STRIDES;
        if (alignment > 1 && d->strides[k] % alignment != 0)
            aligned = false;
    }
    if (aligned || size == 0)
        flags |= MV_ALIGNED;
    if (mv_is_contiguous(d->ndim, d->shape, d->strides, item, true))
        flags |= MV_C_CONTIGUOUS;
    if (mv_is_contiguous(d->ndim, d->shape, d->strides, item, false))
        flags |= MV_F_CONTIGUOUS;
    d->flags = flags;
    return 0;
}

/* Compute the strides of `d` (whose flags are derived) for another C-order shape of the same size; false if that needs
 * a copy. Dimensions of both shapes are matched in groups of equal size; inside a group old axes must be mergeable. */
static inline bool mv_reshape(const mv_desc *d, int ndim, const int64_t *shape, int64_t *strides) {
    int64_t old_shape[MV_MAX_NDIM], old_strides[MV_MAX_NDIM];
    int old_ndim = 0;
    if (d->size == 0 || d->flags & MV_C_CONTIGUOUS) {
        mv_c_strides(ndim, shape, (int64_t)d->itemsize, strides);
        return true;
    }
    for (int k = 0; k < d->ndim; k++)
        if (d->shape[k] != 1) {
            old_shape[old_ndim] = d->shape[k];
            old_strides[old_ndim++] = d->strides[k];
        }
    int old_from = 0, new_from = 0;
    while (old_from < old_ndim && new_from < ndim) {
        int old_to = old_from + 1, new_to = new_from + 1;
        int64_t old_count = old_shape[old_from], new_count = shape[new_from];
        while (old_count != new_count)
            if (old_count < new_count)
                old_count *= old_shape[old_to++];
            else
                new_count *= shape[new_to++];
        for (int k = old_from; k + 1 < old_to; k++)
            if (old_strides[k] != old_strides[k + 1] * old_shape[k + 1])
                return false;
        strides[new_to - 1] = old_strides[old_to - 1];
        for (int k = new_to - 1; k > new_from; k--)
            strides[k - 1] = strides[k] * shape[k];
        old_from = old_to;
        new_from = new_to;
    }
    for (int k = new_from; k < ndim; k++) /* trailing axes of length 1 */
        strides[k] = k > 0 ? strides[k - 1] : (int64_t)d->itemsize;
    return true;
}

#endif
