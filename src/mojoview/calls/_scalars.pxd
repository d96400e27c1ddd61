from mojoview.calls.call_args cimport mv_frame
from mojoview.memory.abi cimport MV_FLOAT, mv_desc, mv_value


cdef bint is_number(object obj)
cdef int convert(object signature, int param, object obj, int code, int bits, mv_value *value) except -1
cdef int stand_in(object signature, int at, int param, object obj, mv_desc *like, mv_frame *frame) except -1
cdef object dtype_of_desc(const mv_desc *d)
cdef object dtype_of_type(int type, const mv_desc *d)
cdef object scalar_result(int type, mv_value value, const mv_desc *d)
cdef object python_value(mv_value value, const mv_desc *d)
cdef object returned_number(mv_value returned, int code, int bits)


cdef inline int take_number(object signature, int param, object obj, int code, int bits, mv_value *value) except -1:
    """convert(), with the common case on the spot."""
    if type(obj) is float and code == MV_FLOAT and bits > 16:
        value.f64 = <double>obj
        return 0
    return convert(signature, param, obj, code, bits, value)
