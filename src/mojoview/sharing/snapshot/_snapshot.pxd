from libc.stdint cimport int64_t, uint64_t

from mojoview.sharing.snapshot._pins cimport mv_slots_ref
from mojoview.sharing.segment._publication cimport Publication
from mojoview.sharing.segment._segment cimport Mapping
from mojoview.views._view cimport View


cdef class Snapshot(Publication):
    cdef mv_slots_ref pins           # head is NULL once closed
    cdef readonly tuple shape
    cdef int64_t data_off, slot_bytes, slot_stride, max_slots
    cdef list free_rows
    cdef uint64_t last_read         # number of the last publication that read() gave
    cdef object newest              # weak reference to the pin on the newest publication that was read
    cdef int64_t writing            # the slot that write() is filling; -1 none

    cdef int64_t take_slot(self, object busy, object timeout) except -1
    cdef int grow(self) except -1
    cdef View slot_view(self, Mapping mapping, object owner, int64_t slot, bint writable)
