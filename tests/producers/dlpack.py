"""DLPack structures, and a producer that hands out whatever it is told to and counts the calls of its deleter."""

from __future__ import annotations

import ctypes
from typing import Any

from producers import capsules

CPU, CUDA, CUDA_HOST, MANAGED = 1, 2, 3, 13
READ_ONLY, COPIED, PADDED = 1, 2, 4


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Legacy(ctypes.Structure):
    pass


class Managed(ctypes.Structure):
    pass


LEGACY_DELETER = ctypes.CFUNCTYPE(None, ctypes.POINTER(Legacy))
DELETER = ctypes.CFUNCTYPE(None, ctypes.POINTER(Managed))
Legacy._fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", LEGACY_DELETER)]
Managed._fields_ = [
    ("major", ctypes.c_uint32),
    ("minor", ctypes.c_uint32),
    ("context", ctypes.c_void_p),
    ("deleter", DELETER),
    ("flags", ctypes.c_uint64),
    ("tensor", Tensor),
]


_alive: list[
    Any
] = []  # callbacks of ctypes are Python objects; a real library's are code, which no garbage collector takes away


class Producer:
    """Exports one tensor described by hand; `deleted` counts how often its deleter ran.

    Parameters are those of DLTensor; `shape` and `strides` may be None for NULL.
    """

    def __init__(
        self,
        data: Any = None,
        shape: Any = (),
        strides: Any = None,
        *,
        code: int = 2,
        bits: int = 64,
        lanes: int = 1,
        ndim: int | None = None,
        device: tuple[int, int] = (CPU, 0),
        byte_offset: int = 0,
        legacy: bool = False,
        flags: int = 0,
        version: tuple[int, int] = (1, 0),
        no_deleter: bool = False,
    ):
        self.memory, self.deleted, self.calls = data, 0, []
        self.legacy, self.device = legacy, device
        address = data if isinstance(data, int) or data is None else ctypes.addressof(data)
        self.arrays = [
            None if values is None else (ctypes.c_int64 * max(len(values), 1))(*values) for values in (shape, strides)
        ]
        pointers = [
            ctypes.cast(array, ctypes.POINTER(ctypes.c_int64)) if array is not None else None for array in self.arrays
        ]
        tensor = Tensor(
            address, *device, len(shape or ()) if ndim is None else ndim, code, bits, lanes, *pointers, byte_offset
        )

        def delete(_: Any) -> None:
            self.deleted += 1

        if legacy:
            self.structure = Legacy(tensor, None, LEGACY_DELETER(delete) if not no_deleter else LEGACY_DELETER())
        else:
            self.structure = Managed(*version, None, DELETER(delete) if not no_deleter else DELETER(), flags, tensor)
        _alive.append(self)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **options: Any) -> object:
        self.calls.append(options)
        if self.legacy and options:
            raise TypeError("__dlpack__() takes no keyword arguments")
        return capsules.new(ctypes.addressof(self.structure), "dltensor" if self.legacy else "dltensor_versioned")


def tensor_of(capsule: object) -> tuple[Any, Tensor]:
    """The managed structure in a capsule and its tensor."""
    if capsules.is_valid(capsule, "dltensor"):
        managed: Any = Legacy.from_address(capsules.pointer(capsule, "dltensor"))
    else:
        managed = Managed.from_address(capsules.pointer(capsule, "dltensor_versioned"))
    return managed, managed.tensor


def consume(capsule: object) -> Any:
    """Takes the tensor as a consumer does; the caller then owes one call of its deleter."""
    managed, _ = tensor_of(capsule)
    capsules.rename(capsule, "used_dltensor" if isinstance(managed, Legacy) else "used_dltensor_versioned")
    return managed


class Table(ctypes.Structure):
    """DLPackExchangeAPI."""


ALLOCATE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(Tensor), ctypes.POINTER(ctypes.POINTER(Managed)), ctypes.c_void_p, ctypes.c_void_p
)
FROM_OBJECT = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.c_void_p))
TO_OBJECT = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.py_object))
STREAM = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))
SET_ERROR = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
Table._fields_ = [
    ("major", ctypes.c_uint32),
    ("minor", ctypes.c_uint32),
    ("previous", ctypes.c_void_p),
    ("allocate", ALLOCATE),
    ("from_object", FROM_OBJECT),
    ("to_object", TO_OBJECT),
    ("borrow", ctypes.c_void_p),
    ("current_stream", STREAM),
]
