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
    readonly: bool | None
    shared: bool | None  #: whether another pandas object or view uses the block, as far as pandas knows
    zero_copy: bool
    reason: str

    @property
    def copied(self) -> bool:
        return self.reason.startswith(COPIED)


COPIED = "copied"


def fact(label: Any, values: Any, number: int, shared: bool | None) -> Fact:
    kept = storage(values)
    data = kept.data
    reason = f"{kept.reason}; {kept.remedy}" if kept.reason else ""
    if kept.mask is not None and kept.mask.any():
        reason = f"{int(kept.mask.sum())} missing: na='mask' carries the byte mask"
    elif kept.sentinel is not None and (data == kept.sentinel).any():
        reason = f"{int((data == kept.sentinel).sum())} missing, coded {kept.sentinel}: na='mask' makes a byte mask"
    if data is None:
        return Fact(label, str(values.dtype), None if number < 0 else number, None, None, None, None, None, shared, False, reason)
    return Fact(label, str(values.dtype), None if number < 0 else number, f"{data.__array_interface__['data'][0]:#x}", data.strides,
                data.flags.contiguous, data.flags.aligned, not writeable(values, data), shared, kept.zero_copy, reason)


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
    return [fact(label, values, number, shared) for label, (number, values, shared) in zip(labels, inspected, strict=True)]


def facts_of_view(frame: FrameView) -> list[Fact]:
    """Of the columns as the view hands them out."""
    found = []
    snapshot = frame._open()
    for position, label in enumerate(frame.columns):
        cell = snapshot.cell(position)
        known = fact(label, cell.values, cell.number, None)
        ready = frame._ready.get(position)
        if ready is not None:
            made = ready.view
            reason = "byte mask carried" if made.mask is not None else ""
            if ready.copied:
                why = storage(cell.values).reason
                reason = f"{COPIED}{f': {why}' if why else ' as asked'}{f', {reason}' if reason else ''}"
            known = known._replace(address=f"{made.ptr:#x}", strides=made.strides, contiguous=made.contiguous, aligned=made.aligned,
                                   readonly=True, zero_copy=not ready.copied, reason=reason)
        found.append(known)
    return found


def table(facts: Iterable[Fact]) -> pd.DataFrame:
    rows = list(facts)
    columns: dict[str, Any] = {name: [getattr(row, name) for row in rows] for name in Fact._fields}
    columns["column"] = pd.Series(columns["column"], dtype=object)
    columns["block"] = pd.array(columns["block"], dtype="Int64")
    for name in ("contiguous", "aligned", "readonly", "shared"):
        columns[name] = pd.array(columns[name], dtype="boolean")
    columns["zero_copy"] = pd.Series(columns["zero_copy"], dtype=bool)
    for name in ("dtype", "address", "reason", "strides"):
        columns[name] = pd.Series(columns[name], dtype=object)
    return pd.DataFrame(columns)
