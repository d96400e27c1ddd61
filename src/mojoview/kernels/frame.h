/* One call of a kernel, on the C stack: the descriptors, scalars and references that it needs. */
#ifndef MOJOVIEW_FRAME_H
#define MOJOVIEW_FRAME_H

#include <Python.h>

#include "checks.h"

typedef struct mv_frame {
    _Alignas(MV_DESC_ALIGN) mv_desc desc[MV_MAX_PARAMS];
    mv_desc *args[MV_MAX_PARAMS + 1]; /* and the output of a reduction */
    mv_value values[MV_MAX_PARAMS + 1]; /* and the option of a built-in kernel */
    int64_t number[MV_MAX_PARAMS];    /* elements made of numbers that stand for arrays */
    PyObject *held[MV_MAX_PARAMS];    /* views and leases that the call took */
    int holding;
} mv_frame;

/* Raises the exception that is already set. */
static inline int mv_raise_pending(void) { return -1; }

/* memset of 256 bytes becomes `rep stos` in gcc, which costs more than the rest of a small call. */
static inline void mv_desc_clear(mv_desc *d) {
    typedef uint64_t line __attribute__((vector_size(16), may_alias));
    line *p = (line *)d;
    for (size_t i = 0; i < sizeof *d / sizeof *p; i++)
        p[i] = (line){0, 0};
}

/* An array of plain numbers, from the fields that NumPy keeps. `log2item`: item size as a power of two. */
static inline void mv_desc_from_array(mv_desc *d, void *data, int ndim, const int64_t *shape, const int64_t *strides, int code,
                                      int log2item, uint64_t flags) {
    const int64_t item = INT64_C(1) << log2item;
    int64_t size = 1;
    mv_desc_clear(d);
    d->data = data;
    d->ndim = ndim;
    d->dtype_code = (uint8_t)code;
    d->dtype_bits = (uint8_t)(8 << log2item);
    d->dtype_lanes = 1;
    d->itemsize = (uint32_t)item;
    d->struct_bytes = sizeof *d;
    d->abi_version = MV_ABI_VERSION;
    for (int k = 0; k < ndim; k++) {
        d->shape[k] = shape[k];
        d->strides[k] = strides[k];
        size *= shape[k];
        if (strides[k] & (item - 1) && shape[k] > 1)
            flags |= MV_BYTE_STRIDES;
    }
    for (int k = ndim > 2 ? ndim - 2 : 0, slot = 0; k < ndim; k++, slot++)
        d->stride[slot] = strides[k] >> log2item;
    d->size = size;
    d->flags = flags;
}

#endif
