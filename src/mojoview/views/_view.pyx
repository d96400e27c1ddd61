"""View: a typed view of leased memory. Slicing, reshaping and casting make further views on the same lease."""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE
from libc.stdint cimport int64_t, uintptr_t
from libc.string cimport memset

from mojoview.memory.abi cimport (
    MV_ABI_VERSION, MV_DEVICE_MASK, MV_HAS_MASK, MV_MASK_BITS, MV_READONLY, mv_desc,
)
from mojoview.memory._lease cimport Lease, lease_buffer, lease_owner
from mojoview.views cimport _borrowing
from mojoview.views.dlpack._to_dlpack cimport capsule_of, check_export, device_of, exports_plainly
from mojoview.views._geometry cimport apply_index, apply_shape, fill_buffer, int64_tuple, resize_items, transpose
from mojoview.views._window cimport (
    Window, check_exportable, check_host, copy_fields, derive_flags, descriptor, drop_mask, make_bits, open_store,
    set_dtype,
)
from mojoview.views.bits cimport mv_bit

import operator

import numpy as np

from mojoview.memory._dtype import as_dtype, dtype_info, field_of
from mojoview.memory.errors import ArgumentError, MaskError, ProtocolError, ReadOnlyError
from mojoview.memory.extension_points import (
    ARROW_ARRAY, ARROW_DEVICE_ARRAY, ARROW_SCHEMA, CUDA_INTERFACE, TO_SERIES, resolve,
)
from mojoview.views.array import aligned_copy, assign, converted


cdef extern from "views/geometry.h" nogil:
    bint mv_extent(int ndim, const int64_t *shape, const int64_t *strides, int64_t item, int64_t *low, int64_t *high)

# By the numbers that Python gives to the operators.
cdef tuple COMPARISONS = (operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge)
cdef object BOOL = np.dtype(bool)
cdef object BYTE = np.dtype("u1")


