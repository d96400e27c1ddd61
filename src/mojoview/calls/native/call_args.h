/* The arguments of one call, on the C stack: descriptors, scalars, and the references and buffers that it holds. */
#ifndef MOJOVIEW_CALL_ARGS_H
#define MOJOVIEW_CALL_ARGS_H

#include <Python.h>

#include "checks.h"

typedef struct mv_call_args {
    _Alignas(MV_DESC_ALIGN) mv_desc desc[MV_MAX_PARAMS];
    mv_desc *args[MV_MAX_PARAMS + 1];   /* and the output of a reduction */
    mv_value values[MV_MAX_PARAMS + 1]; /* and the option of a built-in kernel */
    int64_t number[MV_MAX_PARAMS];      /* elements of scalars that are broadcast */
    PyObject *view[MV_MAX_PARAMS];      /* views that the call entered */
    Py_buffer buffer[MV_MAX_PARAMS];    /* buffers that it acquired */
    int views, buffers;
} mv_call_args;

/* Values that the fast path compares, compiled once per kernel (fast_path.h). */
typedef struct mv_fast_param {
    const void *dtype;       /* NumPy's object for it; NULL: the common dtype */
    const mv_desc *template; /* descriptor of a dense array of that dtype */
    int flags;               /* NumPy flags that must be set */
    int param;               /* index of the parameter */
} mv_fast_param;

typedef struct mv_fast_plan {
    int arrays;          /* 0: the kernel never takes the fast path */
    int direct_arity;    /* descriptors of a foreign kernel that takes nothing else; or 0 */
    bool allow_in_place; /* an output may be exactly the memory of an input */
    mv_fast_param array[MV_MAX_PARAMS];
} mv_fast_plan;

/* Reports the exception that is already set: for Cython, whose declaration says `except -1`. */
static inline int mv_raise_pending(void) { return -1; }

/* Describes an array of plain numbers from the fields that NumPy keeps. `log2item`: item size as a power of two.
 * Field by field, since a memset of 256 bytes costs as much as the rest of a small call; shape and strides beyond
 * `ndim` are left unset. */
static inline void mv_desc_from_array(mv_desc *d, void *data, int ndim, const int64_t *shape, const int64_t *strides,
                                      int code, int log2item, uint64_t flags) {
    const int64_t item = INT64_C(1) << log2item;
    int64_t size = 1;
    d->data = data;
    d->stride[0] = d->stride[1] = 0;
    d->ndim = ndim;
    d->dtype_code = (uint8_t)code;
    d->dtype_bits = (uint8_t)(8 << log2item);
    d->dtype_lanes = 1;
    d->generation = 0;
    d->itemsize = (uint32_t)item;
    d->struct_bytes = sizeof *d;
    d->abi_version = MV_ABI_VERSION;
    d->mask = NULL;
    d->mask_offset = 0;
    d->device_id = 0;
    d->logical = MV_PLAIN;
    d->mask_stride[0] = d->mask_stride[1] = 0;
    d->reserved[0] = d->reserved[1] = d->reserved[2] = 0;
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
