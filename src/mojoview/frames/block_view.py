"""BlockView: a whole block of a frame as a two-dimensional view."""

from __future__ import annotations

import itertools
from typing import Any

import pandas as pd

from mojoview.frames.column_data import ColumnName, read_column, view_error
from mojoview.frames.column_view import PandasView
from mojoview.frames.labels import abbreviate
from mojoview.frames.pins import Pin
from mojoview.memory.errors import DTypeError, MaskError, ZeroCopyError
from mojoview.views import View, view
from mojoview.views._construct import rebind

__all__ = ["BlockView", "block_views", "single_block"]


class BlockView(PandasView):
    """A view of a whole block, of shape (columns, rows), made by `df.mojo.block()`; its `.T` is (rows, columns).

    Attributes
    ----------
    columns : pandas.Index
        Labels of the columns, in the order of the block's rows.
    logical_dtype, frozen, stale
        As for `ColumnView`.
    """

    __slots__ = ("columns",)

    columns: pd.Index


def block_views(pins: Any, columns: pd.Index) -> tuple[BlockView, ...]:
    """Make a view of each block."""
    return tuple(_block_view(pins, columns, number) for number in range(len(pins.arrays())))


def single_block(pins: Any, columns: pd.Index, dtype: Any) -> BlockView:
    """Make a view of the only block of a dtype; None stands for any dtype."""
    try:
        wanted = None if dtype is None else pd.api.types.pandas_dtype(dtype)
    except Exception as error:  # NumPy's parser raises TypeError, ValueError or SyntaxError
        raise DTypeError(f"block: expected a dtype, got {dtype!r} ({error})") from error
    arrays = pins.arrays()
    matching = [number for number, (values, _) in enumerate(arrays) if wanted is None or values.dtype == wanted]
    if len(matching) != 1:
        what = "the frame" if wanted is None else f"dtype {wanted}"
        listing = "; ".join(
            f"block {n}: {values.dtype}, columns {abbreviate([columns[i] for i in positions])}"
            for n, (values, positions) in enumerate(arrays)
        )
        raise ZeroCopyError(
            f"block: expected exactly one block for {what}, got {len(matching)} ({listing or 'no blocks'}); df.copy() "
            "gathers each dtype into one block, df.mojo.blocks() gives them all"
        )
    return _block_view(pins, columns, matching[0])


def _block_view(pins: Any, columns: pd.Index, number: int) -> BlockView:
    values, positions = pins.arrays()[number]
    labels = columns[positions]
    name = ColumnName("block of columns", list(labels), None, values.dtype)
    data = read_column(values)
    if data.arrow is not None:
        raise ZeroCopyError(f"block: {name} is stored in Arrow's buffers, one column each; use df.mojo.view()")
    if data.values is None or data.reason:
        raise view_error(data, name)
    if data.missing():
        raise MaskError(f"block: {name} has missing values; use df.mojo.view(na='mask') for its columns")
    rows = data.values if data.values.ndim == 2 else data.values[None, :]
    return _make_block(
        view(_selected_rows(rows, pins, number, name)), values.dtype, pins.pin(pins.block(number)), labels
    )


def _selected_rows(rows: Any, pins: Any, number: int, name: ColumnName) -> Any:
    """Return the rows of the block that the pinned columns use, if one slice selects them."""
    where = getattr(pins, "where", None)
    if where is None:
        return rows
    used = sorted(row for block, row in where if block == number)
    if used == list(range(rows.shape[0])):
        return rows
    step = used[1] - used[0] if len(used) > 1 else 1
    if any(b - a != step for a, b in itertools.pairwise(used)) or step == 0:
        raise ZeroCopyError(
            f"block: the {name} holds the selected columns at rows {used}, which no slice reaches; select them with a "
            "step, or take df.mojo.block() of the whole frame"
        )
    return rows[used[0] : used[-1] + 1 : step]


def _make_block(source: View, logical: Any, pin: Pin, columns: pd.Index) -> BlockView:
    made = BlockView.__new__(BlockView)
    made._logical, made._pin, made.columns = logical, pin, columns
    rebind(made, source, pin)
    return made
