"""Hand-made exporters: structures built with ctypes, as a foreign library would build them, right or wrong."""
