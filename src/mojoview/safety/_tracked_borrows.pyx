"""Borrows that are checked whether or not `borrow_check()` is on."""

from mojoview.memory.abi cimport mv_desc
from mojoview.memory._lease cimport Lease, lease_owner
from mojoview.views._borrowing cimport take
from mojoview.views._view cimport View, view_enter, view_leave


def borrow(tuple views):
    """borrow(views)

    Enters the memory of a call's arguments into the book of borrows. They do not conflict with each other.

    Parameters
    ----------
    views : tuple of View
        Read-only views borrow for reading, writable ones for writing.

    Returns
    -------
    Lease
        The borrow ends with it. A view that stood in the book before has its own.

    Raises
    ------
    BorrowError
        Somebody in the book writes the bytes, or has them while a view would write.
    ReleasedError

    Notes
    -----
    Thread safety: any thread.
    """
    cdef Lease lease = lease_owner(views)
    cdef View view
    cdef mv_desc *d
    for view in views:
        d = view_enter(view)
        try:
            # a view that was opened under checking is its own holder
            take(view._lease if view._lease.borrow is not None else lease, d)
        finally:
            view_leave(view)
    return lease
