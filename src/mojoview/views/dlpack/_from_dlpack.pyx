"""Import of DLPack: capsules, or the C function table of a type, become views. Also the function table of `View`.

Source: DLPack 1.3, C header and "Python Specification for DLPack".
"""

cimport cython
from cpython.object cimport PyObject, PyTypeObject
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New, PyCapsule_SetName
from cpython.ref cimport Py_INCREF
from cpython.type cimport PyType_Modified
from libc.stdint cimport int32_t, int64_t, uint64_t, uintptr_t
from libc.string cimport memset

from mojoview.memory._lease cimport Lease
from mojoview.memory.abi cimport (
    MV_BOOL, MV_COMPLEX, MV_FLOAT, MV_MAX_NDIM, MV_PLAIN, MV_UINT, mv_desc,
)
from mojoview.views.dlpack._to_dlpack cimport check_export, managed_of
from mojoview.views._view cimport View, make_view, view_enter, view_leave
from mojoview.views.dlpack.dlpack cimport (
    MV_DL_CPU, MV_DL_MAJOR, MV_DL_MINOR, MV_DL_READ_ONLY, MV_DL_SUBBYTE_PADDED, mv_dl_host_reads, mv_dl_legacy,
    mv_dl_managed, mv_dl_set_error, mv_dl_table, mv_dl_table_header, mv_dl_tensor,
)

import numpy as np

from mojoview.memory._dtype import dtype_of_code
from mojoview.memory.errors import (
    DeviceError, DTypeError, InterfaceError, LayoutError, MojoViewError, ReadOnlyError, ShapeError, ZeroCopyError,
)
from mojoview.views._construct import with_device


cdef extern from "Python.h":
    PyObject *_PyType_Lookup(type kind, object name)


cdef extern from "views/geometry.h" nogil:
    bint mv_extent(int ndim, const int64_t *shape, const int64_t *strides, int64_t itemsize, int64_t *low,
                   int64_t *high)
    void mv_c_strides(int ndim, const int64_t *shape, int64_t itemsize, int64_t *strides)
    int64_t mv_count_elements(int ndim, const int64_t *shape, int64_t itemsize)
    bint mv_may_self_overlap(int ndim, const int64_t *shape, const int64_t *strides, int64_t itemsize)


@cython.final
@cython.no_gc_clear
cdef class TensorLease(Lease):
    """Keep a consumed tensor, and call its deleter once, with the GIL held (producers may acquire it again)."""
    cdef mv_dl_legacy *legacy
    cdef mv_dl_managed *managed

    def __dealloc__(self):
        if self.managed is not NULL and self.managed.deleter is not NULL:
            self.managed.deleter(self.managed)
        if self.legacy is not NULL and self.legacy.deleter is not NULL:
            self.legacy.deleter(self.legacy)


def from_dlpack(obj, bint writable):
    """from_dlpack(obj, writable)

    Open a view of an object's memory through DLPack: its type's function table if there is one, else `__dlpack__`.

    Parameters
    ----------
    obj : object
        With `__dlpack__`.
    writable : bool
        Granted if a versioned capsule of the producer does not mark the memory as read-only.

    Returns
    -------
    View
        Borrows the memory and keeps the producer's tensor as long as any view of it. Memory of a device that
        the host cannot read gives a view whose host access raises `DeviceError`.

    Raises
    ------
    ZeroCopyError
        The producer refuses, or would have to copy.
    InterfaceError, ShapeError, DTypeError, ReadOnlyError, LayoutError
        The tensor is malformed or consumed, has more than 8 dimensions or packed items of less than a byte; writing
        was requested on read-only memory, an unversioned capsule, or overlapping elements.

    Notes
    -----
    Thread safety: any thread.
    """
    cdef str what = f"view({type(obj).__name__})"
    cdef mv_dl_table *table = table_of(what, obj)
    cdef TensorLease lease = TensorLease.__new__(TensorLease)
    lease.owner = obj
    check_resolved(what, obj)
    if table is not NULL:
        return from_table(what, table, obj, lease, writable)
    capsule = ask(what, obj)
    if PyCapsule_IsValid(capsule, "dltensor_versioned"):
        return from_managed(what, <mv_dl_managed *>PyCapsule_GetPointer(capsule, "dltensor_versioned"), capsule, lease,
                            writable, None)
    if PyCapsule_IsValid(capsule, "dltensor"):
        return from_legacy(what, capsule, lease, writable)
    raise InterfaceError(f"{what}: __dlpack__ returned {capsule!r}, which is not a DLPack capsule or was consumed")


