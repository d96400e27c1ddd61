"""Conversion to Arrow: a frame view as a stream of record batches in the columns' own buffers.

Each column becomes an Arrow type and the buffers of its elements. If columns are chunked, a batch ends wherever a chunk
of any column ends.

Source: Apache Arrow, "The Arrow C data interface"; pandas' extension types as pyarrow registers them.
"""

from __future__ import annotations

import bisect
import itertools
import json
import struct
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from mojoview.frames.blocks import index_values
from mojoview.frames.column_data import NAT, apply_options, read_column
from mojoview.frames.frame_columns import FrameColumns
from mojoview.memory.errors import (
    ColumnError,
    DTypeError,
    FrameError,
    LayoutError,
    MaskError,
    MojoViewError,
    ZeroCopyError,
)
from mojoview.views import View, view
from mojoview.views._construct import with_mask
from mojoview.views.arrow import _to_arrow
from mojoview.views.arrow.arrays import ArrowView
from mojoview.views.arrow.chunked import ChunkedView, type_of
from mojoview.views.arrow.format import NULLABLE, ArrowCoded, ArrowRecord, ArrowType, format_of

__all__ = ["export_column", "export_schema", "export_stream", "to_table"]

ORDERED = 1


class _Column(NamedTuple):
    """One column with its Arrow type."""

    type: ArrowType
    pieces: tuple[Any, ...]  #: views of its chunks, in order
    values: Any = None  #: of a categorical: the part with its categories

    def ends(self) -> list[int]:
        """Return the position at which each piece ends."""
        return list(itertools.accumulate(len(piece) for piece in self.pieces))

    def cut(self, start: int, stop: int, ends: list[int] | None = None) -> Any:
        """Return the elements from `start` to `stop`, which are all in one piece; `ends` are those of `ends()`."""
        ends = self.ends() if ends is None else ends
        at = bisect.bisect_right(ends, start) if start != stop else 0
        if at == len(ends):
            raise FrameError("to_arrow: the columns of the frame are not of one length")
        piece, begin = self.pieces[at], ends[at] - len(self.pieces[at])
        return self._part(piece if stop - start == len(piece) else piece[start - begin : stop - begin])

    def _part(self, piece: Any) -> Any:
        part = piece if isinstance(piece, View) else piece._node
        return part if self.values is None else ArrowCoded(part, self.values)


def to_table(frame: FrameColumns) -> Any:
    """Make a pyarrow Table over the memory of a frame view."""
    try:
        import pyarrow as pa
    except ImportError as error:
        raise FrameError("to_arrow: needs pyarrow: pip install 'mojoview[arrow]'") from error
    return pa.table(frame)


def export_schema(frame: FrameColumns) -> Any:
    """Return the capsule 'arrow_schema' of the frame."""
    return _to_arrow.export_type(_struct(_columns(frame)))


