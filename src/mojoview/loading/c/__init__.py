"""Kernels from C libraries and from function pointers of other tools."""
