"""How `mojoview.attach()` makes handles of kinds that rooms above define: told here, so nobody imports upward."""

__all__ = ["ATTACHERS"]

# Kind of segment -> "module:function", imported when the first segment of that kind is met; the function takes the
# segment.
ATTACHERS: dict[str, str] = {}
