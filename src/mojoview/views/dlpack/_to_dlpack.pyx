"""Export to DLPack: from a descriptor and its holder to a capsule. Must not know views.

Source: DLPack 1.3, C header and "Python Specification for DLPack".
"""

from cpython.object cimport PyObject
from cpython.pycapsule cimport PyCapsule_Destructor, PyCapsule_GetPointer, PyCapsule_IsValid
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdlib cimport free, malloc

from mojoview.memory.abi cimport (
    MV_BYTE_STRIDES, MV_DEVICE_MASK, MV_DEVICE_SHIFT, MV_HAS_MASK, MV_PLAIN, MV_READONLY, MV_SWAPPED, mv_desc,
)
from mojoview.views.dlpack.dlpack cimport (
    MV_DL_CPU, MV_DL_IS_COPIED, MV_DL_MAJOR, MV_DL_MINOR, MV_DL_READ_ONLY, mv_dl_block, mv_dl_fill, mv_dl_legacy,
    mv_dl_managed, mv_decref_any_thread,
)

from mojoview.memory.errors import (
    AllocationError, ArgumentError, DeviceError, LayoutError, MaskError, ReadOnlyError, StreamError, ZeroCopyError,
)

cdef extern from "Python.h":
    PyObject *PyCapsule_New(void *pointer, const char *name, PyCapsule_Destructor destructor)

cdef tuple CPU = (MV_DL_CPU, 0)


cdef tuple device_of(const mv_desc *d):
    """Return (device type, device id), as `__dlpack_device__` does."""
    cdef int kind = (d.flags & MV_DEVICE_MASK) >> MV_DEVICE_SHIFT
    return (kind, d.device_id) if kind else CPU


cdef int check_export(object holder, const mv_desc *d, object pending, object stream, object dl_device,
                      bint copying) except -1:
    """Check that this memory can be described to this consumer; stream `pending` may still write it."""
    if d.flags & MV_HAS_MASK:
        raise MaskError("__dlpack__ cannot carry the mask of this view; export view.data and view.mask")
    if d.flags & MV_SWAPPED:
        raise ZeroCopyError(f"__dlpack__: expected native byte order, got dtype {holder.dtype}; copy it first")
    if d.dtype_bits == 0 or d.logical != MV_PLAIN:
        raise ZeroCopyError(f"__dlpack__: DLPack has no code for dtype {holder.dtype}; export view.cast(...) as "
                            "numbers")
    if d.flags & MV_BYTE_STRIDES and not copying:
        raise LayoutError(f"__dlpack__: expected strides in multiples of {d.itemsize} bytes, got strides "
                          f"{holder.strides}")
    if dl_device is not None and tuple(dl_device) != device_of(d):
        raise DeviceError(f"__dlpack__(dl_device={dl_device}): the memory is on device {device_of(d)}")
    if stream is not None or pending is not None:
        check_stream(d, pending, stream)
    return 0


cdef int check_stream(const mv_desc *d, object pending, object stream) except -1:
    if d.flags & MV_DEVICE_MASK == 0:
        raise StreamError(f"__dlpack__(stream={stream!r}): host memory has no streams; pass None")
    if stream is not None and (not isinstance(stream, int) or isinstance(stream, bool) or stream < -1 or stream == 0):
        raise StreamError(f"__dlpack__(stream={stream!r}): expected None, -1, 1 (legacy default), 2 (per thread) or a "
                          "handle; 0 is ambiguous")
    if pending is not None and stream != -1 and (1 if stream is None else stream) != pending:
        raise DeviceError(f"__dlpack__(stream={stream}): the memory belongs to work on stream {pending}; synchronise, "
                          "then pass stream=-1")
    return 0


