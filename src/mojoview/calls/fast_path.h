/* The common call, fast: every array is an exact ndarray of plain numbers, one-dimensional, dense and aligned, all of
 * one size, outputs apart from everything. Part of `_call`. */
#ifndef MOJOVIEW_PLAIN_H
#define MOJOVIEW_PLAIN_H

#include "ndarray.h"

/* By NumPy's type number: the one descriptor of the dtype in native order, and
 * what ours says about a dense array of it. */
static PyArray_Descr *mv_fast_dtype[MV_NUMPY_TYPES];
static mv_desc mv_fast_template[MV_NUMPY_TYPES];
static signed char mv_fast_number[128]; /* by the letter of a buffer's format, plus one; 0: none of plain numbers */

static inline void mv_fast_register_dtype(PyObject *dtype) {
    PyArray_Descr *descr = (PyArray_Descr *)dtype;
    const struct mv_number *number = &mv_numbers[descr->type_num];
    mv_desc *d = &mv_fast_template[descr->type_num];
    memset(d, 0, sizeof *d);
    d->stride[0] = 1;
    d->ndim = 1;
    d->dtype_code = number->code;
    d->dtype_bits = number->bits;
    d->dtype_lanes = 1;
    d->flags = MV_C_CONTIGUOUS | MV_F_CONTIGUOUS | MV_ALIGNED;
    d->itemsize = number->bits / 8;
    d->struct_bytes = sizeof *d;
    d->abi_version = MV_ABI_VERSION;
    d->strides[0] = number->bits / 8;
    Py_INCREF(dtype); /* for good: the table lasts as long as the process */
    mv_fast_dtype[descr->type_num] = descr;
    mv_fast_number[(unsigned char)descr->type] = (signed char)(descr->type_num + 1);
}

static inline void mv_fast_compile(mv_fast_plan *plain, const mv_spec *spec, const uint8_t *array_at,
                                 bool descriptors_only) {
    bool own = true; /* no array has the common dtype */
    plain->arrays = spec->arrays;
    plain->same = (spec->flags & MV_TAKES_SAME) != 0;
    for (int k = 0; k < spec->arrays; k++) {
        const mv_array_param *p = &spec->array[k];
        mv_fast_param *to = &plain->array[k];
        to->at = array_at[k];
        to->flags = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED | (p->writes ? NPY_ARRAY_WRITEABLE : 0);
        to->dtype = NULL;
        for (int number = 0; p->bits && number < MV_NUMPY_TYPES; number++)
            if (mv_fast_dtype[number] && mv_fast_template[number].dtype_code == p->code &&
                mv_fast_template[number].dtype_bits == p->bits)
                to->dtype = mv_fast_dtype[number], to->like = &mv_fast_template[number];
        own = own && to->dtype;
        if ((p->bits && !to->dtype) || p->ndim > 1 || p->ndim == 0)
            plain->arrays = 0;
    }
    plain->direct = plain->arrays && own && descriptors_only && spec->arrays <= 3 ? spec->arrays : 0;
}

MV_INLINE void mv_fast_describe(mv_desc *d, const mv_desc *like, void *data, int64_t size, bool readonly) {
    typedef uint64_t half_line __attribute__((vector_size(16), may_alias));
    for (int i = 1; i < 4; i++) /* lines 0 and 3 whole, of the lines between what one dimension uses */
        ((half_line *)d)[i] = ((const half_line *)like)[i];
    for (int i = 12; i < 16; i++)
        ((half_line *)d)[i] = (half_line){0, 0};
    d->data = data;
    d->size = d->shape[0] = size;
    d->strides[0] = like->itemsize;
    if (readonly)
        d->flags = like->flags | MV_READONLY;
}

/* Whether an object is an array that the fast way takes, whatever its dtype. */
MV_INLINE bool mv_fast_is_array(PyObject *object, PyTypeObject *ndarray, int flags) {
    const PyArrayObject_fields *a = (const PyArrayObject_fields *)object;
    return Py_TYPE(object) == ndarray && a->nd == 1 && (a->flags & flags) == flags;
}

/* One array: checked and described, or false. `dtype` NULL: learned from this array, with what it is described as. */
MV_INLINE bool mv_fast_array(mv_desc *d, PyObject *object, PyTypeObject *ndarray, int flags, const void **dtype,
                              const mv_desc **like) {
    const PyArrayObject_fields *a = (const PyArrayObject_fields *)object;
    if (!mv_fast_is_array(object, ndarray, flags))
        return false;
    if (!*dtype) {
        const unsigned number = (unsigned)a->descr->type_num;
        if (number >= MV_NUMPY_TYPES)
            return false;
        *dtype = mv_fast_dtype[number];
        *like = &mv_fast_template[number];
    }
    if (a->descr != *dtype)
        return false;
    mv_fast_describe(d, *like, a->data, a->dimensions[0], !(a->flags & NPY_ARRAY_WRITEABLE));
    return true;
}

