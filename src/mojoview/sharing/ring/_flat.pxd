"""The memory of `bytes` and `bytearray` without an export: no allocation, no release to owe. No code but inline.

Good until the GIL is let go or Python code runs: nobody can resize a bytearray before. Everything else goes by a lease.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_CheckExact, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t


cdef inline const uint8_t *readable(object memory, Py_ssize_t *n) noexcept:
    """NULL where it is something else."""
    if PyBytes_CheckExact(memory):
        n[0] = PyBytes_GET_SIZE(memory)
        return <const uint8_t *>PyBytes_AS_STRING(memory)
    return writable(memory, n)


cdef inline uint8_t *writable(object memory, Py_ssize_t *n) noexcept:
    if PyByteArray_CheckExact(memory):
        n[0] = PyByteArray_GET_SIZE(memory)
        return <uint8_t *>PyByteArray_AS_STRING(memory)
    return NULL
