/* Engine and loops without Python: random shapes, strides and masks against element-by-element code. */
#include <stdio.h>
#include <stdlib.h>

#include "compute/builtin.h"
#include "calls/native/checks.h"
#include "calls/native/registers.h"
#include "compute/walk.h"

#define CHECK(what)                                                                                                    \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            fprintf(stderr, "kernels_test.c:%d: %s\n", __LINE__, #what);                                               \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static uint64_t state = 88172645463325252u;
static int64_t draw(int64_t n) { /* xorshift64 */
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (int64_t)(state % (uint64_t)n);
}

/* An array of `type` with random geometry inside its own allocation, exactly as large as it has to be. */
typedef struct made {
    mv_desc desc;
    char *memory;
    uint8_t *mask;
} made;

static const struct {
    uint8_t code, bits;
} dtypes[] = {{MV_BOOL, 8},  {MV_INT, 8},   {MV_INT, 16},  {MV_INT, 32},   {MV_INT, 64},   {MV_UINT, 8},
              {MV_UINT, 16}, {MV_UINT, 32}, {MV_UINT, 64}, {MV_FLOAT, 16}, {MV_FLOAT, 32}, {MV_FLOAT, 64}};

static char *at(const mv_desc *d, const int64_t *index) {
    char *p = d->data;
    for (int k = 0; k < d->ndim; k++)
        p += index[k] * d->strides[k];
    return p;
}

static int next(const mv_desc *d, int64_t *index) {
    for (int k = d->ndim - 1; k >= 0; k--) {
        if (++index[k] < d->shape[k])
            return 1;
        index[k] = 0;
    }
    return 0;
}

static made make(int type, int ndim, const int64_t *shape, int masked) {
    made m = {.desc = {.ndim = ndim,
                       .dtype_code = dtypes[type].code,
                       .dtype_bits = dtypes[type].bits,
                       .dtype_lanes = 1,
                       .itemsize = dtypes[type].bits / 8u}};
    int64_t step = m.desc.itemsize + draw(4), low, high;
    int order[MV_MAX_NDIM];
    for (int d = 0; d < ndim; d++) {
        order[d] = d;
        int other = (int)draw(d + 1), t = order[other];
        order[other] = order[d];
        order[d] = t;
    }
    for (int d = 0; d < ndim; d++) {
        m.desc.shape[order[d]] = shape[order[d]];
        m.desc.strides[order[d]] = draw(3) ? step : -step;
        step *= (shape[order[d]] ? shape[order[d]] : 1) + draw(2);
    }
    CHECK(mv_extent(ndim, m.desc.shape, m.desc.strides, m.desc.itemsize, &low, &high));
    m.memory = malloc((size_t)(high - low) + 1);
    m.desc.data = m.memory - low;
    CHECK(mv_desc_derive(&m.desc, m.desc.itemsize) == 0);
    for (int64_t i = 0; i < high - low; i++)
        m.memory[i] = (char)draw(256);
    int64_t index[MV_MAX_NDIM] = {0};
    if (type >= MV_T_F16 && m.desc.size) /* numbers of a moderate size, now and then a NaN */
        do
            mv_store_value(at(&m.desc, index), type, (mv_value){.f64 = draw(400) ? (double)draw(2001) - 1000 : NAN});
        while (next(&m.desc, index));
    if (masked && ndim <= 2) {
        m.desc.flags |= MV_HAS_MASK;
        m.mask = malloc((size_t)m.desc.size + 1);
        for (int64_t i = 0; i < m.desc.size; i++)
            m.mask[i] = (uint8_t)(draw(3) ? 0 : 1 + draw(255));
        m.desc.mask = m.mask;
        if (ndim == 1 && masked == 2) { /* bits from an odd place on */
            m.desc.flags |= MV_MASK_BITS;
            m.desc.mask_offset = draw(8);
            free(m.mask);
            m.mask = malloc((size_t)(m.desc.mask_offset + m.desc.size + 7) / 8 + 1);
            for (int64_t i = 0; i < (m.desc.mask_offset + m.desc.size + 7) / 8; i++)
                m.mask[i] = (uint8_t)draw(256);
            m.desc.mask = m.mask;
        } else if (ndim == 1) {
            m.desc.mask_stride[0] = 1;
        } else if (ndim == 2) {
            m.desc.mask_stride[0] = draw(2) ? 1 : shape[1];
            m.desc.mask_stride[1] = m.desc.mask_stride[0] == 1 && shape[1] != 1 ? shape[0] : 1;
        }
    }
    return m;
}

