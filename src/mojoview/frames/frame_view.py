"""FrameView: a read-only view of a DataFrame, convertible to pandas, Arrow and text; and the functions that make it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from mojoview.frames.column_data import ColumnName, Copy, Layout, Missing, apply_options, read_column
from mojoview.frames.column_view import open_column
from mojoview.frames.exports.repr import frame_html, frame_text
from mojoview.frames.exports.to_arrow import export_schema, export_stream, to_table
from mojoview.frames.exports.to_pandas import to_dataframe
from mojoview.frames.frame_columns import NONE_READY, FrameColumns, pin_of, prepare_columns
from mojoview.frames.pins import PartPins, pin_column, pin_frame

__all__ = ["FrameView", "column_view", "frame_view"]


class FrameView(FrameColumns):
    """A read-only view of the columns of a DataFrame, made by `df.mojo.view()`.

    A mapping from labels to `ColumnView`, in the order of the columns; each is made on access. Columns that Arrow holds
    and whose items are not plain bytes are Arrow views (`mojoview.views.arrow.arrays`). Repeated labels are reached by
    position, through `iloc`. While the view exists, the blocks that it covers are pinned: under Copy-on-Write pandas
    copies a block before it writes to it, and the view keeps the old values.

    Attributes
    ----------
    columns : pandas.Index
    index : pandas.Index or None
        Of the rows; None for the parts of one column.
    shape : tuple of int
        (rows, columns), as of the DataFrame. `len()` counts columns.
    nbytes : int
    frozen, stale, closed : bool

    Notes
    -----
    Thread safety: any number of threads may read one FrameView. The DataFrame must not be written to by another thread
    while the view is being taken.

    Examples
    --------
    >>> import pandas as pd, mojoview
    >>> df = pd.DataFrame({"x": [1.0, 2.0], "n": [3, 4]})
    >>> with df.mojo.view() as frame:
    ...     [(label, column.shape, str(column.dtype)) for label, column in frame.items()]
    [('x', (2,), 'float64'), ('n', (2,), 'int64')]
    """

    __slots__ = ()

    of_mojoview = True  # `mojoview.share()` calls the method `share` of objects that have this mark

    def to_pandas(self) -> pd.DataFrame:
        """Make a DataFrame over the same memory, with the same dtypes, columns and index.

        The frame's `attrs` and flags stay with the frame: a view does not know them.

        Returns
        -------
        DataFrame
            Borrows the memory, one block a column; see `mojoview.frames.to_series`. Writes to one frame are not seen in
            the other.

        Raises
        ------
        DTypeError, MaskError, ZeroCopyError, FrameError
            As `mojoview.frames.to_series`.

        Examples
        --------
        >>> import pandas as pd, mojoview
        >>> df = pd.DataFrame({"x": [1.0, 2.0]})
        >>> df.mojo.view().to_pandas().mojo.view("x").ptr == df.mojo.view("x").ptr
        True
        """
        return to_dataframe(self)

    def to_arrow(self) -> Any:
        """Make a pyarrow Table over the same memory; see `__arrow_c_stream__`, which needs no pyarrow.

        Raises
        ------
        FrameError
            pyarrow is not installed; otherwise as `__arrow_c_stream__`.
        """
        return to_table(self)

    def share(self, name: str | None = None, **options: Any) -> Any:
        """Publish the columns and the index to other processes; parameters, result and errors as `df.mojo.share`."""
        from mojoview.frames.shared.shared_frame import share_frame

        return share_frame(self.to_pandas(), name, **options)

    def __arrow_c_schema__(self) -> Any:
        return export_schema(self)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Return a capsule of record batches in the columns' own buffers, for any consumer of Arrow.

        The index is left out. Categories are exported as dictionaries, zones and periods with their type; a byte mask,
        NaT and the code -1 become a new validity bitmap. The frame is split into batches where a column's chunks end.

        Returns
        -------
        capsule
            Borrows the memory. Each array keeps its block pinned until the consumer releases it, so that writes through
            pandas never reach the consumer (under Copy-on-Write).

        Raises
        ------
        ZeroCopyError, LayoutError, DTypeError, MaskError
            Arrow has no format for a column: booleans stored as bytes, strides, complex numbers, categories that are
            objects. A view taken with ``copy="if_needed"`` packs the booleans and gathers the strided columns.

        Notes
        -----
        Source: Apache Arrow, "The Arrow PyCapsule Interface". No casts are made. Thread safety: any thread.
        """
        return export_stream(self)

    def __repr__(self) -> str:
        return frame_text(self)

    def _repr_html_(self) -> str:
        return frame_html(self)

    def __enter__(self) -> FrameView:
        self._open()
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()


new = object.__new__


def frame_view(df: Any, positions: Sequence[int] | None, copy: Copy, na: Missing, layout: Layout) -> FrameView:
    """Make a FrameView of a DataFrame; plain columns that are shared as they are cost time for each block only."""
    pins = pin_frame(df, positions)
    made = new(FrameView)
    made._pins = pins
    made._may_copy = copy != "never"
    columns, made.index = pins.axes
    made.columns = columns if positions is None else columns[list(positions)]
    if not pins.nonplain and copy != "always" and layout == "any":  # without the call: this is the usual case
        made._ready = NONE_READY
    else:
        made._ready = prepare_columns(pins, made.columns, copy, na, layout)
    return made


def column_view(obj: Any, position: int, copy: Copy, na: Missing, layout: Layout) -> Any:
    """Make a view of the column at a position; a FrameView of its parts if it consists of several arrays."""
    values, pin = pin_column(obj, position)
    data = read_column(values)
    if obj.ndim == 1:
        name = ColumnName("Series", obj.name, None, values.dtype)
    else:
        name = ColumnName("column", obj.columns, position, values.dtype)
    if data.parts and copy == "never":
        return _parts_view(PartPins(pin, data), name, na, layout)
    ready = apply_options(data, name, copy, na, layout)
    return open_column(ready.view, values.dtype, pin_of(ready, pin))


def _parts_view(pins: PartPins, name: ColumnName, na: Missing, layout: Layout) -> FrameView:
    made = new(FrameView)
    made._pins = pins
    made._may_copy = False
    made.index = None
    made.columns = pd.Index(list(pins.parts))
    made._ready = {
        position: apply_options(part, f"{which!r} of {name}", "never", na, layout)
        for position, (which, part) in enumerate(pins.parts.items())
    }
    return made
