"""mojoview: the memory of NumPy arrays and pandas DataFrames, shared with native code without copying it."""

from mojoview.views import View, from_ptr, view

__all__ = ["View", "from_ptr", "view"]