static void drop(made *m) {
    free(m->memory);
    free(m->mask);
}

static int missing(const mv_desc *d, const int64_t *index) {
    if (!(d->flags & MV_HAS_MASK))
        return 0;
    if (d->flags & MV_MASK_BITS) {
        int64_t bit = d->mask_offset + index[0];
        return !(d->mask[bit / 8] >> (bit % 8) & 1);
    }
    int64_t byte = 0;
    for (int k = 0; k < d->ndim; k++)
        byte += index[k] * d->mask_stride[k];
    return d->mask[byte] != 0;
}

static double number(const char *p, int type) {
    switch (type) {
    case MV_T_BOOL: return mv_load_b8(p);
    case MV_T_I8: return mv_load_i8(p);
    case MV_T_I16: return mv_load_i16(p);
    case MV_T_I32: return mv_load_i32(p);
    case MV_T_I64: return (double)mv_load_i64(p);
    case MV_T_U8: return mv_load_u8(p);
    case MV_T_U16: return mv_load_u16(p);
    case MV_T_U32: return mv_load_u32(p);
    case MV_T_U64: return (double)mv_load_u64(p);
    case MV_T_F16: return mv_load_f16(p);
    case MV_T_F32: return mv_load_f32(p);
    default: return mv_load_f64(p);
    }
}

static int random_shape(int64_t *shape) {
    int ndim = 1 + (int)draw(4);
    for (int d = 0; d < ndim; d++)
        shape[d] = draw(8) ? 1 + draw(ndim == 1 ? 5000 : 7) : draw(2);
    return ndim;
}

static void test_reductions(void) {
    int64_t shape[MV_MAX_NDIM];
    int ndim = random_shape(shape), type = (int)draw(12);
    made m = make(type, ndim, shape, (int)draw(3));
    mv_desc *args[] = {&m.desc};
    int64_t index[MV_MAX_NDIM] = {0}, count = 0, position = 0, low_at = -1, nan_at = -1, present = 0;
    double sum = 0, scale = 0, low = 0;
    if (m.desc.size)
        do {
            double v = number(at(&m.desc, index), type);
            if (!missing(&m.desc, index)) {
                count++;
                present += v == v;
                sum += v;
                scale += fabs(v);
                if (v != v && nan_at < 0)
                    nan_at = position;
                if (v == v && (low_at < 0 || v < low)) {
                    low = v;
                    low_at = position;
                }
            }
            position++;
        } while (next(&m.desc, index));
    mv_value got;
    CHECK(mv_run_reduction(mv_reduction_of(MV_COUNT), args, NULL, &got, NULL) == MV_OK);
    CHECK(got.i64 == present);
    CHECK(mv_run_reduction(mv_reduction_of(MV_MEAN), args, NULL, &got, NULL) == MV_OK);
    CHECK(count == 0 || nan_at >= 0 ? got.f64 != got.f64
                                    : fabs(got.f64 - sum / (double)count) <= 1e-9 * scale + 1e-300);
    int32_t status = mv_run_reduction(mv_reduction_of(MV_ARGMIN), args, NULL, &got, NULL);
    CHECK(status == (count ? MV_OK : MV_E_EMPTY));
    /* beyond 2^53 doubles cannot tell neighbours apart */
    CHECK(!count || got.i64 == (nan_at >= 0 ? nan_at : low_at) || type == MV_T_I64 || type == MV_T_U64);
    mv_description all;
    CHECK(mv_run_describe(args, 1, &all, NULL) == MV_OK);
    CHECK(all.count == present);
    CHECK(!present || all.argmin == low_at || type == MV_T_I64 || type == MV_T_U64);
    drop(&m);
}

