"""What other rooms and the protocols build views with: subclasses, masks, devices, a second look at the same memory."""

from libc.stdint cimport uint8_t, uint64_t, uintptr_t

from mojoview.memory.abi cimport MV_DEVICE_SHIFT, MV_HAS_MASK, MV_MASK_BITS, MV_READONLY, mv_desc
from mojoview.memory._lease cimport Lease, lease_owner
from mojoview.views._view cimport View, cut
from mojoview.views._window cimport fill

import numpy as np

from mojoview.memory.errors import ArgumentError, MaskError


cdef object BOOL = np.dtype(bool)


def adopt(View target not None, View source not None, pin=None):
    """adopt(target, source, pin=None)

    Makes a fresh instance of a subclass (from ``cls.__new__(cls)``) the same window as `source`; `pin` lives as long
    as it does.
    """
    if target._dtype is not None:  # open, or released: what its consumers may still hold must not be replaced
        raise ArgumentError("adopt: expected a fresh view as target, got one that was opened before")
    fill(target, source)
    if pin is not None:
        target._pin = pin if target._pin is None else (target._pin, pin)
    return target


def with_mask(View values not None, View mask not None):
    """with_mask(values, mask)

    A view of `values` whose elements are missing where `mask` is True.

    Parameters
    ----------
    values : View
        Any dtype, at most 2 dimensions.
    mask : View
        bool, of the same shape; its strides are its own.

    Returns
    -------
    View
        Borrows both.

    Raises
    ------
    MaskError
        The mask is not bool, not of the same shape, or has more than 2 dimensions.
    """
    cdef View other = cut(values)
    cdef View missing = cut(mask)
    cdef mv_desc *d = other.desc
    cdef mv_desc *m = missing.desc
    if (d.flags | m.flags) & MV_HAS_MASK:
        raise MaskError("mask: expected a view and a mask without masks of their own; use view.data")
    if missing._dtype != BOOL or m.ndim != d.ndim or not 1 <= d.ndim <= 2 or other.shape != missing.shape:
        raise MaskError(f"mask: expected bool of shape {other.shape} in 1 or 2 dimensions, got {missing._dtype} of "
                        f"shape {missing.shape}")
    other._mask_lease = missing._lease
    if missing._pin is not None:
        other._pin = missing._pin if other._pin is None else (other._pin, missing._pin)
    d.flags |= MV_HAS_MASK
    d.mask = <const uint8_t *>m.data
    d.mask_stride[0] = m.strides[0]
    d.mask_stride[1] = m.strides[1] if d.ndim == 2 else 0
    return other


cdef View with_bits(View values, Lease lease, const uint8_t *bits, int64_t offset):
    """A 1-D view whose elements are missing where the bitmap has a 0; the caller vouches for the bitmap's extent."""
    cdef View other = cut(values)
    other._mask_lease = lease
    other.desc.flags |= MV_HAS_MASK | MV_MASK_BITS
    other.desc.mask = bits
    other.desc.mask_offset = offset
    return other


def with_bitmap(View values not None, owner, uintptr_t address):
    """with_bitmap(values, owner, address)

    A 1-D view whose elements are missing where the bitmap at `address`, which `owner` keeps alive, has a 0.
    """
    return with_bits(values, lease_owner(owner), <const uint8_t *>address, 0)


def on_device(View source not None, int kind, int device_id, stream=None):
    """on_device(source, kind, device_id, stream=None)

    The same window, known to lie on a device (DLPack's numbering) on whose `stream` it may still be written.
    """
    cdef View other = cut(source)
    other.desc.flags |= <uint64_t>kind << MV_DEVICE_SHIFT
    other.desc.device_id = device_id
    other._stream = stream
    return other


def same(View source not None, bint readonly):
    """same(source, readonly)

    The same window again, without the right to write where `readonly`.
    """
    cdef View other = cut(source)
    if readonly:
        other.desc.flags |= MV_READONLY
    return other
