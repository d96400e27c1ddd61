"""Statistics of a frame's columns in one native pass, laid out as a DataFrame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from mojoview import kernels
from mojoview.frames import blocks
from mojoview.frames.frame_view import ColumnName, frame_view
from mojoview.frames.column_data import refusal, storage
from mojoview.memory.errors import DTypeError, ZeroCopyError
from mojoview.views import View
from mojoview.views.arrow.arrays import ArrowView
from mojoview.views.arrow.chunked import ChunkedView

__all__ = ["describe"]

STATISTICS = ("count", "mean", "std", "min", "max", "argmin", "argmax")


def describe(df: pd.DataFrame, positions: Sequence[int] | None, threads: int | None) -> pd.DataFrame:
    """`positions` None: whatever has statistics."""
    if positions is None:
        positions = [i for i in range(df.shape[1]) if why_not(df, i) is None]
    else:
        for position in positions:
            if problem := why_not(df, position):
                raise problem
    with frame_view(df, positions, "never", "mask", "any") as frame:
        found = kernels.describe(frame, threads=threads).columns
        zones = [zone_of(column.logical_dtype) for column in frame.values()]
        labels = frame.columns
    table = pd.DataFrame(index=labels)
    for name in STATISTICS:
        values = [getattr(column, name) for column in found]
        if name in ("mean", "min", "max"):
            values = [
                value if zone is None else in_zone(value, zone) for value, zone in zip(values, zones, strict=True)
            ]
        table[name] = pd.Series(values, index=labels, dtype=object).infer_objects()
    return table


def why_not(df: pd.DataFrame, position: int) -> Exception | None:
    values = blocks.inspect_column(df, position)[1]
    kept = storage(values)
    name = ColumnName("column", df.columns, position, values.dtype)
    if kept.reason:
        return refusal(kept, name)
    found = kept.data if kept.arrow is None else kept.arrow.shared
    if isinstance(found, ChunkedView):
        return ZeroCopyError(f"describe: {name} lies in {len(found.chunks)} chunks; view it with copy='if_needed'")
    # Arrow's dates and times of day are integers whose dtype does not say so, as periods are.
    counted = isinstance(found, View) and found.arrow_format is not None and found.dtype.kind != "M"
    if (
        kept.sentinel is not None
        or isinstance(values.dtype, pd.PeriodDtype)
        or isinstance(found, ArrowView)
        or found is None
        or found.dtype.kind not in "?biufmM"
        or counted
    ):
        return DTypeError(f"describe: {name} has no mean and spread; expected bool, numbers, datetimes or timedeltas")
    return None


def zone_of(dtype: Any) -> Any:
    """The time zone of a dtype, or None."""
    return getattr(getattr(dtype, "pyarrow_dtype", dtype), "tz", None)


def in_zone(value: Any, zone: Any) -> Any:
    """tz-aware columns are kept in UTC."""
    return pd.NaT if value is None or value != value else pd.Timestamp(value, tz="UTC").tz_convert(zone)
