"""PyObject_GetBuffer through ctypes: what a C consumer sees for any request flags."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

WRITABLE, FORMAT, ND, STRIDES, C_ORDER, F_ORDER, ANY_ORDER, INDIRECT = 1, 4, 8, 0x18, 0x38, 0x58, 0x98, 0x118
FULL_RO = INDIRECT | FORMAT


class PyBuffer(ctypes.Structure):
    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("suboffsets", ctypes.POINTER(ctypes.c_ssize_t)),
        ("internal", ctypes.c_void_p),
    ]


class Request(NamedTuple):
    """The fields of a filled Py_buffer, pointers followed."""

    buf: int | None
    len: int
    itemsize: int
    readonly: bool
    ndim: int
    format: bytes | None
    shape: tuple[int, ...] | None
    strides: tuple[int, ...] | None
    suboffsets: bool


_get = ctypes.pythonapi.PyObject_GetBuffer
_get.argtypes = [ctypes.py_object, ctypes.POINTER(PyBuffer), ctypes.c_int]
_release = ctypes.pythonapi.PyBuffer_Release
_release.argtypes = [ctypes.POINTER(PyBuffer)]


def acquire(exporter: Any, flags: int) -> PyBuffer:
    """A filled buffer, to be given to `release`."""
    buffer = PyBuffer()
    _get(exporter, ctypes.byref(buffer), flags)
    return buffer


def release(buffer: PyBuffer) -> None:
    _release(ctypes.byref(buffer))


def probe(exporter: Any, flags: int) -> Request:
    """Acquires, reads and releases."""
    buffer = acquire(exporter, flags)
    try:
        return Request(
            buffer.buf,
            buffer.len,
            buffer.itemsize,
            bool(buffer.readonly),
            buffer.ndim,
            buffer.format,
            tuple(buffer.shape[: buffer.ndim]) if buffer.shape else None,
            tuple(buffer.strides[: buffer.ndim]) if buffer.strides else None,
            bool(buffer.suboffsets),
        )
    finally:
        release(buffer)
