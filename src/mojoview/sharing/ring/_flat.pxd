"""The memory of `bytes` and `bytearray` without a buffer export, inline.

Valid until the GIL is released or Python code runs, since a bytearray cannot be resized before. Other objects take a
lease.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_CheckExact, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t


cdef inline const uint8_t *readable(object memory, Py_ssize_t *n) noexcept:
    """Return the memory of bytes or bytearray; NULL for other objects."""
    if PyBytes_CheckExact(memory):
        n[0] = PyBytes_GET_SIZE(memory)
        return <const uint8_t *>PyBytes_AS_STRING(memory)
    return writable(memory, n)


cdef inline uint8_t *writable(object memory, Py_ssize_t *n) noexcept:
    """Return the memory of a bytearray; NULL for other objects."""
    if PyByteArray_CheckExact(memory):
        n[0] = PyByteArray_GET_SIZE(memory)
        return <uint8_t *>PyByteArray_AS_STRING(memory)
    return NULL
