"""Statistics of a frame's columns, computed in one native pass, as a DataFrame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from mojoview import compute
from mojoview.frames.column_data import ColumnName, read_column, view_error
from mojoview.frames.frame_view import frame_view
from mojoview.frames.pins import inspect_column
from mojoview.memory.errors import DTypeError, ZeroCopyError
from mojoview.views import View
from mojoview.views.arrow.arrays import ArrowView
from mojoview.views.arrow.chunked import ChunkedView

__all__ = ["describe"]

STATISTICS = ("count", "mean", "std", "min", "max", "argmin", "argmax")


def describe(df: pd.DataFrame, positions: Sequence[int] | None, threads: int | None) -> pd.DataFrame:
    """Compute the statistics of the columns at some positions, or of every column that has any."""
    if positions is None:
        positions = [i for i in range(df.shape[1]) if _obstacle(df, i) is None]
    else:
        for position in positions:
            if problem := _obstacle(df, position):
                raise problem
    with frame_view(df, positions, "never", "mask", "any") as frame:
        found = compute.describe(frame, threads=threads).columns
        zones = [_zone_of(column.logical_dtype) for column in frame.values()]
        labels = frame.columns
    table = pd.DataFrame(index=labels)
    for name in STATISTICS:
        values = [getattr(column, name) for column in found]
        if name in ("mean", "min", "max"):
            values = [
                value if zone is None else _in_zone(value, zone) for value, zone in zip(values, zones, strict=True)
            ]
        table[name] = pd.Series(values, index=labels, dtype=object).infer_objects()
    return table


def _obstacle(df: pd.DataFrame, position: int) -> Exception | None:
    """Return the exception for a column without statistics, or None."""
    values = inspect_column(df, position)[1]
    data = read_column(values)
    name = ColumnName("column", df.columns, position, values.dtype)
    if data.reason:
        return view_error(data, name)
    found = data.values if data.arrow is None else data.arrow.shared
    if isinstance(found, ChunkedView):
        return ZeroCopyError(f"describe: {name} has {len(found.chunks)} chunks; view it with copy='if_needed'")
    # Arrow's dates and times of day, like periods, have an integer dtype, but are not numbers.
    calendar = isinstance(found, View) and found.arrow_format is not None and found.dtype.kind != "M"
    if (
        data.sentinel is not None
        or isinstance(values.dtype, pd.PeriodDtype)
        or isinstance(found, ArrowView)
        or found is None
        or found.dtype.kind not in "?biufmM"
        or calendar
    ):
        return DTypeError(f"describe: {name} has no mean and spread; expected bool, numbers, datetimes or timedeltas")
    return None


def _zone_of(dtype: Any) -> Any:
    """Return the time zone of a dtype, or None."""
    return getattr(getattr(dtype, "pyarrow_dtype", dtype), "tz", None)


def _in_zone(value: Any, zone: Any) -> Any:
    """Return an instant in UTC as a Timestamp in its zone."""
    return pd.NaT if value is None or value != value else pd.Timestamp(value, tz="UTC").tz_convert(zone)