cdef int check_resolved(str what, obj) except -1:
    """Refuse PyTorch tensors that are lazily conjugated or negated, or that require gradients.

    PyTorch's function table exports their stored values, which its `__dlpack__` refuses (except for negation)."""
    cdef type kind = type(obj)
    if not hasattr(kind, "is_conj"):
        return 0
    try:
        remedy = ("resolve_conj()" if obj.is_conj() else "resolve_neg()" if obj.is_neg() else
                  "detach()" if obj.requires_grad else None)
    except Exception as error:
        raise InterfaceError(f"{what}: asking for its state raises {type(error).__name__}: {error}") from error
    if remedy is not None:
        raise ZeroCopyError(f"{what}: the tensor is more than its memory (conjugated, negated or differentiated); use "
                            f"tensor.{remedy}")
    return 0


cdef object ask(str what, obj):
    """Call `__dlpack__`; producers before 1.0 accept no keywords."""
    try:
        try:
            return obj.__dlpack__(max_version=(MV_DL_MAJOR, MV_DL_MINOR), copy=False)
        except TypeError:
            return obj.__dlpack__()
    except MojoViewError:
        raise
    except (BufferError, TypeError, ValueError, RuntimeError, NotImplementedError, AttributeError) as error:
        raise ZeroCopyError(f"{what}: its __dlpack__ refuses: {error}") from error


cdef View from_managed(str what, mv_dl_managed *managed, capsule, TensorLease lease, bint writable, stream):
    """Open a versioned tensor; `capsule` is None if the lease owns the tensor already."""
    if managed is NULL:
        raise InterfaceError(f"{what}: the producer returned no tensor")
    if managed.version.major != MV_DL_MAJOR:  # nothing but the deleter may be touched
        raise InterfaceError(f"{what}: expected a tensor of DLPack {MV_DL_MAJOR}, got version {managed.version.major}")
    cdef Tensor tensor
    read_tensor(what, &managed.tensor, managed.flags, &tensor)
    check_access(what, &tensor, (managed.flags & MV_DL_READ_ONLY) != 0, writable)
    if capsule is not None:
        PyCapsule_SetName(capsule, "used_dltensor_versioned")
        lease.managed = managed
    return open_tensor(&tensor, &managed.tensor, lease, not writable, stream)


cdef View from_legacy(str what, capsule, TensorLease lease, bint writable):
    cdef mv_dl_legacy *legacy = <mv_dl_legacy *>PyCapsule_GetPointer(capsule, "dltensor")
    cdef Tensor tensor
    read_tensor(what, &legacy.tensor, 0, &tensor)
    if writable:
        raise ReadOnlyError(f"{what}, writable=True: its capsule is of before DLPack 1.0, which cannot mark memory as "
                            "writable")
    PyCapsule_SetName(capsule, "used_dltensor")
    lease.legacy = legacy
    return open_tensor(&tensor, &legacy.tensor, lease, True, None)


# -- the description of a tensor, checked before its memory is used ----------------------------------------------------

cdef struct Tensor:
    char *data
    int64_t itemsize
    int64_t shape[8]
    int64_t strides[8]


cdef int read_tensor(str what, const mv_dl_tensor *t, uint64_t flags, Tensor *out) except -1:
    cdef int k
    cdef int64_t low, high, size, bits = <int64_t>t.bits * t.lanes
    if t.ndim < 0 or t.ndim > MV_MAX_NDIM:
        raise ShapeError(f"{what}: {t.ndim} dimensions, the descriptor holds 0 to {MV_MAX_NDIM}")
    if t.device_type < 1 or t.device_type > 255:
        raise DeviceError(f"{what}: device type {t.device_type} is not one of DLPack's")
    if bits == 0:
        raise DTypeError(f"{what}: items of {t.bits} bits in {t.lanes} lanes")
    if t.bits < 8 and flags & MV_DL_SUBBYTE_PADDED:
        bits = <int64_t>t.lanes * 8
    if bits % 8:
        raise DTypeError(f"{what}: items of {bits} bits are packed into shared bytes; a view needs whole bytes")
    out.itemsize = bits // 8
    if t.ndim and t.shape is NULL:
        raise InterfaceError(f"{what}: {t.ndim} dimensions without a shape")
    for k in range(t.ndim):
        out.shape[k] = t.shape[k]
        if t.shape[k] < 0:
            raise InterfaceError(f"{what}: negative size {t.shape[k]} in dimension {k}")
    size = mv_count_elements(t.ndim, out.shape, out.itemsize)
    if size < 0:
        raise InterfaceError(f"{what}: shape {[t.shape[k] for k in range(t.ndim)]} has more bytes than an address "
                             "space holds")
    if t.strides is NULL or size == 0:
        mv_c_strides(t.ndim, out.shape, out.itemsize, out.strides)
    else:
        for k in range(t.ndim):
            if not -(2**62) // out.itemsize <= t.strides[k] <= 2**62 // out.itemsize:
                raise InterfaceError(f"{what}: stride of {t.strides[k]} items in dimension {k} overflows")
            out.strides[k] = t.strides[k] * out.itemsize
    if not mv_extent(t.ndim, out.shape, out.strides, out.itemsize, &low, &high):
        raise InterfaceError(f"{what}: strides {[t.strides[k] for k in range(t.ndim)]} overflow")
    if size == 0:
        out.data = <char *>t.data
        return 0
    if t.data is NULL:
        raise InterfaceError(f"{what}: NULL for {size} elements")
    start = <uintptr_t>t.data + int(t.byte_offset)
    if start + low < 0 or start + high >= 2**63:
        raise InterfaceError(f"{what}: the extents leave the address space")
    out.data = <char *>t.data + t.byte_offset
    return 0


