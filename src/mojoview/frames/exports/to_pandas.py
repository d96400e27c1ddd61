"""Conversion to pandas: Series and DataFrames over the memory of views.

The arrays are read-only, and the view behind each is registered as a user of its block: under Copy-on-Write pandas then
copies before it writes, instead of failing on read-only memory. With Copy-on-Write off it fails with ValueError, or for
some extension dtypes with an AssertionError.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from mojoview.frames.blocks import pin_new, zoned_array
from mojoview.frames.column_data import read_column
from mojoview.frames.column_view import PandasView
from mojoview.frames.frame_columns import FrameColumns
from mojoview.frames.pins import inspect_column
from mojoview.memory.errors import ArgumentError, DTypeError, FrameError, MaskError, ShapeError, ZeroCopyError
from mojoview.views import View, view
from mojoview.views.arrow.arrays import ArrowView
from mojoview.views.arrow.chunked import ChunkedView

__all__ = ["frame_of", "to_dataframe", "to_frame", "to_series"]


def to_series(view: Any, *, index: Any = None, name: Any = None) -> pd.Series:
    """Make a Series over the memory of a view.

    Parameters
    ----------
    view : View, ArrowView or ChunkedView
        One-dimensional. A ColumnView gets its own dtype back (time zone, categories, period, masked, Arrow); a byte
        mask gives pandas' masked dtypes, Arrow views an ArrowDtype.
    index : Index, optional
    name : label, optional

    Returns
    -------
    Series
        Borrows the memory and keeps it alive. Under Copy-on-Write pandas copies it before it writes; with Copy-on-Write
        off it fails, since the memory is read-only. A masked column whose view carries no mask gets a new one.

    Raises
    ------
    ArgumentError, ShapeError
        Not a view; not one dimension, or not one value for each row of the index.
    DTypeError, MaskError, ZeroCopyError
        pandas has no dtype for the items, or no masked one, or copies them.
    FrameError
        Arrow's types need pyarrow.

    Notes
    -----
    Thread safety: any thread. Holders of a writable view of the memory can still write to it.

    Examples
    --------
    >>> import numpy as np, mojoview as mv
    >>> from mojoview.frames import to_series
    >>> a = np.arange(3.0)
    >>> np.shares_memory(to_series(mv.view(a)).to_numpy(), a)
    True
    """
    array = _array_of(view, "to_series")
    if index is not None and len(index) != len(array):
        raise ShapeError(f"to_series: expected {len(index)} values for the index, got {len(array)}")
    series = pd.Series(array, index=index, name=name, copy=False)
    pin_new(series, [_keepers(array)])
    _check(series, array, "to_series")
    return series


def to_frame(views: Mapping[Any, Any], *, index: Any = None) -> pd.DataFrame:
    """Make a DataFrame over the memory of views: `to_series` for each column.

    Parameters
    ----------
    views : mapping of label to View, ArrowView or ChunkedView
        Also a FrameView, whose own `to_pandas()` keeps the index and repeated labels.
    index : Index, optional

    Returns
    -------
    DataFrame
        Borrows the memory, one block a column; as `to_series`.

    Raises
    ------
    ArgumentError
        Not a mapping.
    ShapeError
        Columns, or columns and index, differ in length; otherwise as `to_series`.

    Examples
    --------
    >>> import numpy as np, mojoview as mv
    >>> from mojoview.frames import to_frame
    >>> a = np.arange(3.0)
    >>> df = to_frame({"x": mv.view(a), "n": mv.view(np.arange(3))})
    >>> df.iloc[0, 0] = 9.0
    >>> (float(df.iloc[0, 0]), float(a[0]))
    (9.0, 0.0)
    """
    if not isinstance(views, Mapping | FrameColumns):
        raise ArgumentError(f"to_frame: expected a mapping of labels to views, got {type(views).__name__}")
    return _assemble(list(views.values()), pd.Index(list(views.keys()), tupleize_cols=False), index, "to_frame")


def frame_of(views: Sequence[Any], labels: Sequence[str], what: str) -> pd.DataFrame:
    """Make a DataFrame over the memory of views, whose labels may repeat; `what` begins the messages."""
    return _assemble(views, pd.Index(list(labels), dtype="str"), None, what)


def to_dataframe(frame: FrameColumns) -> pd.DataFrame:
    """Make a DataFrame over the memory of a frame view; see `FrameView.to_pandas`."""
    pins = frame._open()
    dtypes = [pins.column(position).values.dtype for position in range(len(frame.columns))]
    return _assemble(list(frame.values()), frame.columns, frame.index, "to_pandas", dtypes)


def _assemble(
    views: Sequence[Any], columns: pd.Index, index: Any, what: str, dtypes: Sequence[Any] | None = None
) -> pd.DataFrame:
    """Make the DataFrame; `dtypes` are pandas' own of each column, which an Arrow view does not know."""
    arrays = [
        _array_of(found, f"{what}: column {label!r}", dtype)
        for label, found, dtype in zip(columns, views, dtypes or [None] * len(views), strict=True)
    ]
    lengths = {len(array) for array in arrays} | ({len(index)} if index is not None else set())
    if len(lengths) > 1:
        raise ShapeError(f"{what}: expected columns and index of one length, got {sorted(lengths)}")
    made = pd.DataFrame(dict(enumerate(arrays)), index=index, copy=False)
    pin_new(made, [_keepers(array) for array in arrays])
    for position, array in enumerate(arrays):
        _check(made.iloc[:, position], array, f"{what}: column {columns[position]!r}")
    made.columns = columns
    return made


