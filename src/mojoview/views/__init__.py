"""Typed windows on memory: `View`, and every protocol by which arrays come in and go out.

Must not know pandas or kernels. `open` chooses the protocol, `_acquire` reads and checks what an exporter says,
`_view` is the window itself, `layout.h` its geometry in plain C.
"""

from mojoview.views._view import View
from mojoview.views.open import from_ptr, view

__all__ = ["View", "from_ptr", "view"]
