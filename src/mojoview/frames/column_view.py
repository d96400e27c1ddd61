"""ColumnView: a `View` of one column that also knows its pandas dtype and whether it is current."""

from __future__ import annotations

from html import escape
from typing import Any

from mojoview.frames.arrow_columns import reopen
from mojoview.frames.pins import Pin
from mojoview.memory.errors import DTypeError
from mojoview.memory.extension_points import COLUMN_ARRAY, resolve
from mojoview.views import View
from mojoview.views import repr as view_repr
from mojoview.views._construct import rebind

__all__ = ["ColumnView", "PandasView", "make_column", "open_column"]


class PandasView(View):
    """The common part of column and block views.

    Thread safety: as `mojoview.View`; taking a view while another thread writes to the same frame is undefined, as any
    read is in pandas.
    """

    __slots__ = ("_logical", "_pin")

    _logical: Any
    _pin: Pin | None

    @property
    def logical_dtype(self) -> Any:
        """pandas' dtype of the column: what the numbers of `dtype` stand for (time zone, categories, period, …)."""
        self.dtype  # noqa: B018  raises ReleasedError
        return self._logical

    @property
    def frozen(self) -> bool:
        """True if writes through pandas cannot reach this memory.

        True under Copy-on-Write (always in pandas 3): pandas copies the block first, and the view keeps the old values.
        True for a copy. False for a lease and, with Copy-on-Write off, always. Writes to a NumPy array that pandas was
        given with ``copy=False``, or to `Series.array`, bypass pandas and are not prevented.
        """
        self.dtype  # noqa: B018
        return True if self._pin is None else bool(self._pin.frozen)

    @property
    def stale(self) -> bool:
        """True if the frame uses other memory by now; False if the column is still stored in this memory.

        pandas moves whole blocks, so a write to another column of the same block also makes a view stale. A copy is
        stale from the beginning. A view that outlives its frame is not stale: nothing newer exists.
        """
        self.dtype  # noqa: B018
        return True if self._pin is None else bool(self._pin.stale)

    def release(self) -> None:
        """Release the memory and its pin; see `View.release`."""
        super().release()
        self._pin = None

    # -- comparisons: of the numbers, if they are what the column means ------------------------------------------------

    def __eq__(self, other: object) -> Any:
        return self._compare("__eq__", other)

    def __ne__(self, other: object) -> Any:
        return self._compare("__ne__", other)

    def __lt__(self, other: Any) -> Any:
        return self._compare("__lt__", other)

    def __le__(self, other: Any) -> Any:
        return self._compare("__le__", other)

    def __gt__(self, other: Any) -> Any:
        return self._compare("__gt__", other)

    def __ge__(self, other: Any) -> Any:
        return self._compare("__ge__", other)

    __hash__ = None  # type: ignore[assignment]

    def __contains__(self, value: object) -> bool:
        self._check_numbers()
        return any(item == value for item in self)

    def _compare(self, operation: str, other: Any) -> Any:
        for side in (self, other):
            if isinstance(side, PandasView):
                side._check_numbers()
        return getattr(super(), operation)(other)

    def _check_numbers(self) -> None:
        if self.stands_for_more:
            raise DTypeError(
                f"comparing a column of dtype {self.logical_dtype}: its view holds {self.dtype}, which are not the "
                "values that they stand for; compare to_series(), or np.asarray(view) for the numbers themselves"
            )

    @property
    def stands_for_more(self) -> bool:
        """True if `dtype` does not say what the items are: codes, ordinals, instants of a time zone."""
        logical = self.logical_dtype
        plain = getattr(logical, "numpy_dtype", getattr(logical, "subtype", logical))  # of masked and sparse columns
        return bool(plain != self.dtype or self.arrow_format is not None)

    def __repr__(self) -> str:
        text = view_repr.text(self)
        return text if self.closed else f"{text[:-1]}, {'; '.join(self._pandas_facts())}>"

    def _repr_html_(self) -> str:
        html = view_repr.html(self)
        if self.closed:
            return html
        facts = escape("; ".join(self._pandas_facts()))
        return html.replace("</table>", f"</table><div style='opacity:.7'>{facts}</div>")

    def _pandas_facts(self) -> list[str]:
        facts = [f"pandas dtype {self.logical_dtype}"] if self.logical_dtype != self.dtype else []
        return [
            *facts,
            "frozen" if self.frozen else "live (pandas can write to it)",
            *(["stale"] if self.stale else []),
        ]


class ColumnView(PandasView):
    """A view of one column, made by `df.mojo.view("x")`, `series.mojo.view()` or `index.mojo.view()`.

    Has the attributes of `mojoview.View` and these.

    Attributes
    ----------
    logical_dtype : dtype
    stands_for_more : bool
    frozen, stale : bool
    offset : int
        Always 0: the view begins at the column's first element, also for a slice of an Arrow array.
    chunks : tuple of View
        The view itself. A column of several chunks is a `ChunkedView`, which has this attribute too.

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

    # -- Arrow: with the type that the column has in `FrameView.to_arrow()` --------------------------------------------

    def __arrow_c_schema__(self) -> Any:
        return resolve(COLUMN_ARRAY)(self)[0] if self.stands_for_more else super().__arrow_c_schema__()

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        if self.stands_for_more:
            return resolve(COLUMN_ARRAY)(self)  # type: ignore[no-any-return]
        return super().__arrow_c_array__(requested_schema)

    def __arrow_c_device_array__(self, requested_schema: Any = None, **kwargs: Any) -> tuple[Any, Any]:
        if self.stands_for_more:
            return resolve(COLUMN_ARRAY)(self, kwargs)  # type: ignore[no-any-return]
        return super().__arrow_c_device_array__(requested_schema, **kwargs)


def make_column(source: View, logical: Any, pin: Pin | None) -> ColumnView:
    """Make a ColumnView of the source's memory; `pin` is None for a copy."""
    made = ColumnView.__new__(ColumnView)
    made._logical, made._pin = logical, pin
    rebind(made, source, pin)
    return made


def open_column(source: Any, logical: Any, pin: Pin | None) -> Any:
    """Make a ColumnView of a `View`; an Arrow view is opened again, so that the caller can release it."""
    return make_column(source, logical, pin) if isinstance(source, View) else reopen(source)
