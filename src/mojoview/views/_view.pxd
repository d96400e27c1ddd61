from libc.stdint cimport int64_t, uint64_t

from mojoview.memory.abi cimport mv_desc
from mojoview.memory._lease cimport Lease


cdef class View:
    cdef mv_desc *desc               # inside `_store`, aligned to 64 bytes; NULL once released
    cdef unsigned char _store[320]
    cdef Lease _lease                # keeps the memory alive and pinned; shared with the views cut from this one
    cdef Lease _mask_lease           # the same for the mask
    cdef object _dtype               # NumPy dtype
    cdef bytes _format               # PEP 3118 format that our own exports point to; None where there is none
    cdef int _alignment              # of the dtype, in bytes
    cdef object _pin                 # whatever else has to live as long (pandas' Copy-on-Write reference)
    cdef Py_ssize_t _exports         # consumers of our buffer and kernels on it: while there are any, no release()
    cdef bint _exposed               # the address went out through __array_interface__: the memory stays until we die
    cdef object __weakref__


# For kernels: the descriptor, held until view_leave(). Raises ReleasedError.
cdef inline mv_desc *view_enter(View self) except NULL:
    if self.desc is NULL:
        raise_released()
    self._exports += 1
    return self.desc


cdef inline void view_leave(View self) noexcept:
    self._exports -= 1


cdef int raise_released() except -1
cdef View make_view(Lease lease, void *data, int ndim, const int64_t *shape, const int64_t *strides, object dtype,
                    bint readonly)
