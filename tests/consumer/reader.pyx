"""A third-party module: compiled against the installed package, it reads and writes views without the GIL."""

from libc.stdint cimport int64_t

from mojoview cimport (
    MV_ABI_VERSION, MV_FLOAT, MV_HAS_MASK, MV_SWAPPED, mv_desc, mv_view_drop, mv_view_hold, mv_view_hold_writable,
)


cdef int check(const mv_desc *d) except -1:
    if d.abi_version != MV_ABI_VERSION or d.ndim != 1 or d.dtype_code != MV_FLOAT or d.dtype_bits != 64 \
            or d.flags & (MV_HAS_MASK | MV_SWAPPED):
        raise TypeError("expected a 1-D float64 view")
    return 0


def total(view):
    cdef const mv_desc *d = mv_view_hold(view)
    cdef double result = 0
    cdef int64_t k
    try:
        check(d)
        with nogil:
            for k in range(d.size):
                result += (<const double *>(<const char *>d.data + k * d.strides[0]))[0]
        return result
    finally:
        mv_view_drop(view)


def double(view):
    cdef mv_desc *d = mv_view_hold_writable(view)
    cdef int64_t k
    try:
        check(d)
        with nogil:
            for k in range(d.size):
                (<double *>(<char *>d.data + k * d.strides[0]))[0] *= 2
    finally:
        mv_view_drop(view)


def release_while_held(view):
    mv_view_hold(view)
    try:
        view.release()
    finally:
        mv_view_drop(view)
