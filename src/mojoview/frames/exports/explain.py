"""Facts about the memory of each column: tabulated by `explain()`, drawn by the reprs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import pandas as pd

from mojoview.frames.arrow_columns import ArrowColumn, kind_of, memory_of
from mojoview.frames.column_data import NAT, ColumnData, ReadyColumn, read_column
from mojoview.frames.frame_columns import FrameColumns
from mojoview.frames.index_view import index_data, level_codes
from mojoview.frames.pins import inspect_column
from mojoview.views import View
from mojoview.views.arrow.chunked import ChunkedView

__all__ = ["ColumnInfo", "index_info", "object_info", "table", "view_info"]


class ColumnInfo(NamedTuple):
    """Facts about the memory of one column."""

    column: Any
    dtype: str
    kind: str | None  #: class of its view; None if it cannot be viewed
    block: int | None  #: None if it is unknown
    address: str | None  #: None if there are no numbers in memory
    strides: tuple[int, ...] | None  #: bytes
    contiguous: bool | None
    aligned: bool | None
    readonly: bool | None  #: the block, not the view; None if it is unknown
    shared: bool | None  #: whether pandas knows another user of the block
    zero_copy: bool
    reason: str
    copied: bool = False  #: whether the view is a copy


def column_info(label: Any, values: Any, number: int, shared: bool | None) -> ColumnInfo:
    """Describe a column of a frame or Series."""
    return data_info(label, values, values.dtype, read_column(values), number, shared)


def data_info(label: Any, source: Any, dtype: Any, data: ColumnData, number: int, shared: bool | None) -> ColumnInfo:
    """Describe column data, read from the array or Index `source`."""
    block, values = None if number < 0 else number, data.values
    if data.arrow is not None:
        return arrow_info(label, str(dtype), data.arrow, block, shared)
    if data.reason:
        reason = f"{data.reason}; {data.remedy}"
    elif missing := data.missing():
        how = "carries" if data.sentinel is None else f"turns {_name(data.sentinel)} into"
        reason = f"{missing} missing: na='mask' {how} a byte mask"
    else:
        reason = ""
    kind = "FrameView" if data.parts else "ColumnView" if data.zero_copy else None
    info = ColumnInfo(label, str(dtype), kind, block, None, None, None, None, None, shared, data.zero_copy, reason)
    if values is None:
        return info
    return info._replace(
        address=f"{values.__array_interface__['data'][0]:#x}",
        strides=values.strides,
        contiguous=values.flags.contiguous,
        aligned=values.flags.aligned,
        readonly=None if block is None else not _writeable(source, values),
    )


def _name(sentinel: int) -> str:
    return "NaT" if sentinel == NAT else f"the code {sentinel}"


def arrow_info(label: Any, dtype: str, column: ArrowColumn, block: int | None, shared: bool | None) -> ColumnInfo:
    """Describe an Arrow column, whose buffers are never written to."""
    found, notes = column.shared, []
    if isinstance(found, ChunkedView):
        notes.append(f"{len(found.chunks)} chunks: copy='if_needed' joins them")
    if missing := column.missing():
        notes.append(f"{missing} missing: na='mask' carries the validity bitmap")
    address, plain = memory_of(found), isinstance(found, View)
    return ColumnInfo(
        label,
        dtype,
        kind_of(found),
        block,
        f"{address:#x}" if address else None,
        found.strides if plain else None,
        found.contiguous if plain else None,
        found.aligned if plain else None,
        True,
        shared,
        True,
        "; ".join(notes),
    )


def _writeable(source: Any, values: Any) -> bool:
    """Return whether pandas can write to the memory; `Categorical.codes` is a read-only view of a writable array."""
    if isinstance(source, pd.Categorical) and values.base is not None:
        return bool(values.base.flags.writeable)
    return bool(values.flags.writeable)


def object_info(obj: Any) -> list[ColumnInfo]:
    """Describe the columns of a DataFrame or Series, without pinning anything."""
    labels = obj.columns if obj.ndim == 2 else [obj.name]
    inspected = (inspect_column(obj, position) for position in range(len(labels)))
    return [
        column_info(label, values, number, shared)
        for label, (number, values, shared) in zip(labels, inspected, strict=True)
    ]


def index_info(index: pd.Index) -> list[ColumnInfo]:
    """Describe an Index, or the codes of each level of a MultiIndex."""
    if not isinstance(index, pd.MultiIndex):
        return [data_info(index.name, index, index.dtype, index_data(index), -1, None)]
    return [
        data_info(name, codes, codes.dtype, level_codes(index, number), -1, None)
        for number, (name, codes) in enumerate(zip(index.names, index.codes, strict=True))
    ]


def view_info(frame: FrameColumns) -> list[ColumnInfo]:
    """Describe the columns of a frame view."""
    found = []
    pins = frame._open()
    for position, label in enumerate(frame.columns):
        column = pins.column(position)
        info = column_info(label, column.values, column.number, None)
        ready = frame._ready.get(position)
        if ready is not None:
            info = ready_info(info, ready, read_column(column.values).reason)
        found.append(info)
    return found


def ready_info(info: ColumnInfo, ready: ReadyColumn, why: str) -> ColumnInfo:
    """Update the facts of a column to those of its prepared view; `why` is the reason for a copy."""
    made = ready.view
    notes = []
    if ready.copied:
        notes.append(f"copied: {why}" if why else "copied as asked")
    elif isinstance(made, ChunkedView):
        notes.append(f"{len(made.chunks)} chunks")
    if made.masked:
        in_bytes = isinstance(made, View) and made.validity is None
        notes.append("byte mask carried" if in_bytes else "validity bitmap carried")
    address, plain = memory_of(made), isinstance(made, View)
    return info._replace(
        kind=kind_of(made),
        address=f"{address:#x}" if address else None,
        strides=made.strides if plain else None,
        contiguous=made.contiguous if plain else None,
        aligned=made.aligned if plain else None,
        readonly=True,
        zero_copy=not ready.copied,
        reason=", ".join(notes),
        copied=ready.copied,
    )


def table(infos: Iterable[ColumnInfo]) -> pd.DataFrame:
    """Tabulate the facts, one row per column."""
    rows = list(infos)
    columns: dict[str, Any] = {name: [getattr(row, name) for row in rows] for name in ColumnInfo._fields[:-1]}
    columns["column"] = pd.Series(columns["column"], dtype=object)
    columns["block"] = pd.array(columns["block"], dtype="Int64")
    for name in ("contiguous", "aligned", "readonly", "shared"):
        columns[name] = pd.array(columns[name], dtype="boolean")
    columns["zero_copy"] = pd.Series(columns["zero_copy"], dtype=bool)
    for name in ("dtype", "kind", "address", "reason", "strides"):
        columns[name] = pd.Series(columns[name], dtype=object)
    return pd.DataFrame(columns)