cdef int check_access(str what, const Tensor *tensor, bint readonly, bint writable) except -1:
    if writable and readonly:
        raise ReadOnlyError(f"{what}, writable=True: its capsule is marked read-only")
    return 0


cdef View open_tensor(Tensor *tensor, const mv_dl_tensor *t, TensorLease lease, bint readonly, stream):
    """Open a tensor that the lease owns: whatever fails, its deleter runs once."""
    if not readonly and mv_may_self_overlap(t.ndim, tensor.shape, tensor.strides, tensor.itemsize):
        raise LayoutError(f"view({type(lease.owner).__name__}, writable=True): its strides reach some bytes more than "
                          "once; writing needs a copy")
    cdef View view = make_view(lease, tensor.data, t.ndim, tensor.shape, tensor.strides, dtype_of(t, tensor.itemsize),
                               readonly)
    cdef mv_desc *d = view.desc
    if d.dtype_code != t.code or d.dtype_bits != t.bits:  # NumPy has no such dtype: the descriptor keeps the code
        d.dtype_code = t.code
        d.dtype_bits = t.bits
        d.logical = MV_PLAIN
    d.dtype_lanes = t.lanes
    if mv_dl_host_reads(t.device_type):
        return view
    return with_device(view, t.device_type, t.device_id, stream)


cdef dict DTYPES = {}


cdef object dtype_of(const mv_dl_tensor *t, int64_t itemsize):
    """Return NumPy's dtype; raw bytes if it has none (bfloat16, small floats, vectors, wider types)."""
    key = (t.code, t.bits, t.lanes, itemsize)
    dtype = DTYPES.get(key)
    if dtype is None:
        plain = t.lanes == 1 and (t.code <= MV_UINT and t.bits <= 64 or t.code == MV_FLOAT and t.bits <= 64
                                  or t.code == MV_COMPLEX and t.bits <= 128 or t.code == MV_BOOL and t.bits == 8)
        try:
            dtype = dtype_of_code(t.code, t.bits) if plain else None
        except DTypeError:  # float8 under the code of floats, complex32
            dtype = None
        if dtype is None or dtype.itemsize != itemsize:
            dtype = np.dtype(("V", itemsize))
        if len(DTYPES) < 1024:
            DTYPES[key] = dtype
    return dtype


# -- the C function table ---------------------------------------------------------------------------------------------

cdef mv_dl_table *table_of(str what, obj) except? NULL:
    """Return the function table of the object's type in the supported major version; NULL if there is none."""
    cdef PyObject *found = _PyType_Lookup(type(obj), "__dlpack_c_exchange_api__")
    if found is NULL:
        return NULL
    capsule = <object>found
    if not PyCapsule_IsValid(capsule, "dlpack_exchange_api"):
        return NULL
    cdef mv_dl_table_header *header = <mv_dl_table_header *>PyCapsule_GetPointer(capsule, "dlpack_exchange_api")
    while header is not NULL and header.version.major != MV_DL_MAJOR:
        header = header.previous
    if header is NULL or (<mv_dl_table *>header).from_object is NULL:
        return NULL
    return <mv_dl_table *>header


