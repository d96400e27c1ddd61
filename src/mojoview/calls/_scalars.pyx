"""Numbers of Python as scalars of a dtype, and back."""

from libc.stdint cimport int64_t

from mojoview.calls.call_args cimport mv_call_args, mv_store_value, mv_type_index
from mojoview.memory.abi cimport MV_ALIGNED, MV_BOOL, MV_FLOAT, MV_READONLY, MV_UINT, mv_desc, mv_value

import numpy as np

from mojoview.calls.binding import scalar_error
from mojoview.memory._dtype import dtype_of_code
from mojoview.memory.errors import DTypeError


cdef dict RANGES = {str(np.dtype(c)): (int(np.iinfo(c).min), int(np.iinfo(c).max)) for c in "bhiqBHIQ"}
# NumPy dtypes in the order of MV_T_BOOL to MV_T_F64
cdef list DTYPES = [np.dtype(name) for name in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")]


cdef bint is_number(object obj):
    return isinstance(obj, (float, int, np.generic))


cdef object scalar_name(object signature, int param):
    """-1 stands for the option ddof."""
    return signature.params[param].name if param >= 0 else "ddof"


cdef int convert_any_scalar(object signature, int param, object obj, int code, int bits, mv_value *value) except -1:
    """A Python number as a scalar of the dtype: integers exactly, and never through a float."""
    if code == MV_FLOAT:
        if not isinstance(obj, (float, int, np.floating, np.integer, np.bool_)):
            raise scalar_error(signature, scalar_name(signature, param), f"float{bits}", obj, True)
        try:
            value.f64 = float(obj)
        except OverflowError:
            raise scalar_error(signature, scalar_name(signature, param), f"float{bits}", obj, False) from None
        if bits == 16:  # rounded once, as NumPy does: kernels compute in float32
            with np.errstate(over="ignore", under="ignore"):
                value.f64 = float(np.float16(value.f64))
        return 0
    if code == MV_BOOL:
        if not isinstance(obj, (bool, np.bool_)):
            raise scalar_error(signature, scalar_name(signature, param), "bool", obj, True)
        value.i64 = 1 if obj else 0
        return 0
    name = f"{'u' if code == MV_UINT else ''}int{bits}"
    if not isinstance(obj, (int, np.integer)):
        raise scalar_error(signature, scalar_name(signature, param), name, obj, True)
    number = int(obj)
    low, high = RANGES[name]
    if not low <= number <= high:
        raise scalar_error(signature, scalar_name(signature, param), name, obj, False)
    if code == MV_UINT:
        value.u64 = number
    else:
        value.i64 = number
    return 0


cdef int broadcast_scalar(object signature, int at, int param, object obj, mv_desc *like, mv_call_args *frame) except -1:
    """An array of the shape of `like` whose elements are all one number."""
    cdef mv_value value
    cdef mv_desc *d = &frame.desc[at]
    cdef int k
    convert_scalar(signature, param, obj, like.dtype_code, like.dtype_bits, &value)
    d[0] = like[0]
    mv_store_value(<char *>&frame.number[at], mv_type_index(like), value)
    d.data = &frame.number[at]
    for k in range(d.ndim):
        d.strides[k] = 0
    d.stride[0] = d.stride[1] = 0
    d.flags = MV_ALIGNED | MV_READONLY
    frame.args[at] = d
    return 0


cdef object dtype_of_desc(const mv_desc *d):
    try:
        return dtype_of_code(d.dtype_code, d.dtype_bits, d.logical)
    except DTypeError:
        return "an opaque dtype"


cdef object dtype_of_type(int type, const mv_desc *d):
    """The NumPy dtype of one of MV_T_BOOL to MV_T_F64, or beyond them of the array."""
    return DTYPES[type] if type < len(DTYPES) else dtype_of_desc(d)


cdef object scalar_result(int type, mv_value value, const mv_desc *d):
    if type == 0:
        return value.i64 != 0
    if type <= 4:
        return value.i64
    if type <= 8:
        return value.u64
    if type < len(DTYPES):
        return value.f64
    return np.int64(value.i64).view(dtype_of_desc(d))


cdef object python_value(mv_value value, const mv_desc *d):
    """An element that an accumulator held, as the array's dtype has it."""
    return scalar_result(mv_type_index(d), value, d)


cdef object returned_scalar(mv_value returned, int code, int bits):
    """What a foreign function has returned, by its type code and bits."""
    cdef int unused = 64 - bits  # above its width a register holds anything
    if code == MV_FLOAT:
        return returned.f64
    if code == MV_BOOL:
        return (returned.i64 & 1) != 0  # of a returned bool only bit 0 is defined
    if code == MV_UINT:
        return returned.u64 << unused >> unused
    return <int64_t>(returned.u64 << unused) >> unused
