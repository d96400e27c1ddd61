"""Typed windows on memory: `View`, and every protocol by which arrays come in and go out.

Must not know pandas or kernels. `open` chooses the protocol, `_acquire` reads and checks what an exporter says,
`_window` and `_view` are the window itself, `layout.h` its geometry in plain C.
"""

from mojoview.views._table import PointerTable
from mojoview.views._view import View
from mojoview.views.borrowing import borrow_check
from mojoview.views.mapped import map_file
from mojoview.views.open import from_ptr, view

__all__ = ["PointerTable", "View", "borrow_check", "from_ptr", "map_file", "view"]