static void test_elementwise(void) {
    int64_t shape[MV_MAX_NDIM];
    int ndim = random_shape(shape), type = (int)draw(12);
    made x = make(type, ndim, shape, (int)draw(3)), y = make(type, ndim, shape, (int)draw(3)),
         out = make(type, ndim, shape, (int)draw(3));
    mv_desc *args[] = {&x.desc, &y.desc, &out.desc};
    const mv_desc before = out.desc;
    size_t bytes = 0;
    int64_t low, high, index[MV_MAX_NDIM] = {0};
    CHECK(mv_extent(ndim, before.shape, before.strides, before.itemsize, &low, &high));
    bytes = (size_t)(high - low);
    char *old = malloc(bytes + 1);
    memcpy(old, out.memory, bytes);
    CHECK(mv_run_elementwise(mv_elementwise_of(MV_ADD), args, NULL, NULL, NULL) == MV_OK);
    if (before.size)
        do {
            char *p = at(&before, index), expected[8];
            memcpy(expected, old + (p - out.memory), before.itemsize);
            if (!missing(&x.desc, index) && !missing(&y.desc, index) && !missing(&before, index)) {
                const char *a = at(&x.desc, index), *b = at(&y.desc, index);
                if (type == MV_T_BOOL) {
                    expected[0] = mv_load_b8(a) | mv_load_b8(b);
                } else if (type >= MV_T_F16) {
                    mv_store_value(expected, type, (mv_value){.f64 = number(a, type) + number(b, type)});
                } else {
                    uint64_t u = 0, v = 0;
                    memcpy(&u, a, before.itemsize);
                    memcpy(&v, b, before.itemsize);
                    u += v;
                    memcpy(expected, &u, before.itemsize);
                }
            }
            if (type >= MV_T_F16 && number(expected, type) != number(expected, type) &&
                number(p, type) != number(p, type))
                memcpy(expected, p, before.itemsize); /* a NaN is a NaN */
            CHECK(memcmp(p, expected, before.itemsize) == 0);
            memcpy(old + (p - out.memory), expected, before.itemsize);
        } while (next(&before, index));
    CHECK(memcmp(old, out.memory, bytes) == 0); /* nothing between the elements was touched */
    free(old);
    drop(&x);
    drop(&y);
    drop(&out);
}

/* Arrays overlap if elements share a byte, and only then. */
static void test_overlap(void) {
    int64_t one[MV_MAX_NDIM], two[MV_MAX_NDIM];
    made a = make((int)draw(12), 2, (one[0] = 1 + draw(4), one[1] = 1 + draw(4), one), 0);
    made b = make((int)draw(12), 2, (two[0] = 1 + draw(4), two[1] = 1 + draw(4), two), 0);
    b.desc.data = (char *)a.desc.data + draw(60) - 30; /* addresses only: nothing is read */
    int64_t i[MV_MAX_NDIM] = {0};
    int shared = 0;
    do {
        int64_t j[MV_MAX_NDIM] = {0};
        do {
            uintptr_t p = (uintptr_t)at(&a.desc, i), q = (uintptr_t)at(&b.desc, j);
            shared |= p < q + b.desc.itemsize && q < p + a.desc.itemsize;
        } while (next(&b.desc, j));
    } while (next(&a.desc, i));
    CHECK(shared == mv_may_overlap(&a.desc, &b.desc)); /* these arrays are small: the search does not end early */
    CHECK(mv_may_overlap(&a.desc, &b.desc) == mv_may_overlap(&b.desc, &a.desc));
    drop(&a);
    drop(&b);
}

static void test_halves(void) {
    for (uint32_t h = 0; h < 65536; h++) {
        float f = mv_half_to_float((uint16_t)h);
        uint16_t back = mv_float_to_half(f);
        CHECK(f != f ? (back & 0x7fff) > 0x7c00 : back == h);
        if (f == f &&
            (h & 0x7fff) <
                0x7c00) { /* half way to the next goes to the even one, a little more up, a little less down */
            float up = mv_half_to_float((uint16_t)(h + 1)), middle = (float)(((double)f + up) / 2);
            if ((h & 0x7fff) == 0x7bff)
                continue;
            CHECK(mv_float_to_half(middle) == (h & 1 ? h + 1 : h));
            CHECK(mv_float_to_half(nextafterf(middle, up)) == h + 1);
            CHECK(mv_float_to_half(nextafterf(middle, f)) == h);
        }
    }
    CHECK(mv_float_to_half(65519.0f) == 0x7bff && mv_float_to_half(65520.0f) == 0x7c00 &&
          mv_float_to_half(-1e30f) == 0xfc00);
}

int main(void) {
    test_halves();
    for (int k = 0; k < 1500; k++) {
        test_reductions();
        test_elementwise();
        test_overlap();
    }
    puts("ok");
    return 0;
}
