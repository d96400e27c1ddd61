from libc.stdint cimport int64_t

from mojoview.memory.abi cimport mv_desc


cdef int64_t as_int64(object value, str what, object error) except? -1
cdef int read_geometry(object sizes, object steps, int64_t item, int64_t *shape, int64_t *strides) except -1
cdef int apply_index(mv_desc *d, object key) except -1
cdef int dimensions_held(const mv_desc *d) noexcept
cdef int transpose(mv_desc *d) noexcept
cdef int apply_shape(mv_desc *d, tuple shape) except -1
cdef int resize_items(mv_desc *d, object dtype) except -1
cdef tuple int64_tuple(const int64_t *values, int n)
cdef int fill_buffer(Py_buffer *buffer, mv_desc *d, bytes format, object dtype, int flags) except -1
