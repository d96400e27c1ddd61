"""Conversions of frame and column views.

`to_pandas` and `to_arrow` share the memory with others; `explain` gathers facts about each column, `repr` shows them as
text and HTML. These four take `FrameColumns` and are called by `FrameView`, which they must not know. `describe` makes
a view of a frame and computes its statistics.
"""
