"""Borrows: who reads and who writes which bytes, while checking is on. One hangs on a lease and ends with it."""

from libc.stdint cimport uint64_t

from mojoview.memory.abi cimport MV_READONLY, mv_desc
from mojoview.memory._lease cimport Lease

from mojoview.views.borrow_errors import conflict, whereabouts


cdef extern from "views/region.h" nogil:
    ctypedef struct mv_region:
        uint64_t low
        uint64_t high
    bint mv_region_of(const mv_desc *d, mv_region *r)
    bint mv_regions_share(const mv_region *a, const mv_region *b)

# All that live, in a ring without an owner. It is read and changed with the GIL held and without running Python code in
# between, so that check and entry are one step for all threads, and nobody waits for anybody.
cdef struct Entry:
    mv_region region
    bint writes
    void *lease      # whose; views cut from one view do not conflict with each other
    void *borrow     # the object around this entry
    Entry *before
    Entry *after

cdef Entry ring
ring.before = ring.after = &ring
cdef Py_ssize_t entered = 0


cdef class Borrow:
    cdef Entry entry
    cdef str holder  # where it was taken

    def __cinit__(self):
        self.entry.after = NULL

    def __dealloc__(self):
        global entered
        if self.entry.after is not NULL:
            self.entry.before.after = self.entry.after
            self.entry.after.before = self.entry.before
            entered -= 1


cdef int take(Lease lease, const mv_desc *d) except -1:
    """Enters a new view's memory under its lease; BorrowError where somebody writes it, or has it while we would."""
    global entered
    cdef Borrow mine, theirs
    cdef Entry *e
    cdef mv_region region
    if not mv_region_of(d, &region):
        return 0
    mine = Borrow.__new__(Borrow)
    mine.holder = whereabouts()
    mine.entry.region = region
    mine.entry.writes = (d.flags & MV_READONLY) == 0
    mine.entry.lease = <void *>lease
    mine.entry.borrow = <void *>mine
    e = ring.after
    while e is not &ring:
        if e.lease == mine.entry.lease:
            if e.region.low <= region.low and region.high <= e.region.high and e.writes >= mine.entry.writes:
                return 0  # entered already: a mask that is asked for again
        elif (e.writes or mine.entry.writes) and mv_regions_share(&e.region, &region):
            theirs = <Borrow>e.borrow
            raise conflict(mine.holder, mine.entry.writes, theirs.holder, e.writes, region.low, region.high)
        e = e.after
    mine.entry.before, mine.entry.after = ring.before, &ring
    ring.before.after = ring.before = &mine.entry
    entered += 1
    lease.borrow = mine if lease.borrow is None else (lease.borrow, mine)
    return 0


def switch(bint on):
    """switch(on)

    Turns checking on or off for the process; what it was.
    """
    global checking
    before, checking = checking, on
    return before


def live_borrows():
    """live_borrows()

    Number of regions that are borrowed. Leak tests compare it before and after.
    """
    return entered
