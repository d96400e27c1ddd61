from libc.stdint cimport int64_t, uint64_t

from mojoview.sharing.segment._segment cimport Mapping, Segment


cdef extern from "sharing/snapshot/slots.h" nogil:
    ctypedef struct mv_slots_head:
        pass
    ctypedef struct mv_pin_row:
        pass
    ctypedef struct mv_slots_ref:
        mv_slots_head *head
        mv_pin_row *rows
        uint64_t row_count
        uint64_t slot_limit


cdef class Row:
    """A row of the readers' page and the lock on it; given back to its handle when the pin on it is gone."""
    cdef int64_t number
    cdef int fd
    cdef uint64_t forks             # when it was claimed: after a fork two processes share the lock, and neither may use the row


cdef class Pin:
    """One pinned publication. Views on it hold it; it lets the writer have the slot when the last is gone."""
    cdef list free_rows             # of the handle that made it: takes the row back
    cdef str name
    cdef Row row
    cdef mv_slots_ref pins
    cdef Mapping mapping            # the data, and with `page` what `pins` points into
    cdef Mapping page
    cdef uint64_t map
    cdef readonly uint64_t time_ns
    cdef readonly uint64_t nbytes
    cdef object __weakref__


cdef Pin pin_newest(const mv_slots_ref *pins, Segment segment, Mapping mapping, Mapping page, list free_rows)
