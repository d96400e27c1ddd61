"""Views of an Index: always read-only, since it keeps a hash table of its labels."""

from __future__ import annotations

from typing import Any

import pandas as pd

from mojoview.frames import blocks
from mojoview.frames.column_view import column_of
from mojoview.frames.column_data import Copy, Layout, Missing, Storage, resolve, storage
from mojoview.memory.errors import ArgumentError, ZeroCopyError

__all__ = ["codes_of", "index_storage", "index_view"]


def index_view(index: pd.Index, level: Any, copy: Copy, na: Missing, layout: Layout) -> Any:
    name = f"{type(index).__name__} of dtype {index.dtype}"
    logical = index.dtype
    if isinstance(index, pd.MultiIndex):
        if level is None:
            raise ZeroCopyError(
                f"view: {name} cannot be viewed: its labels are tuples, kept as codes for each level; "
                "use view(level=...) for the codes, and index.levels[level].mojo.view() for what they stand for"
            )
        number = _level_number(index, level)
        kept, logical, name = codes_of(index, number), index.levels[number].dtype, f"level {level!r} of {name}"
    elif level is not None:
        raise ArgumentError(f"view(level={level!r}): only a MultiIndex has levels, got a {name}")
    else:
        kept = index_storage(index)
    made = resolve(kept, name, copy, na, layout)
    return column_of(made.view, logical, None if made.copied else _IndexPin(index))


def index_storage(index: pd.Index) -> Storage:
    if isinstance(index, pd.RangeIndex):
        return Storage(
            None,
            reason="its labels are computed, there is no memory",
            remedy="use copy='if_needed', or start, stop and step themselves",
            convert=lambda: storage(index.to_numpy()),
        )
    return storage(blocks.index_values(index))


def codes_of(index: pd.MultiIndex, number: int) -> Storage:
    return Storage(index.codes[number], sentinel=-1)


def _level_number(index: pd.MultiIndex, level: Any) -> int:
    """As in pandas: a name comes before a number."""
    if list(index.names).count(level) == 1:
        return list(index.names).index(level)
    if not isinstance(level, int) or isinstance(level, bool) or not -index.nlevels <= level < index.nlevels:
        raise ArgumentError(
            f"view(level={level!r}): expected one of the names {tuple(index.names)}, once, or a number below "
            f"{index.nlevels}"
        )
    return level % index.nlevels


class _IndexPin:
    """Keeps an Index, which is registered as a user of its memory as long as it lives."""

    __slots__ = ("_index",)

    stale = False

    def __init__(self, index: pd.Index) -> None:
        self._index = index

    @property
    def frozen(self) -> bool:
        return blocks.cow_enabled()
