/* Numbers in memory: types, loads and stores that are valid at any address, float16 in portable C.
 *
 * Every macro `MV_EACH_...(X)` expands X(name, T, W): the dtype's short name, its C type, and the type in which
 * arithmetic on it cannot overflow undefinedly (unsigned: wraps like NumPy; floating: where it is computed). */
#ifndef MOJOVIEW_NUMERIC_H
#define MOJOVIEW_NUMERIC_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "abi.h"

/* Loops share signatures, so some ignore a parameter; item sizes from sizeof are combined with signed strides. */
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wsign-compare"

#define MV_INLINE static inline __attribute__((always_inline))

/* Index of a dtype in the tables of loops. MV_T_TIME: datetime64 and timedelta64. */
enum {
    MV_T_BOOL,
    MV_T_I8,
    MV_T_I16,
    MV_T_I32,
    MV_T_I64,
    MV_T_U8,
    MV_T_U16,
    MV_T_U32,
    MV_T_U64,
    MV_T_F16,
    MV_T_F32,
    MV_T_F64,
    MV_T_TIME,
    MV_NTYPES
};

#define MV_NAT INT64_MIN

#define MV_EACH_INT(X)                                                                                                 \
    X(i8, int8_t, uint32_t) X(i16, int16_t, uint32_t) X(i32, int32_t, uint32_t) X(i64, int64_t, uint64_t)
#define MV_EACH_UINT(X)                                                                                                \
    X(u8, uint8_t, uint32_t) X(u16, uint16_t, uint32_t) X(u32, uint32_t, uint32_t) X(u64, uint64_t, uint64_t)
#define MV_EACH_FLOAT(X) X(f16, uint16_t, float) X(f32, float, float) X(f64, double, double)

/* Index of a descriptor's dtype, or -1. */
static inline int mv_type_index(const mv_desc *d) {
    int log2bytes = d->dtype_bits == 8    ? 0
                    : d->dtype_bits == 16 ? 1
                    : d->dtype_bits == 32 ? 2
                    : d->dtype_bits == 64 ? 3
                                          : -1;
    int kind = d->logical & 0xff;
    if (log2bytes < 0 || d->dtype_lanes != 1)
        return -1;
    if (kind == MV_DATETIME || kind == MV_TIMEDELTA)
        return MV_T_TIME;
    if (kind != MV_PLAIN)
        return -1;
    switch (d->dtype_code) {
    case MV_BOOL: return log2bytes == 0 ? MV_T_BOOL : -1;
    case MV_INT: return MV_T_I8 + log2bytes;
    case MV_UINT: return MV_T_U8 + log2bytes;
    case MV_FLOAT: return log2bytes >= 1 ? MV_T_F16 + log2bytes - 1 : -1;
    default: return -1;
    }
}

/* float16: exact widening, narrowing to nearest even. */
MV_INLINE float mv_half_to_float(uint16_t half) {
    const uint32_t shifted = (uint32_t)(half & 0x7fff) << 13;
    /* multiplying by 2^112 moves the exponent's bias and makes subnormal halves normal floats, exactly */
    union {
        uint32_t u;
        float f;
    } scale = {(uint32_t)(254 - 15) << 23}, value = {shifted};
    value.f *= scale.f;
    if ((half & 0x7c00) == 0x7c00)
        value.u = shifted | UINT32_C(0x7f800000);
    value.u |= (uint32_t)(half & 0x8000) << 16;
    return value.f;
}

MV_INLINE uint16_t mv_float_to_half(float x) {
    union {
        float f;
        uint32_t u;
    } value = {x}, magic;
    const uint32_t sign = value.u & UINT32_C(0x80000000);
    uint32_t half;
    value.u ^= sign;
    if (value.u >= UINT32_C(0x47800000)) { /* 65536 and above, infinity, NaN */
        half = value.u > UINT32_C(0x7f800000) ? 0x7e00 | ((value.u >> 13) & 0x1ff) : 0x7c00;
    } else if (value.u < UINT32_C(0x38800000)) { /* subnormal: the addition rounds in the FPU */
        magic.u = UINT32_C(126) << 23;
        value.f += magic.f;
        half = value.u - magic.u;
    } else {
        const uint32_t odd = (value.u >> 13) & 1;
        half = (value.u - (UINT32_C(112) << 23) + 0xfff + odd) >> 13;
    }
    return (uint16_t)(half | (sign >> 16));
}