def export_column(found: Any, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
    """Return the capsules of one column view; of its device array if there are options of that protocol."""
    column = _column(found, found.logical_dtype, may_copy=False)
    return _to_arrow.export_part(column.type, column._part(column.pieces[0]), options)


def export_stream(frame: FrameColumns) -> Any:
    """Return the capsule 'arrow_array_stream' of the frame."""
    columns, rows = _columns(frame), frame.shape[0]
    borders = {0, rows}
    for column in columns:
        borders.update(column.ends())
    ends = sorted(borders)
    spans = list(itertools.pairwise(ends)) or [(0, 0)]
    places = [(column, column.ends()) for column in columns]
    records = [ArrowRecord(stop - start, tuple(c.cut(start, stop, at) for c, at in places)) for start, stop in spans]
    return _to_arrow.export_stream(_struct(columns), records)


def _struct(columns: list[_Column]) -> ArrowType:
    return ArrowType("+s", flags=0, children=tuple(column.type for column in columns))


def _columns(frame: FrameColumns) -> list[_Column]:
    pins, found, names = frame._open(), [], _names(frame.columns)
    for position, (label, name) in enumerate(zip(frame.columns, names, strict=True)):
        try:
            column = _column(frame.iloc(position), pins.column(position).values.dtype, frame._may_copy)
        except MojoViewError as error:
            raise type(error)(f"to_arrow: column {label!r}: {error}") from error
        found.append(column._replace(type=column.type._replace(name=name)))
    return found


def _names(labels: pd.Index) -> list[str]:
    """Return labels as the text that Arrow's are; raises ColumnError if that makes different labels equal."""
    names: dict[str, Any] = {}
    for label in labels:
        name = str(label)
        first = names.setdefault(name, label)
        if type(first) is not type(label) or (first is not label and first != label):
            raise ColumnError(
                f"to_arrow: the labels {first!r} and {label!r} are both {name!r} as text, and Arrow's labels are text; "
                "rename one of them"
            )
        try:
            usable = b"\0" not in name.encode()
        except UnicodeEncodeError:  # half of a surrogate pair
            usable = False
        if not usable:
            raise ColumnError(f"to_arrow: column {label!r}: expected UTF-8 text without the character 0; rename it")
    return [str(label) for label in labels]


def _column(found: Any, logical: Any, may_copy: bool) -> _Column:
    if isinstance(found, ChunkedView):
        return _Column(found._type, found.chunks or (_no_chunk(found),))
    if isinstance(found, ArrowView):
        return _Column(type_of(found), (found,))
    if not found.contiguous:
        if not may_copy:
            raise LayoutError(
                f"expected contiguous values, got strides {found.strides}; use df.mojo.view(copy='if_needed')"
            )
        found = view(found, copy="always")
    if isinstance(logical, pd.CategoricalDtype):
        return _categorical(found, logical, may_copy)
    if found.dtype == np.bool_:
        if not may_copy:
            raise ZeroCopyError("Arrow stores booleans as bits, these are bytes; use df.mojo.view(copy='if_needed')")
        return _Column(ArrowType("b"), (found,))
    if isinstance(logical, pd.PeriodDtype):
        if not found.masked:  # taken with na="ignore": NaT is missing all the same
            found = with_mask(found, view(np.asarray(found) == NAT))
        return _Column(_extension("l", "pandas.period", {"freq": logical.name[len("period[") : -1]}), (found,))
    if isinstance(logical, pd.DatetimeTZDtype):
        return _Column(ArrowType(format_of(found.dtype) + _zone_name(logical.tz)), (found,))
    if isinstance(logical, pd.ArrowDtype):  # of an extension type: the view has only its storage
        import pyarrow as pa

        if isinstance(logical.pyarrow_dtype, pa.BaseExtensionType):
            empty: Any = view(pa.chunked_array([], logical.pyarrow_dtype))
            return _Column(empty._type, (found,))
    return _Column(ArrowType(found.arrow_format or format_of(found.dtype)), (found,))


def _no_chunk(found: ChunkedView) -> Any:
    raise ZeroCopyError(f"a column of Arrow type {found.arrow_format!r} without any chunk")


def _categorical(codes: View, dtype: pd.CategoricalDtype, may_copy: bool) -> _Column:
    if not codes.masked and bool((np.asarray(codes) < 0).any()):
        raise MaskError("missing categories have the code -1, which no dictionary has; view it with na='mask'")
    values = index_values(dtype.categories)
    data = read_column(values)
    if data.reason and may_copy:
        import pyarrow as pa

        shown = view(pa.array(values, from_pandas=True))
    elif data.reason:
        raise DTypeError(f"its categories cannot be exported: {data.reason}; use df.mojo.view(copy='if_needed')")
    else:
        shown = apply_options(data, "categories", "never", "mask", "any").view
    held = _column(shown, values.dtype, may_copy)
    if len(held.pieces) != 1:
        raise ZeroCopyError("its categories are in several chunks")
    kind = ArrowType(format_of(codes.dtype), dictionary=held.type)
    flags = NULLABLE | (ORDERED if dtype.ordered else 0)
    return _Column(kind._replace(flags=flags), (codes,), held.cut(0, len(shown)))


def _zone_name(zone: Any) -> str:
    """Return Arrow's name of a time zone: its name in the zone database, or an offset."""
    name = getattr(zone, "key", None) or getattr(zone, "zone", None)
    if name:
        return str(name)
    offset = zone.utcoffset(None)
    if offset is None:
        raise DTypeError(f"Arrow has no name for the time zone {zone!r}; use tz_convert() to a named zone")
    if not offset:
        return "UTC"
    minutes, seconds = divmod(int(offset.total_seconds()), 60)
    if seconds or offset.microseconds:
        raise DTypeError(f"Arrow has no name for the time zone {zone!r}, of {offset}; use tz_convert() to another one")
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"


def _extension(format: str, name: str, parameters: dict[str, Any]) -> ArrowType:
    pairs = {b"ARROW:extension:name": name.encode(), b"ARROW:extension:metadata": json.dumps(parameters).encode()}
    encoded = struct.pack("=i", len(pairs))
    for text in itertools.chain.from_iterable(pairs.items()):
        encoded += struct.pack("=i", len(text)) + text
    return ArrowType(format, metadata=encoded)