# -- one column --------------------------------------------------------------------------------------------------------


def _array_of(found: Any, what: str, dtype: Any = None) -> Any:
    """Return an ndarray or extension array over the view's memory."""
    if isinstance(found, ArrowView | ChunkedView):
        return _by_arrow(found, dtype)
    if not isinstance(found, View):
        raise ArgumentError(f"{what}: expected a View, ArrowView or ChunkedView, got {type(found).__name__}")
    if found.ndim != 1:
        raise ShapeError(f"{what}: expected one dimension, got {found.ndim}")
    logical = found.logical_dtype if isinstance(found, PandasView) else found.dtype
    if isinstance(logical, pd.ArrowDtype) or found.arrow_format is not None or found.validity is not None:
        return _by_arrow(found, logical)
    values = np.asarray(view(found.data))  # a view of its own: read-only, and never released
    if values.dtype.kind in "SVU":
        raise DTypeError(f"{what}: pandas stores items of {values.dtype} only as objects")
    if isinstance(logical, pd.CategoricalDtype):
        return pd.Categorical.from_codes(values, dtype=logical, validate=False)
    if hasattr(logical, "numpy_dtype"):
        return _masked(found, values, logical)
    if isinstance(logical, pd.DatetimeTZDtype):
        return zoned_array(values, logical)
    if isinstance(logical, pd.PeriodDtype):
        return pd.arrays.PeriodArray(values, dtype=logical)
    if found.masked:
        return _masked(found, values, _masked_dtype(values.dtype, what))
    return values  # also for the dense values of a sparse column and the codes of a level


def _masked(found: View, values: Any, dtype: Any) -> Any:
    mask = np.asarray(view(found.mask)) if found.mask is not None else np.zeros(len(values), bool)
    return dtype.construct_array_type()(values, mask)


def _masked_dtype(dtype: np.dtype[Any], what: str) -> Any:
    name = {"b": "boolean", "i": "Int", "u": "UInt", "f": "Float"}.get(dtype.kind)
    if name is None or dtype == np.float16:
        raise MaskError(f"{what}: pandas has no masked column of {dtype}; use view.data and view.mask")
    return pd.api.types.pandas_dtype(name if name == "boolean" else f"{name}{8 * dtype.itemsize}")


def _by_arrow(found: Any, logical: Any) -> Any:
    try:
        import pyarrow as pa
    except ImportError as error:
        raise FrameError("a column of an Arrow type needs pyarrow: pip install 'mojoview[arrow]'") from error
    if isinstance(found, ChunkedView):
        chunks = pa.chunked_array(found)
    elif isinstance(found, View) and found.dtype == np.bool_:  # bytes: the view is a copy of a bitmap
        chunks = pa.chunked_array([pa.array(found, type=pa.bool_())])
    else:
        chunks = pa.chunked_array([pa.array(found)])
    kind = logical.pyarrow_dtype if isinstance(logical, pd.ArrowDtype) else None
    if isinstance(kind, pa.BaseExtensionType) and chunks.type == kind.storage_type:
        chunks = pa.chunked_array([pa.ExtensionArray.from_storage(kind, chunk) for chunk in chunks.chunks], kind)
    dtype: Any = logical if isinstance(logical, pd.StringDtype) else pd.ArrowDtype(chunks.type)
    return dtype.__from_arrow__(chunks)


def _parts(array: Any) -> list[Any]:
    """Return the ndarrays under an array of views; none if Arrow holds it."""
    if isinstance(array, np.ndarray):
        return [array]
    if isinstance(array, pd.arrays.ArrowExtensionArray):
        return []
    data = read_column(array)
    return [part for part in (data.values, data.mask) if part is not None]


def _keepers(array: Any) -> list[Any]:
    """Return the views under the arrays: they live exactly as long as the arrays do."""
    found = []
    for part in _parts(array):
        base = part
        while isinstance(base, np.ndarray):
            base = base.base
        found.append(base.obj if isinstance(base, memoryview) else base)
    return [keeper for keeper in found if isinstance(keeper, View)]


def _check(series: pd.Series, array: Any, what: str) -> None:
    """Raise ZeroCopyError if pandas copied the array, as its address shows."""
    ours = _parts(array)
    if not ours or not len(array):
        return
    theirs = _parts(inspect_column(series, 0)[1])
    if not theirs or theirs[0].__array_interface__["data"][0] != ours[0].__array_interface__["data"][0]:
        raise ZeroCopyError(f"{what}: pandas {pd.__version__} copies items of dtype {ours[0].dtype}")
