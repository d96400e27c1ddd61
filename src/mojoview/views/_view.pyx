"""View: a typed window on leased memory. Slicing, reshaping and casting make further windows on the same lease."""

cimport cython
from libc.stdint cimport int64_t, uint8_t, uintptr_t
from libc.string cimport memset

from mojoview.memory.abi cimport (
    MV_ABI_VERSION, MV_ALIGNED, MV_C_CONTIGUOUS, MV_DEVICE_MASK, MV_F_CONTIGUOUS, MV_HAS_MASK, MV_MASK_BITS,
    MV_MAX_NDIM, MV_READONLY, MV_RECORD, MV_SWAPPED, MV_VOID, mv_desc,
)
from mojoview.memory._lease cimport Lease
from mojoview.views._export cimport fill_buffer
from mojoview.views._geometry cimport dimensions_held, fold, int64_tuple, narrow, resize_items, turn

import numpy as np

from mojoview.memory._dtype import KNOWN as _KNOWN, as_dtype, dtype_info, field_of
from mojoview.memory.errors import (
    ArgumentError, ExportedError, IndexingError, MaskError, MojoViewError, ProtocolError, RangeError, ReadOnlyError,
    ReleasedError, ShapeError, ZeroCopyError,
)


cdef extern from "layout.h" nogil:
    int mv_desc_derive(mv_desc *d, int64_t alignment)
    bint mv_extent(int ndim, const int64_t *shape, const int64_t *strides, int64_t item, int64_t *low, int64_t *high)

cdef dict known_dtypes = _KNOWN
cdef object BOOL = np.dtype(bool)
cdef object BYTE = np.dtype("u1")


cdef int raise_released() except -1:
    raise ReleasedError("the view was released: take a new one from the array")


cdef inline mv_desc *descriptor(View self) except NULL:
    if self.desc is NULL:
        raise_released()
    return self.desc


