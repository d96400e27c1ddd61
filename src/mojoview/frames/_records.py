"""Records of a ring and DataFrames: one column a field. Installed in `sharing/`, which does not know pandas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from mojoview.memory.errors import ArgumentError, ColumnError, RangeError
from mojoview.sharing import tables

__all__ = ["frame_of_records", "install", "records_of_frame"]


def frame_of_records(records: np.ndarray[Any, Any]) -> pd.DataFrame:
    """A DataFrame that owns its memory; a field of several elements becomes columns `name[0]`, `name[1]`, ..."""
    columns: dict[str, Any] = {}
    for name in records.dtype.names or ():
        field = records[name].copy()
        if field.ndim == 1:
            columns[name] = field
            continue
        flat = field.reshape(len(field), -1)
        for k in range(flat.shape[1]):
            columns[f"{name}[{k}]"] = flat[:, k].copy()
    return pd.DataFrame(columns, copy=False)


def records_of_frame(frame: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """The rows of a DataFrame as records, values unchanged: what does not fit the field's dtype is refused."""
    if not isinstance(frame, pd.DataFrame):
        raise ArgumentError(f"write: expected a bytes-like object or a DataFrame, got {type(frame).__name__}")
    records = np.zeros(len(frame), dtype)
    for name in dtype.names or ():
        field = records[name]
        labels = [name] if field.ndim == 1 else [f"{name}[{k}]" for k in range(field[0].size if len(field) else 0)]
        flat = field.reshape(len(field), -1) if field.ndim > 1 else field[:, None]
        for k, label in enumerate(labels):
            if label not in frame.columns:
                raise ColumnError(f"write(DataFrame): expected a column {label!r} for the field {name!r} of the ring, there is none")
            values = frame[label].to_numpy()
            flat[:, k] = values.astype(flat.dtype)
            if not np.can_cast(values.dtype, flat.dtype, "safe") and not _same(flat[:, k], values):
                raise RangeError(f"write(DataFrame): column {label!r} of {values.dtype} holds values that {flat.dtype} cannot")
        if field.ndim > 1:
            records[name] = flat.reshape(field.shape)
    return records


def _same(left: np.ndarray[Any, Any], right: np.ndarray[Any, Any]) -> bool:
    return bool(np.all((left == right) | ((left != left) & (right != right))))


def install() -> None:
    """Teaches the rings about DataFrames."""
    tables.install(frame_of_records, records_of_frame)
