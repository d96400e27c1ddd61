"""Import and export of `__cuda_array_interface__` version 3. Device memory is described, never accessed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from mojoview.memory.errors import ArgumentError, InterfaceError, MaskError, StreamError
from mojoview.views import _construct
from mojoview.views._view import View
from mojoview.views.interfaces.array_interface import from_interface

__all__ = ["from_cuda_interface", "interface_of"]

_PROTOCOL = "__cuda_array_interface__"
_CUDA = 2  # DLPack's device type
_BITS = "<t1"  # the typestr of a mask in libraries with bitmaps: least significant bit first, 1 = valid


def from_cuda_interface(owner: object, interface: Any, writable: bool) -> View:
    """Open a view on the device memory that an exporter's `__cuda_array_interface__` describes.

    Parameters
    ----------
    owner : object
        Exporter; kept alive by the view (the interface itself carries no ownership).
    interface : dict
        Its description. `strides` may be absent or None (C order), `stream` absent or None (nothing to wait for).
    writable : bool

    Returns
    -------
    View
        Borrows the memory; its `device` is "cuda:N", where N comes from `__dlpack_device__` if the exporter has it,
        else 0. A stream of the description is passed on to consumers of the view; the view itself does not wait.

    Raises
    ------
    InterfaceError, ArgumentError, ShapeError, DTypeError, ReadOnlyError
        As for `__array_interface__`.
    StreamError
        Stream 0, or not a stream.
    MaskError
        A byte mask: its meaning (nonzero = valid) is the opposite of the descriptor's, and inverting it would take a
        device kernel. A bitmap (typestr ``<t1``) is kept.

    Notes
    -----
    Source: "CUDA Array Interface (Version 3)", Numba documentation. Thread safety: any thread.
    """
    what = f"{type(owner).__name__}.{_PROTOCOL}"
    if not isinstance(interface, dict):
        raise ArgumentError(f"{what}: expected a dict, got {type(interface).__name__}")
    if interface.get("version") not in (2, 3):
        raise InterfaceError(f"{what}: expected version 2 or 3, got {interface.get('version')!r}")
    if not isinstance(interface.get("data"), tuple):
        raise ArgumentError(
            f"{what}: data must be (address, read-only flag), got {type(interface.get('data')).__name__}"
        )
    stream = _stream(what, interface.get("stream"))
    device_id = _device_id(owner)
    values = from_interface(owner, {**interface, "version": 3, "mask": None}, writable, _PROTOCOL)
    values = _construct.with_device(values, _CUDA, device_id, stream)
    mask = interface.get("mask")
    return values if mask is None else _with_mask(what, values, mask)


def interface_of(view: View, stream: int | None) -> dict[str, Any]:
    """Describe a view on device memory, for `View.__cuda_array_interface__`."""
    dtype = view.dtype
    described: dict[str, Any] = {
        "version": 3,
        "shape": view.shape,
        "strides": None if view.contiguous else view.strides,
        "typestr": dtype.str,
        "descr": dtype.descr if dtype.names is not None else [("", dtype.str)],
        "data": (view.ptr if view.size else 0, view.readonly),
        "stream": stream,
    }
    if view.masked:
        bits = view.validity
        if bits is None or bits.offset:
            raise MaskError(
                f"{_PROTOCOL}: only a bitmap that begins at a whole byte can be described; export view.data"
            )
        described["mask"] = SimpleNamespace(
            owner=view,
            __cuda_array_interface__={
                "version": 3,
                "shape": (view.size,),
                "strides": None,
                "typestr": _BITS,
                "data": (bits.ptr, True),
                "stream": stream,
            },
        )
    return described


def _stream(what: str, stream: Any) -> int | None:
    if stream is None:
        return None
    if not isinstance(stream, int) or isinstance(stream, bool) or stream < 1:
        raise StreamError(
            f"{what}: stream {stream!r}: expected None, 1 (legacy default), 2 (per thread) or a handle; 0 is ambiguous"
        )
    return stream


def _device_id(owner: Any) -> int:
    ask = getattr(owner, "__dlpack_device__", None)
    return int(ask()[1]) if ask is not None else 0


def _with_mask(what: str, values: View, mask: Any) -> View:
    interface = getattr(mask, _PROTOCOL, None)
    if not isinstance(interface, dict):
        raise ArgumentError(f"{what}: mask must have {_PROTOCOL}, got {type(mask).__name__}")
    if interface.get("typestr") not in (_BITS, "|t1"):
        raise MaskError(
            f"{what}: expected a bitmap as mask (typestr {_BITS}), got {interface.get('typestr')!r}, whose nonzero "
            "bytes mean valid; view the data without it"
        )
    shape, data = interface.get("shape"), interface.get("data")
    if values.ndim != 1 or tuple(shape or ()) != values.shape or interface.get("strides") not in (None, (1,)):
        raise MaskError(
            f"{what}: expected a compact bitmap of shape {values.shape} in one dimension, got shape {shape}"
        )
    if not isinstance(data, tuple) or len(data) != 2 or not isinstance(data[0], int) or (data[0] <= 0 and values.size):
        raise InterfaceError(f"{what}: the mask's data must be (address, read-only flag), got {data!r}")
    return _construct.with_bitmap(values, mask, data[0])
