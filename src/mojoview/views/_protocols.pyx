"""Which protocol an object's type speaks, found without the exceptions that asking for a missing attribute costs."""

from cpython.buffer cimport PyObject_CheckBuffer
from cpython.object cimport PyObject


cdef extern from "Python.h":
    PyObject *_PyType_Lookup(type kind, object name)


def has_accessor(obj):
    """has_accessor(obj)

    Whether the type has our `mojo` accessor; another attribute of that name says nothing of memory.

    Parameters
    ----------
    obj : object

    Returns
    -------
    bool

    Notes
    -----
    Thread safety: any thread.

    Examples
    --------
    >>> has_accessor(3)
    False
    """
    cdef PyObject *found = _PyType_Lookup(type(obj), "mojo")
    return found is not NULL and getattr(<object>found, "of_mojoview", False) is True


def protocol_of(obj):
    """protocol_of(obj)

    The protocol that says most of the object's memory.

    Parameters
    ----------
    obj : object
        No ndarray and no View.

    Returns
    -------
    str or None
        "pandas" for objects with our accessor, whose blocks only it knows; "arrow", which knows validity, where buffers
        do not; "dlpack" where there is neither a buffer nor `__array_interface__`; None: try the others, one after the
        other.

    Notes
    -----
    Thread safety: any thread.
    """
    cdef type kind = type(obj)
    if has_accessor(obj):
        return "pandas"
    if _PyType_Lookup(kind, "__arrow_c_array__") is not NULL or _PyType_Lookup(kind, "__arrow_c_stream__") is not NULL:
        return "arrow"
    if PyObject_CheckBuffer(obj) or _PyType_Lookup(kind, "__array_interface__") is not NULL:
        return None
    if _PyType_Lookup(kind, "__dlpack__") is not NULL:
        return "dlpack"
    if _PyType_Lookup(kind, "__arrow_c_device_array__") is not NULL \
            or _PyType_Lookup(kind, "__arrow_c_device_stream__") is not NULL:
        return "arrow"
    return None
