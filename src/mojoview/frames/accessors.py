"""The accessors `df.mojo`, `series.mojo`, `index.mojo` and `array.mojo`: stateless, with the public documentation."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import pandas as pd

from mojoview.frames.block_view import BlockView, block_views, single_block
from mojoview.frames.column_data import Copy, Layout, Missing, check_options
from mojoview.frames.column_view import ColumnView
from mojoview.frames.exports.describe import describe
from mojoview.frames.exports.explain import index_info, object_info, table
from mojoview.frames.exports.repr import accessor_html, accessor_text
from mojoview.frames.frame_view import FrameView, column_view, frame_view
from mojoview.frames.index_view import index_view
from mojoview.frames.labels import normalize_position, position_of, select
from mojoview.frames.pins import pin_frame
from mojoview.frames.writing import assign, lease, require_copy_on_write

if TYPE_CHECKING:
    from mojoview.frames.shared.shared_frame import SharedFrame

NEVER: Copy = "never"
ERROR: Missing = "error"
ANY: Layout = "any"

__all__ = ["ArrayAccessor", "FrameAccessor", "IndexAccessor", "SeriesAccessor"]


class FrameAccessor:
    """Zero-copy views of a DataFrame's columns, as ``df.mojo``.

    `view`, `iview` and `block` read, and never copy unless asked. `lease` writes in place, `assign` makes finished
    memory a column. `explain` shows how each column is stored.

    Thread safety: any thread may take views of a frame that no thread is writing to.

    Examples
    --------
    >>> import numpy as np, pandas as pd, mojoview
    >>> df = pd.DataFrame({"x": np.arange(3.0), "y": np.ones(3)})
    >>> np.asarray(df.mojo.view("x"))
    array([0., 1., 2.])
    """

    __slots__ = ("_obj",)

    def __init__(self, obj: pd.DataFrame) -> None:
        self._obj = obj

    def view(self, columns: Any = None, *, copy: Copy = NEVER, na: Missing = ERROR, layout: Layout = ANY) -> Any:
        """Return views of the columns: all, some, or one.

        Parameters
        ----------
        columns : label or list of labels, optional
            A list (also an Index or array) of labels gives a FrameView of them, a single label a ColumnView. All
            columns by default.
        copy : {"never", "if_needed", "always"}
            "never" raises if a column's memory cannot be shared as it is; "if_needed" copies only such columns;
            "always" copies all.
        na : {"error", "mask", "ignore"}
            Missing values of masked, categorical, period and Arrow columns: raise, carry the mask, or return the values
            alone (arbitrary under the mask; categories have the code -1, periods the smallest int64). The mask of a
            masked column is pandas' own bytes (True = missing), that of an Arrow column its validity bitmap; that of
            categories and periods is computed, since pandas stores none. NaN and NaT are ordinary values of float and
            datetime columns.
        layout : {"any", "contiguous", "f", "c"}
            "contiguous" and "f" require each column to be contiguous, "c" the rows of each block. A single contiguous
            column has all of these layouts.

        Returns
        -------
        FrameView, ColumnView, ArrowView or ChunkedView
            Borrows the memory, read-only, and pins it: under Copy-on-Write pandas copies a block before it writes to
            it, so the view keeps the old values. datetime and timedelta columns keep their dtype, time zones are in
            `logical_dtype`; periods are int64 ordinals, categories their codes. A column of intervals or of sparse
            values consists of two arrays: selected alone, it gives a FrameView of "left" and "right", or of "indices"
            and "values". An Arrow column is a ColumnView if its items are plain bytes, else the view of
            `mojoview.views.arrow.arrays` that `explain` names (strings, booleans, lists, ...); several chunks are a
            `ChunkedView`. A copy joins the chunks and stores booleans as bytes.

        Raises
        ------
        ZeroCopyError
            A column is big-endian, unaligned, long double, or does not have the requested layout. The message names
            the column, its dtype, the reason and the remedy.
        DTypeError
            A column holds references (object, Python strings) or no fixed-size numbers.
        MaskError
            ``na="error"`` and a column has missing values.
        ColumnError, ArgumentError
            A label matches no column, or a single label matches several; an option is not one of those listed.
        SharedError
            A column's block is leased for writing.

        Notes
        -----
        Thread safety: any thread, while no thread writes to the frame.

        Examples
        --------
        >>> import pandas as pd, mojoview
        >>> df = pd.DataFrame({"n": pd.array([1, None, 3], dtype="Int64")})
        >>> v = df.mojo.view("n", na="mask")
        >>> int(v.data[0]), bool(v.mask[1])
        (1, True)
        """
        df = self._obj
        if columns is None:
            if not (copy is NEVER and na is ERROR and layout is ANY):  # the defaults are valid
                check_options(copy, na, layout)
            return frame_view(df, None, copy, na, layout)
        check_options(copy, na, layout)
        positions = select(df.columns, columns)
        if isinstance(positions, int):
            return column_view(df, positions, copy, na, layout)
        return frame_view(df, positions, copy, na, layout)

    def iview(self, pos: int, *, copy: Copy = "never", na: Missing = "error", layout: Layout = "any") -> Any:
        """Return a view of the column at a position, for labels that repeat or are unknown.

        Parameters
        ----------
        pos : int
            Counted from 0 or, if negative, from the end.
        copy, na, layout
            As for `view`.

        Returns
        -------
        ColumnView
            As from ``view(label)``.

        Raises
        ------
        IndexingError
            The frame has no such position; otherwise as `view`.

        Notes
        -----
        Thread safety: as `view`.

        Examples
        --------
        >>> import pandas as pd, mojoview
        >>> df = pd.DataFrame([[1.0, 2.0]], columns=["x", "x"])
        >>> float(df.mojo.iview(-1)[0])
        2.0
        """
        check_options(copy, na, layout)
        return column_view(self._obj, normalize_position(pos, self._obj.shape[1]), copy, na, layout)

    def block(self, dtype: Any = None) -> BlockView:
        """Return the block that holds all columns of a dtype, as a two-dimensional view.

        Parameters
        ----------
        dtype : dtype-like, optional
            Not needed if the frame has one block.

        Returns
        -------
        BlockView
            Borrows and pins the memory; shape (columns, rows) with the labels in `.columns`; `.T` is (rows, columns).

        Raises
        ------
        ZeroCopyError
            Not exactly one block has the dtype; the message lists the blocks. The frame is never consolidated.
        MaskError, DTypeError
            The block has missing values, or does not hold numbers.

        Notes
        -----
        Thread safety: as `view`.

        Examples
        --------
        >>> import pandas as pd, mojoview
        >>> df = pd.DataFrame({"x": [1.0, 2.0], "n": [3, 4], "y": [5.0, 6.0]})
        >>> b = df.mojo.block("float64")
        >>> (b.shape, list(b.columns))
        ((2, 2), ['x', 'y'])
        """
        return single_block(pin_frame(self._obj), self._obj.columns, dtype)

    def blocks(self) -> tuple[BlockView, ...]:
        """Return every block of the frame, as two-dimensional views.

        Returns
        -------
        tuple of BlockView
            In pandas' order, each of shape (columns, rows). They borrow and pin the memory. Extension columns are
            blocks of one row.

        Raises
        ------
        ZeroCopyError, MaskError, DTypeError
            A block cannot be shared, has missing values, or does not hold numbers.

        Notes
        -----
        Thread safety: as `view`.

        Examples
        --------
        >>> import pandas as pd, mojoview
        >>> [(b.shape, list(b.columns)) for b in pd.DataFrame({"x": [1.0], "n": [3], "y": [5.0]}).mojo.blocks()]
        [((2, 1), ['x', 'y']), ((1, 1), ['n'])]
        """
        return block_views(pin_frame(self._obj), self._obj.columns)

    def explain(self) -> pd.DataFrame:
        """Tabulate how each column is stored, and why it can or cannot be shared.

        Returns
        -------
        DataFrame
            One row per column: `column, dtype, kind` (class of its view), `block, address` (for an Arrow column, of the
            first buffer after the validity), `strides` (bytes), `contiguous, aligned, readonly`,
            `shared` (pandas knows another user of the block), `zero_copy` (a view needs no copy), `reason`. Owned by
            the caller.

        Notes
        -----
        Thread safety: as `view`. Nothing is pinned.

        Examples
        --------
        >>> import pandas as pd, mojoview
        >>> df = pd.DataFrame({"x": [1.0], "thing": [object()]})
        >>> df.mojo.explain()["zero_copy"].tolist()
        [True, False]
        """
        return table(object_info(self._obj))

    def describe(self, columns: Any = None, *, threads: int | None = None) -> pd.DataFrame:
        """Compute count, mean, spread and extremes of the columns, in one native pass over pandas' own memory.

        Parameters
        ----------
        columns : list of labels, optional
            By default every column of bool, numbers, datetimes or timedeltas whose memory can be shared; see
            `explain`.
        threads : int, optional
            Maximum number of threads; the result is bitwise the same for any number.

        Returns
        -------
        DataFrame
            One row per column, in order: `count, mean, std` (ddof 1), `min, max` (exact, also for 64-bit integers),
            `argmin, argmax` (positions, -1 if there is no element). Masked elements, NaN and NaT are skipped. Owned
            by the caller.

        Raises
        ------
        ColumnError, ZeroCopyError, DTypeError
            A column selected by label does not exist, cannot be shared, or has no statistics.

        Notes
        -----
        Method: `mojoview.compute.descriptions`. Thread safety: as `view`; releases the GIL for large frames.

        Examples
        --------
        >>> import pandas as pd, mojoview
        >>> df = pd.DataFrame({"x": [1.0, 2.0, float("nan")], "n": [3, 5, 4]})
        >>> df.mojo.describe()[["count", "mean", "argmax"]].values.tolist()
        [[2.0, 1.5, 1.0], [3.0, 4.0, 1.0]]
        """
        df = self._obj
        if columns is None:
            return describe(df, None, threads)
        positions = select(df.columns, columns)
        return describe(df, [positions] if isinstance(positions, int) else positions, threads)

    def lease(self, column: Any, *, detach: bool = False) -> AbstractContextManager[ColumnView]:
        """Open one column for writing in place, for the duration of a ``with`` block.

        Parameters
        ----------
        column : label
            Of exactly one column, of plain numbers, datetimes, periods, or a masked dtype without missing values.
        detach : bool
            If the block is shared, copy the column out of it first. The rest of the old block stays allocated.

        Returns
        -------
        context manager giving a ColumnView
            Borrows the column's own memory, writable; released at the end of the block.

        Raises
        ------
        FrameError
            Copy-on-Write is off (pandas 2 by default): pandas then does not track who shares the memory.
        SharedError
            Other pandas objects or views share the block at the beginning or at the end, or the column is already
            leased.
        ReadOnlyError, ZeroCopyError, DTypeError, MaskError
            The memory is read-only or cannot be shared; the column holds categories, whose codes pandas manages, or
            missing values.
        StaleError, ExportedError
            At the end: pandas replaced the column during the lease; an array or slice of the view is still alive.

        Notes
        -----
        Thread safety: the check is best effort. While the lease is open no other thread may use the frame through
        pandas. Users that pandas does not track are not noticed: arrays from `Series.array`, arrays given with
        ``copy=False``, Arrow exports.

        Examples
        --------
        >>> import pandas as pd, mojoview
        >>> pd.options.mode.copy_on_write = True  # doctest: +SKIP
        >>> df = pd.DataFrame({"x": [1.0, 2.0]})
        >>> with df.mojo.lease("x") as x:  # doctest: +SKIP
        ...     x[0] = 9.0
        """
        require_copy_on_write("lease")
        return lease(self._obj, position_of(self._obj.columns, column), f"column {column!r}", bool(detach))

    def assign(self, column: Any, out: Any) -> None:
        """Make finished memory a column of the frame, without a copy.

        Parameters
        ----------
        column : label
            An existing column of any dtype is replaced; a new label becomes the last column.
        out : View or ndarray, shape (rows,)
            Writable memory that is not a column yet. A View is released: the frame then owns the memory. The caller of
            an ndarray keeps it, and must not write to it afterwards. Strides are kept.

        Returns
        -------
        None
            The frame holds the memory. With Copy-on-Write off (pandas 2 by default) pandas itself copies it once.

        Raises
        ------
        ShapeError, DTypeError, ZeroCopyError
            Not one value for each row; a dtype that a column cannot have without a copy.
        ReadOnlyError, MaskError, OverlapError
            The memory is read-only, masked, or already a column of this frame.
        ExportedError
            A consumer still uses the View. The frame is unchanged.
        ColumnError, ArgumentError
            The label names several columns; `out` is neither a View nor an ndarray.

        Notes
        -----
        Thread safety: none; this writes to the frame.

        Examples
        --------
        >>> import numpy as np, pandas as pd, mojoview as mv
        >>> df = pd.DataFrame({"x": [1.0, 2.0]})
        >>> out = mv.view(np.empty(2), writable=True)
        >>> out[:] = [3.0, 4.0]
        >>> df.mojo.assign("y", out)
        >>> (df["y"].tolist(), out.closed)
        ([3.0, 4.0], True)
        """
        assign(self._obj, column, out)

    def share(
        self,
        name: str | None = None,
        *,
        capacity: int | None = None,
        slots: int = 3,
        prefault: bool = False,
        reclaim: bool = False,
        mode: int = 0o600,
    ) -> SharedFrame:
        """Publish the frame to other processes as version 1 of a shared frame; `mojoview.attach(name)` reads it.

        Parameters
        ----------
        name : str, optional
            By default anonymous memory, which is passed on by pickling.
        capacity : int, optional
            Maximum bytes of a version; by default a quarter more than this one takes.
        slots : int
            Number of versions in memory: one being read, the newest, one being written.
        prefault : bool
            Whether to allocate all pages now.
        reclaim : bool
            Whether to replace the name left by a dead process.
        mode : int
            Permissions of the name.

        Returns
        -------
        SharedFrame
            A context manager; owns the name until `close()`.

        Raises
        ------
        ZeroCopyError
            A column cannot be shared; the message names it, its dtype and the remedy.
        SegmentExists, ShmFullError

        Notes
        -----
        Thread safety: any thread.

        Examples
        --------
        >>> import pandas as pd, mojoview as mv
        >>> df = pd.DataFrame({"x": [1.0, 2.0]})
        >>> with df.mojo.share("docs-share"):
        ...     mv.attach("docs-share").read()["x"].sum()
        np.float64(3.0)
        """
        from mojoview.frames.shared.shared_frame import share_frame

        return share_frame(
            self._obj, name, capacity=capacity, slots=slots, prefault=prefault, reclaim=reclaim, mode=mode
        )

    def __repr__(self) -> str:
        return accessor_text(self._obj)

    def _repr_html_(self) -> str:
        return accessor_html(self._obj)


class SeriesAccessor:
    """A zero-copy view of a Series, as ``series.mojo``.

    A column taken out of a frame (``df["x"]``) shares the frame's memory; ``df.mojo.view("x")`` gives the same view in
    a tenth of the time.

    Examples
    --------
    >>> import pandas as pd, mojoview
    >>> pd.Series([1.5, 2.5]).mojo.view().shape
    (2,)
    """

    __slots__ = ("_obj",)

    def __init__(self, obj: pd.Series) -> None:
        self._obj = obj

    def view(self, *, copy: Copy = "never", na: Missing = "error", layout: Layout = "any") -> Any:
        """Return a view of the values; parameters, result and errors as for `df.mojo.view` with one label.

        Examples
        --------
        >>> import pandas as pd, mojoview
        >>> str(pd.Series([1, 2], dtype="int16").mojo.view().dtype)
        'int16'
        """
        check_options(copy, na, layout)
        return column_view(self._obj, 0, copy, na, layout)

    def explain(self) -> pd.DataFrame:
        """Tabulate how the values are stored, as one row of `df.mojo.explain`."""
        return table(object_info(self._obj))

    def lease(self) -> AbstractContextManager[ColumnView]:
        """Open the Series for writing in place, as `df.mojo.lease`.

        Raises
        ------
        SharedError
            A frame or another Series shares the memory; that of ``series.copy()`` is not shared.
        """
        require_copy_on_write("lease")
        return lease(self._obj, 0, f"Series {self._obj.name!r}", False)

    def __repr__(self) -> str:
        return accessor_text(self._obj)

    def _repr_html_(self) -> str:
        return accessor_html(self._obj)


class IndexAccessor:
    """A zero-copy view of an Index, as ``index.mojo``. Always read-only: an Index keeps a hash table of its values.

    Examples
    --------
    >>> import pandas as pd, mojoview
    >>> pd.Index([1.5, 2.5]).mojo.view().readonly
    True
    """

    __slots__ = ("_obj",)

    def __init__(self, obj: pd.Index) -> None:
        self._obj = obj

    def view(self, *, level: Any = None, copy: Copy = "never", na: Missing = "error", layout: Layout = "any") -> Any:
        """Return a view of the labels; parameters and errors as for `df.mojo.view` with one label.

        Parameters
        ----------
        level : int or label, optional
            For a MultiIndex, whose labels are tuples: the level whose codes are viewed. They are positions in
            ``index.levels[level]``; -1 stands for a missing label, as for categories.

        Returns
        -------
        ColumnView, ArrowView or ChunkedView
            Borrows the memory and keeps the Index alive, whose memory pandas never writes to. Never stale.

        Raises
        ------
        ZeroCopyError
            A RangeIndex has no memory (``copy="if_needed"`` makes some); a MultiIndex is viewed level by level.
        ArgumentError
            The Index has no such level, or no levels.

        Examples
        --------
        >>> import numpy as np, pandas as pd, mojoview
        >>> pd.date_range("2024-01-01", periods=3).mojo.view().shape
        (3,)
        >>> index = pd.MultiIndex.from_product([["a", "b"], [10, 20]])
        >>> np.asarray(index.mojo.view(level=1))
        array([0, 1, 0, 1], dtype=int8)
        """
        check_options(copy, na, layout)
        return index_view(self._obj, level, copy, na, layout)

    def explain(self) -> pd.DataFrame:
        """Tabulate how the labels are stored, as `df.mojo.explain`; one row for each level of a MultiIndex.

        Examples
        --------
        >>> import pandas as pd, mojoview
        >>> pd.RangeIndex(3).mojo.explain()["reason"][0]
        "its labels are computed, there is no memory; use copy='if_needed', or start, stop and step themselves"
        """
        return table(index_info(self._obj))

    def __repr__(self) -> str:
        return f"<mojo accessor of {type(self._obj).__name__}, dtype {self._obj.dtype}: view() for its memory>"


class ArrayAccessor:
    """A zero-copy view of one of pandas' extension arrays (``pd.array(...)``, ``series.array``), as ``array.mojo``.

    Examples
    --------
    >>> import pandas as pd, mojoview
    >>> pd.array([1, None, 3], dtype="Int64").mojo.view(na="mask").data.shape
    (3,)
    """

    __slots__ = ("_obj",)

    def __init__(self, obj: Any) -> None:
        self._obj = obj

    def view(self, *, copy: Copy = "never", na: Missing = "error", layout: Layout = "any") -> ColumnView | FrameView:
        """Return a view of the values; parameters, result and errors as for `df.mojo.view` with one label.

        pandas does not track writes to an array that it did not make itself: they are seen in the view.
        """
        check_options(copy, na, layout)
        return column_view(pd.Series(self._obj, copy=False), 0, copy, na, layout)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"<mojo accessor of {type(self._obj).__name__}, dtype {self._obj.dtype}: view() for its memory>"
