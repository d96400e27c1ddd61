/* Fast path of a call: every array is an exact ndarray of plain numbers, one-dimensional, dense, aligned and of one
 * size, and no output overlaps another array. Part of `_kernel`. */
#ifndef MOJOVIEW_FAST_PATH_H
#define MOJOVIEW_FAST_PATH_H

#include "../../memory/numeric.h"
#include "ndarray.h"

/* By NumPy's type number: the singleton of the dtype in native order, and the descriptor of a dense array of it. */
static PyArray_Descr *mv_fast_dtype[MV_NUMPY_TYPES];
static mv_desc mv_fast_template[MV_NUMPY_TYPES];
static signed char mv_fast_number[128]; /* by the character of a buffer's format: type number + 1; 0: not plain */

/* Registers a dtype of plain numbers. */
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
    Py_INCREF(dtype); /* never released: the table exists as long as the process */
    mv_fast_dtype[descr->type_num] = descr;
    mv_fast_number[(unsigned char)descr->type] = (signed char)(descr->type_num + 1);
}

/* Fills in the plan of a kernel. `descriptors_only`: a foreign function that takes nothing else. */
static inline void mv_fast_compile(mv_fast_plan *plan, const mv_spec *spec, const uint8_t *array_at,
                                   bool descriptors_only) {
    bool own = true; /* no array has the common dtype */
    plan->arrays = spec->arrays;
    plan->allow_in_place = (spec->flags & MV_TAKES_SAME) != 0;
    for (int k = 0; k < spec->arrays; k++) {
        const mv_array_param *p = &spec->array[k];
        mv_fast_param *to = &plan->array[k];
        to->param = array_at[k];
        to->flags = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED | (p->writes ? NPY_ARRAY_WRITEABLE : 0);
        to->dtype = NULL;
        for (int number = 0; p->bits && number < MV_NUMPY_TYPES; number++)
            if (mv_fast_dtype[number] && mv_fast_template[number].dtype_code == p->code &&
                mv_fast_template[number].dtype_bits == p->bits)
                to->dtype = mv_fast_dtype[number], to->template = &mv_fast_template[number];
        own = own && to->dtype;
        if ((p->bits && !to->dtype) || p->ndim > 1 || p->ndim == 0)
            plan->arrays = 0;
    }
    plan->direct_arity = plan->arrays && own && descriptors_only && spec->arrays <= 3 ? spec->arrays : 0;
}

/* Describes a dense array: a template with its address and size. */
MV_INLINE void mv_fast_describe(mv_desc *d, const mv_desc *template, void *data, int64_t size, bool readonly) {
    typedef uint64_t half_line __attribute__((vector_size(16), may_alias));
    for (int i = 1; i < 4; i++) /* lines 0 and 3 whole; of the lines between, what one dimension uses */
        ((half_line *)d)[i] = ((const half_line *)template)[i];
    for (int i = 12; i < 16; i++)
        ((half_line *)d)[i] = (half_line){0, 0};
    d->data = data;
    d->size = d->shape[0] = size;
    d->strides[0] = template->itemsize;
    if (readonly)
        d->flags = template->flags | MV_READONLY;
}

/* Returns whether an object is an array for the fast path, of any dtype. */
MV_INLINE bool mv_fast_is_array(PyObject *object, PyTypeObject *ndarray, int flags) {
    const PyArrayObject_fields *a = (const PyArrayObject_fields *)object;
    return Py_TYPE(object) == ndarray && a->nd == 1 && (a->flags & flags) == flags;
}

/* Checks and describes one array. If `*dtype` is NULL, it and the template are taken from this array. */
MV_INLINE bool mv_fast_array(mv_desc *d, PyObject *object, PyTypeObject *ndarray, int flags, const void **dtype,
                             const mv_desc **template) {
    const PyArrayObject_fields *a = (const PyArrayObject_fields *)object;
    if (!mv_fast_is_array(object, ndarray, flags))
        return false;
    if (!*dtype) {
        const unsigned number = (unsigned)a->descr->type_num;
        if (number >= MV_NUMPY_TYPES)
            return false;
        *dtype = mv_fast_dtype[number];
        *template = &mv_fast_template[number];
    }
    if (a->descr != *dtype)
        return false;
    mv_fast_describe(d, *template, a->data, a->dimensions[0], !(a->flags & NPY_ARRAY_WRITEABLE));
    return true;
}

/* The same for an acquired buffer. */
MV_INLINE bool mv_fast_buffer(mv_desc *d, const Py_buffer *b, int flags, const void **dtype, const mv_desc **template) {
    const char *f = b->format ? b->format : "B";
    f += *f == '@';
    const unsigned char format = (unsigned char)f[0];
    if (format == 0 || format >= sizeof mv_fast_number || f[1] != 0 || mv_fast_number[format] == 0)
        return false;
    const int number = mv_fast_number[format] - 1;
    const mv_desc *own = &mv_fast_template[number];
    const int64_t item = own->itemsize;
    if (b->ndim != 1 || b->itemsize != item || b->suboffsets || !b->shape || b->shape[0] * item != b->len ||
        (b->strides && b->strides[0] != item) || (uintptr_t)b->buf & (uintptr_t)(item - 1) ||
        (b->readonly && flags & NPY_ARRAY_WRITEABLE))
        return false;
    if (!*dtype) {
        *dtype = mv_fast_dtype[number];
        *template = own;
    } else if ((*template)->dtype_code != own->dtype_code || (*template)->dtype_bits != own->dtype_bits) {
        return false;
    }
    mv_fast_describe(d, *template, b->buf, b->shape[0], b->readonly);
    return true;
}

