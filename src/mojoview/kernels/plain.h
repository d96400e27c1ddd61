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
static signed char mv_plain_number[128]; /* by the letter of a buffer's format, plus one; 0: none of plain numbers */

static inline void mv_plain_learn(PyObject *dtype, int number, int code, int bits, int letter) {
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
    mv_plain_number[letter] = (signed char)(number + 1);
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

MV_INLINE void mv_plain_describe(mv_desc *d, const mv_desc *like, void *data, int64_t size, bool readonly) {
    typedef uint64_t half_line __attribute__((vector_size(16), may_alias));
    for (int i = 1; i < 4; i++) /* lines 0 and 3 whole, of the lines between what one dimension uses */
        ((half_line *)d)[i] = ((const half_line *)like)[i];
    for (int i = 12; i < 16; i++)
        ((half_line *)d)[i] = (half_line){0, 0};
    d->data = data;
    d->size = d->shape[0] = size;
    d->strides[0] = d->itemsize;
    if (readonly)
        d->flags |= MV_READONLY;
}

/* One array: checked and described, or false. `dtype` NULL: learned from this array, with what it is described as. */
MV_INLINE bool mv_plain_array(mv_desc *d, PyObject *object, PyTypeObject *ndarray, int flags, const void **dtype,
                              const mv_desc **like) {
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
    mv_plain_describe(d, *like, a->data, a->dimensions[0], !(a->flags & NPY_ARRAY_WRITEABLE));
    return true;
}

/* The same of a borrowed buffer. */
MV_INLINE bool mv_plain_buffer(mv_desc *d, const Py_buffer *b, int flags, const void **dtype, const mv_desc **like) {
    const char *f = b->format ? b->format : "B";
    f += *f == '@';
    const unsigned char letter = (unsigned char)f[0];
    if (letter == 0 || letter >= sizeof mv_plain_number || f[1] != 0 || mv_plain_number[letter] == 0)
        return false;
    const int number = mv_plain_number[letter] - 1;
    const mv_desc *own = &mv_plain_desc[number];
    const int64_t item = own->itemsize;
    if (b->ndim != 1 || b->itemsize != item || b->suboffsets || !b->shape || b->shape[0] * item != b->len ||
        (b->strides && b->strides[0] != item) || (uintptr_t)b->buf & (uintptr_t)(item - 1) ||
        (b->readonly && flags & NPY_ARRAY_WRITEABLE))
        return false;
    if (!*dtype) {
        *dtype = mv_plain_dtype[number];
        *like = own;
    } else if ((*like)->dtype_code != own->dtype_code || (*like)->dtype_bits != own->dtype_bits) {
        return false;
    }
    mv_plain_describe(d, *like, b->buf, b->shape[0], b->readonly);
    return true;
}

MV_INLINE bool mv_plain_apart(const mv_desc *a, const mv_desc *b, bool same) {
    const uintptr_t low = (uintptr_t)a->data, high = low + (uintptr_t)a->size * a->itemsize;
    const uintptr_t other = (uintptr_t)b->data, end = other + (uintptr_t)b->size * b->itemsize;
    return other >= high || low >= end || (same && other == low && end == high);
}

/* False means no more than that the long way has to look. `n`: arrays; a constant where speed counts. `buffers`: what was
 * borrowed for the arguments that are no ndarrays, in their order; NULL: all are. */
MV_INLINE bool mv_plain_arrays(mv_desc *d, int n, const mv_plain *plain, PyObject *const *args, PyTypeObject *ndarray,
                               const Py_buffer *buffers) {
    const void *common = NULL;
    const mv_desc *common_like = NULL;
    for (int k = 0; k < n; k++) {
        const void *own = plain->dtype[k];
        const mv_desc *own_like = plain->like[k];
        const void **dtype = own ? &own : &common;
        const mv_desc **like = own ? &own_like : &common_like;
        PyObject *object = args[plain->array_at[k]];
        if (!(buffers && Py_TYPE(object) != ndarray
                  ? mv_plain_buffer(&d[k], buffers++, plain->flags[k], dtype, like)
                  : mv_plain_array(&d[k], object, ndarray, plain->flags[k], dtype, like)) || d[k].size != d[0].size)
            return false;
    }
    for (int k = 1; k < n; k++)
        for (int j = 0; j < k; j++)
            if ((plain->flags[k] | plain->flags[j]) & NPY_ARRAY_WRITEABLE && !mv_plain_apart(&d[k], &d[j], plain->same))
                return false;
    return true;
}

static inline bool mv_plain_frame(mv_frame *frame, const mv_plain *plain, PyObject *const *args,
                                  PyTypeObject *ndarray, const Py_buffer *buffers) {
    if (plain->arrays == 0 || !mv_plain_arrays(frame->desc, plain->arrays, plain, args, ndarray, buffers))
        return false;
    for (int k = 0; k < plain->arrays; k++)
        frame->args[k] = &frame->desc[k];
    return true;
}

MV_INLINE int64_t mv_plain_run(mv_desc *d, int n, uintptr_t address) {
    return ((int64_t (*)(void *, void *, void *))address)(&d[0], &d[1 % n], &d[2 % n]);
}

/* A small call of a function on up to three descriptors, done on the spot. False: not
 * such a call; else `returned` is filled. */
MV_INLINE bool mv_plain_call_of(int n, const mv_plain *plain, uintptr_t address, PyObject *const *args,
                                PyTypeObject *ndarray, int64_t most, mv_value *returned) {
    _Alignas(MV_DESC_ALIGN) mv_desc d[3];
    if (!mv_plain_arrays(d, n, plain, args, ndarray, NULL) || d[0].size >= most)
        return false;
    returned->i64 = mv_plain_run(d, n, address);
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
