"""`Snapshot`: large arrays, published whole and pinned by their readers.

In reading order: `slots.h` (the algorithm), `slots.pxd` (its declarations), `_snapshot.pyx`. Must not know the
other kinds, or the layout of frames.
"""
