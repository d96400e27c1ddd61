/* The structures of DLPack 1.3, declared from its specification (dmlc.github.io/dlpack), and the allocation of our
 * exports. Layouts are fixed by the protocol: the asserts below hold them. */
#ifndef MOJOVIEW_DLPACK_H
#define MOJOVIEW_DLPACK_H

#include "../../memory/abi.h"

#define MV_DL_MAJOR 1
#define MV_DL_MINOR 3

#define MV_DL_READ_ONLY UINT64_C(1)
#define MV_DL_IS_COPIED UINT64_C(2)
#define MV_DL_SUBBYTE_PADDED UINT64_C(4) /* items of less than 8 bits are padded to a byte */

/* Device types that are used here. The host may read pinned and managed memory. */
enum {
    MV_DL_CPU = 1,
    MV_DL_CUDA = 2,
    MV_DL_CUDA_HOST = 3,
    MV_DL_ROCM = 10,
    MV_DL_ROCM_HOST = 11,
    MV_DL_CUDA_MANAGED = 13
};

typedef struct mv_dl_version {
    uint32_t major, minor;
} mv_dl_version;

typedef struct mv_dl_tensor {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits; /* as in abi.h; codes from 7 on are floats of 8 bits and fewer */
    uint16_t lanes;
    int64_t *shape;
    int64_t *strides; /* items; NULL: compact, row-major (allowed before 1.2) */
    uint64_t byte_offset;
} mv_dl_tensor;

typedef struct mv_dl_legacy { /* capsule "dltensor" */
    mv_dl_tensor tensor;
    void *context;
    void (*deleter)(struct mv_dl_legacy *);
} mv_dl_legacy;

typedef struct mv_dl_managed { /* capsule "dltensor_versioned"; up to `flags` the layout outlives major versions */
    mv_dl_version version;
    void *context;
    void (*deleter)(struct mv_dl_managed *);
    uint64_t flags;
    mv_dl_tensor tensor;
} mv_dl_managed;

/* The table that a type offers as __dlpack_c_exchange_api__, in a capsule "dlpack_exchange_api". Functions return 0, or
 * -1 with a Python exception set; none of them synchronises streams. */
typedef struct mv_dl_table_header {
    mv_dl_version version;
    struct mv_dl_table_header *previous; /* the table of an older major version */
} mv_dl_table_header;

typedef void (*mv_dl_set_error)(void *context, const char *kind, const char *message);

typedef struct mv_dl_table {
    mv_dl_table_header header;
    int (*allocate)(mv_dl_tensor *prototype, mv_dl_managed **out, void *context, mv_dl_set_error set_error);
    int (*from_object)(void *object, mv_dl_managed **out);
    int (*to_object)(mv_dl_managed *managed, void **out);
    int (*borrow)(void *object, mv_dl_tensor *out); /* may be NULL */
    int (*current_stream)(int32_t device_type, int32_t device_id, void **out);
} mv_dl_table;

typedef union mv_dl_face {
    mv_dl_legacy legacy;
    mv_dl_managed managed;
} mv_dl_face;

/* The allocation of one export: the structure of the protocol comes first, so its address is the block's. */
typedef struct mv_dl_block {
    mv_dl_face face;
    void *holder;  /* a reference: the view */
    void *exports; /* Py_ssize_t: the holder's count of consumers */
    int64_t shape[MV_MAX_NDIM], strides[MV_MAX_NDIM];
} mv_dl_block;

MV_STATIC_ASSERT(sizeof(mv_dl_tensor) == 48, "DLTensor");
MV_STATIC_ASSERT(offsetof(mv_dl_tensor, device_type) == 8, "DLTensor.device");
MV_STATIC_ASSERT(offsetof(mv_dl_tensor, ndim) == 16, "DLTensor.ndim");
MV_STATIC_ASSERT(offsetof(mv_dl_tensor, code) == 20, "DLTensor.dtype");
MV_STATIC_ASSERT(offsetof(mv_dl_tensor, shape) == 24, "DLTensor.shape");
MV_STATIC_ASSERT(offsetof(mv_dl_tensor, byte_offset) == 40, "DLTensor.byte_offset");
MV_STATIC_ASSERT(sizeof(mv_dl_legacy) == 64, "DLManagedTensor");
MV_STATIC_ASSERT(sizeof(mv_dl_managed) == 80, "DLManagedTensorVersioned");
MV_STATIC_ASSERT(offsetof(mv_dl_managed, flags) == 24, "DLManagedTensorVersioned.flags");
MV_STATIC_ASSERT(offsetof(mv_dl_managed, tensor) == 32, "DLManagedTensorVersioned.dl_tensor");
MV_STATIC_ASSERT(sizeof(mv_dl_table) == 56, "DLPackExchangeAPI");

/* Return whether the host may read memory of this device type. */
static inline int mv_dl_host_reads(int32_t device_type) {
    return device_type == MV_DL_CPU || device_type == MV_DL_CUDA_HOST || device_type == MV_DL_ROCM_HOST ||
           device_type == MV_DL_CUDA_MANAGED;
}

static inline void mv_dl_fill(mv_dl_tensor *t, int64_t *shape, int64_t *strides, const mv_desc *d) {
    int32_t kind = (int32_t)((d->flags & MV_DEVICE_MASK) >> MV_DEVICE_SHIFT);
    t->data = d->size > 0 ? d->data : NULL; /* the specification requires NULL for empty tensors */
    t->device_type = kind ? kind : MV_DL_CPU;
    t->device_id = d->device_id;
    t->ndim = d->ndim;
    t->code = d->dtype_code;
    t->bits = d->dtype_bits;
    t->lanes = d->dtype_lanes;
    t->shape = shape;
    t->strides = strides;
    t->byte_offset = 0;
    for (int k = 0; k < d->ndim; k++) {
        /* the descriptor has the last two; a division costs as much as malloc */
        int last = k - (d->ndim > 2 ? d->ndim - 2 : 0);
        shape[k] = d->shape[k];
        strides[k] = last >= 0 ? d->stride[last] : d->strides[k] / (int64_t)d->itemsize;
    }
}

#endif
