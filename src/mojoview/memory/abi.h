/* The descriptor: what a kernel of any language receives about one array.
 *
 * 256 bytes, aligned to 64. The first line (64 bytes) is all that a 1-D kernel needs; the rest is for the general case.
 * The layout is append-only: fields keep their offsets, `abi_version` rises only when a meaning changes. */
#ifndef MOJOVIEW_ABI_H
#define MOJOVIEW_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#define MV_STATIC_ASSERT static_assert
#else
#define MV_STATIC_ASSERT _Static_assert
#endif

#define MV_ABI_VERSION 1
#define MV_MAX_NDIM 8
#define MV_DESC_ALIGN 64

/* dtype_code: the numbering of DLPack. */
enum {
    MV_INT = 0,
    MV_UINT = 1,
    MV_FLOAT = 2,
    MV_OPAQUE = 3, /* bytes that no kernel interprets: strings, records, long double */
    MV_BFLOAT = 4,
    MV_COMPLEX = 5,
    MV_BOOL = 6
};

/* flags */
#define MV_READONLY (UINT64_C(1) << 0)
#define MV_C_CONTIGUOUS (UINT64_C(1) << 1)
#define MV_F_CONTIGUOUS (UINT64_C(1) << 2)
#define MV_ALIGNED (UINT64_C(1) << 3) /* data and strides are multiples of the dtype's alignment */
#define MV_HAS_MASK (UINT64_C(1) << 4)
#define MV_MASK_BITS (UINT64_C(1) << 5) /* clear: a byte per element, nonzero = missing; set: LSB bitmap, 1 = valid */
#define MV_BYTE_STRIDES (UINT64_C(1) << 6) /* a byte stride is not a multiple of the item size: stride[] is invalid */
#define MV_SWAPPED (UINT64_C(1) << 7)      /* not in native byte order */
#define MV_DEVICE_SHIFT 8                  /* bits 8 to 15: device kind, 0 = memory that the CPU may read */
#define MV_DEVICE_MASK (UINT64_C(0xff) << MV_DEVICE_SHIFT)

/* logical: what the numbers stand for. Bits 0-7 kind, 8-15 datetime unit, 16-31 multiple of the unit. */
enum {
    MV_PLAIN = 0,
    MV_DATETIME = 1,  /* int64 since 1970-01-01; INT64_MIN = NaT */
    MV_TIMEDELTA = 2, /* int64; INT64_MIN = NaT */
    MV_BYTES = 3,     /* fixed-size byte strings */
    MV_TEXT = 4,      /* fixed-size UCS-4 strings */
    MV_VOID = 5,      /* raw bytes */
    MV_RECORD = 6     /* structured */
};
enum {
    MV_UNIT_GENERIC,
    MV_UNIT_Y,
    MV_UNIT_M,
    MV_UNIT_W,
    MV_UNIT_D,
    MV_UNIT_H,
    MV_UNIT_MIN,
    MV_UNIT_S,
    MV_UNIT_MS,
    MV_UNIT_US,
    MV_UNIT_NS,
    MV_UNIT_PS,
    MV_UNIT_FS,
    MV_UNIT_AS
};

/* status codes: what kernels return. 0 to 63 are mojoview's, 64 to 255 the kernel author's. */
enum mv_status {
    MV_OK = 0,
    MV_E_NULL = 1,
    MV_E_ABI = 2,
    MV_E_NDIM = 3,
    MV_E_DTYPE = 4,
    MV_E_SHAPE = 5,
    MV_E_STRIDE = 6,
    MV_E_ALIGN = 7,
    MV_E_READONLY = 8,
    MV_E_MASK = 9,
    MV_E_DEVICE = 10,
    MV_E_OVERLAP = 11,
    MV_E_MEMORY = 12,
    MV_E_OVERFLOW = 13,
    MV_E_VALUE = 14,
    MV_E_INDEX = 15,
    MV_E_DIVIDE = 16,
    MV_E_EMPTY = 17,       /* the operation has no value for zero elements */
    MV_E_INTERRUPTED = 18, /* a signal handler raised: the exception is already set */
    MV_E_USER = 64
};

