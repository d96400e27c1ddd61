"""The buffer protocol out: answers a consumer's request from a descriptor, or says why it cannot."""

from cpython.buffer cimport (
    PyBUF_ANY_CONTIGUOUS, PyBUF_C_CONTIGUOUS, PyBUF_F_CONTIGUOUS, PyBUF_FORMAT, PyBUF_ND, PyBUF_STRIDES, PyBUF_WRITABLE,
)
from libc.stdint cimport int64_t

from mojoview.memory.abi cimport MV_C_CONTIGUOUS, MV_F_CONTIGUOUS, MV_READONLY, mv_desc
from mojoview.views._geometry cimport int64_tuple

from mojoview.memory.errors import LayoutError, ReadOnlyError, ZeroCopyError


cdef int fill_buffer(Py_buffer *buffer, mv_desc *d, bytes format, object dtype, int flags) except -1:
    """Fills all but `obj`. The pointers lead into the descriptor and the format, which must live as long as the
    export."""
    cdef str wanted = None
    if flags & PyBUF_FORMAT and format is None:
        hint = "view.cast('i8') for the integers" if dtype.kind in "Mm" else "its fields"
        raise ZeroCopyError(f"the buffer protocol has no code for dtype {dtype}; use {hint}, or np.asarray(view), "
                            "which keeps the dtype")
    if flags & PyBUF_WRITABLE and d.flags & MV_READONLY:
        raise ReadOnlyError("buffer export: a writable buffer was asked of a read-only view")
    if not d.flags & MV_C_CONTIGUOUS and (asks(flags, PyBUF_C_CONTIGUOUS) or not asks(flags, PyBUF_STRIDES)):
        wanted = "C order"
    elif not d.flags & MV_F_CONTIGUOUS and asks(flags, PyBUF_F_CONTIGUOUS):
        wanted = "Fortran order"
    elif not d.flags & (MV_C_CONTIGUOUS | MV_F_CONTIGUOUS) and asks(flags, PyBUF_ANY_CONTIGUOUS):
        wanted = "contiguous memory"
    if wanted is not None:
        raise LayoutError(f"buffer export: the consumer needs {wanted}, got strides {int64_tuple(d.strides, d.ndim)} "
                          f"of shape {int64_tuple(d.shape, d.ndim)}")
    buffer.buf = d.data
    buffer.len = d.size * <int64_t>d.itemsize
    buffer.itemsize = d.itemsize
    buffer.readonly = (d.flags & MV_READONLY) != 0
    buffer.ndim = d.ndim if flags & PyBUF_ND else 1  # without a shape: a row of bytes, as memoryview and bytes say
    buffer.format = <char *>format if flags & PyBUF_FORMAT else NULL
    buffer.shape = <Py_ssize_t *>d.shape if flags & PyBUF_ND and d.ndim else NULL
    buffer.strides = <Py_ssize_t *>d.strides if asks(flags, PyBUF_STRIDES) and d.ndim else NULL
    buffer.suboffsets = NULL
    buffer.internal = NULL
    return 0


cdef inline bint asks(int flags, int request) noexcept:
    return flags & request == request  # requests are several bits, which share some
