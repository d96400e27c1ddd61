/* Requirements of a kernel on its arguments, and the check of every call. Plain functions on descriptors. */
#ifndef MOJOVIEW_CHECKS_H
#define MOJOVIEW_CHECKS_H

#include "../../views/region.h"

#define MV_MAX_PARAMS 14

enum {
    MV_TAKES_MASKS = 1,   /* the kernel understands masks */
    MV_TAKES_STRIDES = 2, /* any byte stride and any alignment */
    MV_TAKES_SAME = 4,    /* an output may be exactly the memory of an input */
    MV_EQUAL_SHAPES = 8   /* all arrays must have one shape */
};

typedef struct mv_array_param {
    uint8_t code, bits; /* bits 0: the common dtype, that of the first such argument */
    int8_t ndim;        /* -1: any */
    uint8_t writes;
    uint8_t contiguous; /* a bare pointer: C order */
    uint8_t scalar;     /* a number is broadcast */
} mv_array_param;

typedef struct mv_spec {
    int arrays, flags;
    mv_array_param array[MV_MAX_PARAMS];
} mv_spec;

/* The argument that failed a check, and the other one that it disagrees or overlaps with (or -1). */
typedef struct mv_fault {
    int which, other;
} mv_fault;

static inline bool mv_same_memory(const mv_desc *a, const mv_desc *b) {
    if (a->data != b->data || a->ndim != b->ndim || a->itemsize != b->itemsize)
        return false;
    for (int k = 0; k < a->ndim; k++)
        if (a->shape[k] != b->shape[k] || (a->shape[k] > 1 && a->strides[k] != b->strides[k]))
            return false;
    return true;
}

/* Returns whether two arrays may share a byte: exact, unless arrays interleave in so many ways that the search for a
 * common byte ends early (MV_REGION_STEPS); then true. */
static inline bool mv_may_overlap(const mv_desc *a, const mv_desc *b) {
    int64_t a_low, a_high, b_low, b_high;
    mv_region x, y;
    if (a->size == 0 || b->size == 0)
        return false;
    if (!mv_extent(a->ndim, a->shape, a->strides, a->itemsize, &a_low, &a_high) ||
        !mv_extent(b->ndim, b->shape, b->strides, b->itemsize, &b_low, &b_high))
        return true;
    const int64_t delta = (int64_t)((uintptr_t)b->data - (uintptr_t)a->data);
    if (delta + b_low >= a_high || delta + b_high <= a_low)
        return false;
    return !mv_region_of(a, &x) || !mv_region_of(b, &y) || mv_regions_share(&x, &y);
}

/* Returns whether any element is missing; -1 for a mask that cannot be walked. */
static inline int mv_any_missing(const mv_desc *d) {
    if (!(d->flags & MV_HAS_MASK) || d->size == 0)
        return 0;
    if (d->flags & MV_MASK_BITS) {
        if (d->ndim != 1)
            return -1;
        for (int64_t i = 0; i < d->size; i++) {
            int64_t bit = d->mask_offset + i;
            if (!(d->mask[bit >> 3] >> (bit & 7) & 1))
                return 1;
        }
        return 0;
    }
    if (d->ndim > 2 || d->mask_offset % 8)
        return -1;
    const uint8_t *base = d->mask + d->mask_offset / 8;
    const int64_t rows = d->ndim == 2 ? d->shape[0] : 1, columns = d->ndim ? d->shape[d->ndim - 1] : 1;
    const int64_t down = d->ndim == 2 ? d->mask_stride[0] : 0, across = d->ndim ? d->mask_stride[d->ndim - 1] : 0;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            if (base[i * down + j * across])
                return 1;
    return 0;
}