/* Returns whether two dense arrays share no byte, or with `in_place` are exactly the same memory. */
MV_INLINE bool mv_fast_disjoint(const mv_desc *a, const mv_desc *b, bool in_place) {
    const uintptr_t low = (uintptr_t)a->data, high = low + (uintptr_t)a->size * a->itemsize;
    const uintptr_t other = (uintptr_t)b->data, end = other + (uintptr_t)b->size * b->itemsize;
    return other >= high || low >= end || (in_place && other == low && end == high);
}

/* Fills in the descriptors of a call. Returning false is not an error: the caller takes the general path. `buffers`: of
 * the arguments that are not ndarrays, in order; NULL if all are. */
static inline bool mv_fast_fill(mv_call_args *call, const mv_fast_plan *plan, PyObject *const *args,
                                PyTypeObject *ndarray, const Py_buffer *buffers) {
    mv_desc *d = call->desc;
    const void *common = NULL;
    const mv_desc *common_template = NULL;
    if (plan->arrays == 0)
        return false;
    for (int k = 0; k < plan->arrays; k++) {
        const mv_fast_param *p = &plan->array[k];
        const void *own = p->dtype;
        const mv_desc *own_template = p->template;
        const void **dtype = own ? &own : &common;
        const mv_desc **template = own ? &own_template : &common_template;
        PyObject *object = args[p->param];
        if (!(buffers && Py_TYPE(object) != ndarray
                  ? mv_fast_buffer(&d[k], buffers++, p->flags, dtype, template)
                  : mv_fast_array(&d[k], object, ndarray, p->flags, dtype, template)) ||
            d[k].size != d[0].size)
            return false;
        call->args[k] = &d[k];
    }
    for (int k = 1; k < plan->arrays; k++)
        for (int j = 0; j < k; j++)
            if ((plan->array[k].flags | plan->array[j].flags) & NPY_ARRAY_WRITEABLE &&
                !mv_fast_disjoint(&d[k], &d[j], plan->allow_in_place))
                return false;
    return true;
}

/* Calls a function on `n` descriptors; further register arguments are harmless. */
MV_INLINE int64_t mv_fast_invoke(mv_desc *d, int n, uintptr_t address) {
    return ((int64_t (*)(void *, void *, void *))address)(&d[0], &d[1 % n], &d[2 % n]);
}

/* Calls a function on `n` (a constant up to 3) descriptors if the arrays are small and pass every check; all checks
 * come before anything is written. Returns false otherwise. */
MV_INLINE bool mv_fast_call_arity(int n, const mv_fast_plan *plan, uintptr_t address, PyObject *const *args,
                                  PyTypeObject *ndarray, int64_t most, int64_t *returned) {
    _Alignas(MV_DESC_ALIGN) mv_desc d[3];
    const PyArrayObject_fields *a[3];
    int64_t size = 0;
    for (int k = 0; k < n; k++) {
        const mv_fast_param *p = &plan->array[k];
        a[k] = (const PyArrayObject_fields *)args[p->param];
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
            const mv_fast_param *p = &plan->array[k], *q = &plan->array[j];
            const int64_t delta = (int64_t)((uintptr_t)a[k]->data - (uintptr_t)a[j]->data);
            if ((p->flags | q->flags) & NPY_ARRAY_WRITEABLE && delta < size * (int64_t)q->template->itemsize &&
                -delta < size * (int64_t)p->template->itemsize &&
                !(plan->allow_in_place && delta == 0 && p->template == q->template))
                return false;
        }
    for (int k = 0; k < n; k++)
        mv_fast_describe(&d[k], plan->array[k].template, a[k]->data, size, !(a[k]->flags & NPY_ARRAY_WRITEABLE));
    *returned = mv_fast_invoke(d, n, address);
    return true;
}

/* Calls a foreign kernel on the fast path, or returns false. `most`: elements from which the GIL is to be released. */
MV_INLINE bool mv_fast_call(const mv_fast_plan *plan, uintptr_t address, PyObject *const *args, PyTypeObject *ndarray,
                            int64_t most, int64_t *returned) {
    switch (plan->direct_arity) {
    case 1: return mv_fast_call_arity(1, plan, address, args, ndarray, most, returned);
    case 2: return mv_fast_call_arity(2, plan, address, args, ndarray, most, returned);
    case 3: return mv_fast_call_arity(3, plan, address, args, ndarray, most, returned);
    default: return false;
    }
}

#endif
