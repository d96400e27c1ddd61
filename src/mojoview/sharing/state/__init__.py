"""`State`: a small record with one writer and many readers.

In reading order: `latch.h` (the algorithm), `latch.pxd` (its declarations), `_state.pyx`. Must not know the other
kinds.
"""
