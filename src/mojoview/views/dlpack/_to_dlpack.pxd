from mojoview.memory.abi cimport MV_BYTE_STRIDES, MV_DEVICE_MASK, MV_HAS_MASK, MV_SWAPPED, mv_desc
from mojoview.views.dlpack.dlpack cimport mv_dl_managed


# Whether there is nothing to look at in most exports: host memory, a code, no mask, native order, strides in items.
cdef inline bint exports_plainly(const mv_desc *d) noexcept:
    return (d.dtype_bits and d.logical == 0
            and not d.flags & (MV_DEVICE_MASK | MV_HAS_MASK | MV_SWAPPED | MV_BYTE_STRIDES))


cdef tuple device_of(const mv_desc *d)
cdef int check_export(object holder, const mv_desc *d, object pending, object stream, object dl_device,
                      bint copying) except -1
cdef object capsule_of(object holder, Py_ssize_t *consumers, const mv_desc *d, object max_version, bint copied)
cdef mv_dl_managed *managed_of(object holder, Py_ssize_t *consumers, const mv_desc *d) except NULL
