"""Conversion between the records of a ring and DataFrames, one column per field."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from mojoview.frames.column_view import ColumnView
from mojoview.frames.frame_view import column_view
from mojoview.frames.labels import position_of
from mojoview.memory.errors import ArgumentError, ColumnError, DTypeError, RangeError

__all__ = ["frame_of_records", "records_of_frame", "write_table"]


def frame_of_records(records: np.ndarray[Any, Any]) -> pd.DataFrame:
    """Make a DataFrame that owns its memory; a field of several elements becomes columns `name[0]`, `name[1]`, ..."""
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
    """Return the rows of a DataFrame as records.

    Raises
    ------
    ArgumentError, ColumnError
        Not a DataFrame; a field has no column of its name, or several.
    DTypeError, MaskError
        A column means something else than its field: text, categories of text, time zones, other kinds of numbers; its
        values are missing.
    RangeError
        A value has no exact counterpart in the field's dtype.
    """
    if not isinstance(frame, pd.DataFrame):
        raise ArgumentError(f"write: expected a bytes-like object or a DataFrame, got {type(frame).__name__}")
    records = np.zeros(len(frame), dtype)
    for name in dtype.names or ():
        field = records[name]
        labels = [name] if field.ndim == 1 else [f"{name}[{k}]" for k in range(field[0].size if len(field) else 0)]
        flat = field.reshape(len(field), -1) if field.ndim > 1 else field[:, None]
        for k, label in enumerate(labels):
            if label not in frame.columns:
                raise ColumnError(
                    f"write(DataFrame): expected a column {label!r} for the field {name!r} of the ring, there is none"
                )
            flat[:, k] = _converted(frame.iloc[:, position_of(frame.columns, label)], flat.dtype, label)
        if field.ndim > 1:
            records[name] = flat.reshape(field.shape)
    return records


def _converted(series: pd.Series, target: np.dtype[Any], label: str) -> np.ndarray[Any, Any]:
    """Return the values of a column in the dtype of a field."""
    what = f"write(DataFrame): column {label!r} of {series.dtype}"
    if isinstance(series.dtype, pd.CategoricalDtype) and not series.hasnans:
        series = series.astype(series.dtype.categories.dtype)  # the values, not the codes
    values = _texts(series, target, what) if target.kind in "SU" else _numbers(series, target, what)
    with np.errstate(all="ignore"):
        made = values.astype(target)
        back = made.real if made.dtype.kind == "c" and values.dtype.kind != "c" else made
        if not (_casts(values, target) and _casts(back, values.dtype) and _same(back.astype(values.dtype), values)):
            raise RangeError(f"{what} holds values that {target} cannot")
    return made


def _casts(values: np.ndarray[Any, Any], target: np.dtype[Any]) -> bool:
    """Return whether C defines the cast of the values: of floats to integers only within their range."""
    if values.dtype.kind != "f" or target.kind not in "iu":
        return True
    limits = np.iinfo(target)
    return bool(np.all((values >= float(limits.min)) & (values < float(limits.max) + 1)))


def _texts(series: pd.Series, target: np.dtype[Any], what: str) -> np.ndarray[Any, Any]:
    items = series.tolist()
    kind = bytes if target.kind == "S" else str
    if wrong := [item for item in items if not isinstance(item, kind)]:
        raise DTypeError(f"{what}: expected {kind.__name__} for a field of {target}, got {wrong[0]!r}")
    values = np.empty(len(items), object)
    values[:] = items
    return values


def _numbers(series: pd.Series, target: np.dtype[Any], what: str) -> np.ndarray[Any, Any]:
    found = column_view(series, 0, "if_needed", "error", "any")
    if not isinstance(found, ColumnView) or found.stands_for_more or not _convertible(found.dtype.kind, target.kind):
        raise DTypeError(f"{what}: expected values of the kind of {target}; convert it with astype()")
    return np.asarray(found)


def _convertible(source: str, target: str) -> bool:
    return source == target if "m" in (source, target) or "M" in (source, target) else target == "c" or source != "c"


def write_table(path: str, dtype: np.dtype[Any] | None, frames: Iterable[Any], rows_at_once: int = 200_000) -> int:
    """Write a recording as Parquet (needs pyarrow) or CSV and return the number of rows; it need not fit in memory.

    One row for each record, with number, time and type of its frame; without a dtype, one for each frame and its bytes.
    """
    if not path.endswith((".csv", ".parquet")):
        raise ArgumentError(f"export: {path!r}: expected a name that ends in .csv or .parquet")
    writer = _CsvWriter(path) if path.endswith(".csv") else _ParquetWriter(path)
    rows, part, pending = 0, [], 0
    with writer:
        for frame in frames:
            part.append((frame.seq, frame.timestamp_ns, frame.type, bytes(frame)))
            pending += len(frame) // dtype.itemsize if dtype is not None else 1
            if pending >= rows_at_once:
                rows += writer.write(_table(dtype, part))
                part, pending = [], 0
        if part or not rows:
            rows += writer.write(_table(dtype, part))
    return rows


def _table(dtype: np.dtype[Any] | None, part: list[tuple[int, int, int, bytes]]) -> pd.DataFrame:
    counts = [len(row[3]) // dtype.itemsize for row in part] if dtype is not None else [1] * len(part)
    heads = [
        np.repeat(np.array([row[k] for row in part], kind), counts) for k, kind in ((0, "u8"), (1, "u8"), (2, "u1"))
    ]
    head = pd.DataFrame(dict(zip(("seq", "timestamp_ns", "type"), heads, strict=True)))
    payloads = [row[3] for row in part]
    body = (
        frame_of_records(np.frombuffer(b"".join(payloads), dtype))
        if dtype is not None
        else pd.DataFrame({"data": payloads})
    )
    return pd.concat([head, body], axis=1)


class _CsvWriter:
    def __init__(self, path: str):
        self.file = open(path, "w", encoding="utf-8", newline="")  # noqa: SIM115 - closed by __exit__
        self.first = True

    def __enter__(self) -> _CsvWriter:
        return self

    def write(self, table: pd.DataFrame) -> int:
        if "data" in table.columns and all(isinstance(value, bytes) for value in table["data"]):
            table = table.assign(data=table["data"].map(bytes.hex))
        table.to_csv(self.file, index=False, header=self.first)
        self.first = False
        return len(table)

    def __exit__(self, *_: object) -> None:
        self.file.close()


class _ParquetWriter:
    def __init__(self, path: str):
        try:
            import pyarrow.parquet
        except ImportError as error:
            raise ArgumentError("export: Parquet needs pyarrow: pip install 'mojoview[arrow]'") from error
        self.arrow = pyarrow
        self.path = path
        self.file: Any = None

    def __enter__(self) -> _ParquetWriter:
        return self

    def write(self, table: pd.DataFrame) -> int:
        converted = self.arrow.Table.from_pandas(table, preserve_index=False)
        if self.file is None:
            self.file = self.arrow.parquet.ParquetWriter(self.path, converted.schema)
        self.file.write_table(converted)
        return len(table)

    def __exit__(self, *_: object) -> None:
        if self.file is not None:
            self.file.close()


def _same(left: np.ndarray[Any, Any], right: np.ndarray[Any, Any]) -> bool:
    return bool(np.all((left == right) | ((left != left) & (right != right))))
