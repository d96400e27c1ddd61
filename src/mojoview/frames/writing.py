"""The two ways to write to a frame: `lease`, in place, and `assign`, which makes finished memory a column."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import ref

import numpy as np
import pandas as pd

from mojoview.frames.blocks import cow_enabled, exclusive, has_other_user, locate_block, uses
from mojoview.frames.column_data import read_column, view_error
from mojoview.frames.column_view import ColumnView, PandasView, make_column
from mojoview.frames.labels import find_positions, position_of
from mojoview.frames.pins import inspect_column
from mojoview.memory.errors import (
    ArgumentError,
    DTypeError,
    ExportedError,
    FrameError,
    MaskError,
    MojoViewError,
    OverlapError,
    ReadOnlyError,
    ShapeError,
    SharedError,
    StaleError,
)
from mojoview.views import View, view

__all__ = ["assign", "lease", "require_copy_on_write"]


def require_copy_on_write(what: str) -> None:
    """Raise FrameError if Copy-on-Write is off."""
    if not cow_enabled():
        raise FrameError(
            f"{what}: Copy-on-Write is off, so pandas does not track who shares a block; set "
            "pd.options.mode.copy_on_write = True (pandas 3 always has it), or publish finished memory with "
            "df.mojo.assign()"
        )


# -- in place ----------------------------------------------------------------------------------------------------------


class _LeasedBlock:
    """The pin of a leased column, which pins nothing: a real pin would make the memory shared."""

    __slots__ = ("_block", "_owner")

    frozen = False

    def __init__(self, owner: Any, block: Any) -> None:
        self._owner, self._block = owner, block

    @property
    def stale(self) -> bool:
        obj = self._owner()
        return obj is not None and not uses(obj, self._block)


@contextmanager
def lease(obj: Any, position: int, name: str, detach: bool) -> Iterator[ColumnView]:
    """Open one column for writing; see `df.mojo.lease`."""
    what = f"lease: {name}"
    if detach and inspect_column(obj, position)[2]:
        values = locate_block(obj, position)[1].copy()
        obj.isetitem(position, pd.Series(values, index=obj.index, copy=False))
        del values  # pandas counts the references to the block
    with exclusive(obj, position, what) as (block, values):
        window = _writable_window(values, what)
        # Datetimes are exported through __array_interface__, which ties the memory to the view itself: then nothing
        # shows whether it is in use.
        watched = ref(window) if window.dtype.kind not in "mM" else None
        leased = make_column(view(window, writable=True), values.dtype, _LeasedBlock(ref(obj), block))
        del window, values
        try:
            yield leased
        except BaseException as error:
            for problem in _end(leased, watched, obj, block, what):
                error.add_note(str(problem))
            raise
        problems = list(_end(leased, watched, obj, block, what))
        if problems:
            try:
                raise problems[0]
            finally:
                del problems  # else traceback and call frame are a cycle, which keeps the memory until a collection


def _writable_window(values: Any, what: str) -> np.ndarray[Any, Any]:
    data = read_column(values)
    if data.reason:
        raise view_error(data, f"{what} of dtype {values.dtype}")
    if data.arrow is not None:
        raise ReadOnlyError(
            f"{what} of dtype {values.dtype}: Arrow's memory is immutable; publish finished memory with "
            "df.mojo.assign(), or convert the column with astype() to a NumPy dtype"
        )
    if isinstance(values, pd.Categorical):
        raise DTypeError(
            f"{what}: expected numbers, got the codes of {values.dtype}, and a code without its category breaks "
            "pandas; compute codes apart and assign pd.Categorical.from_codes(codes, dtype=...)"
        )
    if missing := data.missing():
        raise MaskError(f"{what}: expected no missing values, got {missing}; fill them first")
    assert data.values is not None
    if not data.values.flags.writeable:
        raise ReadOnlyError(
            f"{what}: its memory is read-only (Arrow, a mapped file or a read-only array); use detach=True on a copy "
            "of the frame, or publish finished memory with df.mojo.assign()"
        )
    return data.values.view()


def _end(leased: ColumnView, watched: Any, obj: Any, block: Any, what: str) -> Iterator[MojoViewError]:
    """End the lease; yields an exception for each rule that was broken."""
    try:
        leased.release()
    except ExportedError as error:
        yield ExportedError(
            f"{what}: the lease ended, but arrays made from it can still write to the column; drop them inside the "
            f"with block ({error})"
        )
    else:
        if watched is not None and watched() is not None:
            yield ExportedError(
                f"{what}: the lease ended, but a slice of the view can still write to the column; drop it inside the "
                "with block"
            )
    if not uses(obj, block):
        yield StaleError(f"{what}: pandas moved the column while it was leased; what was written is lost to the frame")
    elif has_other_user(block):
        yield SharedError(
            f"{what}: another pandas object came to share the memory while it was leased, and saw the writes; take "
            "copies before the lease"
        )


# -- publishing finished memory ----------------------------------------------------------------------------------------


class _ViewOwner:
    """An exporter of a view's memory that keeps the view, and thereby the memory, alive."""

    def __init__(self, source: View) -> None:
        self.__array_interface__ = source.__array_interface__
        self.source = source


