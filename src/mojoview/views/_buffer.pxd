from mojoview.memory.abi cimport mv_desc


cdef int fill_buffer(Py_buffer *buffer, mv_desc *d, bytes format, object dtype, int flags) except -1