cdef object capsule_of(object holder, Py_ssize_t *consumers, const mv_desc *d, object max_version, bint copied):
    """Make a capsule that holds `holder`, and counts as one of its consumers until the deleter runs."""
    cdef long major = 0
    cdef mv_dl_managed *managed
    cdef mv_dl_block *block
    if max_version is not None:
        if not isinstance(max_version, tuple) or len(<tuple>max_version) != 2:
            raise ArgumentError(f"__dlpack__(max_version={max_version!r}): expected (major, minor)")
        major = (<tuple>max_version)[0]
    if major >= MV_DL_MAJOR:
        managed = managed_of(holder, consumers, d)
        if major == MV_DL_MAJOR:
            managed.version.minor = max(0, min(<long>(<tuple>max_version)[1], <long>MV_DL_MINOR))
        if copied:
            managed.flags |= MV_DL_IS_COPIED
        return capsule(managed, "dltensor_versioned", drop_managed_capsule)
    if d.flags & MV_READONLY:
        raise ReadOnlyError("__dlpack__(): a capsule of before DLPack 1.0 cannot mark memory as read-only; "
                            "the consumer must pass max_version=(1, 0) or copy=True")
    block = new_block(holder, consumers)
    mv_dl_fill(&block.face.legacy.tensor, block.shape, block.strides, d)
    block.face.legacy.context = block
    block.face.legacy.deleter = delete_legacy
    return capsule(block, "dltensor", drop_legacy_capsule)


cdef inline object capsule(void *block, const char *name, PyCapsule_Destructor destructor):
    cdef PyObject *raw = PyCapsule_New(block, name, destructor)
    if raw is NULL:
        delete_block(<mv_dl_block *>block)
        raise AllocationError("DLPack export: no memory for the capsule")
    made = <object>raw
    Py_DECREF(made)
    return made


cdef mv_dl_managed *managed_of(object holder, Py_ssize_t *consumers, const mv_desc *d) except NULL:
    cdef mv_dl_block *block = new_block(holder, consumers)
    cdef mv_dl_managed *managed = &block.face.managed
    mv_dl_fill(&managed.tensor, block.shape, block.strides, d)
    managed.version.major = MV_DL_MAJOR
    managed.version.minor = MV_DL_MINOR
    managed.context = block
    managed.deleter = delete_managed
    managed.flags = MV_DL_READ_ONLY if d.flags & MV_READONLY else 0
    return managed


cdef mv_dl_block *new_block(object holder, Py_ssize_t *consumers) except NULL:
    cdef mv_dl_block *block = <mv_dl_block *>malloc(sizeof(mv_dl_block))
    if block is NULL:
        raise AllocationError("DLPack export: no memory for the capsule")
    Py_INCREF(holder)
    consumers[0] += 1
    block.holder = <PyObject *>holder
    block.exports = consumers
    return block


# The deleters run on any thread, with or without the GIL, also after the interpreter has ended.
cdef void delete_managed(mv_dl_managed *managed) noexcept nogil:
    delete_block(<mv_dl_block *>managed)


cdef void delete_legacy(mv_dl_legacy *legacy) noexcept nogil:
    delete_block(<mv_dl_block *>legacy)


cdef void delete_block(mv_dl_block *block) noexcept nogil:
    cdef void *holder = block.holder
    cdef void *consumers = block.exports
    free(block)
    mv_decref_any_thread(holder, consumers)


# A capsule that was not consumed still has its first name; a consumer renames it and calls the deleter itself. Capsules
# are destroyed with the GIL held.
cdef void drop_managed_capsule(object capsule) noexcept:
    if PyCapsule_IsValid(capsule, "dltensor_versioned"):
        drop_block(<mv_dl_block *>PyCapsule_GetPointer(capsule, "dltensor_versioned"))


cdef void drop_legacy_capsule(object capsule) noexcept:
    if PyCapsule_IsValid(capsule, "dltensor"):
        drop_block(<mv_dl_block *>PyCapsule_GetPointer(capsule, "dltensor"))


cdef inline void drop_block(mv_dl_block *block) noexcept:
    cdef PyObject *holder = <PyObject *>block.holder
    (<Py_ssize_t *>block.exports)[0] -= 1
    free(block)
    Py_DECREF(<object>holder)
