"""Views of an Index: always read-only, since an Index keeps a hash table of its labels."""

from __future__ import annotations

from typing import Any

import pandas as pd

from mojoview.frames.blocks import cow_enabled, index_values
from mojoview.frames.column_data import ColumnData, Copy, Layout, Missing, apply_options, read_column
from mojoview.frames.column_view import open_column
from mojoview.memory.errors import ArgumentError, ZeroCopyError

__all__ = ["index_data", "index_view", "level_codes"]


def index_view(index: pd.Index, level: Any, copy: Copy, na: Missing, layout: Layout) -> Any:
    """Make a view of the labels, or of the codes of one level of a MultiIndex."""
    name = f"{type(index).__name__} of dtype {index.dtype}"
    logical = index.dtype
    if isinstance(index, pd.MultiIndex):
        if level is None:
            raise ZeroCopyError(
                f"view: {name} cannot be viewed: its labels are tuples, stored as codes for each level; "
                "use view(level=...) for the codes, and index.levels[level].mojo.view() for what they stand for"
            )
        number = _level_number(index, level)
        data, logical, name = level_codes(index, number), index.levels[number].dtype, f"level {level!r} of {name}"
    elif level is not None:
        raise ArgumentError(f"view(level={level!r}): only a MultiIndex has levels, got a {name}")
    else:
        data = index_data(index)
    ready = apply_options(data, name, copy, na, layout)
    return open_column(ready.view, logical, None if ready.copied else _IndexPin(index))


def index_data(index: pd.Index) -> ColumnData:
    """Interpret the memory of an Index."""
    if isinstance(index, pd.RangeIndex):
        return ColumnData(
            None,
            reason="its labels are computed, there is no memory",
            remedy="use copy='if_needed', or start, stop and step themselves",
            convert=lambda: read_column(index.to_numpy()),
        )
    return read_column(index_values(index))


def level_codes(index: pd.MultiIndex, number: int) -> ColumnData:
    """Interpret the codes of one level; -1 stands for a missing label."""
    return ColumnData(index.codes[number], sentinel=-1)


def _level_number(index: pd.MultiIndex, level: Any) -> int:
    """Return the number of a level; as in pandas, a name takes precedence over a number."""
    if list(index.names).count(level) == 1:
        return list(index.names).index(level)
    if not isinstance(level, int) or isinstance(level, bool) or not -index.nlevels <= level < index.nlevels:
        raise ArgumentError(
            f"view(level={level!r}): expected one of the names {tuple(index.names)}, once, or a number below "
            f"{index.nlevels}"
        )
    return level % index.nlevels


class _IndexPin:
    """A pin of an Index: pandas counts the Index as a user of its memory while it exists."""

    __slots__ = ("_index",)

    stale = False

    def __init__(self, index: pd.Index) -> None:
        self._index = index

    @property
    def frozen(self) -> bool:
        return cow_enabled()
