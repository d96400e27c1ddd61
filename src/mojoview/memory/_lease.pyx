"""Leases, which keep memory valid and pinned. The only caller of PyObject_GetBuffer in the package."""

cimport cython
from cpython.buffer cimport PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t

from mojoview.memory.errors import ArgumentError


cdef extern from *:
    """
    static int mv_is_of_memoryview(const Py_buffer *buffer) {
        return buffer->obj != NULL && PyMemoryView_Check(buffer->obj);
    }
    static PyObject *mv_memoryview_of(const Py_buffer *buffer) { return PyMemoryView_FromObject(buffer->obj); }
    static void mv_borrow_memoryview_buffer(Py_buffer *buffer, PyObject *window) {
        *buffer = *PyMemoryView_GET_BUFFER(window);
        buffer->obj = NULL; /* no export: nothing to release */
    }
    """
    bint mv_is_of_memoryview(const Py_buffer *buffer)
    object mv_memoryview_of(const Py_buffer *buffer)
    void mv_borrow_memoryview_buffer(Py_buffer *buffer, object window)

cdef extern from "memory/live_leases.h" nogil:
    void mv_live_leases_add(int64_t n)
    int64_t mv_live_leases_read()


# The owner must outlive the export: were the cycle collector to clear `owner` or `buffer.obj` first, the exporter would
# never be notified that its buffer is free. Cycles through a lease are broken elsewhere, in what the owner holds.
@cython.no_gc_clear
cdef class Lease:
    """Lease()

    Keep memory valid. Made by the package only; it ends when the last view that shares it is deallocated.

    Thread safety: immutable after construction; ends on any thread.
    """

    def __cinit__(self):
        self.held = False
        mv_live_leases_add(1)

    def __init__(self):
        raise ArgumentError("Lease() is not called by hand: mojoview.view() makes one")

    def __dealloc__(self):
        if self.held:
            self.held = False
            PyBuffer_Release(&self.buffer)
        mv_live_leases_add(-1)

    def __repr__(self):
        what = "buffer of" if self.held or self.window is not None else "reference to"
        return f"<mojoview lease: {what} {type(self.owner).__name__} at {id(self.owner):#x}>"


cdef Lease lease_buffer(object exporter, object owner, int flags):
    """Acquire the exporter's buffer; its own exception passes through. `owner` is the object of the caller."""
    cdef Lease lease = Lease.__new__(Lease)
    PyObject_GetBuffer(exporter, &lease.buffer, flags)
    lease.held = True
    lease.owner = owner
    if mv_is_of_memoryview(&lease.buffer):
        rewrap_memoryview(lease)
    return lease


cdef int rewrap_memoryview(Lease lease) except -1:
    """Exchange an export of a foreign memoryview for a new memoryview of the same memory.

    The collector clears memoryviews in cycles, and before Python 3.13 it did so despite live exports: the release that
    follows then reads freed memory. The new memoryview has no exports, and no other code can release it."""
    window = mv_memoryview_of(&lease.buffer)
    lease.held = False
    PyBuffer_Release(&lease.buffer)
    lease.window = window
    mv_borrow_memoryview_buffer(&lease.buffer, window)
    return 0


cdef Lease lease_owner(object owner):
    """Make a lease that only keeps the owner alive, without a buffer export."""
    cdef Lease lease = Lease.__new__(Lease)
    lease.owner = owner
    return lease


cdef int get_buffer(object exporter, Py_buffer *buffer, int flags) except -1:
    """Acquire a buffer for the duration of one call, without a Lease and uncounted: release_buffer() must follow in the
    same function."""
    PyObject_GetBuffer(exporter, buffer, flags)
    return 0


cdef void release_buffer(Py_buffer *buffer) noexcept:
    PyBuffer_Release(buffer)


def live_leases():
    """live_leases()

    Return the number of live leases in this process.

    Returns
    -------
    int

    Notes
    -----
    Thread safety: may be called from any thread. Leak tests compare it before and after.

    Examples
    --------
    >>> from mojoview.memory._lease import live_leases
    >>> isinstance(live_leases(), int)
    True
    """
    return mv_live_leases_read()
