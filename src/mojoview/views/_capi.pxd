# The cimport surface for third parties, through `mojoview/__init__.pxd`. Free functions on a struct that only grows:
# no class layout is compiled into a consumer, so that one built against this release runs with the next.
from mojoview.memory.abi cimport mv_desc

# Hold a view's memory and returns its descriptor, valid until mv_view_drop(). Needs the GIL; reading does not.
# Raises ArgumentError if the object is not a View, ReleasedError, and for the writable one ReadOnlyError.
cdef const mv_desc *mv_view_hold(object view) except NULL
cdef mv_desc *mv_view_hold_writable(object view) except NULL

# Release what one of them has held, exactly once for each.
cdef void mv_view_drop(object view) noexcept
