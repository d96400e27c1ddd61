/* geometry.h against brute force: every element's offset is enumerated, every claim is checked on them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "views/geometry.h"

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                            \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static uint64_t seed = 88172645463325252u;
static int64_t chance(int64_t below) { /* xorshift64 */
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (int64_t)(seed % (uint64_t)below);
}

/* Offsets of all elements in C order; returns their number. */
static int64_t enumerate(int ndim, const int64_t *shape, const int64_t *strides, int64_t *offsets) {
    int64_t index[MV_MAX_NDIM] = {0}, n = 0;
    for (int k = 0; k < ndim; k++)
        if (shape[k] == 0)
            return 0;
    for (;;) {
        int64_t at = 0;
        for (int k = 0; k < ndim; k++)
            at += index[k] * strides[k];
        offsets[n++] = at;
        int k = ndim - 1;
        while (k >= 0 && ++index[k] == shape[k])
            index[k--] = 0;
        if (k < 0)
            return n;
    }
}

static int by_value(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void check_geometry(int ndim, const int64_t *shape, const int64_t *strides, int64_t item) {
    int64_t offsets[4096], low, high, count = enumerate(ndim, shape, strides, offsets);
    CHECK(mv_count_elements(ndim, shape, item) == count);

    CHECK(mv_extent(ndim, shape, strides, item, &low, &high));
    int64_t least = 0, most = count ? item : 0;
    for (int64_t i = 0; i < count; i++) {
        least = offsets[i] < least ? offsets[i] : least;
        most = offsets[i] + item > most ? offsets[i] + item : most;
    }
    CHECK(low == least && high == most);

    bool c_order = true, f_order = true;
    for (int64_t i = 0; i < count; i++)
        c_order &= offsets[i] == i * item;
    int64_t back_shape[MV_MAX_NDIM] = {0}, back_strides[MV_MAX_NDIM] = {0}, back[4096];
    for (int k = 0; k < ndim; k++) {
        back_shape[k] = shape[ndim - 1 - k];
        back_strides[k] = strides[ndim - 1 - k];
    }
    enumerate(ndim, back_shape, back_strides, back);
    for (int64_t i = 0; i < count; i++)
        f_order &= back[i] == i * item;
    CHECK(mv_is_contiguous(ndim, shape, strides, item, true) == c_order);
    CHECK(mv_is_contiguous(ndim, shape, strides, item, false) == f_order);

    qsort(offsets, (size_t)count, sizeof offsets[0], by_value);
    bool overlap = false;
    for (int64_t i = 1; i < count; i++)
        overlap |= offsets[i] - offsets[i - 1] < item;
    if (overlap)
        CHECK(mv_may_self_overlap(ndim, shape, strides, item));
}

/* The only strides that could do are the offsets of the unit steps; whether they do is seen on every element. */
static bool reshape_by_force(const mv_desc *d, int ndim, const int64_t *shape, int64_t *strides) {
    int64_t old[4096], new[4096], count = enumerate(d->ndim, d->shape, d->strides, old), step = 1;
    for (int k = ndim - 1; k >= 0; k--) {
        strides[k] = shape[k] > 1 && count ? old[step] : 0;
        step *= shape[k];
    }
    enumerate(ndim, shape, strides, new);
    return memcmp(old, new, (size_t)count * sizeof old[0]) == 0;
}

static void check_reshape(mv_desc *d, int ndim, const int64_t *shape) {
    int64_t expected[MV_MAX_NDIM], got[MV_MAX_NDIM];
    bool possible = reshape_by_force(d, ndim, shape, expected);
    CHECK(mv_reshape(d, ndim, shape, got) == possible);
    for (int k = 0; possible && k < ndim; k++)
        CHECK(shape[k] <= 1 || d->size == 0 || got[k] == expected[k]);
}

/* All shapes of `size` elements, with ones strewn in. */
static void all_reshapes(mv_desc *d, int64_t rest, int ndim, int64_t *shape) {
    if (rest == 1)
        check_reshape(d, ndim, shape);
    if (ndim == 5)
        return;
    for (int64_t side = 1; side <= rest; side++) {
        if (rest % side || (side == 1 && ndim && shape[ndim - 1] == 1))
            continue;
        shape[ndim] = side;
        all_reshapes(d, rest / side, ndim + 1, shape);
    }
}

static void random_arrays(int rounds) {
    for (int round = 0; round < rounds; round++) {
        int64_t shape[MV_MAX_NDIM], strides[MV_MAX_NDIM], item = chance(9);
        int ndim = (int)chance(5);
        for (int k = 0; k < ndim; k++) {
            shape[k] = chance(12) ? 1 + chance(4) : 0;
            strides[k] = chance(41) - 20;
        }
        check_geometry(ndim, shape, strides, item);
        mv_c_strides(ndim, shape, item, strides);
        CHECK(mv_is_contiguous(ndim, shape, strides, item, true));
        check_geometry(ndim, shape, strides, item);
    }
}

/* Arrays as slicing and transposing make them: permuted, stepped and reversed axes of a C-ordered one. */
static void sliced_arrays(int rounds) {
    for (int round = 0; round < rounds; round++) {
        mv_desc d = {0};
        int64_t whole[4], strides[4];
        int ndim = 1 + (int)chance(4), order[4] = {0, 1, 2, 3};
        d.itemsize = 1u << chance(4);
        for (int k = 0; k < ndim; k++)
            whole[k] = 1 + chance(6);
        mv_c_strides(ndim, whole, d.itemsize, strides);
        for (int k = ndim - 1; k > 0; k--) {
            int other = (int)chance(k + 1), kept = order[k];
            order[k] = order[other];
            order[other] = kept;
        }
        d.ndim = ndim;
        for (int k = 0; k < ndim; k++) {
            int64_t step = 1 + (chance(2) ? chance(3) : 0);
            d.shape[k] = (whole[order[k]] + step - 1) / step;
            d.strides[k] = strides[order[k]] * (chance(3) ? step : -step);
        }
        CHECK(mv_desc_derive(&d, 8) == 0);
        CHECK(!mv_may_self_overlap(ndim, d.shape, d.strides, d.itemsize));
        check_geometry(ndim, d.shape, d.strides, d.itemsize);
        CHECK(!!(d.flags & MV_C_CONTIGUOUS) == mv_is_contiguous(ndim, d.shape, d.strides, d.itemsize, true));
        CHECK(!!(d.flags & MV_F_CONTIGUOUS) == mv_is_contiguous(ndim, d.shape, d.strides, d.itemsize, false));
        CHECK(!(d.flags & MV_BYTE_STRIDES));
        int64_t shape[6];
        all_reshapes(&d, d.size, 0, shape);
    }
}

static void limits(void) {
    const int64_t big = INT64_MAX, small = INT64_MIN;
    int64_t low, high, strides[8];
    CHECK(mv_count_elements(1, (int64_t[]){big}, 1) == big);
    CHECK(mv_count_elements(1, (int64_t[]){big}, 2) == -1);
    CHECK(mv_count_elements(2, (int64_t[]){1ll << 32, 1ll << 31}, 1) == -1);
    CHECK(mv_count_elements(3, (int64_t[]){big, big, 0}, 8) == 0);
    CHECK(mv_count_elements(2, (int64_t[]){big, 2}, 0) == -1);
    CHECK(mv_count_elements(0, NULL, 8) == 1);
    CHECK(!mv_extent(1, (int64_t[]){2}, (int64_t[]){big}, 8, &low, &high));
    CHECK(mv_extent(1, (int64_t[]){2}, (int64_t[]){big - 8}, 8, &low, &high) && low == 0 && high == big);
    CHECK(mv_extent(1, (int64_t[]){2}, (int64_t[]){small}, 8, &low, &high) && low == small && high == 8);
    CHECK(!mv_extent(1, (int64_t[]){3}, (int64_t[]){small}, 8, &low, &high));
    CHECK(!mv_extent(2, (int64_t[]){2, 2}, (int64_t[]){small, -1}, 8, &low, &high));
    CHECK(mv_extent(2, (int64_t[]){1, 0}, (int64_t[]){small, small}, 8, &low, &high) && low == 0 && high == 0);
    CHECK(mv_extent(1, (int64_t[]){1}, (int64_t[]){small}, 8, &low, &high) && low == 0 && high == 8);
    mv_c_strides(3, (int64_t[]){0, big, big}, 8, strides); /* wraps, is never used, is no undefined behaviour */
    CHECK(strides[2] == 8);
    CHECK(mv_may_self_overlap(2, (int64_t[]){2, 2}, (int64_t[]){small, small}, 8));
    CHECK(!mv_may_self_overlap(2, (int64_t[]){2, 2}, (int64_t[]){small, 8}, 8));
    CHECK(mv_may_self_overlap(1, (int64_t[]){2}, (int64_t[]){0}, 1));
    CHECK(!mv_may_self_overlap(1, (int64_t[]){2}, (int64_t[]){0}, 0));

    mv_desc d = {.ndim = 1, .shape = {big}, .strides = {8}, .itemsize = 8};
    CHECK(mv_desc_derive(&d, 8) == -1);
    d = (mv_desc){.ndim = 1, .shape = {3}, .strides = {12}, .itemsize = 8, .flags = MV_READONLY | MV_C_CONTIGUOUS};
    CHECK(mv_desc_derive(&d, 8) == 0);
    CHECK(d.size == 3 && d.stride[0] == 1);
    CHECK(d.flags == (MV_READONLY | MV_BYTE_STRIDES)); /* 12 is no multiple of the alignment 8 either */
    d = (mv_desc){.data = (void *)4, .ndim = 3, .shape = {1, 2, 3}, .strides = {99, -24, 8}, .itemsize = 8};
    CHECK(mv_desc_derive(&d, 4) == 0);
    CHECK(d.stride[0] == -3 && d.stride[1] == 1 && d.flags == MV_ALIGNED);
    CHECK(mv_desc_derive(&d, 8) == 0 && d.flags == 0);
    d = (mv_desc){.data = (void *)1, .ndim = 0, .itemsize = 1};
    CHECK(mv_desc_derive(&d, 1) == 0 && d.size == 1 && d.flags == (MV_C_CONTIGUOUS | MV_F_CONTIGUOUS | MV_ALIGNED));
    d = (mv_desc){.data = (void *)1, .ndim = 2, .shape = {0, 5}, .strides = {3, 3}, .itemsize = 8};
    CHECK(mv_desc_derive(&d, 8) == 0 && d.size == 0 && d.flags & MV_ALIGNED && d.flags & MV_C_CONTIGUOUS);
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 20000;
    limits();
    random_arrays(rounds);
    sliced_arrays(rounds / 10);
    printf("ok\n");
    return 0;
}
