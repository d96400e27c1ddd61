from libc.stdint cimport int64_t, uint64_t

from mojoview.sharing._segment cimport Mapping, Segment
from mojoview.views._view cimport View


cdef extern from "pins.h" nogil:
    ctypedef struct mv_pins_head:
        pass
    ctypedef struct mv_pins_row:
        pass
    ctypedef struct mv_pins_ref:
        mv_pins_head *head
        mv_pins_row *rows
        uint64_t row_count
        uint64_t slot_limit


cdef class Row:
    """A row of the readers' page and the lock on it; given back to its handle when the pin on it is gone."""
    cdef int64_t number
    cdef int fd
    cdef uint64_t forks             # when it was claimed: after a fork two processes share the lock, and neither may use the row


cdef class Pin:
    """One pinned publication. Views on it hold it; it lets the writer have the slot when the last is gone."""
    cdef Snapshot snapshot          # takes the row back
    cdef Row row
    cdef mv_pins_ref pins
    cdef Mapping mapping            # the data, and with `page` what `pins` points into
    cdef Mapping page
    cdef uint64_t map
    cdef readonly uint64_t time_ns
    cdef readonly uint64_t nbytes
    cdef object __weakref__


cdef class Snapshot:
    cdef mv_pins_ref pins           # head is NULL once closed
    cdef readonly Segment segment
    cdef Mapping mapping            # the whole segment, read-only for readers
    cdef Mapping page               # the readers' pages, writable for all
    cdef readonly object dtype
    cdef readonly tuple shape
    cdef int64_t data_off, slot_bytes, slot_stride, max_slots
    cdef list free_rows
    cdef uint64_t last_read         # number of the last publication that read() gave
    cdef object newest              # weak reference to the pin on the newest publication that was read
    cdef int64_t writing            # the slot that write() is filling; -1 none
    cdef object __weakref__

    cdef int check_open(self, str operation) except -1
    cdef Row take_row(self)
    cdef Pin pin(self)
    cdef int64_t take_slot(self, str busy, object timeout) except -1
    cdef int grow(self) except -1
    cdef View slot_view(self, object owner, int64_t slot, bint writable)
