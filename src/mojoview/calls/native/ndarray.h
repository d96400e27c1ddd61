/* Descriptors of ndarrays, read from NumPy's structs. Only this file and fast_path.h use those. */
#ifndef MOJOVIEW_NDARRAY_H
#define MOJOVIEW_NDARRAY_H

#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <numpy/ndarraytypes.h>

#include "call_args.h"

#define MV_NUMPY_TYPES 32
#define MV_NUMBER(code, type) {code, 8 * sizeof(type), __builtin_ctz(sizeof(type))}

/* By NumPy's type number; 0 bits: not a plain number. */
static const struct mv_number {
    uint8_t code, bits, log2item;
} mv_numbers[MV_NUMPY_TYPES] = {
    [NPY_BOOL] = MV_NUMBER(MV_BOOL, char),
    [NPY_BYTE] = MV_NUMBER(MV_INT, char),
    [NPY_UBYTE] = MV_NUMBER(MV_UINT, char),
    [NPY_SHORT] = MV_NUMBER(MV_INT, short),
    [NPY_USHORT] = MV_NUMBER(MV_UINT, short),
    [NPY_INT] = MV_NUMBER(MV_INT, int),
    [NPY_UINT] = MV_NUMBER(MV_UINT, int),
    [NPY_LONG] = MV_NUMBER(MV_INT, long),
    [NPY_ULONG] = MV_NUMBER(MV_UINT, long),
    [NPY_LONGLONG] = MV_NUMBER(MV_INT, long long),
    [NPY_ULONGLONG] = MV_NUMBER(MV_UINT, long long),
    [NPY_HALF] = MV_NUMBER(MV_FLOAT, short),
    [NPY_FLOAT] = MV_NUMBER(MV_FLOAT, float),
    [NPY_DOUBLE] = MV_NUMBER(MV_FLOAT, double),
};

/* Describes an ndarray of plain numbers in native byte order. Returns false for others: the caller takes the general
 * path, which has the error messages. */
static inline bool mv_desc_of_ndarray(mv_desc *d, PyObject *object) {
    const PyArrayObject_fields *a = (const PyArrayObject_fields *)object;
    const unsigned number = (unsigned)a->descr->type_num;
    if (number >= MV_NUMPY_TYPES || mv_numbers[number].bits == 0 || !PyArray_ISNBO(a->descr->byteorder) ||
        a->nd > MV_MAX_NDIM)
        return false;
    const uint64_t flags = (a->flags & NPY_ARRAY_C_CONTIGUOUS ? MV_C_CONTIGUOUS : 0) |
                           (a->flags & NPY_ARRAY_F_CONTIGUOUS ? MV_F_CONTIGUOUS : 0) |
                           (a->flags & NPY_ARRAY_ALIGNED ? MV_ALIGNED : 0) |
                           (a->flags & NPY_ARRAY_WRITEABLE ? 0 : MV_READONLY);
    mv_desc_from_array(d, a->data, a->nd, (const int64_t *)a->dimensions, (const int64_t *)a->strides,
                       mv_numbers[number].code, mv_numbers[number].log2item, flags);
    return true;
}

#endif
