from typing import Any, Literal

from mojoview.views._view import View

def view(obj: Any, *, writable: bool = False, copy: Literal["never", "if_needed", "always"] = "never") -> View: ...
