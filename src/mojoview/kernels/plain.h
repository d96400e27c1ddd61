/* The common call, fast: every array is an exact ndarray of plain numbers, one-dimensional, dense and aligned, all of
 * one size, outputs apart from everything. Part of `_call`, the only module that reads NumPy's structs. */
#ifndef MOJOVIEW_PLAIN_H
#define MOJOVIEW_PLAIN_H

#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <numpy/ndarraytypes.h>

#include "frame.h"

#define MV_PLAIN_TYPES 32

/* By NumPy's type number: the one descriptor of the dtype in native order, and
 * what ours says about a dense array of it. */
static PyArray_Descr *mv_plain_dtype[MV_PLAIN_TYPES];
static mv_desc mv_plain_desc[MV_PLAIN_TYPES];

static inline void mv_plain_learn(PyObject *dtype, int number, int code, int bits) {
    mv_desc *d = &mv_plain_desc[number];
    memset(d, 0, sizeof *d);
    d->stride[0] = 1;
    d->ndim = 1;
    d->dtype_code = (uint8_t)code;
    d->dtype_bits = (uint8_t)bits;
    d->dtype_lanes = 1;
    d->flags = MV_C_CONTIGUOUS | MV_F_CONTIGUOUS | MV_ALIGNED;
    d->itemsize = (uint32_t)bits / 8;
    d->struct_bytes = sizeof *d;
    d->abi_version = MV_ABI_VERSION;
    d->strides[0] = bits / 8;
    Py_INCREF(dtype); /* for good: the table lasts as long as the process */
    mv_plain_dtype[number] = (PyArray_Descr *)dtype;
}

static inline void mv_plain_plan(mv_plain *plain, const mv_spec *spec, const uint8_t *array_at,
                                 bool descriptors_only) {
    plain->arrays = spec->arrays;
    plain->same = (spec->flags & MV_TAKES_SAME) != 0;
    for (int k = 0; k < spec->arrays; k++) {
        const mv_array_param *p = &spec->array[k];
        plain->array_at[k] = array_at[k];
        plain->flags[k] = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED | (p->writes ? NPY_ARRAY_WRITEABLE : 0);
        plain->dtype[k] = NULL;
        for (int number = 0; p->bits && number < MV_PLAIN_TYPES; number++)
            if (mv_plain_dtype[number] && mv_plain_desc[number].dtype_code == p->code &&
                mv_plain_desc[number].dtype_bits == p->bits)
                plain->dtype[k] = mv_plain_dtype[number], plain->like[k] = &mv_plain_desc[number];
        if ((p->bits && !plain->dtype[k]) || p->ndim > 1 || p->ndim == 0)
            plain->arrays = 0;
    }
    plain->direct = plain->arrays && descriptors_only && spec->arrays <= 3 ? spec->arrays : 0;
}

/* One array: checked and described, or false. `dtype` NULL: learned from this array, with what it is described as. */
MV_INLINE bool mv_plain_array(mv_desc *d, PyObject *object, PyTypeObject *ndarray, int flags, const void **dtype,
                              const mv_desc **like) {
    typedef uint64_t half_line __attribute__((vector_size(16), may_alias));
    const PyArrayObject_fields *a = (const PyArrayObject_fields *)object;
    if (Py_TYPE(object) != ndarray || a->nd != 1 || (a->flags & flags) != flags)
        return false;
    if (!*dtype) {
        const unsigned number = (unsigned)a->descr->type_num;
        if (number >= MV_PLAIN_TYPES)
            return false;
        *dtype = mv_plain_dtype[number];
        *like = &mv_plain_desc[number];
    }
    if (a->descr != *dtype)
        return false;
    for (int i = 1; i < 4; i++) /* lines 0 and 3 whole, of the lines between what one dimension uses */
        ((half_line *)d)[i] = ((const half_line *)*like)[i];
    for (int i = 12; i < 16; i++)
        ((half_line *)d)[i] = (half_line){0, 0};
    d->data = a->data;
    d->size = d->shape[0] = a->dimensions[0];
    d->strides[0] = d->itemsize;
    if (!(a->flags & NPY_ARRAY_WRITEABLE))
        d->flags |= MV_READONLY;
    return true;
}

MV_INLINE bool mv_plain_apart(const mv_desc *a, const mv_desc *b, bool same) {
    const uintptr_t low = (uintptr_t)a->data, high = low + (uintptr_t)a->size * a->itemsize;
    const uintptr_t other = (uintptr_t)b->data, end = other + (uintptr_t)b->size * b->itemsize;
    return other >= high || low >= end || (same && other == low && end == high);
}

/* False means no more than that the long way has to look. `n`: arrays; a constant where speed counts. */
MV_INLINE bool mv_plain_arrays(mv_desc *d, int n, const mv_plain *plain, PyObject *const *args, PyTypeObject *ndarray) {
    const void *common = NULL;
    const mv_desc *common_like = NULL;
    for (int k = 0; k < n; k++) {
        const void *own = plain->dtype[k];
        const mv_desc *own_like = plain->like[k];
        if (!mv_plain_array(&d[k], args[plain->array_at[k]], ndarray, plain->flags[k], own ? &own : &common,
                            own ? &own_like : &common_like) || d[k].size != d[0].size)
            return false;
    }
    for (int k = 1; k < n; k++)
        for (int j = 0; j < k; j++)
            if ((plain->flags[k] | plain->flags[j]) & NPY_ARRAY_WRITEABLE && !mv_plain_apart(&d[k], &d[j], plain->same))
                return false;
    return true;
}

static inline bool mv_plain_frame(mv_frame *frame, const mv_plain *plain, PyObject *const *args,
                                  PyTypeObject *ndarray) {
    if (plain->arrays == 0 || !mv_plain_arrays(frame->desc, plain->arrays, plain, args, ndarray))
        return false;
    for (int k = 0; k < plain->arrays; k++)
        frame->args[k] = &frame->desc[k];
    return true;
}

/* A small call of a function on up to three descriptors, done on the spot. False: not
 * such a call; else `returned` is filled. */
MV_INLINE bool mv_plain_call_of(int n, const mv_plain *plain, uintptr_t address, PyObject *const *args,
                                PyTypeObject *ndarray, int64_t most, mv_value *returned) {
    _Alignas(MV_DESC_ALIGN) mv_desc d[3];
    if (!mv_plain_arrays(d, n, plain, args, ndarray) || d[0].size >= most)
        return false;
    returned->i64 = ((int64_t (*)(void *, void *, void *))address)(&d[0], &d[1 % n], &d[2 % n]);
    return true;
}

static inline bool mv_plain_call(const mv_plain *plain, uintptr_t address, PyObject *const *args, PyTypeObject *ndarray,
                                 int64_t most, mv_value *returned) {
    switch (plain->direct) {
    case 1: return mv_plain_call_of(1, plain, address, args, ndarray, most, returned);
    case 2: return mv_plain_call_of(2, plain, address, args, ndarray, most, returned);
    case 3: return mv_plain_call_of(3, plain, address, args, ndarray, most, returned);
    default: return false;
    }
}

#endif
