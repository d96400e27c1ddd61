"""`Window`, the base of View: a descriptor and the lease on its memory; and `Bits`."""

cimport cython
from cpython.slice cimport PySlice_AdjustIndices, PySlice_Unpack
from libc.stdint cimport int64_t, uint8_t, uintptr_t

from mojoview.memory.abi cimport (
    MV_ALIGNED, MV_C_CONTIGUOUS, MV_DEVICE_MASK, MV_DEVICE_SHIFT, MV_F_CONTIGUOUS, MV_HAS_MASK, MV_MASK_BITS,
    MV_MAX_NDIM, MV_READONLY, MV_RECORD, MV_SWAPPED, MV_VOID, mv_desc,
)
from mojoview.views._geometry cimport dimensions_held, int64_tuple
from mojoview.views.bits cimport mv_bit, mv_bits_count, mv_bits_unpack

import numpy as np

from mojoview.memory._dtype import KNOWN as _KNOWN, dtype_info
from mojoview.memory.errors import (
    ArgumentError, DeviceError, ExportedError, IndexingError, MaskError, ReleasedError, ShapeError, ZeroCopyError,
)


cdef extern from "views/geometry.h" nogil:
    int mv_desc_derive(mv_desc *d, int64_t alignment)

cdef dict known_dtypes = _KNOWN

# names of DLPack's device types
cdef dict DEVICES = {2: "cuda", 4: "opencl", 7: "vulkan", 8: "metal", 10: "rocm", 12: "ext", 14: "oneapi", 15: "webgpu"}


cdef int raise_released() except -1:
    raise ReleasedError("the view was released: take a new one from the array")


# Not cleared by the cycle collector: a consumer of this buffer that dies in the same cycle still needs the memory.
@cython.no_gc_clear
cdef class Window:
    """Window()

    A descriptor and the lease on its memory: the attributes and the lifetime of `View`, without derived views.
    """

    def __cinit__(self, *args, **kwargs):
        self.desc = NULL
        self._exports = 0
        self._exposed = False

    def __init__(self):
        raise ArgumentError("View() is not called by hand: use mojoview.view(obj) or mojoview.from_ptr(...)")

    # -- attributes ---------------------------------------------------------------------------------------------------

    @property
    def ptr(self):
        return <uintptr_t>descriptor(self).data

    @property
    def shape(self):
        return int64_tuple(descriptor(self).shape, self.desc.ndim)

    @property
    def strides(self):
        return int64_tuple(descriptor(self).strides, self.desc.ndim)

    @property
    def ndim(self):
        return descriptor(self).ndim

    @property
    def size(self):
        return descriptor(self).size

    @property
    def itemsize(self):
        return descriptor(self).itemsize

    @property
    def nbytes(self):
        return descriptor(self).size * <int64_t>self.desc.itemsize

    @property
    def dtype(self):
        descriptor(self)
        return self._dtype

    @property
    def readonly(self):
        return (descriptor(self).flags & MV_READONLY) != 0

    @property
    def contiguous(self):
        return (descriptor(self).flags & MV_C_CONTIGUOUS) != 0

    @property
    def f_contiguous(self):
        return (descriptor(self).flags & MV_F_CONTIGUOUS) != 0

    @property
    def aligned(self):
        return (descriptor(self).flags & MV_ALIGNED) != 0

    @property
    def device(self):
        cdef int kind = (descriptor(self).flags & MV_DEVICE_MASK) >> MV_DEVICE_SHIFT
        return f"{DEVICES.get(kind, f'dlpack{kind}')}:{self.desc.device_id}" if kind else "cpu"

    @property
    def owner(self):
        descriptor(self)
        return self._lease.owner

    @property
    def closed(self):
        return self.desc is NULL

    @property
    def masked(self):
        return (descriptor(self).flags & MV_HAS_MASK) != 0

    @property
    def arrow_format(self):
        descriptor(self)
        return self._arrow

    def __len__(self):
        if descriptor(self).ndim == 0:
            raise ArgumentError("len(): a view of 0 dimensions has no length")
        return self.desc.shape[0]

    def __repr__(self):
        from mojoview.views.repr import text
        return text(self)

    def _repr_html_(self):
        from mojoview.views.repr import html
        return html(self)

    # -- lifetime ----------------------------------------------------------------------------------------------------

    def release(self):
        """release()

        Release the memory now. Using the view afterwards raises `ReleasedError`; views derived from it remain open.

        Raises
        ------
        ExportedError
            A consumer of the buffer (memoryview, ndarray) or a running kernel still uses this view.

        Notes
        -----
        Thread safety: any thread; of several only one releases. Memory whose address was exported by
        `__array_interface__` stays until the view itself is deallocated, since that protocol has no release.

        Examples
        --------
        >>> import numpy as np, mojoview as mv
        >>> view = mv.view(np.arange(3))
        >>> view.release()
        >>> view.closed
        True
        """
        if self.desc is NULL:
            return
        if self._exports:
            raise ExportedError(f"release(): {self._exports} consumer(s) of this view still use its memory; drop them "
                                "first")
        self.desc = NULL
        if not self._exposed:
            self._lease = self._mask_lease = None
            self._pin = None

    def __enter__(self):
        descriptor(self)
        return self

    def __exit__(self, kind, error, traceback):
        # A consumer that the traceback keeps alive must not replace the propagating error with one of ours.
        if kind is None or self._exports == 0:
            self.release()

    def __reduce_ex__(self, protocol):
        raise ArgumentError("a View cannot be pickled or copied: its memory belongs to another object; "
                            "use np.array(view) for a copy")


