"""PointerTable: an array of the addresses of many views, for kernels that take any number of columns."""

cimport cython
from cpython.buffer cimport PyBUF_FORMAT, PyBUF_ND, PyBUF_STRIDES, PyBUF_WRITABLE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport uint64_t, uintptr_t

from mojoview.memory.abi cimport MV_C_CONTIGUOUS, MV_DEVICE_MASK, MV_HAS_MASK, MV_READONLY, MV_SWAPPED, mv_desc
from mojoview.views._view cimport View, view_enter, view_leave

from mojoview.memory.errors import (
    AllocationError, ArgumentError, DeviceError, DTypeError, ExportedError, LayoutError, MaskError, ReadOnlyError,
    ReleasedError, ShapeError,
)
from mojoview.views._capi import view


cdef enum:
    LINE = 64  # bytes of a cache line

cdef char *FORMAT = b"L"


# Not cleared by the cycle collector: a consumer of the table that dies in the same cycle still needs the views entered.
@cython.no_gc_clear
cdef class PointerTable:
    """PointerTable(objects, *, to="data", writable=False)

    An array of the addresses of many views, for kernels that take any number of columns.

    The table starts on a cache line and exports itself as an array of uint64: a kernel takes it as `In[DType.uint64]`
    or as a pointer, C code by its `address`. Every view is held, with its memory in place, until the table is released.

    Parameters
    ----------
    objects : iterable of View or array-like
        Objects other than views are opened with `view()`.
    to : {"data", "descriptors"}
        "data": each pointer leads to the first element. Nothing describes the memory, so views must be C-contiguous,
        of one shape and one native dtype, and without masks. "descriptors": each leads to a `mv_desc`; any views do.
    writable : bool
        Whether kernels may write through the pointers; then all views must be writable. With False they must not.

    Attributes
    ----------
    address : int
        Of the first pointer. Borrowed: valid until `release()`.
    views : tuple of View
    dtype : numpy.dtype or None
        The dtype of all views; None for descriptors and for a table without views.
    rows : int or None
        The length of the first axis of all views; None for descriptors, for a table without views and for
        zero-dimensional views.
    to : str
    readonly, closed : bool

    Raises
    ------
    DTypeError, ShapeError, LayoutError, MaskError
        ``to="data"`` and the views are not all alike, dense, of native byte order and without masks.
    DeviceError, ReadOnlyError, ArgumentError
        Device memory; read-only views in a writable table; arguments of the wrong type.

    Notes
    -----
    Views are released in reverse order. Thread safety: kernels may use one table in many
    threads at once; `release()` refuses while one does.

    Examples
    --------
    >>> import numpy as np, mojoview as mv
    >>> columns = [np.arange(3.0), np.ones(3)]
    >>> with mv.PointerTable(columns) as table:
    ...     (len(table), table.address % 64, int(np.asarray(table)[1]) == columns[1].ctypes.data)
    (2, 0, True)
    """
    cdef void *_memory
    cdef uint64_t *_pointers  # inside `_memory`; NULL once released
    cdef list _views
    cdef Py_ssize_t _shape[1]
    cdef Py_ssize_t _strides[1]
    cdef Py_ssize_t _exports
    cdef bint _writable
    cdef readonly str to
    cdef readonly object dtype
    cdef tuple _common_shape  # of the views; None for descriptors
    cdef object __weakref__

    def __cinit__(self, objects, *, to="data", writable=False):
        cdef View column
        cdef mv_desc *d
        cdef Py_ssize_t n, k = 0
        if not isinstance(to, str) or to not in ("data", "descriptors"):
            raise ArgumentError(f"PointerTable(to=...): expected 'data' or 'descriptors', got {to!r}")
        if type(writable) is not bool:
            raise ArgumentError(f"PointerTable(writable=...): expected a bool, got {type(writable).__name__}")
        try:
            objects = list(objects)
        except TypeError as cause:
            raise ArgumentError(f"PointerTable: expected an iterable of arrays, got {type(objects).__name__}") \
                from cause
        views = [each if isinstance(each, View) else view(each, writable=writable) for each in objects]
        n = len(views)
        self.to = str(to)
        self._writable = writable
        self._views = []
        self._memory = PyMem_Malloc(n * sizeof(uint64_t) + LINE)
        if self._memory is NULL:
            raise AllocationError(f"PointerTable: no memory for {n} pointers")
        self._pointers = <uint64_t *>((<uintptr_t>self._memory + LINE - 1) & ~<uintptr_t>(LINE - 1))
        self._shape[0] = n
        self._strides[0] = sizeof(uint64_t)
        for each in views:
            if not isinstance(each, View):
                raise ArgumentError(f"PointerTable: view {k} is a {type(each).__name__}, which has no single address")
            column = <View>each
            d = view_enter(column)
            self._views.append(column)
            self.check(d, column, k)
            self._pointers[k] = <uintptr_t>d.data if self.to == "data" else <uintptr_t>d
            k += 1

    def __dealloc__(self):
        self.release_views()
        PyMem_Free(self._memory)

    cdef int check(self, mv_desc *d, View column, Py_ssize_t k) except -1:
        if d.flags & MV_DEVICE_MASK:
            raise DeviceError(f"PointerTable: view {k} is on {column.device}, which the host cannot read")
        if self._writable and d.flags & MV_READONLY:
            raise ReadOnlyError(f"PointerTable(writable=True): view {k} is read-only")
        if self.to != "data":
            return 0
        if d.flags & MV_HAS_MASK:
            raise MaskError(f"PointerTable: view {k} has a mask, which a bare address cannot describe; "
                            "use to='descriptors'")
        if not d.flags & MV_C_CONTIGUOUS:
            raise LayoutError(f"PointerTable: view {k} has strides {column.strides}, which a bare address cannot "
                              "describe; use to='descriptors'")
        if d.flags & MV_SWAPPED:
            raise DTypeError(f"PointerTable: view {k} is not in native byte order; use to='descriptors'")
        if k == 0:
            self.dtype, self._common_shape = column.dtype, column.shape
        elif column.dtype != self.dtype:
            raise DTypeError(f"PointerTable: view {k} is of dtype {column.dtype}, the others of {self.dtype}; "
                             "use to='descriptors'")
        elif column.shape != self._common_shape:
            raise ShapeError(f"PointerTable: view {k} is of shape {column.shape}, the others of {self._common_shape}; "
                             "use to='descriptors'")
        return 0

    cdef void release_views(self) noexcept:
        cdef View column
        self._pointers = NULL
        while self._views:
            column = <View>self._views.pop()
            view_leave(column)
            column = None

    cdef int check_open(self) except -1:
        if self._pointers is NULL:
            raise ReleasedError("the PointerTable was released: make a new one")
        return 0

    @property
    def address(self):
        self.check_open()
        return <uintptr_t>self._pointers

    @property
    def views(self):
        self.check_open()
        return tuple(self._views)

    @property
    def rows(self):
        return self._common_shape[0] if self._common_shape else None

    @property
    def readonly(self):
        return not self._writable

    @property
    def closed(self):
        return self._pointers is NULL

    def __len__(self):
        self.check_open()
        return self._shape[0]

    def release(self):
        """release()

        Release the views, the last one first. Using the table afterwards raises `ReleasedError`.

        Raises
        ------
        ExportedError
            A running kernel or another consumer still uses the table.
        """
        if self._exports:
            raise ExportedError(f"release(): {self._exports} consumer(s) of this PointerTable still use it; drop them "
                                "first")
        self.release_views()

    def __enter__(self):
        self.check_open()
        return self

    def __exit__(self, kind, error, traceback):
        # A consumer that the traceback keeps alive must not replace the propagating error with one of ours.
        if kind is None or self._exports == 0:
            self.release()

    def __repr__(self):
        if self._pointers is NULL:
            return "<mojoview.PointerTable, released>"
        what = f" of {self.dtype}, shape {self._common_shape}" if self.dtype is not None else ""
        return f"<mojoview.PointerTable at {self.address:#x}: {len(self)} pointers to {self.to}{what}>"

    def __reduce_ex__(self, protocol):
        raise ArgumentError("a PointerTable cannot be pickled or copied: its addresses are valid in this process only")

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        self.check_open()
        if flags & PyBUF_WRITABLE:
            raise ReadOnlyError("buffer export: a writable buffer was asked of a PointerTable, whose addresses are "
                                "fixed")
        buffer.buf = self._pointers
        buffer.len = self._shape[0] * <Py_ssize_t>sizeof(uint64_t)
        buffer.itemsize = sizeof(uint64_t)
        buffer.readonly = True
        buffer.ndim = 1
        buffer.format = FORMAT if flags & PyBUF_FORMAT else NULL
        buffer.shape = self._shape if flags & PyBUF_ND else NULL
        buffer.strides = self._strides if flags & PyBUF_STRIDES == PyBUF_STRIDES else NULL
        buffer.suboffsets = NULL
        buffer.internal = NULL
        buffer.obj = self
        self._exports += 1

    def __releasebuffer__(self, Py_buffer *buffer):
        self._exports -= 1
