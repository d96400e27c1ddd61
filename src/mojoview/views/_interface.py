"""`__array_interface__` version 3, read with suspicion: a description is checked before a byte of it is believed."""

from __future__ import annotations

from typing import Any

import numpy as np

from mojoview.memory.errors import ArgumentError, DTypeError, InterfaceError, MaskError, ReadOnlyError
from mojoview.views import _acquire
from mojoview.views._view import View

__all__ = ["from_interface"]


def from_interface(owner: object, interface: Any, writable: bool, protocol: str = "__array_interface__") -> View:
    """A view on what an exporter's `__array_interface__` describes.

    Parameters
    ----------
    owner : object
        Exporter; kept alive by the view.
    interface : dict
        Its description. Where `data` is a buffer object (or absent: then the exporter's own buffer is meant), the extents
        must lie inside that buffer. Where it is an address, there is nothing to compare with and the exporter is trusted.
    writable : bool
    protocol : str
        Name of the attribute, for messages.

    Returns
    -------
    View
        Borrows the exporter's memory.

    Raises
    ------
    InterfaceError
        A required entry is missing, or the entries contradict each other or the buffer's size.
    ArgumentError, DTypeError, ShapeError, ReadOnlyError, MaskError
        Entries of the wrong type; items that are references; more than 8 dimensions; writing asked of read-only memory; a mask.

    Notes
    -----
    Source: NumPy's reference, "The array interface protocol".
    """
    name = type(owner).__name__
    what = f"{name}.{protocol}"
    if not isinstance(interface, dict):
        raise ArgumentError(f"{what}: expected a dict, got {type(interface).__name__}")
    for key in ("shape", "typestr"):
        if key not in interface:
            raise InterfaceError(f"{what}: entry {key!r} is missing")
    if interface.get("version", 3) != 3:
        raise InterfaceError(f"{what}: expected version 3, got {interface['version']!r}")
    if interface.get("mask") is not None:
        raise MaskError(f"{what}: a mask is stated, which has no agreed meaning there")
    shape, strides = interface["shape"], interface.get("strides")
    for key, value in (("shape", shape), ("strides", strides)):
        if value is not None and not isinstance(value, tuple | list):
            raise ArgumentError(f"{what}: {key} must be a tuple, got {type(value).__name__}")
    if shape is None:
        raise InterfaceError(f"{what}: shape is None")
    dtype = _dtype(what, interface)
    shape, strides = tuple(shape), tuple(strides) if strides is not None else None
    data = interface.get("data")
    if isinstance(data, tuple):
        if len(data) != 2:
            raise InterfaceError(f"{what}: data must be (address, read-only flag), got {len(data)} entries")
        address, readonly = data
        if writable and readonly:
            raise ReadOnlyError(f"view({name}, writable=True): its {protocol} says read-only")
        return _acquire.from_address(address, owner, shape, strides, dtype, not writable)
    exporter = owner if data is None else data
    offset = interface.get("offset", 0)
    if not hasattr(offset, "__index__"):
        raise ArgumentError(f"{what}: offset must be an int, got {type(offset).__name__}")
    try:
        return _acquire.from_region(exporter, owner, offset, shape, strides, dtype, writable)
    except OverflowError as error:
        raise InterfaceError(f"{what}: offset {offset} does not fit 64 bits") from error
    except TypeError as error:
        if isinstance(error, ArgumentError):
            raise
        raise ArgumentError(f"{what}: data must be an address or a buffer, got {type(exporter).__name__}") from error


def _dtype(what: str, interface: dict[str, Any]) -> np.dtype[Any]:
    typestr = interface["typestr"]
    if not isinstance(typestr, str):
        raise ArgumentError(f"{what}: typestr must be a str, got {type(typestr).__name__}")
    descr = interface.get("descr")
    try:
        dtype = np.dtype(typestr)
        if dtype.kind == "V" and descr is not None and descr != [("", typestr)]:
            record = np.dtype(descr)
            if record.itemsize != dtype.itemsize:
                raise InterfaceError(f"{what}: descr has items of {record.itemsize} bytes, typestr of {dtype.itemsize}")
            dtype = record
    except (TypeError, ValueError, SyntaxError) as error:
        if isinstance(error, InterfaceError):
            raise
        raise DTypeError(f"{what}: typestr {typestr!r} names no dtype ({error})") from error
    return dtype
