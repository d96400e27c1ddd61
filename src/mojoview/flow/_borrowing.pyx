"""Borrows that are checked whether or not `borrow_check()` is on."""

from mojoview.memory.abi cimport mv_desc
from mojoview.memory._lease cimport Lease, lease_owner
from mojoview.views._borrow cimport take
from mojoview.views._view cimport View, view_enter, view_leave


def borrow(View view not None):
    """borrow(view)

    Enters the view's memory into the book of borrows.

    Parameters
    ----------
    view : View
        Read-only views borrow for reading, writable ones for writing.

    Returns
    -------
    Lease
        The borrow ends with it, unless the view stood in the book before.

    Raises
    ------
    BorrowError
        Somebody in the book writes the bytes, or has them while this view would write.
    ReleasedError

    Notes
    -----
    Thread safety: any thread.
    """
    cdef mv_desc *d = view_enter(view)
    cdef Lease lease
    try:
        # a view that was opened under checking is its own holder; others get one for the time of the call
        lease = view._lease if view._lease.borrow is not None else lease_owner(view.owner)
        take(lease, d)
        return lease
    finally:
        view_leave(view)