/* The same of a borrowed buffer. */
MV_INLINE bool mv_fast_buffer(mv_desc *d, const Py_buffer *b, int flags, const void **dtype, const mv_desc **like) {
    const char *f = b->format ? b->format : "B";
    f += *f == '@';
    const unsigned char letter = (unsigned char)f[0];
    if (letter == 0 || letter >= sizeof mv_fast_number || f[1] != 0 || mv_fast_number[letter] == 0)
        return false;
    const int number = mv_fast_number[letter] - 1;
    const mv_desc *own = &mv_fast_template[number];
    const int64_t item = own->itemsize;
    if (b->ndim != 1 || b->itemsize != item || b->suboffsets || !b->shape || b->shape[0] * item != b->len ||
        (b->strides && b->strides[0] != item) || (uintptr_t)b->buf & (uintptr_t)(item - 1) ||
        (b->readonly && flags & NPY_ARRAY_WRITEABLE))
        return false;
    if (!*dtype) {
        *dtype = mv_fast_dtype[number];
        *like = own;
    } else if ((*like)->dtype_code != own->dtype_code || (*like)->dtype_bits != own->dtype_bits) {
        return false;
    }
    mv_fast_describe(d, *like, b->buf, b->shape[0], b->readonly);
    return true;
}

MV_INLINE bool mv_fast_disjoint(const mv_desc *a, const mv_desc *b, bool same) {
    const uintptr_t low = (uintptr_t)a->data, high = low + (uintptr_t)a->size * a->itemsize;
    const uintptr_t other = (uintptr_t)b->data, end = other + (uintptr_t)b->size * b->itemsize;
    return other >= high || low >= end || (same && other == low && end == high);
}

/* False means no more than that the long way has to look. `buffers`: what was borrowed for the arguments that are no
 * ndarrays, in their order; NULL: all are. */
static inline bool mv_fast_fill(mv_call_args *frame, const mv_fast_plan *plain, PyObject *const *args,
                                  PyTypeObject *ndarray, const Py_buffer *buffers) {
    mv_desc *d = frame->desc;
    const void *common = NULL;
    const mv_desc *common_like = NULL;
    if (plain->arrays == 0)
        return false;
    for (int k = 0; k < plain->arrays; k++) {
        const mv_fast_param *p = &plain->array[k];
        const void *own = p->dtype;
        const mv_desc *own_like = p->like;
        const void **dtype = own ? &own : &common;
        const mv_desc **like = own ? &own_like : &common_like;
        PyObject *object = args[p->at];
        if (!(buffers && Py_TYPE(object) != ndarray
                  ? mv_fast_buffer(&d[k], buffers++, p->flags, dtype, like)
                  : mv_fast_array(&d[k], object, ndarray, p->flags, dtype, like)) || d[k].size != d[0].size)
            return false;
        frame->args[k] = &d[k];
    }
    for (int k = 1; k < plain->arrays; k++)
        for (int j = 0; j < k; j++)
            if ((plain->array[k].flags | plain->array[j].flags) & NPY_ARRAY_WRITEABLE &&
                !mv_fast_disjoint(&d[k], &d[j], plain->same))
                return false;
    return true;
}

MV_INLINE int64_t mv_fast_invoke(mv_desc *d, int n, uintptr_t address) {
    return ((int64_t (*)(void *, void *, void *))address)(&d[0], &d[1 % n], &d[2 % n]);
}

/* A small call of a function on up to three descriptors, done on the spot: `n` is a constant, all dtypes are known, and
 * everything is compared before anything is written. False: not such a call; else `returned` is filled. */
MV_INLINE bool mv_fast_call_arity(int n, const mv_fast_plan *plain, uintptr_t address, PyObject *const *args,
                                PyTypeObject *ndarray, int64_t most, int64_t *returned) {
    _Alignas(MV_DESC_ALIGN) mv_desc d[3];
    const PyArrayObject_fields *a[3];
    int64_t size = 0;
    for (int k = 0; k < n; k++) {
        const mv_fast_param *p = &plain->array[k];
        a[k] = (const PyArrayObject_fields *)args[p->at];
        if (!mv_fast_is_array((PyObject *)a[k], ndarray, p->flags) || (const void *)a[k]->descr != p->dtype)
            return false;
        if (k == 0)
            size = a[0]->dimensions[0];
        else if (a[k]->dimensions[0] != size)
            return false;
    }
    if (size >= most)
        return false;
    for (int k = 1; k < n; k++)
        for (int j = 0; j < k; j++) {
            const mv_fast_param *p = &plain->array[k], *q = &plain->array[j];
            const int64_t apart = (int64_t)((uintptr_t)a[k]->data - (uintptr_t)a[j]->data);
            if ((p->flags | q->flags) & NPY_ARRAY_WRITEABLE && apart < size * (int64_t)q->like->itemsize &&
                -apart < size * (int64_t)p->like->itemsize && !(plain->same && apart == 0 && p->like == q->like))
                return false;
        }
    for (int k = 0; k < n; k++)
        mv_fast_describe(&d[k], plain->array[k].like, a[k]->data, size, !(a[k]->flags & NPY_ARRAY_WRITEABLE));
    *returned = mv_fast_invoke(d, n, address);
    return true;
}

MV_INLINE bool mv_fast_call(const mv_fast_plan *plain, uintptr_t address, PyObject *const *args, PyTypeObject *ndarray,
                             int64_t most, int64_t *returned) {
    switch (plain->direct) {
    case 1: return mv_fast_call_arity(1, plain, address, args, ndarray, most, returned);
    case 2: return mv_fast_call_arity(2, plain, address, args, ndarray, most, returned);
    case 3: return mv_fast_call_arity(3, plain, address, args, ndarray, most, returned);
    default: return false;
    }
}

#endif
