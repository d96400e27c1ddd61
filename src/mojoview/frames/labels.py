"""Column labels and positions: from either to positions between 0 and the number of columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from mojoview.memory.errors import ArgumentError, ColumnError, IndexingError

__all__ = ["abbreviate", "find_positions", "normalize_position", "position_of", "positions_of", "select"]


def select(columns: pd.Index, labels: Any) -> int | list[int]:
    """Return the position of a single label, or the positions of a list of labels (also an Index, Series or array)."""
    if isinstance(labels, list | pd.Index | pd.Series | np.ndarray):
        return positions_of(columns, labels)
    return position_of(columns, labels)


def position_of(columns: pd.Index, label: Any) -> int:
    """Return the position of the only column that has the label."""
    found = find_positions(columns, label)
    if len(found) != 1:
        raise ColumnError(
            f"column {label!r} names {len(found)} columns, at positions {abbreviate(found)}; use iview(position)"
        )
    return found[0]


def positions_of(columns: pd.Index, labels: Any) -> list[int]:
    """Return the positions of a list of labels, in its order; a label of several columns selects all, as in pandas."""
    return [position for label in labels for position in find_positions(columns, label)]


def find_positions(columns: pd.Index, label: Any) -> list[int]:
    """Return the positions of every column that has the label."""
    try:
        found = columns.get_loc(label)
    except (KeyError, TypeError, pd.errors.InvalidIndexError):
        raise ColumnError(f"column {label!r}: expected one of {abbreviate(list(columns))}") from None
    if isinstance(found, slice):
        return list(range(len(columns)))[found]
    if isinstance(found, np.ndarray):
        return [int(i) for i in np.flatnonzero(found)]
    return [int(found)]


def normalize_position(position: Any, count: int) -> int:
    """Return a position between 0 and count - 1; a negative one counts from the end."""
    if not hasattr(position, "__index__") or isinstance(position, bool | np.bool_):
        raise ArgumentError(f"iview: expected an integer position, got {type(position).__name__}")
    at = int(position.__index__())
    if not -count <= at < count:
        raise IndexingError(f"iview({at}): position out of range, the frame has {count} columns")
    return at + count if at < 0 else at


def abbreviate(labels: Sequence[Any]) -> str:
    """Return the first four labels as text, and their number if there are more."""
    shown = ", ".join(map(repr, labels[:4]))
    return f"{shown}, … ({len(labels)} in all)" if len(labels) > 4 else shown
