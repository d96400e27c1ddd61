from mojoview.memory.abi cimport mv_desc
from mojoview.views.dlpack cimport mv_dl_managed


cdef tuple device_of(const mv_desc *d)
cdef int check_export(object holder, const mv_desc *d, object pending, object stream, object dl_device,
                      bint copying) except -1
cdef object capsule_of(object holder, Py_ssize_t *consumers, const mv_desc *d, object max_version, bint copied)
cdef mv_dl_managed *managed_of(object holder, Py_ssize_t *consumers, const mv_desc *d) except NULL
