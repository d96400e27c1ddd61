# Public cimport surface. Append-only: names and meanings stay, new ones come at the end. Compile with -I from
# mojoview.get_include().
#
#     from mojoview cimport mv_desc, mv_view_drop, mv_view_hold
#
#     def first(view):
#         cdef const mv_desc *d = mv_view_hold(view)
#         try:
#             return (<const double *>d.data)[0]     # after checking d.ndim, d.dtype_code, d.dtype_bits and d.flags
#         finally:
#             mv_view_drop(view)
from mojoview.memory.abi cimport (
    MV_ABI_VERSION, MV_ALIGNED, MV_BFLOAT, MV_BOOL, MV_BYTE_STRIDES, MV_C_CONTIGUOUS, MV_COMPLEX, MV_DATETIME,
    MV_F_CONTIGUOUS, MV_FLOAT, MV_HAS_MASK, MV_INT, MV_MASK_BITS, MV_MAX_NDIM, MV_OPAQUE, MV_READONLY, MV_SWAPPED,
    MV_TIMEDELTA, MV_UINT, mv_desc,
)
from mojoview.views._capi cimport mv_view_drop, mv_view_hold, mv_view_hold_writable