# Not cleared by the cycle collector: a consumer of this buffer that dies in the same cycle still needs the memory.
@cython.no_gc_clear
cdef class View(Window):
    """View()

    A typed view of memory that another object owns; made by `mojoview.view()`.

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
        "cpu", or for example "cuda:0": then only the address can be used, and every host access raises
        `DeviceError`.
    masked : bool
        Whether elements may be missing.
    mask : View or None
        bool, True for missing elements. For a bitmap a copy, made each time; for a byte mask a borrowed view.
    validity : Bits or None
        The bitmap itself if the mask is one: 1 = valid.
    arrow_format : str or None
        Arrow's format string of the items if it has more detail than the dtype (time zone, dates, decimals).
    owner : object
        The object that owns the memory.

    Notes
    -----
    Thread safety: reading attributes, slicing and kernels may run in many threads at once. `release()` refuses while a
    consumer or a kernel uses the memory, so no thread loses it during a call.

    Examples
    --------
    >>> import numpy as np, mojoview as mv
    >>> v = mv.view(np.arange(6.0).reshape(2, 3))
    >>> v[:, ::2].strides
    (24, 16)
    >>> np.asarray(v)[1]
    array([3., 4., 5.])
    """

    # -- mask ---------------------------------------------------------------------------------------------------------

    @property
    def mask(self):
        cdef mv_desc *d = descriptor(self)
        cdef int64_t step = 1
        cdef Lease lease
        cdef View other
        if d.flags & MV_HAS_MASK == 0:
            return None
        check_host(self, "mask")
        if d.flags & MV_MASK_BITS:
            unpacked = self.validity.unpack(invert=True)
            lease = lease_buffer(unpacked, unpacked, PyBUF_SIMPLE)
            return make_view(lease, lease.buffer.buf, d.ndim, d.shape, &step, BOOL, True)
        other = make_view(self._mask_lease, <void *>(d.mask + d.mask_offset // 8), d.ndim, d.shape, d.mask_stride, BOOL,
                          True)
        other._pin = self._pin
        return other

    @property
    def validity(self):
        cdef mv_desc *d = descriptor(self)
        if d.flags & MV_MASK_BITS == 0:
            return None
        return make_bits(self._mask_lease, d.mask, d.mask_offset, d.size, self.device)

    @property
    def data(self):
        """The same elements without the mask."""
        cdef View other = alias_of(self)
        drop_mask(other)
        return other

    # -- views on the same memory -------------------------------------------------------------------------------------

    def __getitem__(self, key):
        cdef View other
        if isinstance(key, (str, list)):
            return field(self, key)
        other = alias_of(self)
        apply_index(other.desc, key)
        derive_flags(other)
        return other if other.desc.ndim or is_partial(key) else scalar(other)

    def __setitem__(self, key, value):
        if descriptor(self).flags & MV_READONLY:
            raise ReadOnlyError("assignment: expected a writable view, got a read-only one; open it with "
                                "view(obj, writable=True)")
        if isinstance(key, str):
            self, key = field(self, key), Ellipsis
        check_exportable(self, "assignment")
        assign(to_array(self), key, value)

    def __delitem__(self, key):
        raise ArgumentError("del: the elements of a view cannot be deleted")

    # -- the number and comparison protocols: an element's of 0 dimensions, NumPy's elementwise ------------------------

    def __bool__(self):
        if descriptor(self).ndim:
            raise ArgumentError(f"bool(): a view of shape {int64_tuple(self.desc.shape, self.desc.ndim)} has no truth "
                                f"value; use len(view), numpy.any(view) or numpy.all(view)")
        return bool(element(self, "bool()"))

    def __int__(self):
        return int(element(self, "int()"))

    def __index__(self):
        return operator.index(element(self, "operator.index()"))

    def __float__(self):
        return float(element(self, "float()"))

    def __complex__(self):
        return complex(element(self, "complex()"))

    def __richcmp__(self, other, int op):
        return COMPARISONS[op](comparable(self), comparable(other))

    def __iter__(self):
        if descriptor(self).ndim == 0:
            raise ArgumentError("iteration: a view of 0 dimensions has no axis to iterate")
        return (self[i] for i in range(len(self)))

    @property
    def T(self):
        """The same memory with the dimensions in reverse order."""
        cdef View other = alias_of(self)
        transpose(other.desc)
        derive_flags(other)
        return other

    def reshape(self, *shape):
        """reshape(*shape)

        Return the same elements in C order with another shape, without a copy.

        Parameters
        ----------
        *shape : int or tuple of int
            One of them may be -1; it is computed.

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
        MaskError
            The view has a mask with strides of its own.

        Notes
        -----
        Thread safety: any thread.

        Examples
        --------
        >>> import numpy as np, mojoview as mv
        >>> mv.view(np.arange(12)).reshape(3, -1).shape
        (3, 4)
        """
        cdef View other = alias_of(self)
        apply_shape(other.desc, shape)
        derive_flags(other)
        return other

    def to_series(self, *, index=None, name=None):
        """to_series(*, index=None, name=None)

        Make a pandas Series over the same memory, without a copy; see `mojoview.frames.to_series`.
        """
        return resolve(TO_SERIES)(self, index=index, name=name)

    def cast(self, dtype):
        """cast(dtype)

        Return the same bytes read as another dtype, as `numpy.ndarray.view` does.

        Parameters
        ----------
        dtype : dtype-like
            If the item size differs, the last axis must be contiguous and its bytes must divide evenly.

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
        MaskError
            The view has a mask and the item size differs.

        Notes
        -----
        Thread safety: any thread.

        Examples
        --------
        >>> import numpy as np, mojoview as mv
        >>> int(mv.view(np.array(["1970-01-02"], "M8[D]")).cast("i8")[0])
        1
        """
        new = as_dtype(dtype, "cast")
        dtype_info(new)
        cdef View other = alias_of(self)
        resize_items(other.desc, new)
        set_dtype(other, new)
        other._arrow = None
        derive_flags(other)
        return other

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
        if descr is None:  # an AttributeError: NumPy then tries __array__, which needs no description of the dtype
            raise ProtocolError(f"__array_interface__ cannot describe dtype {self._dtype}; use np.asarray(view)")
        # The consumer keeps this object, not the lease: from now on release() closes the view and keeps the memory.
        self._exposed = True
        return {"version": 3, "shape": int64_tuple(d.shape, d.ndim), "strides": int64_tuple(d.strides, d.ndim),
                "typestr": self._dtype.str, "descr": descr[:],
                "data": (<uintptr_t>d.data, (d.flags & MV_READONLY) != 0)}

    def __array__(self, dtype=None, *, copy=None):
        """__array__(dtype=None, *, copy=None)

        Return an ndarray on the same memory, with the same dtype and strides; another dtype, or ``copy=True``, copies.
        """
        check_exportable(self, "__array__")
        return converted(to_array(self), dtype, copy)

    @property
    def __cuda_array_interface__(self):
        if descriptor(self).flags & MV_DEVICE_MASK == 0:
            raise ProtocolError("__cuda_array_interface__: expected device memory, got the host's; use "
                                "__array_interface__ or the "
                                "buffer protocol")
        self._exposed = True
        return resolve(CUDA_INTERFACE)(self, self._stream)

    def __dlpack_device__(self):
        """__dlpack_device__()

        Return (device type, device id) in DLPack's numbering; (1, 0) is the host.
        """
        return device_of(descriptor(self))

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        """__dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None)

        Export the memory as a DLPack capsule, without a copy; `release()` refuses while a consumer holds it.

        Parameters
        ----------
        stream : int, optional
            None for host memory. Device memory: None, -1 (no synchronisation), 1, 2 or a handle; 0 is refused.
        max_version : tuple of int, optional
            Newest version that the consumer understands. From (1, 0) on the capsule is versioned and can mark
            memory as read-only.
        dl_device : tuple of int, optional
            Must be the memory's own.
        copy : bool, optional
            True exports a fresh, writable copy.

        Returns
        -------
        capsule
            Borrows the memory and holds the view; after a copy owns its memory. May be dropped or consumed on any
            thread.

        Raises
        ------
        ReadOnlyError
            Read-only memory for a consumer of unversioned capsules, which cannot mark it.
        ZeroCopyError, LayoutError, MaskError
            DLPack cannot describe the dtype, byte order, strides or mask.
        DeviceError, StreamError, ArgumentError
            Another device, an invalid stream, arguments of the wrong type.

        Notes
        -----
        Source: DLPack 1.3, "Python Specification for DLPack". Thread safety: any thread.
        """
        cdef View copied
        if copy is not None and copy is not False and copy is not True:
            raise ArgumentError(f"__dlpack__(copy={copy!r}): expected None, False or True")
        if not exports_plainly(descriptor(self)) or stream is not None or dl_device is not None:
            check_export(self, self.desc, self._stream, stream, dl_device, copy is True)
        if copy is not True:
            return capsule_of(self, &self._exports, self.desc, max_version, False)
        copied = duplicate(self)
        return capsule_of(copied, &copied._exports, copied.desc, max_version, True)

    def __arrow_c_schema__(self):
        """__arrow_c_schema__()

        Export the Arrow type of the view as a capsule; see `__arrow_c_array__`.
        """
        return resolve(ARROW_SCHEMA)(self)

    def __arrow_c_array__(self, requested_schema=None):
        """__arrow_c_array__(requested_schema=None)

        Export the memory as a pair of Arrow capsules (schema, array), without a copy of the values.

        Parameters
        ----------
        requested_schema : capsule, optional
            Only one request is supported: booleans as bits, which copies.

        Returns
        -------
        tuple of capsule
            Borrow the memory and hold the view until the consumer releases the array. More than one dimension becomes
            fixed-size lists. A byte mask, and NaT of datetimes, become a fresh bitmap; a bitmap is shared.

        Raises
        ------
        ZeroCopyError, LayoutError, MaskError, ShapeError, DeviceError
            Arrow cannot describe the dtype, byte order, strides, mask or 0 dimensions; device memory.

        Notes
        -----
        Source: Apache Arrow, "The Arrow C data interface" and "The Arrow PyCapsule Interface". Thread safety: any
        thread.
        """
        return resolve(ARROW_ARRAY)(self, requested_schema)

    def __arrow_c_device_array__(self, requested_schema=None, **kwargs):
        """__arrow_c_device_array__(requested_schema=None, **kwargs)

        Export as `__arrow_c_array__` does, in the structure that names the device: the host.
        """
        return resolve(ARROW_DEVICE_ARRAY)(self, requested_schema, kwargs)


# -- construction -----------------------------------------------------------------------------------------------------

cdef View make_view(Lease lease, void *data, int ndim, const int64_t *shape, const int64_t *strides, object dtype,
                    bint readonly):
    """Make a view on memory whose extents the caller has validated."""
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
    derive_flags(self)
    if _borrowing.checking:
        _borrowing.enter_borrow(lease, d)
    self._lease = lease
    return self


cdef View alias_of(View parent):
    """Make a second view on the same lease; the caller changes its geometry."""
    cdef View self = View.__new__(View)
    copy_fields(self, parent)
    return self


cdef object element(View self, str operation):
    """Return the element of a view of 0 dimensions, as NumPy's scalar."""
    cdef mv_desc *d = descriptor(self)
    if d.ndim:
        raise ArgumentError(f"{operation}: expected a view of 0 dimensions, got shape {int64_tuple(d.shape, d.ndim)}")
    if self.mask is not None and np.asarray(self.mask)[()]:
        raise MaskError(f"{operation}: the element is missing")
    return self.__array__()[()]


cdef object comparable(object side):
    """Return a side of a comparison as NumPy takes it: an ndarray for a view."""
    if not isinstance(side, View):
        return side
    if side.mask is not None:
        raise MaskError("comparing a view with a mask: expected no missing values; compare view.data and use view.mask")
    return side.__array__()


cdef object to_array(View self):
    """Return an ndarray on the view's memory, through raw bytes if no protocol can describe the dtype."""
    cdef int64_t low = 0, high = 0
    if self._format is not None:
        array = np.asarray(self)
        return array if array.dtype is self._dtype else array.view(self._dtype)  # np.record, long long, metadata
    cdef View region = alias_of(self)
    cdef mv_desc *d = region.desc
    shape, strides = int64_tuple(d.shape, d.ndim), int64_tuple(d.strides, d.ndim)
    mv_extent(d.ndim, d.shape, d.strides, d.itemsize, &low, &high)
    d.data = <char *>d.data + low
    d.ndim = 1
    d.shape[0] = high - low
    d.strides[0] = 1
    set_dtype(region, BYTE)
    derive_flags(region)
    region._exposed = True  # np.ndarray keeps the object, not the export: releasing it must not free the memory
    return np.ndarray(shape, self._dtype, buffer=region, offset=-low, strides=strides)


cdef View duplicate(View source):
    """Make a writable copy that keeps the codes of items for which NumPy has no dtype."""
    cdef int64_t shape[8]
    cdef int64_t strides[8]
    cdef int k
    array = aligned_copy(to_array(source))
    for k in range(array.ndim):
        shape[k] = array.shape[k]
        strides[k] = array.strides[k]
    cdef uintptr_t address = array.ctypes.data
    cdef View other = make_view(lease_owner(array), <void *>address, array.ndim, shape, strides, array.dtype, False)
    other.desc.dtype_code = source.desc.dtype_code
    other.desc.dtype_bits = source.desc.dtype_bits
    other.desc.dtype_lanes = source.desc.dtype_lanes
    other.desc.logical = source.desc.logical
    return other


# -- elements and fields ----------------------------------------------------------------------------------------------

cdef bint is_partial(object key):
    """True for an index that selects a view even if no dimension is left, as v[...] does."""
    return key is Ellipsis or (isinstance(key, tuple) and any([part is Ellipsis for part in <tuple>key]))


cdef object scalar(View self):
    """Return the element of a 0-d view as a NumPy scalar; None if it is missing."""
    check_host(self, "element access")
    if self.desc.flags & MV_HAS_MASK:
        if self.desc.flags & MV_MASK_BITS:
            if not mv_bit(self.desc.mask, self.desc.mask_offset):
                return None
        elif self.desc.mask[self.desc.mask_offset // 8]:
            return None
        drop_mask(self)
    return to_array(self)[()]


cdef View field(View self, object name):
    """Make a view of a field of a record view, or of several as a narrower record."""
    cdef View other = alias_of(self)
    dtype, offset = field_of(other._dtype, name)
    if other.desc.size:
        other.desc.data = <char *>other.desc.data + <int64_t>offset
    set_dtype(other, dtype)
    derive_flags(other)
    return other
