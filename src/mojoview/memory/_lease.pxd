from cpython.buffer cimport Py_buffer


cdef class Lease:
    cdef readonly object owner  # keeps the memory valid as long as the lease exists, even if no buffer is exported
    cdef Py_buffer buffer   # the owner's only export, released when the last view that shares this lease is gone
    cdef bint held          # whether `buffer` is an export that must be released
    cdef object borrow      # the Borrow of this memory, or several; None while checking is off
    cdef object window      # the memoryview that `buffer` belongs to, if the owner's memory comes through one; or None
    cdef object __weakref__


cdef Lease lease_buffer(object exporter, object owner, int flags)
cdef Lease lease_owner(object owner)
cdef int get_buffer(object exporter, Py_buffer *buffer, int flags) except -1
cdef void release_buffer(Py_buffer *buffer) noexcept