# -- construction -----------------------------------------------------------------------------------------------------

cdef int set_dtype(Window self, object dtype) except -1:
    """Set the dtype of the items; a sub-array dtype becomes dimensions, as in NumPy. The shape must be set before."""
    cdef mv_desc *d = self.desc
    cdef int code, bits, logical, alignment
    cdef unsigned int itemsize
    cdef bint swapped
    info = known_dtypes.get(dtype)
    if info is None:
        info = dtype_info(dtype)
    code, bits, itemsize, logical, swapped, alignment, format, _ = <tuple>info
    if logical == MV_RECORD:
        alignment = dtype.alignment
    elif logical == MV_VOID and dtype.subdtype is not None:
        return set_sub_array(self, dtype.subdtype[0], dtype.subdtype[1])
    d.dtype_code = code
    d.dtype_bits = bits
    d.dtype_lanes = 1
    d.itemsize = itemsize
    d.logical = logical
    d.flags = (d.flags & ~MV_SWAPPED) | (MV_SWAPPED if swapped else 0)
    self._dtype = dtype
    self._format = format
    self._alignment = alignment
    return 0


cdef int set_sub_array(Window self, object base, tuple sizes) except -1:
    cdef mv_desc *d = self.desc
    cdef int k, ndim = d.ndim + len(sizes), most = dimensions_held(d)
    cdef int64_t step = base.itemsize
    if ndim > most:
        raise ShapeError(f"sub-array of shape {sizes}: {ndim} dimensions, a {'masked ' if most < MV_MAX_NDIM else ''}"
                         f"view has at most {most}")
    for k in range(ndim - 1, d.ndim - 1, -1):
        d.shape[k] = sizes[k - d.ndim]
        d.strides[k] = step
        step *= d.shape[k]
        if k < 2:
            d.mask_stride[k] = 0
    d.ndim = ndim
    return set_dtype(self, base)


cdef int derive_flags(Window self) except -1:
    """Derive size and flags from shape, strides and address; the caller has checked that the extents fit."""
    if mv_desc_derive(self.desc, self._alignment) < 0:
        raise ShapeError(f"shape {self.shape} of {self._dtype}: more bytes than an address space holds")
    return 0


cdef int copy_fields(Window self, Window source) except -1:
    cdef mv_desc *d = descriptor(source)  # read late: the allocation may have run a finalizer that released it
    open_store(self)[0] = d[0]
    self._lease = source._lease
    self._mask_lease = source._mask_lease
    self._dtype = source._dtype
    self._format = source._format
    self._alignment = source._alignment
    self._arrow = source._arrow
    self._stream = source._stream
    self._pin = source._pin
    return 0


cdef void drop_mask(Window self) noexcept:
    cdef mv_desc *d = self.desc
    d.flags &= ~(MV_HAS_MASK | MV_MASK_BITS)
    d.mask = NULL
    d.mask_offset = d.mask_stride[0] = d.mask_stride[1] = 0
    self._mask_lease = None


# -- checks -----------------------------------------------------------------------------------------------------------

cdef int check_host(Window self, str operation) except -1:
    if descriptor(self).flags & MV_DEVICE_MASK:
        raise DeviceError(f"{operation}: the memory is on {self.device}, which the host cannot read; copy it with the "
                          "library that made it")
    return 0


cdef int check_exportable(Window self, str protocol) except -1:
    check_host(self, protocol)
    if self.desc.flags & MV_HAS_MASK:
        raise MaskError(f"{protocol} cannot carry the mask of this view; use view.data and view.mask")
    return 0


# -- single bits ------------------------------------------------------------------------------------------------------

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
        check_readable(self)
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
        check_readable(self)
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
        check_readable(self)
        out = np.empty(self.size, np.bool_)
        cdef uintptr_t address = out.ctypes.data
        with nogil:
            mv_bits_unpack(self.start, self.offset, self.size, invert, <uint8_t *>address)
        return out

    def __repr__(self):
        return f"<Bits {self.size} at {self.ptr:#x} + {self.offset}>"


cdef int check_readable(Bits self) except -1:
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
