"""Pins: how readers of a Snapshot hold one publication in place. The algorithm is slots.h."""

cimport cython
from libc.errno cimport EBUSY
from libc.stdint cimport int64_t, uint64_t
from posix.unistd cimport close

from mojoview.sharing.segment._segment cimport Mapping, Segment, forks

import errno
import os
import time

from mojoview.memory.errors import Busy, SegmentError
from mojoview.sharing.segment import segments


cdef extern from "sharing/snapshot/slots.h" nogil:
    """
    static inline uint64_t mv_slots_bytes(const mv_slots_ref *r, uint64_t slot) { return mv_slot_at(r, slot)->bytes; }
    static inline uint64_t mv_slots_time(const mv_slots_ref *r, uint64_t slot) { return mv_slot_at(r, slot)->time_ns; }
    """
    enum:
        MV_SLOTS_NONE
        MV_SLOTS_PINNED
        MV_SLOTS_BUSY
        MV_SLOTS_DAMAGED
        MV_OS_LOCKS
    int mv_slots_pin(const mv_slots_ref *r, uint64_t row, uint64_t *map)
    void mv_slots_unpin(const mv_slots_ref *r, uint64_t row)
    void mv_slots_drop_row(const mv_slots_ref *r, uint64_t row)
    int64_t mv_slots_claim_row(const mv_slots_ref *r, int any, int *fd)
    uint64_t mv_slots_bytes(const mv_slots_ref *r, uint64_t slot)
    uint64_t mv_slots_time(const mv_slots_ref *r, uint64_t slot)


@cython.final
cdef class Row:
    def __cinit__(self):
        self.fd = -1

    def __dealloc__(self):
        if self.fd >= 0:
            close(self.fd)


# Its end writes to the mappings that it holds: they must still be there.
@cython.final
@cython.no_gc_clear
cdef class Pin:
    """Pin()

    One publication, pinned: the writer leaves its slot alone until the last view on it is gone. Found as ``view.owner``.

    Attributes
    ----------
    version : int
    time_ns : int
        When it was published, by the machine's monotonic clock.
    """

    def __dealloc__(self):
        # After a fork parent and child share the row's lock, and either may still look: then only the last to let go frees it, and
        # the writer finds the row's lock free.
        if self.map and self.row.forks == forks():
            give_row_back(&self.pins, self.row, self.free_rows)

    @property
    def version(self):
        return self.map >> 8

    def __repr__(self):
        return f"<mojoview pin: publication {self.version} of {self.name!r}>"


cdef int give_row_back(const mv_slots_ref *pins, Row row, list free_rows) except -1:
    mv_slots_unpin(pins, row.number)
    if MV_OS_LOCKS:
        free_rows.append(row)
    else:  # nobody would notice that this process died with it
        mv_slots_drop_row(pins, row.number)
    return 0


cdef Row take_row(const mv_slots_ref *pins, Segment segment, list free_rows):
    """A row that this process alone holds: one given back, or a new one."""
    cdef Row row
    cdef int64_t number
    while free_rows:
        row = free_rows.pop()
        if row.forks == forks():
            return row
    row = Row.__new__(Row)
    number = mv_slots_claim_row(pins, segment.fd, &row.fd)
    if number == -EBUSY:
        raise Busy(errno.EAGAIN, f"read(): all {pins.row_count} rows for readers of {segment.name!r} are pinned; "
                   "let views go, or create it with more readers")
    if number < 0:
        row.fd = -1
        raise SegmentError(-number, f"read(): claiming a row of {segment.name!r}: {os.strerror(-number)}")
    row.number, row.forks = number, forks()
    return row


cdef Pin pin_newest(const mv_slots_ref *pins, Segment segment, Mapping mapping, Mapping page, list free_rows):
    """A pin on the newest publication; None where there is none."""
    cdef Pin pin = Pin.__new__(Pin)
    cdef int status
    pin.pins, pin.mapping, pin.page, pin.free_rows, pin.name = pins[0], mapping, page, free_rows, segment.name
    pin.row = take_row(pins, segment, free_rows)
    status = mv_slots_pin(pins, pin.row.number, &pin.map)
    deadline = time.monotonic() + 1
    while status == MV_SLOTS_BUSY and time.monotonic() < deadline:
        time.sleep(0)
        status = mv_slots_pin(&pin.pins, pin.row.number, &pin.map)
    if status != MV_SLOTS_PINNED:
        pin.map = 0
        give_row_back(pins, pin.row, free_rows)
        if status == MV_SLOTS_NONE:
            return None
        segments.require_params(segment, "read()", status != MV_SLOTS_DAMAGED)
        raise Busy(errno.EAGAIN, f"read(): the writer of {segment.name!r} lapped this reader for a second; use more slots")
    pin.time_ns = mv_slots_time(&pin.pins, pin.map & 255)
    pin.nbytes = mv_slots_bytes(&pin.pins, pin.map & 255)
    return pin
