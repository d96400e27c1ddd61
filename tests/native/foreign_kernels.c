/* Functions that the tests call as foreign kernels. */
#define _GNU_SOURCE
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memory/abi.h"

/* Writes all that it received to `out`, as doubles: integers and floating numbers mixed, most of them on the stack. */
int32_t mixed(int8_t a, double b, uint16_t c, float d, const mv_desc *out, int64_t e, uint64_t f, float g, double h,
              bool i, int32_t j, double k, uint32_t l, float m) {
    double *to = (double *)out->data;
    const double all[] = {a, b, c, d, (double)e, (double)f, g, h, i, j, k, l, m};
    for (int n = 0; n < 13; n++)
        to[n] = all[n];
    return 0;
}

int32_t many_floats(const mv_desc *out, double a, float b, double c, float d, double e, float f, double g, float h,
                    double i, float j, double k, float l, int8_t m) {
    double *to = (double *)out->data;
    const double all[] = {a, b, c, d, e, f, g, h, i, j, k, l, m};
    for (int n = 0; n < 13; n++)
        to[n] = all[n];
    return 0;
}

int32_t add_to(const mv_desc *x, const mv_desc *y) {
    for (int64_t i = 0; i < x->size; i++)
        ((double *)y->data)[i * y->stride[0]] += ((const double *)x->data)[i * x->stride[0]];
    return 0;
}

/* out = x + 1, and the sum of x in `total`; wrong above 0.5 */
int32_t summed(const mv_desc *x, const mv_desc *out, double *total) {
    for (int64_t i = 0; i < x->size; i++) {
        const double v = ((const double *)x->data)[i * x->stride[0]];
        ((double *)out->data)[i * out->stride[0]] = v > 0.5 ? v + 2 : v + 1;
        *total += v;
    }
    return 0;
}

double dot_pointers(const double *x, const double *y, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

/* y = sqrt(x); fails at the first negative element */
int64_t roots(const mv_desc *x, const mv_desc *y) {
    for (int64_t i = 0; i < x->size; i++) {
        double v = ((const double *)x->data)[i * x->stride[0]];
        if (v < 0)
            return 64 + ((i + 1) << 8);
        ((double *)y->data)[i * y->stride[0]] = __builtin_sqrt(v);
    }
    return 0;
}

int32_t fails(const mv_desc *x, int32_t status) { return status; }
float as_f32(double x) { return (float)x; }
double as_f64(float x) { return x; }
int8_t as_i8(int64_t x) { return (int8_t)x; }
uint16_t as_u16(uint64_t x) { return (uint16_t)x; }
int64_t as_i64(int64_t x) { return x; }
uint64_t as_u64(uint64_t x) { return x; }
bool as_bool(bool x) { return !x; }
int32_t sees(const mv_desc *x, const mv_desc *out) { /* what the descriptor says, as numbers */
    int64_t *to = (int64_t *)out->data;
    const int64_t all[] = {x->size,
                           x->stride[0],
                           x->stride[1],
                           x->ndim,
                           x->dtype_code,
                           x->dtype_bits,
                           x->dtype_lanes,
                           (int64_t)x->flags,
                           (int64_t)x->generation,
                           x->itemsize,
                           x->struct_bytes,
                           x->abi_version,
                           x->shape[0],
                           x->strides[0],
                           x->mask != 0,
                           x->mask_offset,
                           x->device_id,
                           x->logical,
                           x->mask_stride[0],
                           (int64_t)x->reserved[0],
                           (int64_t)x->reserved[2],
                           (int64_t)((uintptr_t)x % 64)};
    for (int n = 0; n < 22; n++)
        to[n] = all[n];
    return 0;
}
void touch(const mv_desc *x) { ((double *)x->data)[0] += 1; }
int32_t spin(const mv_desc *x, int64_t rounds) { /* busy: keeps a thread at work, and says in x which one */
    volatile double sum = 0;
    for (int64_t k = 0; k < rounds; k++)
        sum += 1e-9;
    ((double *)x->data)[0] = (double)syscall(SYS_gettid);
    return 0;
}
