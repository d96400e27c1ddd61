"""Borrows that are checked whether or not `borrow_check()` is on."""

from mojoview.memory.abi cimport mv_desc
from mojoview.views._borrow cimport take
from mojoview.views._view cimport View, view_enter, view_leave


def borrow(View view not None):
    """borrow(view)

    Enters the view's memory into the book of borrows, for as long as its memory is leased.

    Parameters
    ----------
    view : View
        Read-only views borrow for reading, writable ones for writing.

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
    try:
        take(view._lease, d)
    finally:
        view_leave(view)
