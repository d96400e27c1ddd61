"""Import of `__array_interface__` version 3: every description is checked before the memory is used."""

from __future__ import annotations

from typing import Any

import numpy as np

from mojoview.memory._dtype import as_dtype, dtype_info
from mojoview.memory.errors import ArgumentError, InterfaceError, MaskError, MojoViewError, ReadOnlyError
from mojoview.views import _construct
from mojoview.views._view import View

__all__ = ["from_interface"]


def from_interface(owner: object, interface: Any, writable: bool, protocol: str = "__array_interface__") -> View:
    """Open a view on the memory that an exporter's `__array_interface__` describes.

    Parameters
    ----------
    owner : object
        Exporter; kept alive by the view.
    interface : dict
        Its description. If `data` is a buffer object (or absent: then the exporter's own buffer is used), the extents
        must lie inside that buffer. An address cannot be checked, and the exporter is trusted.
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
        Entries of the wrong type; items that are references; more than 8 dimensions; writing requested on
        read-only memory; a mask.

    Notes
    -----
    Source: NumPy's reference, "The array interface protocol". Thread safety: any thread.
    """
    name = f"{type(owner).__name__}.{protocol}"
    try:
        return _read(owner, interface, writable)
    except MojoViewError as error:
        raise type(error)(f"{name}: {error}") from error
    except Exception as error:  # entries are arbitrary objects that may raise anything
        raise InterfaceError(f"{name}: {type(error).__name__}: {error}") from error


def _read(owner: object, interface: Any, writable: bool) -> View:
    if not isinstance(interface, dict):
        raise ArgumentError(f"expected a dict, got {type(interface).__name__}")
    for key in ("shape", "typestr"):
        if interface.get(key) is None:
            raise InterfaceError(f"entry {key!r} is missing")
    if interface.get("version", 3) != 3:
        raise InterfaceError(f"expected version 3, got {interface['version']!r}")
    if interface.get("mask") is not None:
        raise MaskError("expected no mask, which has no agreed meaning in this protocol")
    dtype = _dtype(interface["typestr"], interface.get("descr"))
    shape, strides, data = interface["shape"], interface.get("strides"), interface.get("data")
    if not isinstance(data, tuple):
        return _construct.from_region(
            owner if data is None else data, owner, interface.get("offset", 0), shape, strides, dtype, writable
        )
    if len(data) != 2:
        raise InterfaceError(f"data must be a buffer or (address, read-only flag), got {len(data)} entries")
    address, readonly = data
    if writable and readonly:
        raise ReadOnlyError("writable=True, but the description says read-only")
    return _construct.from_address(address, owner, shape, strides, dtype, not writable)


def _dtype(typestr: Any, descr: Any) -> np.dtype[Any]:
    if not isinstance(typestr, str):
        raise ArgumentError(f"typestr must be a str, got {type(typestr).__name__}")
    dtype = as_dtype(typestr, "typestr")
    if dtype.kind == "V" and descr is not None and descr != [("", typestr)]:
        record = as_dtype(descr, "descr")
        if record.itemsize != dtype.itemsize:
            raise InterfaceError(f"descr has items of {record.itemsize} bytes, typestr of {dtype.itemsize}")
        dtype = record
    dtype_info(dtype)  # refuses references before an address is formed
    return dtype