def assign(df: pd.DataFrame, column: Any, out: Any) -> None:
    """Make finished memory a column; see `df.mojo.assign`."""
    what = f"assign: column {column!r}"
    try:
        found = find_positions(df.columns, column) if column in df.columns else []
    except TypeError:
        raise ArgumentError(f"assign: expected a hashable label, got {type(column).__name__}") from None
    if len(found) > 1:
        position_of(df.columns, column)  # raises
    if isinstance(out, View):
        array = _array_of_view(df, out, what)
    else:
        if not isinstance(out, np.ndarray):
            raise ArgumentError(f"{what}: expected a View or an ndarray, got {type(out).__name__}")
        if isinstance(out, np.ma.MaskedArray):
            raise MaskError(
                f"{what}: a masked array would lose its mask; publish its data, or use pandas' masked arrays"
            )
        array = np.asarray(out)
        _check_publishable(df, array, what)
    series = pd.Series(array, index=df.index, copy=False)
    if found:
        df.isetitem(found[0], series)  # type: ignore[arg-type]  # pandas aligns on the index, which is the frame's
    else:
        df[column] = series


def _array_of_view(df: pd.DataFrame, out: View, what: str) -> np.ndarray[Any, Any]:
    if isinstance(out, PandasView):
        raise OverlapError(f"{what}: the view shows memory that pandas has already; copy it with np.array(view)")
    if out.readonly:
        raise ReadOnlyError(
            f"{what}: expected a writable view, whose memory the frame can take over, got a read-only one; "
            "use np.array(view), or view(obj, writable=True)"
        )
    if out.mask is not None:
        raise MaskError(f"{what}: a NumPy column has no mask; publish view.data, or use pandas' masked arrays")
    array = np.asarray(_ViewOwner(out))
    _check_publishable(df, array, what)
    out.release()
    return array


def _check_publishable(df: pd.DataFrame, array: np.ndarray[Any, Any], what: str) -> None:
    if array.ndim != 1 or array.shape[0] != len(df.index):
        raise ShapeError(f"{what}: expected shape ({len(df.index)},), got {array.shape}")
    data = read_column(array)
    if data.reason:
        raise data.error(f"{what}: {array.dtype} cannot be published: {data.reason}; {data.remedy}")
    if array.dtype.kind in "mM" and np.datetime_data(array.dtype) not in (("s", 1), ("ms", 1), ("us", 1), ("ns", 1)):
        raise DTypeError(f"{what}: expected a datetime unit that pandas has (s, ms, us, ns), got {array.dtype}")
    if not array.flags.writeable:
        raise ReadOnlyError(
            f"{what}: expected writable memory, which the frame can take over, got a read-only array; use its .copy()"
        )
    for position in range(df.shape[1]):
        values = read_column(inspect_column(df, position)[1]).values
        if values is not None and np.may_share_memory(values, array):
            raise OverlapError(f"{what}: the memory is already that of column {df.columns[position]!r}; use a copy")
