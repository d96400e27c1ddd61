"""pandas: the accessors `df.mojo`, `series.mojo`, `index.mojo` and `array.mojo`, and the views that they make.

The only room that imports pandas; `blocks` is its only file that touches pandas' internals. Must not know kernels/
or cli/. Reading order: `accessors` (what users call), `labels` (labels to positions), `blocks` (pandas' internals),
`column_data` and `arrow_columns` (what a column's memory means), `pins` (pinned frames and columns), `column_view`,
`block_view`, `frame_columns`, `index_view` (the views), `exports/` (to pandas, Arrow, text), `frame_view`, `writing`
(leases and assignment), `shared/` (frames in shared memory), `registration`.
"""

import pandas as _pandas  # noqa: F401  first: its import registers the accessors, which imports the files of this room

from mojoview.frames.block_view import BlockView
from mojoview.frames.blocks import self_test
from mojoview.frames.column_view import ColumnView
from mojoview.frames.exports.to_pandas import to_frame, to_series
from mojoview.frames.frame_view import FrameView
from mojoview.frames.registration import register

__all__ = ["BlockView", "ColumnView", "FrameView", "register", "self_test", "to_frame", "to_series"]
