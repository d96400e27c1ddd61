"""Typed views of memory: `View`, and every protocol by which arrays are imported and exported.

Must not know pandas or kernels. In reading order: `geometry.h` and `_geometry` (shapes, strides, indices), `bits.h`
(bit masks), `_window` (the base of a view: descriptor and lease; `Bits`), `_view`, `region.h` and `_borrowing` (borrow
checking), `array` (operations by NumPy), `_construct` (views from exporters), `interfaces/`, `dlpack/` and `arrow/`
(the other protocols), `dispatch` (choice of the protocol), `_capi` (`view()` and the cimport surface), `_pointer_table`
(addresses of many views), `mapped` (files), `repr`.
"""

from mojoview.views._borrowing import borrow_check
from mojoview.views._capi import view
from mojoview.views._pointer_table import PointerTable
from mojoview.views._view import View
from mojoview.views.dispatch import from_ptr
from mojoview.views.mapped import map_file

__all__ = ["PointerTable", "View", "borrow_check", "from_ptr", "map_file", "view"]
