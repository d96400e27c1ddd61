"""What a column's memory means: which array holds the numbers, which one says what is missing, and what a view may do
with them.

pandas' own rules are kept: masked arrays carry a byte mask (True = missing), categories are codes with -1 for missing,
periods are ordinals, and NaN and NaT are ordinary data of float and datetime kernels.
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

__all__ = ["Copy", "Layout", "Missing", "Storage", "check_options", "resolve", "storage"]

Array = np.ndarray[Any, Any]
Copy = Literal["never", "if_needed", "always"]
Missing = Literal["error", "mask", "ignore"]
Layout = Literal["any", "contiguous", "f", "c"]
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Storage(NamedTuple):
    """The numbers behind a column."""

    data: Array | None  #: pandas' own memory; None where it holds none that a kernel could read
    mask: Array | None = None  #: bytes, True = missing; pandas' own memory
    sentinel: int | None = None  #: value of `data` that stands for missing
    reason: str = ""  #: why `data` cannot be handed out as it is
    remedy: str = ""
    error: type[Exception] = ZeroCopyError
    convert: Callable[[], Storage] | None = None  #: makes a fresh copy that can be handed out
    parts: Mapping[str, Storage] = _NOTHING  #: of a column that consists of several arrays
    arrow: arrow_columns.ArrowColumn | None = None  #: of a column that Arrow holds; `data` is None then

    @property
    def zero_copy(self) -> bool:
        return not self.reason

    def missing(self) -> int:
        """How many elements are missing; reads the mask, or the codes."""
        if self.arrow is not None:
            return self.arrow.missing()
        if self.mask is not None:
            return int(np.count_nonzero(self.mask))
        if self.sentinel is None or self.data is None:
            return 0
        return int(np.count_nonzero(self.data == self.sentinel))


def storage(values: Any) -> Storage:
    """Reads an ndarray or extension array; never copies."""
    for kinds, read in _READERS:
        if isinstance(values, kinds):
            return read(values)
    return Storage(
        None,
        reason=f"mojoview does not know the memory of extension dtype {values.dtype}",
        error=DTypeError,
        remedy="convert it to a NumPy dtype with astype()",
    )


def _ndarray(array: Array) -> Storage:
    kind, size = array.dtype.kind, array.dtype.itemsize
    if kind not in "?biufcmM":
        return Storage(
            None,
            reason="its items are references to Python objects",
            error=DTypeError,
            remedy="convert it with astype() to a dtype whose values lie in the column itself",
        )
    if kind in "fc" and size > (16 if kind == "c" else 8):
        return Storage(
            array,
            reason=f"no kernel computes in long double ({8 * size} bits)",
            remedy="use astype('float64')" if kind == "f" else "use astype('complex128')",
        )
    if not array.dtype.isnative:
        order = "big" if array.dtype.byteorder == ">" else "little"
        native = array.dtype.newbyteorder("=")
        return Storage(
            array,
            reason=f"its byte order is {order}-endian",
            remedy=f"use astype('{native}') or copy='if_needed'",
            convert=lambda: Storage(array.astype(native)),
        )
    if not array.flags.aligned:
        return Storage(
            array,
            reason=f"it is not aligned: its address or stride is no multiple of {array.dtype.alignment}",
            remedy="use .copy() or copy='if_needed'",
            convert=lambda: Storage(array.copy()),
        )
    return Storage(array)


def _datetime(array: Any) -> Storage:
    letter = "m" if isinstance(array, pd.arrays.TimedeltaArray) else "M"
    return Storage(array.asi8.view(f"{letter}8[{array.unit}]"))


def _masked(array: Any) -> Storage:
    parts = blocks.masked_parts(array)
    if parts is not None:
        return Storage(*parts)

    def convert() -> Storage:
        dtype = array.dtype.numpy_dtype
        return Storage(array.to_numpy(dtype, na_value=dtype.type(0)), array.isna())

    return Storage(
        None,
        reason=f"pandas {pd.__version__} keeps masked values where mojoview cannot find them",
        remedy="use copy='if_needed'",
        convert=convert,
    )


def _interval(array: Any) -> Storage:
    parts = {name: storage(blocks.index_values(getattr(array, name))) for name in ("left", "right")}
    return Storage(
        None,
        reason="an interval is two numbers, kept in two arrays",
        remedy="view the column alone, by its label: that gives a FrameView of 'left' and 'right'",
        parts=parts,
    )


def _sparse(array: Any) -> Storage:
    def dense() -> Storage:
        return _ndarray(np.asarray(array.to_dense()))

    index, parts = array.sp_index, _NOTHING
    if not hasattr(index, "blocs"):  # kept one by one; runs compute theirs anew each time
        parts = {"indices": storage(index.indices), "values": storage(array.sp_values)}
        remedy = (
            "view the column alone, by its label: that gives a FrameView of 'indices' and 'values'; "
            "or copy='if_needed' (dense)"
        )
    else:
        remedy = "use copy='if_needed' (dense), or view(series.array.sp_values): its positions are kept as runs"
    return Storage(
        None,
        reason=f"only the {array.npoints} values other than {array.fill_value} are kept",
        remedy=remedy,
        convert=dense,
        parts=parts,
    )


def _string(array: Any) -> Storage:
    return Storage(
        None,
        reason="its items are references to Python strings",
        error=DTypeError,
        remedy="use astype('string[pyarrow]') to keep the text in place, or view its categories: astype('category')",
    )


def _from_arrow(array: Any) -> Storage:
    try:
        return Storage(None, arrow=arrow_columns.read(array))
    except MojoViewError as error:
        return Storage(None, reason=str(error), error=type(error), remedy="decode it with astype()")


def _unwrapped(array: Any) -> Storage:
    return storage(array.to_numpy())


_READERS: tuple[tuple[Any, Callable[[Any], Storage]], ...] = (
    (np.ndarray, _ndarray),
    ((pd.arrays.DatetimeArray, pd.arrays.TimedeltaArray), _datetime),
    (pd.arrays.PeriodArray, lambda array: Storage(array.asi8)),
    (pd.Categorical, lambda array: Storage(array.codes, sentinel=-1)),
    ((pd.arrays.IntegerArray, pd.arrays.FloatingArray, pd.arrays.BooleanArray), _masked),
    (pd.arrays.IntervalArray, _interval),
    (pd.arrays.SparseArray, _sparse),
    (pd.arrays.ArrowExtensionArray, _from_arrow),  # ArrowStringArray is one
    (pd.arrays.StringArray, _string),
    (pd.arrays.NumpyExtensionArray, _unwrapped),
)


# -- from storage to a view --------------------------------------------------------------------------------------------

_CHOICES = {"copy": get_args(Copy), "na": get_args(Missing), "layout": get_args(Layout)}


def check_options(copy: Copy, na: Missing, layout: Layout) -> None:
    for (name, choices), value in zip(_CHOICES.items(), (copy, na, layout), strict=True):
        if not isinstance(value, str) or value not in choices:
            raise ArgumentError(f"view({name}={value!r}): expected one of {', '.join(map(repr, choices))}")


class Resolved(NamedTuple):
    """A view of a column's values, and whether they had to be copied."""

    view: Any  #: View; ArrowView or ChunkedView of a column that Arrow holds and that has no array of its own
    copied: bool
    arrow: arrow_columns.ArrowColumn | None = None


