"""Interpretation of a column's memory: its numbers, its missing values, and the options of a view applied to them.

pandas' rules apply: masked arrays carry a byte mask (True = missing), categories are codes with -1 for missing, periods
are ordinals with the smallest int64 for NaT, and NaN and NaT are ordinary values of float and datetime kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd

from mojoview.frames import arrow_columns, blocks
from mojoview.memory.errors import ArgumentError, DTypeError, MaskError, MojoViewError, ZeroCopyError
from mojoview.views import view
from mojoview.views._construct import with_mask

__all__ = [
    "NAT",
    "ColumnData",
    "ColumnName",
    "Copy",
    "Layout",
    "Missing",
    "ReadyColumn",
    "apply_options",
    "check_options",
    "read_column",
    "view_error",
]

Array = np.ndarray[Any, Any]
Copy = Literal["never", "if_needed", "always"]
Missing = Literal["error", "mask", "ignore"]
Layout = Literal["any", "contiguous", "f", "c"]
NAT = np.iinfo(np.int64).min  # the ordinal of a missing period: kernels see integers, and would take it for a value
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class ColumnData(NamedTuple):
    """The numbers of a column, and the reason if they cannot be shared."""

    values: Array | None  #: pandas' own memory; None if it holds nothing that a kernel could read
    mask: Array | None = None  #: bytes, True = missing; pandas' own memory
    sentinel: int | None = None  #: the item of `values` that stands for missing
    reason: str = ""  #: why `values` cannot be shared as they are
    remedy: str = ""
    error: type[Exception] = ZeroCopyError
    convert: Callable[[], ColumnData] | None = None  #: makes a copy that can be shared
    parts: Mapping[str, ColumnData] = _NOTHING  #: of a column that consists of several arrays
    arrow: arrow_columns.ArrowColumn | None = None  #: of a column that Arrow holds; `values` is None then

    @property
    def zero_copy(self) -> bool:
        return not self.reason

    def missing(self) -> int:
        """Count the missing elements; reads the mask, or the codes."""
        if self.arrow is not None:
            return self.arrow.missing()
        if self.mask is not None:
            return int(np.count_nonzero(self.mask))
        if self.sentinel is None or self.values is None:
            return 0
        return int(np.count_nonzero(self.values == self.sentinel))


def read_column(values: Any) -> ColumnData:
    """Interpret an ndarray or extension array, without a copy."""
    for kinds, read in _READERS:
        if isinstance(values, kinds):
            return read(values)
    return ColumnData(
        None,
        reason=f"mojoview does not know the memory of extension dtype {values.dtype}",
        error=DTypeError,
        remedy="convert it to a NumPy dtype with astype()",
    )


def _ndarray(array: Array) -> ColumnData:
    kind, size = array.dtype.kind, array.dtype.itemsize
    if kind not in "?biufcmM":
        return ColumnData(
            None,
            reason="its items are references to Python objects",
            error=DTypeError,
            remedy="convert it with astype() to a dtype whose values are stored in the column itself",
        )
    if kind in "fc" and size > (16 if kind == "c" else 8):
        return ColumnData(
            array,
            reason=f"no kernel computes in long double ({8 * size} bits)",
            remedy="use astype('float64')" if kind == "f" else "use astype('complex128')",
        )
    if not array.dtype.isnative:
        order = "big" if array.dtype.byteorder == ">" else "little"
        native = array.dtype.newbyteorder("=")
        return ColumnData(
            array,
            reason=f"its byte order is {order}-endian",
            remedy=f"use astype('{native}') or copy='if_needed'",
            convert=lambda: ColumnData(array.astype(native)),
        )
    if not array.flags.aligned:
        return ColumnData(
            array,
            reason=f"it is not aligned: its address or stride is not a multiple of {array.dtype.alignment}",
            remedy="use .copy() or copy='if_needed'",
            convert=lambda: ColumnData(array.copy()),
        )
    return ColumnData(array)


def _datetime(array: Any) -> ColumnData:
    kind = "m" if isinstance(array, pd.arrays.TimedeltaArray) else "M"
    return ColumnData(array.asi8.view(f"{kind}8[{array.unit}]"))


def _masked(array: Any) -> ColumnData:
    parts = blocks.masked_parts(array)
    if parts is not None:
        return ColumnData(*parts)

    def convert() -> ColumnData:
        dtype = array.dtype.numpy_dtype
        return ColumnData(array.to_numpy(dtype, na_value=dtype.type(0)), array.isna())

    return ColumnData(
        None,
        reason=f"pandas {pd.__version__} keeps masked values where mojoview cannot find them",
        remedy="use copy='if_needed'",
        convert=convert,
    )


def _interval(array: Any) -> ColumnData:
    parts = {name: read_column(blocks.index_values(getattr(array, name))) for name in ("left", "right")}
    return ColumnData(
        None,
        reason="an interval is two numbers, stored in two arrays",
        remedy="view the column alone, by its label: that gives a FrameView of 'left' and 'right'",
        parts=parts,
    )


def _sparse(array: Any) -> ColumnData:
    def dense() -> ColumnData:
        return _ndarray(np.asarray(array.to_dense()))

    index, parts = array.sp_index, _NOTHING
    if not hasattr(index, "blocs"):  # positions are stored one by one; block indexes compute them at every access
        parts = {"indices": read_column(index.indices), "values": read_column(array.sp_values)}
        remedy = (
            "view the column alone, by its label: that gives a FrameView of 'indices' and 'values'; "
            "or copy='if_needed' (dense)"
        )
    else:
        remedy = "use copy='if_needed' (dense), or view(series.array.sp_values): its positions are stored as runs"
    return ColumnData(
        None,
        reason=f"only the {array.npoints} values other than {array.fill_value} are stored",
        remedy=remedy,
        convert=dense,
        parts=parts,
    )


def _string(array: Any) -> ColumnData:
    return ColumnData(
        None,
        reason="its items are references to Python strings",
        error=DTypeError,
        remedy="use astype('string[pyarrow]') to keep the text in place, or view its categories: astype('category')",
    )


def _from_arrow(array: Any) -> ColumnData:
    try:
        return ColumnData(None, arrow=arrow_columns.read(array))
    except MojoViewError as error:
        return ColumnData(None, reason=str(error), error=type(error), remedy="decode it with astype()")


def _unwrapped(array: Any) -> ColumnData:
    return read_column(array.to_numpy())


_READERS: tuple[tuple[Any, Callable[[Any], ColumnData]], ...] = (
    (np.ndarray, _ndarray),
    ((pd.arrays.DatetimeArray, pd.arrays.TimedeltaArray), _datetime),
    (pd.arrays.PeriodArray, lambda array: ColumnData(array.asi8, sentinel=NAT)),
    (pd.Categorical, lambda array: ColumnData(array.codes, sentinel=-1)),
    ((pd.arrays.IntegerArray, pd.arrays.FloatingArray, pd.arrays.BooleanArray), _masked),
    (pd.arrays.IntervalArray, _interval),
    (pd.arrays.SparseArray, _sparse),
    (pd.arrays.ArrowExtensionArray, _from_arrow),  # ArrowStringArray is one
    (pd.arrays.StringArray, _string),
    (pd.arrays.NumpyExtensionArray, _unwrapped),
)


class ColumnName:
    """The name of a column in messages; formatted only when a message is made."""

    __slots__ = ("dtype", "kind", "labels", "position")

    def __init__(self, kind: str, labels: Any, position: int | None, dtype: Any) -> None:
        self.kind, self.labels, self.position, self.dtype = kind, labels, position, dtype

    def __str__(self) -> str:
        label = self.labels if self.position is None else self.labels[self.position]
        return f"{self.kind} {label!r} of dtype {self.dtype}"


# -- from column data to a view ----------------------------------------------------------------------------------------

_CHOICES = {"copy": get_args(Copy), "na": get_args(Missing), "layout": get_args(Layout)}


def check_options(copy: Copy, na: Missing, layout: Layout) -> None:
    """Raise ArgumentError unless each option is one of those listed."""
    for (name, choices), value in zip(_CHOICES.items(), (copy, na, layout), strict=True):
        if not isinstance(value, str) or value not in choices:
            raise ArgumentError(f"view({name}={value!r}): expected one of {', '.join(map(repr, choices))}")


class ReadyColumn(NamedTuple):
    """A view of a column's values, and whether they had to be copied."""

    view: Any  #: View; ArrowView or ChunkedView if Arrow holds the column and it has no array of its own
    copied: bool
    arrow: arrow_columns.ArrowColumn | None = None


