"""ColumnView and BlockView: a `View` that also knows what its numbers stand for and whether they are current."""

from __future__ import annotations

from typing import Any

import pandas as pd

from mojoview.frames.arrow_columns import again
from mojoview.views import View
from mojoview.views._construct import adopt

__all__ = ["BlockView", "ColumnView", "PandasView", "column_of", "make_block", "make_column"]


class PandasView(View):
    """What column and block views share; not made by hand.

    Thread safety: as `mojoview.View`; taking a view while another thread writes to the same frame is as undefined as in
    pandas.
    """

    __slots__ = ("_logical", "_origin")

    _logical: Any
    _origin: Any

    @property
    def logical_dtype(self) -> Any:
        """pandas' dtype of the column: what the numbers of `dtype` stand for (time zone, categories, period, …)."""
        self.dtype  # noqa: B018  raises ReleasedError
        return self._logical

    @property
    def frozen(self) -> bool:
        """Whether writes through pandas cannot reach this memory.

        True under Copy-on-Write (always in pandas 3): pandas copies the block first, and the view keeps the old values.
        True for a copy. False for a lease and, with Copy-on-Write off, always. Nobody can freeze memory against a NumPy
        array that pandas was given with ``copy=False``, nor against writes to `Series.array`.
        """
        self.dtype  # noqa: B018
        return True if self._origin is None else bool(self._origin.frozen)

    @property
    def stale(self) -> bool:
        """Whether the frame has moved on: False means that the column still lives in this memory.

        pandas moves whole blocks, so that True may also come from a write to a neighbour in the same block. A copy is
        stale from the beginning. A view that outlived its frame is not: nothing newer exists.
        """
        self.dtype  # noqa: B018
        return True if self._origin is None else bool(self._origin.stale)

    def release(self) -> None:
        """Lets go of the memory and of its pin; see `View.release`."""
        super().release()
        self._origin = None

    def __repr__(self) -> str:
        from mojoview.frames.exports.repr import view_text

        return view_text(self)

    def _repr_html_(self) -> str:
        from mojoview.frames.exports.repr import view_html

        return view_html(self)


class ColumnView(PandasView):
    """A view of one column, made by `df.mojo.view("x")`, `series.mojo.view()` or `index.mojo.view()`.

    Has everything that `mojoview.View` has, and the following.

    Attributes
    ----------
    logical_dtype : dtype
    frozen, stale : bool
    offset : int
        0: the view begins where the column does, also in a slice of an Arrow array.
    chunks : tuple of View
        The view itself, in one piece. Columns of several pieces are a `ChunkedView`, which has this attribute as well.

    Examples
    --------
    >>> import pandas as pd, mojoview
    >>> df = pd.DataFrame({"when": pd.to_datetime(["2024-02-29"]).tz_localize("UTC")})
    >>> v = df.mojo.view("when")
    >>> (v.shape, v.dtype.kind, str(v.logical_dtype).startswith("datetime64["), v.stale)
    ((1,), 'M', True, False)
    """

    __slots__ = ()

    @property
    def offset(self) -> int:
        self.dtype  # noqa: B018
        return 0

    @property
    def chunks(self) -> tuple[View, ...]:
        self.dtype  # noqa: B018
        return (self,)


class BlockView(PandasView):
    """A view of a whole block, of shape (columns, rows), made by `df.mojo.block()`; its `.T` is (rows, columns).

    Attributes
    ----------
    columns : pandas.Index
        Labels of the columns, in the order of the block's rows.
    logical_dtype, frozen, stale
        As for `ColumnView`.
    """

    __slots__ = ("columns",)

    columns: pd.Index


def make_column(source: View, logical: Any, origin: Any) -> ColumnView:
    """`origin` pins the memory; None for a copy."""
    made = ColumnView.__new__(ColumnView)
    made._logical, made._origin = logical, origin
    adopt(made, source, origin)
    return made


def column_of(found: Any, logical: Any, origin: Any) -> Any:
    """A ColumnView where the items have their bytes in place; else the Arrow view as it is, a window of its own."""
    return make_column(found, logical, origin) if isinstance(found, View) else again(found)


def make_block(source: View, logical: Any, origin: Any, columns: pd.Index) -> BlockView:
    made = BlockView.__new__(BlockView)
    made._logical, made._origin, made.columns = logical, origin, columns
    adopt(made, source, origin)
    return made
