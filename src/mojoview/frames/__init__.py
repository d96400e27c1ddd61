"""pandas: the accessors `df.mojo`, `series.mojo` and `index.mojo`, and the views that they make.

The only room that imports pandas, and `_blocks` its only file that touches pandas' internals. Must not know cuda.
Read `_blocks` (where a column lies), `_storage` (what it means), `_column` and `_frame` (its views), `_arrow`,
`_index`, `_writing`, `_to_pandas`, `_to_arrow`, `_accessors`, `_registration`.
"""

from mojoview.frames.blocks import self_test
from mojoview.frames.column_view import BlockView, ColumnView
from mojoview.frames.frame_view import FrameView
from mojoview.frames.registration import register
from mojoview.frames.exports.to_pandas import to_frame, to_series

__all__ = ["BlockView", "ColumnView", "FrameView", "register", "self_test", "to_frame", "to_series"]