cdef View from_table(str what, mv_dl_table *table, obj, TensorLease lease, bint writable):
    cdef void *stream = NULL
    cdef mv_dl_managed *managed = NULL
    try:
        if table.from_object(<PyObject *>obj, &managed) != 0:
            reraise()
    except MojoViewError:
        raise
    except Exception as error:
        raise ZeroCopyError(f"{what}: its DLPack function table refuses: {error}") from error
    if managed is NULL:
        raise InterfaceError(f"{what}: its DLPack function table returned no tensor")
    lease.managed = managed
    if managed.version.major == MV_DL_MAJOR and not mv_dl_host_reads(managed.tensor.device_type) \
            and table.current_stream is not NULL:
        if table.current_stream(managed.tensor.device_type, managed.tensor.device_id, &stream) != 0:
            reraise()
    return from_managed(what, managed, None, lease, writable, <uintptr_t>stream if stream is not NULL else None)


cdef extern from *:
    """
    /* The table's functions report failure as -1 with an exception set: raise it through Cython. */
    static int mv_reraise(void) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_BufferError, "failed without an exception");
        return -1;
    }
    """
    int reraise "mv_reraise"() except -1
    void leave_error "PyErr_SetObject"(object kind, object text) noexcept


cdef int table_from_object(void *obj, mv_dl_managed **out) noexcept:
    cdef View view
    try:
        view = <View?><object>(<PyObject *>obj)
        view_enter(view)
        try:
            check_export(view, view.desc, view._stream, -1 if view._stream is not None else None, None, False)
            out[0] = managed_of(view, &view._exports, view.desc)
        finally:
            view_leave(view)
        return 0
    except Exception as error:
        return set_error(error)


cdef int table_to_object(mv_dl_managed *managed, void **out) noexcept:
    """Take ownership of the tensor in any case, as the protocol requires. Writable unless marked read-only."""
    cdef TensorLease lease
    try:
        lease = TensorLease.__new__(TensorLease)
        lease.managed = managed
        writable = managed.version.major == MV_DL_MAJOR and managed.flags & MV_DL_READ_ONLY == 0
        view = from_managed("DLPack tensor", managed, None, lease, writable, None)
        Py_INCREF(view)
        out[0] = <PyObject *>view
        return 0
    except Exception as error:
        return set_error(error)


cdef int table_current_stream(int32_t device_type, int32_t device_id, void **out) noexcept:
    out[0] = NULL  # host memory has no streams, and device memory that is passed on keeps the producer's
    return 0


cdef int table_allocate(mv_dl_tensor *prototype, mv_dl_managed **out, void *context,
                        mv_dl_set_error report) noexcept nogil:
    """Allocate zeroed host memory in row-major order. Called without the GIL; errors go to `report`."""
    with gil:
        try:
            if prototype.device_type != MV_DL_CPU:
                raise DeviceError(f"allocation: expected the host, got device type "
                                  f"{prototype.device_type}")
            out[0] = allocate(prototype)
            return 0
        except Exception as error:
            message = str(error).encode()
            report(context, b"MemoryError" if isinstance(error, MemoryError) else b"BufferError", message)
            return -1


cdef mv_dl_managed *allocate(mv_dl_tensor *prototype) except NULL:
    cdef Tensor tensor
    cdef mv_dl_tensor t
    cdef View view
    t = prototype[0]
    t.strides = NULL
    t.byte_offset = 0
    t.data = <void *>64  # any address but NULL: only the geometry is checked
    read_tensor("DLPack allocation", &t, 0, &tensor)
    raw = np.zeros(mv_count_elements(t.ndim, tensor.shape, 1) * tensor.itemsize + 64, np.uint8)
    address = raw.ctypes.data
    tensor.data = <char *><uintptr_t>(address + (-address % 64))
    cdef TensorLease lease = TensorLease.__new__(TensorLease)
    lease.owner = raw
    view = open_tensor(&tensor, &t, lease, False, None)
    return managed_of(view, &view._exports, view.desc)


cdef int set_error(error) noexcept:
    """Set a BufferError (or MemoryError) for the caller of a table's function."""
    leave_error(type(error) if isinstance(error, (BufferError, MemoryError)) else BufferError, str(error))
    return -1


# Lives as long as the process, as the protocol requires.
cdef mv_dl_table TABLE
memset(&TABLE, 0, sizeof(mv_dl_table))
TABLE.header.version.major = MV_DL_MAJOR
TABLE.header.version.minor = MV_DL_MINOR
TABLE.allocate = table_allocate
TABLE.from_object = table_from_object
TABLE.to_object = table_to_object
TABLE.current_stream = table_current_stream

# Consumers look it up on the type.
cdef dict attributes = <dict><object>(<PyTypeObject *>View).tp_dict
attributes["__dlpack_c_exchange_api__"] = PyCapsule_New(&TABLE, "dlpack_exchange_api", NULL)
PyType_Modified(View)