def apply_options(data: ColumnData, what: object, copy: Copy, na: Missing, layout: Layout) -> ReadyColumn:
    """Make the view of a column that the options of `df.mojo.view()` request; `what` names the column in messages."""
    copied = copy == "always"
    if data.reason:
        if copy == "never" or data.convert is None:
            raise view_error(data, what, copy)
        data, copied = data.convert(), True
        if data.reason:  # a sparse column of objects is still a column of objects when dense
            raise view_error(data, what, copy)
    if data.arrow is not None:
        return _apply_arrow(data.arrow, what, copy, na, layout)
    values = data.values
    assert values is not None
    if layout != "any" and not values.flags.contiguous:
        if copy == "never":
            raise ZeroCopyError(
                f"view: {what} cannot be shared with layout={layout!r}: its values lie {values.strides[-1]} bytes "
                f"apart, expected {values.itemsize}; copy the frame once with df.copy(), use copy='if_needed', or "
                "layout='any'"
            )
        copied = True
    if na == "error" and (missing := data.missing()):
        raise MaskError(
            f"view: {what} has {missing} missing value(s), and na='error'; use na='mask' to carry the mask, or "
            "na='ignore' for the values alone, arbitrary where missing"
        )
    mask = None
    if na == "mask":
        # pandas stores no mask for categories and periods: theirs is computed, and belongs to the view.
        mask = data.mask if data.sentinel is None else values == data.sentinel
    how: Copy = "always" if copied else "never"
    shown = view(values, copy=how)
    return ReadyColumn(shown if mask is None else with_mask(shown, view(mask, copy=how)), copied)


def _apply_arrow(
    column: arrow_columns.ArrowColumn, what: object, copy: Copy, na: Missing, layout: Layout
) -> ReadyColumn:
    if na == "error":
        arrow_columns.check_no_missing(column, what)
    found, copied = arrow_columns.copy_as_asked(column, what, copy, layout)
    return ReadyColumn(found.data if na == "ignore" else found, copied, column)


def view_error(data: ColumnData, what: object, copy: str = "never") -> Exception:
    """Make the exception for a column that cannot be shared, or not even be viewed as a copy."""
    how = "be shared without a copy" if copy == "never" else "be viewed"
    return data.error(f"view: {what} cannot {how}: {data.reason}; {data.remedy}")
