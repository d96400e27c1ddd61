/* Regions: the bytes that a strided array reaches, and whether two regions overlap. Nothing is read from memory. */
#ifndef MOJOVIEW_REGION_H
#define MOJOVIEW_REGION_H

#include <stdbool.h>

#include "geometry.h"

/* Runs of `item` bytes, repeated along axes of positive stride, the longest stride first. */
typedef struct mv_region {
    uint64_t low, high; /* the first byte and the one past the last */
    int64_t item;
    int ndim;
    int64_t shape[MV_MAX_NDIM];
    int64_t strides[MV_MAX_NDIM];
} mv_region;

/* Beyond this number of steps two regions count as overlapping. Nested axes, as of slices and columns, need a few. */
#define MV_REGION_STEPS 4096

/* Compute the region of an array; false if it reaches no byte of the host's address space. */
static inline bool mv_region_of(const mv_desc *d, mv_region *r) {
    int64_t low, high;
    if (d->size == 0 || d->itemsize == 0 || d->flags & MV_DEVICE_MASK ||
        !mv_extent(d->ndim, d->shape, d->strides, d->itemsize, &low, &high))
        return false;
    r->low = (uint64_t)(uintptr_t)d->data + (uint64_t)low;
    r->high = (uint64_t)(uintptr_t)d->data + (uint64_t)high;
    r->item = d->itemsize;
    r->ndim = 0;
    for (int k = 0; k < d->ndim; k++) {
        const int64_t step = d->strides[k] < 0 ? -d->strides[k] : d->strides[k];
        if (d->shape[k] == 1 || step == 0)
            continue;
        int at = r->ndim++;
        for (; at > 0 && r->strides[at - 1] < step; at--) {
            r->shape[at] = r->shape[at - 1];
            r->strides[at] = r->strides[at - 1];
        }
        r->shape[at] = d->shape[k];
        r->strides[at] = step;
    }
    while (r->ndim > 0 && r->strides[r->ndim - 1] == r->item) /* contiguous items are one longer item */
        r->item *= r->shape[--r->ndim];
    return true;
}

__extension__ typedef __int128 mv_wide; /* sums of two extents do not fit an int64 */

/* stride * n for n in [from, to]; `below` and `above` bound what all the axes after it, and the items, can add. */
typedef struct mv_axis {
    int64_t stride;
    mv_wide from, to, below, above;
} mv_axis;

static inline mv_wide mv_divide_down(mv_wide a, int64_t b) { return a / b - (a % b < 0); }

static inline bool mv_reaches(const mv_axis *axis, int axes, mv_wide apart, int *steps) {
    if (axes == 0)
        return true; /* the bounds of the axis before it held */
    mv_wide n = -mv_divide_down(axis->above - apart, axis->stride);
    mv_wide last = mv_divide_down(apart - axis->below, axis->stride);
    if (n < axis->from)
        n = axis->from;
    if (last > axis->to)
        last = axis->to;
    for (; n <= last; n++)
        if (--*steps < 0 || mv_reaches(axis + 1, axes - 1, apart - n * axis->stride, steps))
            return true;
    return false;
}

/* Whether two regions share a byte: some n with sum(n[k] * stride[k]) as far from the distance of the two as items are
 * long. Exact unless the steps run out; then true. Equal strides are one axis, which is what makes columns cheap. */
static inline bool mv_regions_share(const mv_region *a, const mv_region *b) {
    mv_axis axis[2 * MV_MAX_NDIM];
    int axes = 0, i = 0, j = 0, steps = MV_REGION_STEPS;
    if (a->high <= b->low || b->high <= a->low)
        return false;
    while (i < a->ndim || j < b->ndim) {
        mv_axis *x = &axis[axes++];
        const int64_t s = i < a->ndim ? a->strides[i] : 0, t = j < b->ndim ? b->strides[j] : 0;
        x->stride = s > t ? s : t;
        x->to = s == x->stride ? a->shape[i++] - 1 : 0;
        x->from = t == x->stride ? -(mv_wide)(b->shape[j++] - 1) : 0;
    }
    mv_wide below = 1 - (mv_wide)b->item, above = (mv_wide)a->item - 1;
    for (int k = axes - 1; k >= 0; k--) {
        axis[k].below = below;
        axis[k].above = above;
        below += axis[k].from * axis[k].stride;
        above += axis[k].to * axis[k].stride;
    }
    const mv_wide apart = (mv_wide)b->low - (mv_wide)a->low;
    return below <= apart && apart <= above && mv_reaches(axis, axes, apart, &steps);
}

#endif
