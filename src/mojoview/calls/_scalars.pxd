from mojoview.calls.call_args cimport mv_call_args
from mojoview.memory.abi cimport MV_FLOAT, mv_desc, mv_value


cdef bint is_number(object obj)
cdef int convert_any_scalar(object signature, int param, object obj, int code, int bits, mv_value *value) except -1
cdef int broadcast_scalar(object signature, int at, int param, object obj, mv_desc *like, mv_call_args *frame) except -1
cdef object dtype_of_desc(const mv_desc *d)
cdef object dtype_of_type(int type, const mv_desc *d)
cdef object scalar_result(int type, mv_value value, const mv_desc *d)
cdef object python_value(mv_value value, const mv_desc *d)
cdef object returned_scalar(mv_value returned, int code, int bits)


cdef inline int convert_scalar(object signature, int param, object obj, int code, int bits, mv_value *value) except -1:
    """convert_any_scalar(), with the common case on the spot."""
    if type(obj) is float and code == MV_FLOAT and bits > 16:
        value.f64 = <double>obj
        return 0
    return convert_any_scalar(signature, param, obj, code, bits, value)