def resolve(kept: Storage, what: object, copy: Copy, na: Missing, layout: Layout) -> Resolved:
    """Applies the options of `df.mojo.view()` to a column; `what` names it in messages."""
    copied = copy == "always"
    if kept.reason:
        if copy == "never" or kept.convert is None:
            raise refusal(kept, what, copy)
        kept, copied = kept.convert(), True
        if kept.reason:  # a sparse column of objects is dense, and still of objects
            raise refusal(kept, what, copy)
    if kept.arrow is not None:
        return _resolve_arrow(kept.arrow, what, copy, na, layout)
    data = kept.data
    assert data is not None
    if layout != "any" and not data.flags.contiguous:
        if copy == "never":
            raise ZeroCopyError(
                f"view: {what} cannot be shared with layout={layout!r}: its values lie {data.strides[-1]} bytes apart, "
                f"expected {data.itemsize}; copy the frame once with df.copy(), use copy='if_needed', or layout='any'"
            )
        copied = True
    if na == "error" and (missing := kept.missing()):
        raise MaskError(
            f"view: {what} has {missing} missing value(s), and na='error'; use na='mask' to carry the mask, or "
            "na='ignore' for the values alone, arbitrary where missing"
        )
    mask = None
    if na == "mask":
        # pandas stores no mask for categories: theirs is computed, and belongs to the view.
        mask = kept.mask if kept.sentinel is None else data == kept.sentinel
    how: Copy = "always" if copied else "never"
    values = view(data, copy=how)
    return Resolved(values if mask is None else with_mask(values, view(mask, copy=how)), copied)


def _resolve_arrow(column: arrow_columns.ArrowColumn, what: object, copy: Copy, na: Missing, layout: Layout) -> Resolved:
    if na == "error":
        arrow_columns.refuse_missing(column, what)
    found, copied = arrow_columns.shape_up(column, what, copy, layout)
    return Resolved(found.data if na == "ignore" else found, copied, column)


def refusal(kept: Storage, what: object, copy: str = "never") -> Exception:
    how = "be shared without a copy" if copy == "never" else "be viewed"
    return kept.error(f"view: {what} cannot {how}: {kept.reason}; {kept.remedy}")
