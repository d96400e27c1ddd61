"""Typed windows on memory: `View`, and every protocol by which arrays come in and go out.

Must not know pandas or kernels. `_entry` and `open` choose the protocol, `_acquire` reads and checks what an exporter
says, `_window` and `_view` are the window itself, `layout.h` its geometry in plain C.
"""

from mojoview.views._borrowing import borrow_check
from mojoview.views._pointer_table import PointerTable
from mojoview.views._view import View
from mojoview.views._view_function import view
from mojoview.views.dispatch import from_ptr
from mojoview.views.mapped import map_file

__all__ = ["PointerTable", "View", "borrow_check", "from_ptr", "map_file", "view"]