# Not cleared by the cycle collector: a consumer of our buffer that dies in the same cycle must find the memory alive.
@cython.no_gc_clear
cdef class View:
    """View()

    A typed window on memory that somebody else owns; made by `mojoview.view()`.

    A view never copies and never writes unless it was opened with ``writable=True``. It keeps the owner of the memory,
    and the owner's buffer export, until the last view on it is released or dropped.

    Attributes
    ----------
    ptr : int
        Address of element [0, ..., 0]. Borrowed: valid while the view is.
    shape, strides : tuple of int
        Strides count bytes.
    ndim, size, nbytes, itemsize : int
    dtype : numpy.dtype
    readonly, contiguous, aligned, closed : bool
        `contiguous` means C order.
    device : str
        "cpu".
    mask : View or None
        bool, True where an element is missing.
    owner : object
        Whose memory it is.

    Notes
    -----
    Thread safety: reading attributes, slicing and kernels may run in many threads at once. `release()` refuses while a
    consumer or a kernel uses the memory, so no thread loses it in the middle of a call.

    Examples
    --------
    >>> import numpy as np, mojoview as mv
    >>> v = mv.view(np.arange(6.0).reshape(2, 3))
    >>> v[:, ::2].strides
    (24, 16)
    >>> np.asarray(v)[1]
    array([3., 4., 5.])
    """

    def __cinit__(self, *args, **kwargs):
        self.desc = NULL
        self._exports = 0
        self._exposed = False

    def __init__(self):
        raise ArgumentError("View() is not called by hand: use mojoview.view(obj) or mojoview.from_ptr(...)")

    # -- what it is ---------------------------------------------------------------------------------------------------

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
        return "cpu" if descriptor(self).flags & MV_DEVICE_MASK == 0 else f"device:{self.desc.device_id}"

    @property
    def owner(self):
        descriptor(self)
        return self._lease.owner

    @property
    def closed(self):
        return self.desc is NULL

    @property
    def mask(self):
        cdef mv_desc *d = descriptor(self)
        cdef View other
        if d.flags & MV_HAS_MASK == 0:
            return None
        other = make_view(self._mask_lease, <void *>(d.mask + d.mask_offset // 8), d.ndim, d.shape, d.mask_stride, BOOL,
                          True)
        other._pin = self._pin
        return other

    @property
    def data(self):
        """The same window without its mask."""
        cdef View other = cut(self)
        drop_mask(other)
        return other

    def __len__(self):
        if descriptor(self).ndim == 0:
            raise ArgumentError("len(): a view of 0 dimensions has no length")
        return self.desc.shape[0]

    def __repr__(self):
        from mojoview.views._repr import text
        return text(self)

    def _repr_html_(self):
        from mojoview.views._repr import html
        return html(self)

    # -- further windows on the same memory ---------------------------------------------------------------------------

    def __getitem__(self, key):
        cdef View other
        if isinstance(key, (str, list)):
            return field(self, key)
        other = cut(self)
        narrow(other.desc, key)
        finish(other)
        return other if other.desc.ndim or is_partial(key) else scalar(other)

    def __setitem__(self, key, value):
        if descriptor(self).flags & MV_READONLY:
            raise ReadOnlyError("assignment: expected a writable view, got a read-only one; open it with "
                                "view(obj, writable=True)")
        if isinstance(key, str):
            self, key = field(self, key), Ellipsis
        check_exportable(self, "assignment")
        try:
            to_array(self)[key] = value
        except (MojoViewError, MemoryError):
            raise
        except IndexError as cause:
            raise IndexingError(f"assignment: {cause}") from cause
        except OverflowError as cause:
            raise RangeError(f"assignment: {cause}") from cause
        except Exception as cause:  # NumPy's words on the shape or the type, or what the value itself raised
            raise ArgumentError(f"assignment: {cause}") from cause

    def __delitem__(self, key):
        raise ArgumentError("del: the elements of a view cannot be deleted")

    def __iter__(self):
        if descriptor(self).ndim == 0:
            raise ArgumentError("iteration: a view of 0 dimensions has no axis to go along")
        return (self[i] for i in range(len(self)))

    @property
    def T(self):
        """The same memory with the dimensions in reverse order."""
        cdef View other = cut(self)
        turn(other.desc)
        return finish(other)

    def reshape(self, *shape):
        """reshape(*shape)

        The same elements in C order with another shape, without a copy.

        Parameters
        ----------
        *shape : int or tuple of int
            One of them may be -1 and is then computed.

        Returns
        -------
        View
            Borrows the same memory.

        Raises
        ------
        ShapeError
            The number of elements differs.
        ZeroCopyError
            The strides allow the shape only with a copy.
        """
        cdef View other = cut(self)
        fold(other.desc, shape)
        return finish(other)

    def cast(self, dtype):
        """cast(dtype)

        The same bytes read as another dtype, as `numpy.ndarray.view` does.

        Parameters
        ----------
        dtype : dtype-like
            Where the item size differs, the last axis must be contiguous and its bytes divide evenly.

        Returns
        -------
        View
            Borrows the same memory.

        Raises
        ------
        DTypeError
            The items of the dtype are references (object, variable-width strings).
        LayoutError
            The item size differs and the last axis does not allow it.

        Examples
        --------
        >>> import numpy as np, mojoview as mv
        >>> int(mv.view(np.array(["1970-01-02"], "M8[D]")).cast("i8")[0])
        1
        """
        new = as_dtype(dtype, "cast")
        dtype_info(new)
        cdef View other = cut(self)
        resize_items(other.desc, new)
        set_dtype(other, new)
        return finish(other)

    def release(self):
        """release()

        Lets go of the memory now. Using the view afterwards raises `ReleasedError`; views cut from it go on.

        Raises
        ------
        ExportedError
            A consumer of the buffer (memoryview, ndarray) or a running kernel still uses this view.
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
        # A consumer that the traceback keeps alive must not replace the error that is on its way with one of ours.
        if kind is None or self._exports == 0:
            self.release()

    def __reduce_ex__(self, protocol):
        raise ArgumentError("a View cannot be pickled or copied: its memory belongs to somebody else; "
                            "use np.array(view) for a copy")

    # -- protocols out ------------------------------------------------------------------------------------------------

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        cdef mv_desc *d = descriptor(self)
        check_exportable(self, "the buffer protocol")
        fill_buffer(buffer, d, self._format, self._dtype, flags)
        buffer.obj = self
        self._exports += 1

    def __releasebuffer__(self, Py_buffer *buffer):
        self._exports -= 1

    @property
    def __array_interface__(self):
        cdef mv_desc *d = descriptor(self)
        check_exportable(self, "__array_interface__")
        descr = dtype_info(self._dtype).descr
        if descr is None:  # an AttributeError: NumPy goes on to __array__, which needs no words for the dtype
            raise ProtocolError(f"__array_interface__ has no words for dtype {self._dtype}; use np.asarray(view)")
        # The consumer keeps this object, not the lease: from now on release() closes the view and leaves the memory.
        self._exposed = True
        return {"version": 3, "shape": int64_tuple(d.shape, d.ndim), "strides": int64_tuple(d.strides, d.ndim),
                "typestr": self._dtype.str, "descr": descr[:],
                "data": (<uintptr_t>d.data, (d.flags & MV_READONLY) != 0)}

    def __array__(self, dtype=None, *, copy=None):
        """__array__(dtype=None, *, copy=None)

        An ndarray on the same memory, with exactly its dtype and strides; another dtype, or ``copy=True``, copies.
        """
        check_exportable(self, "__array__")
        array = to_array(self)
        wanted = array.dtype if dtype is None else as_dtype(dtype, "__array__")
        if copy is False and wanted != array.dtype:
            raise ZeroCopyError(f"__array__(copy=False): to make {wanted} of {array.dtype} needs a copy")
        try:
            return array.astype(wanted, copy=bool(copy))
        except Exception as cause:
            raise ArgumentError(f"__array__({wanted}): {cause}") from cause


# -- construction -----------------------------------------------------------------------------------------------------

cdef inline mv_desc *open_store(View self) noexcept:
    """Points `desc` at the aligned part of the object's own storage."""
    cdef uintptr_t address = (<uintptr_t>self._store + 63) & ~<uintptr_t>63
    self.desc = <mv_desc *>address
    return self.desc


cdef int set_dtype(View self, object dtype) except -1:
    """Gives the items another dtype; a sub-array dtype becomes dimensions, as in NumPy. The shape must be set."""
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


cdef int set_sub_array(View self, object base, tuple sizes) except -1:
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


cdef View finish(View self):
    """Derives what follows from shape, strides and address; the caller has checked that the extents fit."""
    if mv_desc_derive(self.desc, self._alignment) < 0:
        raise ShapeError(f"shape {self.shape} of {self._dtype}: more bytes than an address space holds")
    return self


cdef View make_view(Lease lease, void *data, int ndim, const int64_t *shape, const int64_t *strides, object dtype,
                    bint readonly):
    """A view on memory whose extents the caller has validated."""
    cdef View self = View.__new__(View)
    cdef mv_desc *d = open_store(self)
    cdef int k
    memset(d, 0, sizeof(mv_desc))
    d.data = data
    d.ndim = ndim
    d.abi_version = MV_ABI_VERSION
    d.struct_bytes = sizeof(mv_desc)
    for k in range(ndim):
        d.shape[k] = shape[k]
        d.strides[k] = strides[k]
    d.flags = MV_READONLY if readonly else 0
    set_dtype(self, dtype)
    self._lease = lease
    return finish(self)


cdef View cut(View parent):
    """A second view on the same lease, ready to be narrowed."""
    cdef View self = View.__new__(View)
    fill(self, parent)
    return self


cdef int fill(View self, View source) except -1:
    cdef mv_desc *d = descriptor(source)  # read now: the allocation before may have run a finalizer that released it
    open_store(self)[0] = d[0]
    self._lease = source._lease
    self._mask_lease = source._mask_lease
    self._dtype = source._dtype
    self._format = source._format
    self._alignment = source._alignment
    self._pin = source._pin
    return 0


cdef void drop_mask(View self) noexcept:
    cdef mv_desc *d = self.desc
    d.flags &= ~(MV_HAS_MASK | MV_MASK_BITS)
    d.mask = NULL
    d.mask_offset = d.mask_stride[0] = d.mask_stride[1] = 0
    self._mask_lease = None


cdef object to_array(View self):
    """An ndarray on the view's memory, through the region's bytes where no protocol has words for the dtype."""
    cdef int64_t low = 0, high = 0
    if self._format is not None:
        array = np.asarray(self)
        return array if array.dtype is self._dtype else array.view(self._dtype)  # np.record, long long, metadata
    cdef View region = cut(self)
    cdef mv_desc *d = region.desc
    shape, strides = int64_tuple(d.shape, d.ndim), int64_tuple(d.strides, d.ndim)
    mv_extent(d.ndim, d.shape, d.strides, d.itemsize, &low, &high)
    d.data = <char *>d.data + low
    d.ndim = 1
    d.shape[0] = high - low
    d.strides[0] = 1
    set_dtype(region, BYTE)
    finish(region)
    region._exposed = True  # np.ndarray keeps the object and not the export: to release it must not free the memory
    return np.ndarray(shape, self._dtype, buffer=region, offset=-low, strides=strides)


# -- what subclasses and other rooms build with ------------------------------------------------------------------------

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


def same(View source not None, bint readonly):
    """same(source, readonly)

    The same window again, without the right to write where `readonly`.
    """
    cdef View other = cut(source)
    if readonly:
        other.desc.flags |= MV_READONLY
    return other


# -- elements and fields ----------------------------------------------------------------------------------------------

cdef bint is_partial(object key):
    """Whether an index asks for a window even where no dimension is left: v[...] does."""
    return key is Ellipsis or (isinstance(key, tuple) and any([part is Ellipsis for part in <tuple>key]))


cdef object scalar(View self):
    """The element of a 0-d view as NumPy's scalar; None where it is missing."""
    if self.desc.flags & MV_HAS_MASK:
        if self.desc.mask[self.desc.mask_offset // 8]:
            return None
        drop_mask(self)
    return to_array(self)[()]


cdef int check_exportable(View self, str protocol) except -1:
    if descriptor(self).flags & MV_HAS_MASK:
        raise MaskError(f"{protocol} cannot carry the mask of this view; use view.data and view.mask")
    return 0


cdef View field(View self, object name):
    """A field of a record view, or several of them as a narrower record."""
    cdef View other = cut(self)
    dtype, offset = field_of(other._dtype, name)
    if other.desc.size:
        other.desc.data = <char *>other.desc.data + <int64_t>offset
    set_dtype(other, dtype)
    return finish(other)
