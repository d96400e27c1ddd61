"""FrameView: the columns of a DataFrame as views, made when asked for; and the blocks they lie in."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from mojoview.frames.arrow_columns import ArrowOrigin
from mojoview.frames.blocks import Cell, cow_enabled, take_column, take_snapshot
from mojoview.frames.column_view import BlockView, column_of, make_block, make_column
from mojoview.frames.column_data import Copy, Layout, Missing, Resolved, Storage, refusal, resolve, storage
from mojoview.memory.errors import (
    ArgumentError,
    ColumnError,
    DTypeError,
    FrameError,
    IndexingError,
    MaskError,
    MojoViewError,
    ReleasedError,
    ZeroCopyError,
)
from mojoview.views import View, view

__all__ = [
    "FrameView",
    "block_views",
    "column_view",
    "find",
    "frame_view",
    "normalize",
    "position_of",
    "positions_of",
    "single_block",
]


class FrameView:
    """A read-only view of the columns of a DataFrame, made by `df.mojo.view()`.

    A mapping from labels to `ColumnView`, in the order of the columns; each is made when it is asked for. Columns that
    Arrow holds and whose items do not have their bytes in place are Arrow views (`mojoview.views.arrow.arrays`). Duplicate
    labels are reached by position, through `iloc`. While the view lives, the blocks that it covers are pinned: under
    Copy-on-Write pandas copies a block before it writes to it, and the view keeps what it saw.

    Attributes
    ----------
    columns : pandas.Index
    index : pandas.Index or None
        Of the rows; None for the parts of one column.
    shape : tuple of int
        (rows, columns), as of the DataFrame. `len()` counts columns.
    nbytes : int
    frozen, stale, closed : bool

    Notes
    -----
    Thread safety: any number of threads may read one FrameView. The DataFrame must not be written to by another thread
    while the view is being taken.

    Examples
    --------
    >>> import pandas as pd, mojoview
    >>> df = pd.DataFrame({"x": [1.0, 2.0], "n": [3, 4]})
    >>> with df.mojo.view() as frame:
    ...     [(label, column.shape, str(column.dtype)) for label, column in frame.items()]
    [('x', (2,), 'float64'), ('n', (2,), 'int64')]
    """

    __slots__ = ("__weakref__", "_may_copy", "_ready", "_snapshot", "columns", "index")

    columns: pd.Index
    index: pd.Index | None
    _may_copy: bool
    _ready: Mapping[int, Resolved]
    _snapshot: Any

    def __init__(self, *_: Any) -> None:
        raise ArgumentError("FrameView() is not called by hand: use df.mojo.view()")

    # -- the mapping ---------------------------------------------------------------------------------------------------

    def __getitem__(self, label: Any) -> Any:
        return self.iloc(position_of(self.columns, label))

    def iloc(self, position: int) -> Any:
        """The column at a position, counted from 0 or from the end.

        Returns
        -------
        ColumnView, ArrowView or ChunkedView
            Borrows the memory and pins it on its own: it outlives this FrameView.

        Raises
        ------
        IndexingError
            There is no such position.
        """
        snapshot = self._open()
        position = normalize(position, len(self.columns))
        ready = self._ready.get(position)
        cell = snapshot.cell(position)
        if ready is None:  # plain numbers, as they lie in the block
            return make_column(view(cell.values), cell.values.dtype, snapshot.origin(cell))
        return column_of(ready.view, cell.values.dtype, origin_of(ready, snapshot.origin(cell)))

    def __iter__(self) -> Iterator[Any]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def __contains__(self, label: Any) -> bool:
        return label in self.columns

    def keys(self) -> pd.Index:
        return self.columns

    def values(self) -> Iterator[Any]:
        return (self.iloc(i) for i in range(len(self.columns)))

    def items(self) -> Iterator[tuple[Any, Any]]:
        """(label, ColumnView) of each column in order, duplicates included."""
        return zip(self.columns, self.values(), strict=True)

    # -- as a whole ----------------------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, int]:
        return self._open().rows, len(self.columns)

    @property
    def nbytes(self) -> int:
        """Bytes of the columns' values, masks not counted; of Arrow's strings, lists and the like all they refer to."""
        self._open()
        total = 0
        for position, column in enumerate(self.values()):
            ready = self._ready.get(position)
            in_place = isinstance(column, View) or ready is None or ready.arrow is None
            total += column.nbytes if in_place else int(ready.arrow.chunks.nbytes)  # type: ignore[union-attr]
        return total

    @property
    def frozen(self) -> bool:
        """Whether pandas cannot write to any column's memory; see `ColumnView.frozen`."""
        self._open()
        own = sum(ready.copied or ready.arrow is not None for ready in self._ready.values())
        return cow_enabled() or own == len(self.columns)

    @property
    def stale(self) -> bool:
        """Whether the frame has moved any of the columns since, or a column is a copy; see `ColumnView.stale`."""
        return self._open().stale or any(
            ready.copied or (ready.arrow is not None and ready.arrow.moved) for ready in self._ready.values()
        )

    def block(self, dtype: Any = None) -> BlockView:
        """The one block that holds the columns of a dtype, as a 2-D view; see `df.mojo.block`."""
        if any(ready.copied for ready in self._ready.values()):
            raise ZeroCopyError("block: the view holds copies of columns, which lie in no block")
        return single_block(self._open(), self.columns, dtype)

    # -- to others -----------------------------------------------------------------------------------------------------

    def to_dict_of_views(self) -> dict[Any, Any]:
        """Labels to views, for code that takes plain dictionaries.

        Raises
        ------
        ColumnError
            Labels repeat; `items()` gives them all.
        """
        if not self.columns.is_unique:
            raise ColumnError("to_dict_of_views: labels repeat, and a dictionary has each once; use items()")
        return dict(self.items())

    def to_pandas(self) -> pd.DataFrame:
        """A DataFrame over the same memory, with the same dtypes, columns and index.

        Returns
        -------
        DataFrame
            Borrows the memory, one block a column; see `mojoview.frames.to_series`. Neither frame sees what is written
            to the other.

        Raises
        ------
        DTypeError, MaskError, ZeroCopyError, FrameError
            As `mojoview.frames.to_series`.

        Examples
        --------
        >>> import pandas as pd, mojoview
        >>> df = pd.DataFrame({"x": [1.0, 2.0]})
        >>> df.mojo.view().to_pandas().mojo.view("x").ptr == df.mojo.view("x").ptr
        True
        """
        from mojoview.frames.exports.to_pandas import assemble

        snapshot = self._open()
        dtypes = [snapshot.cell(position).values.dtype for position in range(len(self.columns))]
        return assemble(list(self.values()), self.columns, self.index, "to_pandas", dtypes)

    def to_arrow(self) -> Any:
        """A pyarrow Table over the same memory; see `__arrow_c_stream__`, which needs no pyarrow.

        Raises
        ------
        FrameError
            pyarrow is not installed; otherwise as `__arrow_c_stream__`.
        """
        try:
            import pyarrow as pa
        except ImportError as error:
            raise FrameError("to_arrow: needs pyarrow: pip install 'mojoview[arrow]'") from error
        return pa.table(self)

    def __arrow_c_schema__(self) -> Any:
        from mojoview.frames.exports.to_arrow import export_schema

        return export_schema(self)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Capsule of record batches in the columns' own buffers, for any consumer of Arrow.

        The index is left out. Categories go out as dictionaries, zones and periods with their type; a byte mask, NaT
        and the code -1 become a fresh validity bitmap. The frame is cut into batches where a column's chunks end.

        Returns
        -------
        capsule
            Borrows the memory. Each array keeps its block pinned until the consumer releases it, so that writes through
            pandas never reach the consumer (under Copy-on-Write).

        Raises
        ------
        ZeroCopyError, LayoutError, DTypeError, MaskError
            Arrow has no words for a column: booleans kept as bytes, strides, complex numbers, categories that are
            objects. A view taken with ``copy="if_needed"`` packs the booleans and gathers the strided columns.

        Notes
        -----
        Source: Apache Arrow, "The Arrow PyCapsule Interface". No casts are made. Thread safety: any thread.
        """
        from mojoview.frames.exports.to_arrow import export_stream

        return export_stream(self)

    @property
    def closed(self) -> bool:
        return self._snapshot is None

    def release(self) -> None:
        """Unpins the blocks. Column views taken from it go on; the FrameView raises `ReleasedError` from now on."""
        self._snapshot = None
        self._ready = _ALL_PLAIN

    def _open(self) -> Any:
        if self._snapshot is None:
            raise ReleasedError("the FrameView was released: take a new one with df.mojo.view()")
        return self._snapshot

    def __enter__(self) -> FrameView:
        self._open()
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise ArgumentError(
            "a FrameView cannot be pickled or copied: its memory belongs to the DataFrame; pickle the DataFrame"
        )

    def __repr__(self) -> str:
        from mojoview.frames.exports.repr import frame_text

        return frame_text(self)

    def _repr_html_(self) -> str:
        from mojoview.frames.exports.repr import frame_html

        return frame_html(self)


def origin_of(made: Resolved, origin: Any) -> Any:
    if made.copied:
        return None
    return origin if made.arrow is None else ArrowOrigin(origin, made.arrow)


_ALL_PLAIN: Mapping[int, Resolved] = MappingProxyType({})


# -- taking views ------------------------------------------------------------------------------------------------------


new = object.__new__


def frame_view(df: Any, positions: Sequence[int] | None, copy: Copy, na: Missing, layout: Layout) -> FrameView:
    """A FrameView of a DataFrame. Work for each block only, where the blocks are plain numbers taken as they are."""
    snapshot = take_snapshot(df, positions)
    made = new(FrameView)
    made._snapshot = snapshot
    made._may_copy = copy != "never"
    columns, made.index = snapshot.axes
    made.columns = columns if positions is None else columns[list(positions)]
    if not snapshot.odd and copy != "always" and layout == "any":
        made._ready = _ALL_PLAIN
    else:
        made._ready = _resolve_all(snapshot, made.columns, copy, na, layout)
    return made


def _resolve_all(snapshot: Any, columns: pd.Index, copy: Copy, na: Missing, layout: Layout) -> dict[int, Resolved]:
    """Everything but plain numbers that are taken as they are; what is not in the result is made when asked for."""
    if layout == "c":
        if not all(isinstance(values, np.ndarray) and values.flags.f_contiguous for values, _ in snapshot.arrays()):
            raise ZeroCopyError(
                "view: the frame has not layout='c': pandas keeps the values of a column, not of a row, together, and "
                "no copy of columns changes that; use layout='f', or np.ascontiguousarray(df)"
            )
        layout = "any"
    ready: dict[int, Resolved] = {}
    problems: list[
        tuple[type[MojoViewError], str]
    ] = []  # not the exceptions: with their tracebacks they would be a cycle
    as_it_lies = layout == "any" and copy != "always"
    for position in snapshot.odd_positions() if as_it_lies else range(len(columns)):
        values = snapshot.cell(position).values
        kept = storage(values)
        if as_it_lies and kept.data is values and kept.zero_copy:
            continue
        try:
            ready[position] = resolve(kept, ColumnName("column", columns, position, values.dtype), copy, na, layout)
        except MojoViewError as error:
            problems.append((type(error), str(error)))
    if problems:
        kind, message = problems[0]
        if len(problems) > 1:
            message += (
                f" ({len(problems) - 1} more column(s) cannot be viewed either; df.mojo.explain() lists them, "
                "df.mojo.view([...]) takes the others)"
            )
        raise kind(message)
    return ready


class ColumnName:
    """How messages name a column; only put into words when there is a message."""

    __slots__ = ("dtype", "kind", "labels", "position")

    def __init__(self, kind: str, labels: Any, position: int | None, dtype: Any) -> None:
        self.kind, self.labels, self.position, self.dtype = kind, labels, position, dtype

    def __str__(self) -> str:
        label = self.labels if self.position is None else self.labels[self.position]
        return f"{self.kind} {label!r} of dtype {self.dtype}"


def column_view(obj: Any, position: int, copy: Copy, na: Missing, layout: Layout) -> Any:
    """The column at a position; a FrameView of its parts where it consists of several arrays."""
    values, origin = take_column(obj, position)
    kept = storage(values)
    if obj.ndim == 1:
        name = ColumnName("Series", obj.name, None, values.dtype)
    else:
        name = ColumnName("column", obj.columns, position, values.dtype)
    if kept.parts and copy == "never":
        return _parts_view(_Parts(origin, kept), name, na, layout)
    made = resolve(kept, name, copy, na, layout)
    return column_of(made.view, values.dtype, origin_of(made, origin))


class _Parts:
    """Stands for a snapshot where one column consists of several arrays, each of which is shown as a column."""

    __slots__ = ("_origin", "parts")

    def __init__(self, origin: Any, whole: Storage) -> None:
        self._origin, self.parts = origin, whole.parts

    def cell(self, position: int) -> Cell:
        return Cell(list(self.parts.values())[position].data, position, None)

    def origin(self, cell: Cell) -> Any:
        return self._origin

    def arrays(self) -> list[tuple[Any, list[int]]]:
        return [(part.data, [position]) for position, part in enumerate(self.parts.values())]

    @property
    def rows(self) -> int:
        return len(self.cell(0).values)

    @property
    def stale(self) -> bool:
        return bool(self._origin.stale)


def _parts_view(parts: _Parts, name: ColumnName, na: Missing, layout: Layout) -> FrameView:
    made = FrameView.__new__(FrameView)
    made._snapshot = parts
    made._may_copy = False
    made.index = None
    made.columns = pd.Index(list(parts.parts))
    made._ready = {
        position: resolve(part, f"{which!r} of {name}", "never", na, layout)
        for position, (which, part) in enumerate(parts.parts.items())
    }
    return made


# -- blocks ------------------------------------------------------------------------------------------------------------


def block_views(snapshot: Any, columns: pd.Index) -> tuple[BlockView, ...]:
    return tuple(_block(snapshot, columns, number) for number in range(len(snapshot.arrays())))


def single_block(snapshot: Any, columns: pd.Index, dtype: Any) -> BlockView:
    try:
        wanted = None if dtype is None else pd.api.types.pandas_dtype(dtype)
    except Exception as error:  # TypeError, ValueError, SyntaxError: NumPy's parser is not choosy
        raise DTypeError(f"block: expected a dtype, got {dtype!r} ({error})") from error
    arrays = snapshot.arrays()
    matching = [number for number, (values, _) in enumerate(arrays) if wanted is None or values.dtype == wanted]
    if len(matching) != 1:
        what = "the frame" if wanted is None else f"dtype {wanted}"
        listing = (
            "; ".join(
                f"block {n}: {values.dtype}, columns {_short([columns[i] for i in positions])}"
                for n, (values, positions) in enumerate(arrays)
            )
            or "no blocks"
        )
        raise ZeroCopyError(
            f"block: expected exactly one block for {what}, got {len(matching)} ({listing}); df.copy() gathers each "
            "dtype "
            "into one block, df.mojo.blocks() gives them all"
        )
    return _block(snapshot, columns, matching[0])


def _block(snapshot: Any, columns: pd.Index, number: int) -> BlockView:
    values, positions = snapshot.arrays()[number]
    labels = columns[positions]
    name = ColumnName("block of columns", list(labels), None, values.dtype)
    kept = storage(values)
    if kept.arrow is not None:
        raise ZeroCopyError(f"block: {name} lies in Arrow's buffers, one column each; use df.mojo.view()")
    if kept.data is None or kept.reason:
        raise refusal(kept, name)
    if kept.missing():
        raise MaskError(f"block: {name} has missing values; use df.mojo.view(na='mask') for its columns")
    data = kept.data if kept.data.ndim == 2 else kept.data[None, :]
    return make_block(
        view(_rows_of(data, snapshot, number, name)),
        values.dtype,
        snapshot.origin(snapshot.cell_of_block(number)),
        labels,
    )


def _rows_of(data: Any, snapshot: Any, number: int, name: ColumnName) -> Any:
    """The rows of the block that the snapshot's columns use, if a slice can name them."""
    where = getattr(snapshot, "where", None)
    if where is None:
        return data
    rows = sorted(row for at, row in where if at == number)
    if rows == list(range(data.shape[0])):
        return data
    step = rows[1] - rows[0] if len(rows) > 1 else 1
    if any(b - a != step for a, b in itertools.pairwise(rows)) or step == 0:
        raise ZeroCopyError(
            f"block: the {name} holds the selected columns at rows {rows}, which no slice reaches; select them with a "
            "step, "
            "or take df.mojo.block() of the whole frame"
        )
    return data[rows[0] : rows[-1] + 1 : step]