/* Loads and stores through types that may be unaligned and alias anything. */
#define MV_DEFINE_ACCESS(name, T, W)                                                                                   \
    typedef T mv_at_##name __attribute__((aligned(1), may_alias));                                                     \
    MV_INLINE T mv_load_##name(const char *p) { return *(const mv_at_##name *)p; }                                     \
    MV_INLINE void mv_store_##name(char *p, T v) { *(mv_at_##name *)p = v; }
MV_EACH_INT(MV_DEFINE_ACCESS)
MV_EACH_UINT(MV_DEFINE_ACCESS)
MV_DEFINE_ACCESS(f32, float, float)
MV_DEFINE_ACCESS(f64, double, double)
#undef MV_DEFINE_ACCESS

typedef uint16_t mv_at_f16 __attribute__((aligned(1), may_alias));
MV_INLINE float mv_load_f16(const char *p) { return mv_half_to_float(*(const mv_at_f16 *)p); }
MV_INLINE void mv_store_f16(char *p, float v) { *(mv_at_f16 *)p = mv_float_to_half(v); }

/* Any nonzero byte is True, as NumPy reads it. */
MV_INLINE uint8_t mv_load_b8(const char *p) { return *(const uint8_t *)p != 0; }
MV_INLINE void mv_store_b8(char *p, uint8_t v) { *(uint8_t *)p = v; }

/* Convert a scalar argument to the dtype's own type. */
#define MV_VALUE_i8(v) ((int8_t)(v).i64)
#define MV_VALUE_i16(v) ((int16_t)(v).i64)
#define MV_VALUE_i32(v) ((int32_t)(v).i64)
#define MV_VALUE_i64(v) ((v).i64)
#define MV_VALUE_u8(v) ((uint8_t)(v).u64)
#define MV_VALUE_u16(v) ((uint16_t)(v).u64)
#define MV_VALUE_u32(v) ((uint32_t)(v).u64)
#define MV_VALUE_u64(v) ((v).u64)
#define MV_VALUE_f16(v) ((float)(v).f64)
#define MV_VALUE_f32(v) ((float)(v).f64)
#define MV_VALUE_f64(v) ((v).f64)
#define MV_VALUE_b8(v) ((uint8_t)((v).i64 != 0))

/* Store a scalar as one element of the dtype with that index. */
static inline void mv_store_value(char *p, int type, mv_value v) {
    switch (type) {
    case MV_T_BOOL: mv_store_b8(p, MV_VALUE_b8(v)); break;
    case MV_T_I8: mv_store_i8(p, MV_VALUE_i8(v)); break;
    case MV_T_I16: mv_store_i16(p, MV_VALUE_i16(v)); break;
    case MV_T_I32: mv_store_i32(p, MV_VALUE_i32(v)); break;
    case MV_T_I64:
    case MV_T_TIME: mv_store_i64(p, v.i64); break;
    case MV_T_U8: mv_store_u8(p, MV_VALUE_u8(v)); break;
    case MV_T_U16: mv_store_u16(p, MV_VALUE_u16(v)); break;
    case MV_T_U32: mv_store_u32(p, MV_VALUE_u32(v)); break;
    case MV_T_U64: mv_store_u64(p, v.u64); break;
    case MV_T_F16: mv_store_f16(p, (float)v.f64); break;
    case MV_T_F32: mv_store_f32(p, (float)v.f64); break;
    case MV_T_F64: mv_store_f64(p, v.f64); break;
    }
}

#endif
