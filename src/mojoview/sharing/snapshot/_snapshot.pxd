from libc.stdint cimport int64_t, uint64_t

from mojoview.sharing.segment._publication cimport Publication
from mojoview.sharing.segment._segment cimport Mapping, Segment
from mojoview.sharing.snapshot.slots cimport mv_slots_ref
from mojoview.views._view cimport View


cdef class Row:
    """A row of the readers' page, with its lock; a handle keeps free ones."""
    cdef int64_t number
    cdef int fd
    # at the claim: after a fork two processes share the lock, and neither may use the row
    cdef uint64_t forks


cdef class Pin:
    """A pinned publication, held by its views; the slot is free once the last is gone."""
    cdef list free_rows             # of its handle; receives the row at the end
    cdef str name
    cdef Row row
    cdef mv_slots_ref pins
    cdef Mapping mapping            # the data; `pins` points into it and into `page`
    cdef Mapping page
    cdef uint64_t map
    cdef readonly uint64_t time_ns
    cdef readonly uint64_t nbytes
    cdef object __weakref__


cdef class Snapshot(Publication):
    cdef mv_slots_ref pins           # head is NULL once closed
    cdef readonly tuple shape
    cdef int64_t data_off, slot_bytes, slot_stride, max_slots
    cdef list free_rows
    cdef uint64_t last_read         # number of the last publication that read() returned
    cdef object newest              # weak reference to the newest pin
    cdef int64_t writing            # slot that write() is filling, or -1

    cdef int64_t acquire_slot(self, object busy, object timeout) except -1
    cdef int grow(self) except -1
    cdef View slot_view(self, Mapping mapping, object owner, int64_t slot, bint writable)
