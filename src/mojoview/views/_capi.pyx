"""The public cimport surface: views for third-party Cython modules."""

from mojoview.memory.abi cimport MV_READONLY, mv_desc
from mojoview.views._view cimport View, view_enter, view_leave

from mojoview.memory.errors import ArgumentError, ReadOnlyError


cdef const mv_desc *mv_view_hold(object view) except NULL:
    if not isinstance(view, View):
        raise ArgumentError(f"mv_view_hold(): expected a View, got {type(view).__name__}; mojoview.view(obj) makes one")
    return view_enter(<View>view)


cdef mv_desc *mv_view_hold_writable(object view) except NULL:
    cdef const mv_desc *d = mv_view_hold(view)
    if d.flags & MV_READONLY:
        view_leave(<View>view)
        raise ReadOnlyError("mv_view_hold_writable(): the view is read-only; open it with view(obj, writable=True)")
    return (<View>view).desc


cdef void mv_view_drop(object view) noexcept:
    if isinstance(view, View):
        view_leave(<View>view)
