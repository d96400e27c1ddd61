"""Segments: shared memory with a header; their names, lifetime and transfer to other processes."""
