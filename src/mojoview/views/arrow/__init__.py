"""The Arrow C data interface, out and in."""