typedef struct mv_desc {
    void *data;        /* element [0, ..., 0] */
    int64_t size;      /* elements */
    int64_t stride[2]; /* in elements; 1-D: slot 0; 2-D: rows, columns; more: the last two dimensions */
    int32_t ndim;
    uint8_t dtype_code;
    uint8_t dtype_bits; /* 0 for opaque items */
    uint16_t dtype_lanes;
    uint64_t flags;
    uint64_t generation;   /* reserved: 0 */
    uint32_t itemsize;     /* bytes */
    uint16_t struct_bytes; /* sizeof(mv_desc) of the build that filled it in */
    uint16_t abi_version;  /* MV_ABI_VERSION of the build that filled it in */
    int64_t shape[MV_MAX_NDIM];
    int64_t strides[MV_MAX_NDIM]; /* bytes */
    const uint8_t *mask;
    int64_t mask_offset; /* bits; a multiple of 8 for byte masks */
    int32_t device_id;
    int32_t logical;
    int64_t mask_stride[2]; /* bytes, of the last two dimensions (byte masks); 1-D: slot 0 */
    uint64_t reserved[3];   /* zero */
} mv_desc;

MV_STATIC_ASSERT(sizeof(void *) == 8, "mojoview needs 64-bit addresses");
MV_STATIC_ASSERT(sizeof(mv_desc) == 256, "size");
MV_STATIC_ASSERT(offsetof(mv_desc, data) == 0, "data");
MV_STATIC_ASSERT(offsetof(mv_desc, size) == 8, "size");
MV_STATIC_ASSERT(offsetof(mv_desc, stride) == 16, "stride");
MV_STATIC_ASSERT(offsetof(mv_desc, ndim) == 32, "ndim");
MV_STATIC_ASSERT(offsetof(mv_desc, dtype_code) == 36, "dtype_code");
MV_STATIC_ASSERT(offsetof(mv_desc, dtype_bits) == 37, "dtype_bits");
MV_STATIC_ASSERT(offsetof(mv_desc, dtype_lanes) == 38, "dtype_lanes");
MV_STATIC_ASSERT(offsetof(mv_desc, flags) == 40, "flags");
MV_STATIC_ASSERT(offsetof(mv_desc, generation) == 48, "generation");
MV_STATIC_ASSERT(offsetof(mv_desc, itemsize) == 56, "itemsize");
MV_STATIC_ASSERT(offsetof(mv_desc, struct_bytes) == 60, "struct_bytes");
MV_STATIC_ASSERT(offsetof(mv_desc, abi_version) == 62, "abi_version");
MV_STATIC_ASSERT(offsetof(mv_desc, shape) == 64, "the first line must end at 64");
MV_STATIC_ASSERT(offsetof(mv_desc, strides) == 128, "strides");
MV_STATIC_ASSERT(offsetof(mv_desc, mask) == 192, "mask");
MV_STATIC_ASSERT(offsetof(mv_desc, mask_offset) == 200, "mask_offset");
MV_STATIC_ASSERT(offsetof(mv_desc, device_id) == 208, "device_id");
MV_STATIC_ASSERT(offsetof(mv_desc, logical) == 212, "logical");
MV_STATIC_ASSERT(offsetof(mv_desc, mask_stride) == 216, "mask_stride");
MV_STATIC_ASSERT(offsetof(mv_desc, reserved) == 232, "reserved");

/* A scalar argument or result of a kernel. The kernel's signature determines the member. */
typedef union mv_value {
    int64_t i64;
    uint64_t u64;
    double f64;
    float f32;
} mv_value;

#ifdef __cplusplus
}
#endif
#endif
