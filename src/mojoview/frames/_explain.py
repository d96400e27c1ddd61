"""What lies where in a frame, column by column: the facts that `explain()` tabulates and the reprs draw."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from mojoview.frames import _blocks
from mojoview.frames._storage import storage

if TYPE_CHECKING:
    from mojoview.frames._frame import FrameView

__all__ = ["Fact", "facts_of_object", "facts_of_view", "table"]


class Fact(NamedTuple):
    """One column."""

    column: Any
    dtype: str
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
    kept = storage(values)
    block, data = None if number < 0 else number, kept.data
    if kept.reason:
        reason = f"{kept.reason}; {kept.remedy}"
    elif missing := kept.missing():
        how = "carries the byte mask" if kept.sentinel is None else f"turns the code {kept.sentinel} into a byte mask"
        reason = f"{missing} missing: na='mask' {how}"
    else:
        reason = ""
    known = Fact(label, str(values.dtype), block, None, None, None, None, None, shared, kept.zero_copy, reason)
    if data is None:
        return known
    return known._replace(
        address=f"{data.__array_interface__['data'][0]:#x}",
        strides=data.strides,
        contiguous=data.flags.contiguous,
        aligned=data.flags.aligned,
        readonly=None if block is None else not writeable(values, data),
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
    inspected = (_blocks.inspect_column(obj, position) for position in range(len(labels)))
    return [
        fact(label, values, number, shared) for label, (number, values, shared) in zip(labels, inspected, strict=True)
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
            made, why = ready.view, storage(cell.values).reason
            notes = [f"copied: {why}" if why else "copied as asked"] if ready.copied else []
            notes += ["byte mask carried"] if made.mask is not None else []
            known = known._replace(
                address=f"{made.ptr:#x}",
                strides=made.strides,
                contiguous=made.contiguous,
                aligned=made.aligned,
                readonly=True,
                zero_copy=not ready.copied,
                reason=", ".join(notes),
                copied=ready.copied,
            )
        found.append(known)
    return found


def table(facts: Iterable[Fact]) -> pd.DataFrame:
    rows = list(facts)
    columns: dict[str, Any] = {name: [getattr(row, name) for row in rows] for name in Fact._fields[:-1]}
    columns["column"] = pd.Series(columns["column"], dtype=object)
    columns["block"] = pd.array(columns["block"], dtype="Int64")
    for name in ("contiguous", "aligned", "readonly", "shared"):
        columns[name] = pd.array(columns[name], dtype="boolean")
    columns["zero_copy"] = pd.Series(columns["zero_copy"], dtype=bool)
    for name in ("dtype", "address", "reason", "strides"):
        columns[name] = pd.Series(columns[name], dtype=object)
    return pd.DataFrame(columns)