static inline int32_t mv_check_array(const mv_spec *spec, int k, mv_desc *const *d, int common) {
    const mv_array_param *p = &spec->array[k];
    const mv_desc *a = d[k];
    if (a->flags & MV_DEVICE_MASK)
        return MV_E_DEVICE;
    if (a->flags & MV_SWAPPED)
        return MV_E_DTYPE;
    if (p->bits ? a->dtype_code != p->code || a->dtype_bits != p->bits || a->logical != MV_PLAIN
                : a->dtype_code != d[common]->dtype_code || a->dtype_bits != d[common]->dtype_bits ||
                      a->logical != d[common]->logical)
        return MV_E_DTYPE;
    if (p->ndim >= 0 && a->ndim != p->ndim)
        return MV_E_NDIM;
    if (p->contiguous && !(a->flags & MV_C_CONTIGUOUS))
        return MV_E_STRIDE;
    if (!(spec->flags & MV_TAKES_STRIDES)) {
        if (a->flags & MV_BYTE_STRIDES)
            return MV_E_STRIDE;
        if (!(a->flags & MV_ALIGNED))
            return MV_E_ALIGN;
    }
    if (p->writes) {
        if (a->flags & MV_READONLY)
            return MV_E_READONLY;
        if (!(a->flags & (MV_C_CONTIGUOUS | MV_F_CONTIGUOUS)) &&
            mv_may_self_overlap(a->ndim, a->shape, a->strides, a->itemsize))
            return MV_E_OVERLAP;
    }
    return MV_OK;
}

/* Checks the arrays of a call, in order. Returns MV_OK, or the reason with `fault` filled in. */
static inline int32_t mv_check_call(const mv_spec *spec, mv_desc *const *d, mv_fault *fault) {
    int common = -1;
    fault->other = -1;
    for (int k = 0; k < spec->arrays; k++) {
        if (common < 0 && spec->array[k].bits == 0)
            common = k;
        fault->which = k;
        int32_t status = mv_check_array(spec, k, d, common);
        if (status)
            return status;
    }
    for (int k = 0; k < spec->arrays; k++) {
        fault->which = k;
        if (k > 0 && spec->flags & MV_EQUAL_SHAPES) {
            bool equal = d[k]->ndim == d[0]->ndim;
            for (int i = 0; equal && i < d[0]->ndim; i++)
                equal = d[k]->shape[i] == d[0]->shape[i];
            if (!equal) {
                fault->other = 0;
                return MV_E_SHAPE;
            }
        }
        if (spec->array[k].writes)
            for (int j = 0; j < spec->arrays; j++)
                if (j != k && mv_may_overlap(d[k], d[j]) &&
                    !(spec->flags & MV_TAKES_SAME && mv_same_memory(d[k], d[j]))) {
                    fault->other = j;
                    return MV_E_OVERLAP;
                }
        if (d[k]->flags & MV_HAS_MASK && !(spec->flags & MV_TAKES_MASKS) && mv_any_missing(d[k]))
            return MV_E_MASK;
    }
    return MV_OK;
}

/* Describes rows [lo, hi) of an array. They keep its strides; the contiguity flags are computed again. */
static inline void mv_desc_rows(const mv_desc *whole, int64_t lo, int64_t hi, mv_desc *part) {
    const int64_t item = whole->itemsize;
    *part = *whole;
    part->data = (char *)whole->data + lo * whole->strides[0];
    part->shape[0] = hi - lo;
    part->size = whole->shape[0] ? whole->size / whole->shape[0] * (hi - lo) : 0;
    part->flags &= ~(MV_C_CONTIGUOUS | MV_F_CONTIGUOUS);
    if (mv_is_contiguous(part->ndim, part->shape, part->strides, item, true))
        part->flags |= MV_C_CONTIGUOUS;
    if (mv_is_contiguous(part->ndim, part->shape, part->strides, item, false))
        part->flags |= MV_F_CONTIGUOUS;
    if (whole->flags & MV_HAS_MASK) {
        if (whole->flags & MV_MASK_BITS)
            part->mask_offset += lo;
        else
            part->mask += lo * whole->mask_stride[0];
    }
}

#endif
