"""Bits: a window on leased memory whose elements are single bits."""

cimport cython
from cpython.slice cimport PySlice_AdjustIndices, PySlice_Unpack
from libc.stdint cimport int64_t, uint8_t, uintptr_t

from mojoview.memory._lease cimport Lease
from mojoview.views.bits cimport mv_bit, mv_bits_count, mv_bits_unpack

import numpy as np

from mojoview.memory.errors import ArgumentError, DeviceError, IndexingError, ZeroCopyError


@cython.final
@cython.no_gc_clear
cdef class Bits:
    """Bits()

    A run of bits in borrowed memory, least significant first: validity of an Arrow array, or its booleans. Made by
    views.

    Attributes
    ----------
    ptr : int
        Address of the byte that holds the first bit. Borrowed.
    offset : int
        Bits from there to the first bit, 0 to 7.
    size : int
    device : str
        "cpu"; on any other device reading raises `DeviceError`.

    Notes
    -----
    Thread safety: immutable; any thread.
    """

    def __init__(self):
        raise ArgumentError("Bits() is not called by hand: it is an attribute of a view")

    @property
    def ptr(self):
        return <uintptr_t>self.start

    def __len__(self):
        return self.size

    def __getitem__(self, key):
        cdef Py_ssize_t start, stop, step, count
        cdef int64_t i
        if isinstance(key, slice):
            PySlice_Unpack(key, &start, &stop, &step)
            count = PySlice_AdjustIndices(self.size, &start, &stop, step)
            if step != 1 and count > 1:
                raise ZeroCopyError(f"bits[{key}]: bits are read in steps of 1 only; use bits.unpack()[...]")
            return make_bits(self._lease, self.start, self.offset + (start if count else 0), count, self.device)
        check_host(self)
        if not hasattr(key, "__index__"):
            raise IndexingError(f"bits take an int or a slice, got {type(key).__name__}")
        i = key.__index__()
        if i < -self.size or i >= self.size:
            raise IndexingError(f"index {i} is out of bounds for {self.size} bits")
        return bool(mv_bit(self.start, self.offset + (i + self.size if i < 0 else i)))

    def count(self):
        """count()

        Return the number of ones.
        """
        cdef int64_t ones
        check_host(self)
        with nogil:
            ones = mv_bits_count(self.start, self.offset, self.size)
        return ones

    def unpack(self, *, bint invert=False):
        """unpack(*, invert=False)

        Copy to one byte for each bit.

        Parameters
        ----------
        invert : bool
            Return True for bits that are 0.

        Returns
        -------
        numpy.ndarray
            bool, shape (size,). Owns its memory: a copy.
        """
        check_host(self)
        out = np.empty(self.size, np.bool_)
        cdef uintptr_t address = out.ctypes.data
        with nogil:
            mv_bits_unpack(self.start, self.offset, self.size, invert, <uint8_t *>address)
        return out

    def __repr__(self):
        return f"<Bits {self.size} at {self.ptr:#x} + {self.offset}>"


cdef int check_host(Bits self) except -1:
    if self.device != "cpu":
        raise DeviceError(f"bits: the memory is on {self.device}, which the host cannot read")
    return 0


cdef Bits make_bits(Lease lease, const uint8_t *start, int64_t offset, int64_t size, str device="cpu"):
    cdef Bits self = Bits.__new__(Bits)
    self._lease = lease
    self.start = start + (offset >> 3) if size else start  # the address of no bits may be NULL
    self.offset = offset & 7 if size else 0
    self.size = size
    self.device = device
    return self
