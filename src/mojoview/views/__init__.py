"""Typed views of memory: `View`, and every protocol by which arrays are imported and exported.

Must not know pandas or kernels. Read `geometry.h` and `_geometry` (shapes, strides, indices), `_window` (the base of a
view; bits) and `_view`; `bits.h` has bit masks, `region.h` and `_borrowing` the borrow checking, `array` operations
that NumPy does. `_construct` makes views from exporters; `interfaces/`, `dlpack/` and `arrow/` hold the other
protocols. `dispatch` chooses the protocol; `_capi` has `view()` and the cimport surface. Further: `_pointer_table`,
`mapped` (files) and `repr`.
"""

from mojoview.views._borrowing import borrow_check
from mojoview.views._capi import view
from mojoview.views._pointer_table import PointerTable
from mojoview.views._view import View
from mojoview.views.dispatch import from_ptr
from mojoview.views.mapped import map_file

__all__ = ["PointerTable", "View", "borrow_check", "from_ptr", "map_file", "view"]
