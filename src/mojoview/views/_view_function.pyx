"""`view()`: the common case at once, all others through `open`. Compiled, since a Python function pays for keywords."""

import numpy as np

from mojoview.views._construct import from_array
from mojoview.views.dispatch import open_slow

cdef type ndarray = np.ndarray


def view(obj, *, writable=False, copy="never"):
    """view(obj, *, writable=False, copy="never")

    A zero-copy view of an object's memory.

    Parameters
    ----------
    obj : array-like
        ndarray (also masked), View, anything with the buffer protocol, `__array_interface__`, Arrow's PyCapsule
        interface, DLPack or `__cuda_array_interface__`, or an object with a `mojo` accessor (pandas Series, Index and
        extension arrays). What is missing stays missing: the view has its mask.
        At most 8 dimensions.
    writable : bool
        Whether the view may write. Needs writable memory in which no element is reached twice.
    copy : {"never", "if_needed", "always"}
        "never" refuses where the memory cannot be shared; "if_needed" copies then; "always" copies.

    Returns
    -------
    View
        Borrows the memory of `obj` and keeps it alive; owns a fresh, 64-byte aligned one after a copy. Arrow arrays
        whose items do not have their bytes in place give an `ArrowView` (strings, lists, booleans, …) and streams a
        `ChunkedView` instead.

    Raises
    ------
    ZeroCopyError
        The memory cannot be shared; the message says why, and what helps.
    ReadOnlyError, LayoutError
        ``writable=True`` on read-only memory; on memory where elements overlap (stride 0).
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
