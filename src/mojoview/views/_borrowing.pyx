"""Borrow checking: which views read and which write which bytes. A borrow belongs to a lease and ends with it."""

from libc.stdint cimport uint64_t

from mojoview.memory.abi cimport MV_READONLY, mv_desc
from mojoview.memory._lease cimport Lease

import sys
import threading

from mojoview.memory.errors import ArgumentError, BorrowError


cdef extern from "views/region.h" nogil:
    ctypedef struct mv_region:
        uint64_t low
        uint64_t high
    bint mv_region_of(const mv_desc *d, mv_region *r)
    bint mv_regions_share(const mv_region *a, const mv_region *b)

# All live borrows, in a circular list around a sentinel. It is read and changed with the GIL held and without running
# Python code in between, so that the check and the insertion are one step for all threads.
cdef struct Entry:
    mv_region region
    bint writes
    void *lease      # identifies the holder: views derived from one view do not conflict with each other
    void *borrow     # the Borrow around this entry
    Entry *before
    Entry *after

cdef Entry borrows
borrows.before = borrows.after = &borrows
cdef Py_ssize_t borrow_count = 0


cdef class Borrow:
    cdef Entry entry
    cdef str location  # where the view was opened

    def __cinit__(self):
        self.entry.after = NULL

    def __dealloc__(self):
        global borrow_count
        if self.entry.after is not NULL:
            self.entry.before.after = self.entry.after
            self.entry.after.before = self.entry.before
            borrow_count -= 1


cdef int enter_borrow(Lease lease, const mv_desc *d) except -1:
    """Record a new view's memory under its lease; BorrowError if it conflicts with a live borrow."""
    global borrow_count
    cdef Borrow mine, theirs
    cdef Entry *e
    cdef mv_region region
    if not mv_region_of(d, &region):
        return 0
    mine = Borrow.__new__(Borrow)
    mine.location = caller_location()
    mine.entry.region = region
    mine.entry.writes = (d.flags & MV_READONLY) == 0
    mine.entry.lease = <void *>lease
    mine.entry.borrow = <void *>mine
    e = borrows.after
    while e is not &borrows:
        if e.lease == mine.entry.lease:
            if e.region.low <= region.low and region.high <= e.region.high and e.writes >= mine.entry.writes:
                return 0  # recorded before: a mask that is asked for again
        elif (e.writes or mine.entry.writes) and mv_regions_share(&e.region, &region):
            theirs = <Borrow>e.borrow
            raise borrow_error(mine.location, mine.entry.writes, theirs.location, e.writes, region.low, region.high)
        e = e.after
    mine.entry.before, mine.entry.after = borrows.before, &borrows
    borrows.before.after = borrows.before = &mine.entry
    borrow_count += 1
    lease.borrow = mine if lease.borrow is None else (lease.borrow, mine)
    return 0


cdef bint set_enabled(bint on) noexcept:
    """Turn checking on or off for the process; return the previous setting."""
    global checking
    before, checking = checking, on
    return before


cdef str caller_location():
    """File, line and thread of the nearest caller outside the package."""
    frame = sys._getframe(0)  # compiled code has no frame of its own
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "mojoview":
        frame = frame.f_back
    place = f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else "native code"
    return f"{place} (thread {threading.current_thread().name})"


cdef object borrow_error(str mine, bint i_write, str theirs, bint they_write, uint64_t low, uint64_t high):
    wanted, taken = ["writable" if writes else "read-only" for writes in (i_write, they_write)]
    return BorrowError(
        f"a {wanted} view taken at {mine} needs bytes in {low:#x}..{high:#x} of which a {taken} view taken at {theirs} "
        "holds some; expected many readers or one writer: release that one first")


class borrow_check:
    """Turn borrow checking on or off: many readers or one writer for every byte.

    While it is on, `view()` and everything else that opens memory raises `BorrowError` if a writable view would share
    bytes with a live view, or any view with a live writable one. The message names where both were opened. Takes effect
    immediately; as a context manager it restores the previous setting.

    Parameters
    ----------
    on : bool

    Raises
    ------
    ArgumentError
        `on` is not a bool.

    Notes
    -----
    A borrow begins when memory is opened, and ends with the last view on it: views derived from a view, and views of
    a view, belong to the same holder and do not conflict. Not seen are views opened before checking was on, kernels
    that get bare arrays, device memory, other processes and second mappings of a file. Bytes are compared exactly,
    interleaved columns included; strides that take more than some thousand steps to decide count as a conflict.
    Costs some microseconds for each view and some ten nanoseconds for each live view; one test of a flag while it is
    off.

    Thread safety: any thread; the setting belongs to the process, so programs turn it on once. No locks are held.

    Examples
    --------
    >>> import numpy as np, mojoview as mv
    >>> a = np.zeros((3, 2))
    >>> with mv.borrow_check(True):
    ...     left, right = mv.view(a[:, 0], writable=True), mv.view(a[:, 1], writable=True)
    ...     try:
    ...         mv.view(a)
    ...     except mv.BorrowError as error:
    ...         print(str(error)[:16])
    a read-only view
    """

    def __init__(self, on=True):
        if type(on) is not bool:
            raise ArgumentError(f"borrow_check(on): expected a bool, got {type(on).__name__}")
        self._before = set_enabled(on)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        set_enabled(self._before)


def live_borrows():
    """live_borrows()

    Return the number of borrowed regions. Leak tests compare it before and after.
    """
    return borrow_count
