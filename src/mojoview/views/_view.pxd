from mojoview.memory.abi cimport mv_desc
from mojoview.memory._lease cimport Lease


cdef class View:
    cdef mv_desc *desc               # inside `_store`, aligned to 64 bytes; NULL once released
    cdef unsigned char _store[320]
    cdef Lease _lease                # keeps the memory alive and pinned; shared with the views cut from this one
    cdef Lease _mask_lease           # the same for the mask
    cdef readonly object dtype       # NumPy dtype
    cdef object _pin                 # whatever else has to live as long (pandas' Copy-on-Write reference)
    cdef Py_ssize_t _exports         # consumers of our buffer and kernels that run on it: release() waits for none
    cdef bint _exposed               # the address went out through __array_interface__: the memory stays until we die
    cdef object __weakref__


# For kernels: the descriptor, held until view_leave(). Raises ReleasedError.
cdef mv_desc *view_enter(View self) except NULL
cdef void view_leave(View self) noexcept
