"""FrameColumns: the pinned columns of a DataFrame as a mapping from labels to views, which are made on access."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from mojoview.frames.arrow_columns import ArrowPin
from mojoview.frames.block_view import BlockView, single_block
from mojoview.frames.blocks import cow_enabled
from mojoview.frames.column_data import ColumnName, Copy, Layout, Missing, ReadyColumn, apply_options, read_column
from mojoview.frames.column_view import make_column, open_column
from mojoview.frames.labels import normalize_position, position_of
from mojoview.frames.pins import Pin
from mojoview.memory.errors import ArgumentError, ColumnError, MojoViewError, ReleasedError, ZeroCopyError
from mojoview.views import view
from mojoview.views.arrow.elements import NotComparable

__all__ = ["NONE_READY", "FrameColumns", "pin_of", "prepare_columns"]

#: The prepared columns of a frame whose columns are all plain numbers.
NONE_READY: Mapping[int, ReadyColumn] = MappingProxyType({})


class FrameColumns(NotComparable):
    """The mapping part of `FrameView`, without its conversions to pandas, Arrow and text."""

    __slots__ = ("__weakref__", "_may_copy", "_pins", "_ready", "columns", "index")
    _instead = "compare its columns, or the DataFrame that to_pandas() makes"

    columns: pd.Index
    index: pd.Index | None
    _may_copy: bool
    _ready: Mapping[int, ReadyColumn]  # columns that need more than a view of their block's row, by position
    _pins: Any  # None once released

    def __init__(self, *_: Any) -> None:
        raise ArgumentError("FrameView() is not called by hand: use df.mojo.view()")

    # -- the mapping ---------------------------------------------------------------------------------------------------

    def __getitem__(self, label: Any) -> Any:
        return self.iloc(position_of(self.columns, label))

    def iloc(self, position: int) -> Any:
        """Return the column at a position, counted from 0 or, if negative, from the end.

        Returns
        -------
        ColumnView, ArrowView or ChunkedView
            Borrows the memory and has its own pin: it outlives this FrameView.

        Raises
        ------
        IndexingError
            There is no such position.
        """
        pins = self._open()
        position = normalize_position(position, len(self.columns))
        ready = self._ready.get(position)
        column = pins.column(position)
        if ready is None:  # plain numbers: a view of their row in the block
            return make_column(view(column.values), column.values.dtype, pins.pin(column))
        return open_column(ready.view, column.values.dtype, pin_of(ready, pins.pin(column)))

    def __iter__(self) -> Iterator[Any]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def __contains__(self, label: Any) -> bool:
        return label in self.columns

    def keys(self) -> pd.Index:
        """Return the labels."""
        return self.columns

    def values(self) -> Iterator[Any]:
        """Iterate over the column views, in order."""
        return (self.iloc(i) for i in range(len(self.columns)))

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Iterate over (label, ColumnView) of each column in order, repeated labels included."""
        return zip(self.columns, self.values(), strict=True)

    def to_dict_of_views(self) -> dict[Any, Any]:
        """Return a dictionary from labels to views, for code that takes plain dictionaries.

        Raises
        ------
        ColumnError
            Labels repeat; `items()` gives them all.
        """
        if not self.columns.is_unique:
            raise ColumnError("to_dict_of_views: labels repeat, and a dictionary has each once; use items()")
        return dict(self.items())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        # Without this NumPy, and pandas' constructors, would take the mapping for a list of its labels.
        raise ZeroCopyError(
            "a FrameView is not an array: its columns are arrays of their own; use to_pandas() for a DataFrame, "
            "block() for the columns of one dtype as a 2-D view, or the columns one by one"
        )

    # -- properties of the whole ---------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, int]:
        return self._open().rows, len(self.columns)

    @property
    def nbytes(self) -> int:
        """Bytes of the columns' values without masks; for Arrow's strings, lists and the like, of all their parts."""
        self._open()
        return sum(column.nbytes for column in self.values())

    @property
    def frozen(self) -> bool:
        """True if pandas cannot write to any column's memory; see `ColumnView.frozen`."""
        self._open()
        own = sum(ready.copied or ready.arrow is not None for ready in self._ready.values())
        return cow_enabled() or own == len(self.columns)

    @property
    def stale(self) -> bool:
        """True if the frame has moved any of the columns since, or a column is a copy; see `ColumnView.stale`."""
        return self._open().stale or any(
            ready.copied or (ready.arrow is not None and ready.arrow.moved) for ready in self._ready.values()
        )

    def block(self, dtype: Any = None) -> BlockView:
        """Return the only block that holds columns of a dtype, as a 2-D view; see `df.mojo.block`."""
        if any(ready.copied for ready in self._ready.values()):
            raise ZeroCopyError("block: the view holds copies of columns, which are in no block")
        return single_block(self._open(), self.columns, dtype)

    # -- lifetime ------------------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        return self._pins is None

    def release(self) -> None:
        """Unpin the blocks; column views stay valid, and the FrameView raises `ReleasedError` when used."""
        self._pins = None
        self._ready = NONE_READY

    def _open(self) -> Any:
        if self._pins is None:
            raise ReleasedError("the FrameView was released: take a new one with df.mojo.view()")
        return self._pins

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise ArgumentError(
            "a FrameView cannot be pickled or copied: its memory belongs to the DataFrame; pickle the DataFrame"
        )


def pin_of(ready: ReadyColumn, pin: Pin) -> Pin | None:
    """Return the pin that the column's view keeps: None for a copy."""
    if ready.copied:
        return None
    return pin if ready.arrow is None else ArrowPin(pin, ready.arrow)


def prepare_columns(pins: Any, columns: pd.Index, copy: Copy, na: Missing, layout: Layout) -> Mapping[int, ReadyColumn]:
    """Apply the options to every column but plain numbers that are shared as they are.

    Returns the prepared columns by position; the others are viewed on access.
    """
    if layout == "c":
        if not all(isinstance(values, np.ndarray) and values.flags.f_contiguous for values, _ in pins.arrays()):
            raise ZeroCopyError(
                "view: the frame does not have layout='c': pandas stores the values of a column, not of a row, "
                "together, and no copy of columns changes that; use layout='f', or np.ascontiguousarray(df)"
            )
        layout = "any"
    ready: dict[int, ReadyColumn] = {}
    # Not the exceptions themselves: with their tracebacks they would form a reference cycle.
    problems: list[tuple[type[MojoViewError], str]] = []
    as_stored = layout == "any" and copy != "always"
    for position in pins.nonplain_positions() if as_stored else range(len(columns)):
        values = pins.column(position).values
        data = read_column(values)
        if as_stored and data.values is values and data.zero_copy:
            continue
        try:
            name = ColumnName("column", columns, position, values.dtype)
            ready[position] = apply_options(data, name, copy, na, layout)
        except MojoViewError as error:
            problems.append((type(error), str(error)))
    if problems:
        kind, message = problems[0]
        if len(problems) > 1:
            message += (
                f" ({len(problems) - 1} more column(s) cannot be viewed either; df.mojo.explain() lists them, "
                "df.mojo.view([...]) takes the others)"
            )
        raise kind(message)
    return ready
