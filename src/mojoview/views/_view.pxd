from libc.stdint cimport int64_t

from mojoview.memory.abi cimport mv_desc
from mojoview.memory._lease cimport Lease
from mojoview.views._window cimport Window, raise_released


cdef class View(Window):
    pass


# Hold a view for a kernel and return its descriptor, valid until view_leave(). Raises ReleasedError.
cdef inline mv_desc *view_enter(View self) except NULL:
    if self.desc is NULL:
        raise_released()
    self._exports += 1
    return self.desc


cdef inline void view_leave(View self) noexcept:
    self._exports -= 1


cdef View make_view(Lease lease, void *data, int ndim, const int64_t *shape, const int64_t *strides, object dtype,
                    bint readonly)
cdef View alias_of(View parent)
