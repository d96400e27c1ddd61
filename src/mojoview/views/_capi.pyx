"""Entry points: `view()` for Python, and the cimport surface for third-party Cython modules.

`view()` has a fast path for ndarrays; everything else goes to `dispatch`. It is compiled, as Python keywords are slow.
"""

from mojoview.memory.abi cimport MV_READONLY, mv_desc
from mojoview.views._view cimport View, view_enter, view_leave

import numpy as np

from mojoview.memory.errors import ArgumentError, ReadOnlyError
from mojoview.views._construct import from_array
from mojoview.views.dispatch import open_slow

cdef type ndarray = np.ndarray


def view(obj, *, writable=False, copy="never"):
    """view(obj, *, writable=False, copy="never")

    Open a zero-copy view of an object's memory.

    Parameters
    ----------
    obj : array-like
        ndarray (also masked), View, anything with the buffer protocol, `__array_interface__`, Arrow's PyCapsule
        interface, DLPack or `__cuda_array_interface__`, or an object with a `mojo` accessor (pandas Series, Index and
        extension arrays). Missing elements stay missing: the view has a mask. At most 8 dimensions.
    writable : bool
        Whether the view may write. Needs writable memory without overlapping elements.
    copy : {"never", "if_needed", "always"}
        "never" refuses if the memory cannot be shared; "if_needed" copies then; "always" copies.

    Returns
    -------
    View
        Borrows the memory of `obj` and keeps it alive; owns a fresh, 64-byte aligned one after a copy. Arrow arrays
        whose items do not have their bytes in place give an `ArrowView` (strings, lists, booleans, …) and streams a
        `ChunkedView` instead.

    Raises
    ------
    ZeroCopyError
        The memory cannot be shared; the message gives the reason and the remedy.
    ReadOnlyError, LayoutError
        ``writable=True`` on read-only memory; on memory with overlapping elements (stride 0).
    DTypeError
        Items are references (object, variable-width strings).
    InterfaceError, ShapeError, ArgumentError
        The exporter's description is malformed, has more than 8 dimensions, or `obj` exports nothing.

    Notes
    -----
    Thread safety: any thread. The caller's array is never touched, not even its flags.

    Examples
    --------
    >>> import numpy as np, mojoview as mv
    >>> a = np.arange(4, dtype="i4")
    >>> v = mv.view(a)
    >>> (v.ptr == a.ctypes.data, v.readonly, v.shape)
    (True, True, (4,))
    """
    if type(obj) is ndarray and writable is False and type(copy) is str and copy == "never":
        return from_array(obj, False)
    return open_slow(obj, writable, copy)


cdef const mv_desc *mv_view_hold(object view) except NULL:
    if not isinstance(view, View):
        raise ArgumentError(f"mv_view_hold(): expected a View, got {type(view).__name__}; mojoview.view(obj) makes one")
    return view_enter(<View>view)


cdef mv_desc *mv_view_hold_writable(object view) except NULL:
    cdef const mv_desc *d = mv_view_hold(view)
    if d.flags & MV_READONLY:
        view_leave(<View>view)
        raise ReadOnlyError("mv_view_hold_writable(): the view is read-only; open it with view(obj, writable=True)")
    return (<View>view).desc


cdef void mv_view_drop(object view) noexcept:
    if isinstance(view, View):
        view_leave(<View>view)
