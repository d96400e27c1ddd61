"""What lies where in a frame, column by column: the facts that `explain()` tabulates and the reprs draw."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from mojoview.frames import blocks
from mojoview.frames.arrow_columns import ArrowColumn, kind_of, memory_of
from mojoview.frames.index_view import codes_of, index_storage
from mojoview.frames.column_data import Resolved, Storage, storage
from mojoview.views import View
from mojoview.views.arrow.chunked import ChunkedView

if TYPE_CHECKING:
    from mojoview.frames.frame_view import FrameView

__all__ = ["Fact", "facts_of_object", "facts_of_view", "table"]


class Fact(NamedTuple):
    """One column."""

    column: Any
    dtype: str
    kind: str | None  #: class of the view; None where there is none
    block: int | None  #: None where pandas does not say
    address: str | None  #: None where no numbers lie in memory
    strides: tuple[int, ...] | None  #: bytes
    contiguous: bool | None
    aligned: bool | None
    readonly: bool | None  #: the block, not the view; None where pandas does not say
    shared: bool | None  #: whether another pandas object or view uses the block, as far as pandas knows
    zero_copy: bool
    reason: str
    copied: bool = False  #: a view that had to be a copy


def fact(label: Any, values: Any, number: int, shared: bool | None) -> Fact:
    return fact_of(label, values, values.dtype, storage(values), number, shared)


def fact_of(label: Any, values: Any, dtype: Any, kept: Storage, number: int, shared: bool | None) -> Fact:
    block, data = None if number < 0 else number, kept.data
    if kept.arrow is not None:
        return arrow_fact(label, str(dtype), kept.arrow, block, shared)
    if kept.reason:
        reason = f"{kept.reason}; {kept.remedy}"
    elif missing := kept.missing():
        how = "carries the byte mask" if kept.sentinel is None else f"turns the code {kept.sentinel} into a byte mask"
        reason = f"{missing} missing: na='mask' {how}"
    else:
        reason = ""
    kind = "FrameView" if kept.parts else "ColumnView" if kept.zero_copy else None
    known = Fact(label, str(dtype), kind, block, None, None, None, None, None, shared, kept.zero_copy, reason)
    if data is None:
        return known
    return known._replace(
        address=f"{data.__array_interface__['data'][0]:#x}",
        strides=data.strides,
        contiguous=data.flags.contiguous,
        aligned=data.flags.aligned,
        readonly=None if block is None else not writeable(values, data),
    )


def arrow_fact(label: Any, dtype: str, column: ArrowColumn, block: int | None, shared: bool | None) -> Fact:
    """Arrow's buffers are in one piece, aligned as their producer left them, and never written to."""
    found, notes = column.shared, []
    if isinstance(found, ChunkedView):
        notes.append(f"{len(found.chunks)} chunks: copy='if_needed' puts them together")
    if missing := column.missing():
        notes.append(f"{missing} missing: na='mask' carries the validity bitmap")
    address, plain = memory_of(found), isinstance(found, View)
    return Fact(
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


def writeable(values: Any, data: Any) -> bool:
    """`Categorical.codes` is a read-only window on memory that pandas writes to: ask the memory, not the window."""
    if isinstance(values, pd.Categorical):
        base = data.base
        return bool(base.flags.writeable) if base is not None else bool(data.flags.writeable)
    return bool(data.flags.writeable)


def facts_of_object(obj: Any) -> list[Fact]:
    """Of a DataFrame or Series, without pinning anything."""
    labels = obj.columns if obj.ndim == 2 else [obj.name]
    inspected = (blocks.inspect_column(obj, position) for position in range(len(labels)))
    return [
        fact(label, values, number, shared) for label, (number, values, shared) in zip(labels, inspected, strict=True)
    ]


def facts_of_index(index: pd.Index) -> list[Fact]:
    """Of an Index, or of the codes of each level."""
    if not isinstance(index, pd.MultiIndex):
        return [fact_of(index.name, index, index.dtype, index_storage(index), -1, None)]
    return [
        fact_of(name, codes, codes.dtype, codes_of(index, number), -1, None)
        for number, (name, codes) in enumerate(zip(index.names, index.codes, strict=True))
    ]


def facts_of_view(frame: FrameView) -> list[Fact]:
    """Of the columns as the view hands them out."""
    found = []
    snapshot = frame._open()
    for position, label in enumerate(frame.columns):
        cell = snapshot.cell(position)
        known = fact(label, cell.values, cell.number, None)
        ready = frame._ready.get(position)
        if ready is not None:
            known = resolved_fact(known, ready, storage(cell.values).reason)
        found.append(known)
    return found


def resolved_fact(known: Fact, ready: Resolved, why: str) -> Fact:
    """What is known of the column, as the view has it."""
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
    return known._replace(
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


def table(facts: Iterable[Fact]) -> pd.DataFrame:
    rows = list(facts)
    columns: dict[str, Any] = {name: [getattr(row, name) for row in rows] for name in Fact._fields[:-1]}
    columns["column"] = pd.Series(columns["column"], dtype=object)
    columns["block"] = pd.array(columns["block"], dtype="Int64")
    for name in ("contiguous", "aligned", "readonly", "shared"):
        columns[name] = pd.array(columns[name], dtype="boolean")
    columns["zero_copy"] = pd.Series(columns["zero_copy"], dtype=bool)
    for name in ("dtype", "kind", "address", "reason", "strides"):
        columns[name] = pd.Series(columns[name], dtype=object)
    return pd.DataFrame(columns)
