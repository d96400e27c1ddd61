from libc.stdint cimport int64_t, uint8_t, uintptr_t

from mojoview.memory.abi cimport mv_desc
from mojoview.memory._lease cimport Lease


cdef class Window:
    cdef mv_desc *desc               # inside `_store`, aligned to 64 bytes; NULL once released
    cdef unsigned char _store[320]
    cdef Lease _lease                # keeps the memory valid and pinned; shared with the views derived from this one
    cdef Lease _mask_lease           # the same for the mask
    cdef object _dtype               # NumPy dtype
    cdef bytes _format               # PEP 3118 format that our own exports point to; None if the dtype has none
    cdef int _alignment              # of the dtype, in bytes
    cdef object _pin                 # any other object that must exist as long (pandas' Copy-on-Write reference)
    cdef Py_ssize_t _exports         # buffer consumers and running kernels: while there are any, release() refuses
    cdef object _arrow               # Arrow's format if it has more detail than the dtype (time zones); or None
    cdef object _stream              # device stream on which the memory may still be written; or None
    cdef bint _exposed               # the address was exported: the memory stays until the view is deallocated
    cdef object __weakref__


cdef class Bits:
    cdef Lease _lease
    cdef const uint8_t *start     # byte of the first bit
    cdef readonly int64_t offset  # bits from `start` to the first bit
    cdef readonly int64_t size
    cdef readonly str device      # as View.device


cdef Bits make_bits(Lease lease, const uint8_t *start, int64_t offset, int64_t size, str device=*)
cdef int raise_released() except -1
cdef int set_dtype(Window self, object dtype) except -1
cdef int derive_flags(Window self) except -1
cdef int copy_fields(Window self, Window source) except -1
cdef void drop_mask(Window self) noexcept
cdef int check_host(Window self, str operation) except -1
cdef int check_exportable(Window self, str protocol) except -1


cdef inline mv_desc *descriptor(Window self) except NULL:
    if self.desc is NULL:
        raise_released()
    return self.desc


cdef inline mv_desc *open_store(Window self) noexcept:
    """Point `desc` at the aligned part of the object's own storage."""
    cdef uintptr_t address = (<uintptr_t>self._store + 63) & ~<uintptr_t>63
    self.desc = <mv_desc *>address
    return self.desc
