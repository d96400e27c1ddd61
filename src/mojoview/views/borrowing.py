"""`borrow_check()`: the switch for borrow checking."""

from __future__ import annotations

from types import TracebackType

from mojoview.memory.errors import ArgumentError
from mojoview.views._borrowing import switch

__all__ = ["borrow_check"]


class borrow_check:
    """Turns borrow checking on or off: many readers or one writer for every byte.

    While it is on, `view()` and everything else that opens memory raises `BorrowError` where a writable view would
    share bytes with a view that is alive, or any view with a writable one. The message names where both were taken.
    Takes effect at once; as a context manager it puts back what was before.

    Parameters
    ----------
    on : bool

    Raises
    ------
    ArgumentError
        `on` is no bool.

    Notes
    -----
    A borrow begins when memory is opened, and ends with the last view on it: views that are cut from a view, and
    views of a view, belong to the same holder and do not conflict. Views from before the switch, kernels that
    get bare arrays, device memory, other processes and second mappings of a file are not seen. Bytes are
    compared exactly, interleaved columns included; strides that take more than some thousand steps to decide
    count as a conflict. Costs some microseconds a view and some ten nanoseconds for every view that is alive;
    one test of a flag while it is off.

    Thread safety: any thread; the switch is the process's, so programs turn it on once. No locks are held.

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

    def __init__(self, on: bool = True) -> None:
        if type(on) is not bool:
            raise ArgumentError(f"borrow_check(on): expected a bool, got {type(on).__name__}")
        self._before = switch(on)

    def __enter__(self) -> borrow_check:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        switch(self._before)