def _short(labels: list[Any]) -> str:
    shown = ", ".join(map(repr, labels[:4]))
    return f"{shown}, … ({len(labels)} in all)" if len(labels) > 4 else shown


# -- labels ------------------------------------------------------------------------------------------------------------


def position_of(columns: pd.Index, label: Any) -> int:
    """The position of the one column of a label."""
    found = find(columns, label)
    if len(found) != 1:
        raise ColumnError(
            f"column {label!r} names {len(found)} columns, at positions {_short(found)}; use iview(position)"
        )
    return found[0]


def positions_of(columns: pd.Index, labels: Any) -> list[int]:
    """The positions of a list of labels, in its order; a label of several columns stands for all, as in pandas."""
    return [position for label in labels for position in find(columns, label)]


def find(columns: pd.Index, label: Any) -> list[int]:
    try:
        found = columns.get_loc(label)
    except (KeyError, TypeError, pd.errors.InvalidIndexError):
        raise ColumnError(f"column {label!r}: expected one of {_short(list(columns))}") from None
    if isinstance(found, slice):
        return list(range(len(columns)))[found]
    if isinstance(found, np.ndarray):
        return [int(i) for i in np.flatnonzero(found)]
    return [int(found)]


def normalize(position: Any, count: int) -> int:
    """A position from 0 to count - 1, from one that may count from the end."""
    if not hasattr(position, "__index__") or isinstance(position, bool | np.bool_):
        raise ArgumentError(f"iview: expected an integer position, got {type(position).__name__}")
    at = int(position.__index__())
    if not -count <= at < count:
        raise IndexingError(f"iview({at}): position out of range, the frame has {count} columns")
    return at + count if at < 0 else at
