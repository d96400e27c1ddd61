"""PyCapsule through ctypes."""

from __future__ import annotations

import ctypes

api = ctypes.pythonapi
api.PyCapsule_New.restype = ctypes.py_object
api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
api.PyCapsule_GetPointer.restype = ctypes.c_void_p
api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_IsValid.restype = ctypes.c_int
api.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]

_names: dict[str, bytes] = {}  # a capsule borrows its name


def _name(name: str) -> bytes:
    return _names.setdefault(name, name.encode())


def new(pointer: int, name: str) -> object:
    """A capsule without a destructor."""
    return api.PyCapsule_New(pointer, _name(name), None)


def pointer(capsule: object, name: str) -> int:
    return api.PyCapsule_GetPointer(capsule, _name(name))


def is_valid(capsule: object, name: str) -> bool:
    return bool(api.PyCapsule_IsValid(capsule, _name(name)))


def rename(capsule: object, name: str) -> None:
    api.PyCapsule_SetName(capsule, _name(name))
