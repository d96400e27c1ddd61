"""What a column's memory means: which array holds the numbers, which one says what is missing, and what a view may do with them.

pandas' own rules are kept: masked arrays carry a byte mask (True = missing), categories are codes with -1 for missing,
periods are ordinals, and NaN and NaT are ordinary data of float and datetime kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from mojoview.frames import _blocks
from mojoview.memory.errors import ArgumentError, DTypeError, MaskError, ZeroCopyError
from mojoview.views import View, view
from mojoview.views._view import with_mask

__all__ = ["Storage", "check_options", "resolve", "storage"]

Array = np.ndarray[Any, Any]
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Storage(NamedTuple):
    """The numbers behind a column."""

    data: Array | None  #: pandas' own memory; None where it holds none that a kernel could read
    mask: Array | None = None  #: bytes, True = missing; pandas' own memory
    sentinel: int | None = None  #: value of `data` that stands for missing
    reason: str = ""  #: why `data` cannot be handed out as it is
    remedy: str = ""
    error: type[Exception] = ZeroCopyError
    convert: Callable[[], tuple[Array, Array | None]] | None = None  #: a fresh copy that can be handed out
    parts: Mapping[str, Storage] = _NOTHING  #: of a column that consists of several arrays

    @property
    def zero_copy(self) -> bool:
        return not self.reason


def storage(values: Any) -> Storage:
    """Reads an ndarray or extension array; never copies."""
    for kinds, read in _READERS:
        if isinstance(values, kinds):
            return read(values)
    return Storage(None, reason=f"mojoview does not know the memory of extension dtype {values.dtype}", error=DTypeError,
                   remedy="convert it to a NumPy dtype with astype()")


def _ndarray(array: Array) -> Storage:
    kind, size = array.dtype.kind, array.dtype.itemsize
    if kind not in "?biufcmM":
        return Storage(None, reason="its items are references to Python objects", error=DTypeError,
                       remedy="convert it with astype() to a dtype whose values lie in the column itself")
    if kind in "fc" and size > (16 if kind == "c" else 8):
        return Storage(array, reason=f"no kernel computes in long double ({8 * size} bits)", remedy="use astype('float64')"
                       if kind == "f" else "use astype('complex128')")
    if not array.dtype.isnative:
        order = "big" if array.dtype.byteorder == ">" else "little"
        native = array.dtype.newbyteorder("=")
        return Storage(array, reason=f"its byte order is {order}-endian", remedy=f"use astype('{native}') or copy='if_needed'",
                       convert=lambda: (array.astype(native), None))
    if not array.flags.aligned:
        return Storage(array, reason=f"it is not aligned: its address or stride is no multiple of {array.dtype.alignment}",
                       remedy="use .copy() or copy='if_needed'", convert=lambda: (array.copy(), None))
    return Storage(array)


def _datetime(array: Any) -> Storage:
    letter = "m" if isinstance(array, pd.arrays.TimedeltaArray) else "M"
    return Storage(array.asi8.view(f"{letter}8[{array.unit}]"))


def _masked(array: Any) -> Storage:
    parts = _blocks.masked_parts(array)
    if parts is not None:
        return Storage(*parts)

    def convert() -> tuple[Array, Array]:
        missing = array.isna()
        return array.to_numpy(array.dtype.numpy_dtype, na_value=array.dtype.numpy_dtype.type(0)), missing

    return Storage(None, reason=f"pandas {pd.__version__} keeps masked values where mojoview cannot find them",
                   remedy="use copy='if_needed'", convert=convert)


def _interval(array: Any) -> Storage:
    parts = {name: storage(_blocks.index_values(getattr(array, name))) for name in ("left", "right")}
    return Storage(None, reason="an interval is two numbers, kept in two arrays", remedy="view the column alone, by its label: "
                   "that gives a FrameView of 'left' and 'right'", parts=parts)


def _sparse(array: Any) -> Storage:
    def dense() -> tuple[Array, None]:
        return np.asarray(array.to_dense()), None

    index, parts = array.sp_index, _NOTHING
    if not hasattr(index, "blocs"):  # kept one by one; runs compute theirs anew each time
        parts = {"indices": storage(index.indices), "values": storage(array.sp_values)}
        remedy = "view the column alone, by its label: that gives a FrameView of 'indices' and 'values'; or copy='if_needed' (dense)"
    else:
        remedy = "use copy='if_needed' (dense), or view(series.array.sp_values): its positions are kept as runs"
    return Storage(None, reason=f"only the {array.npoints} values other than {array.fill_value} are kept", remedy=remedy,
                   convert=dense, parts=parts)


def _string(array: Any) -> Storage:
    if array.dtype.storage == "pyarrow":
        return Storage(None, reason="its text is held by Arrow, as offsets and bytes of varying length",
                       remedy="hand the column to an Arrow consumer, or view its categories: astype('category')")
    return Storage(None, reason="its items are references to Python strings", error=DTypeError,
                   remedy="view its categories: astype('category')")


def _arrow(array: Any) -> Storage:
    dtype = array.dtype
    try:
        target = np.dtype(dtype.numpy_dtype)
    except (NotImplementedError, TypeError):
        target = np.dtype(object)
    if target.kind not in "?biufcmM":
        return Storage(None, reason=f"{dtype} has no fixed-size numbers", error=DTypeError, remedy="hand the column to an Arrow consumer")

    def convert() -> tuple[Array, Array]:
        return array.to_numpy(target, na_value=np.zeros((), target)[()]), np.asarray(array.isna())

    how = "one bit a value" if target.kind == "b" else "with validity bits of its own"
    return Storage(None, reason=f"its memory belongs to Arrow ({how})", remedy=f"use astype('{target}') or copy='if_needed'",
                   convert=convert)


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
    ((pd.arrays.StringArray, pd.arrays.ArrowStringArray), _string),
    (pd.arrays.ArrowExtensionArray, _arrow),
    (pd.arrays.NumpyExtensionArray, _unwrapped),
)


# -- from storage to a view ---------------------------------------------------------------------------------------------

_CHOICES = {"copy": ("never", "if_needed", "always"), "na": ("error", "mask", "ignore"), "layout": ("any", "contiguous", "f", "c")}


def check_options(copy: str, na: str, layout: str) -> None:
    for (name, choices), value in zip(_CHOICES.items(), (copy, na, layout), strict=True):
        if value not in choices:
            raise ArgumentError(f"view({name}={value!r}): expected one of {', '.join(map(repr, choices))}")


class Resolved(NamedTuple):
    """A view of a column's values, and whether they had to be copied."""

    view: View
    copied: bool


def resolve(kept: Storage, what: object, copy: str, na: str, layout: str) -> Resolved:
    """Applies the options of `df.mojo.view()` to a column; `what` names it in messages."""
    data, mask, sentinel, copied = kept.data, kept.mask, kept.sentinel, False
    if kept.reason:
        if copy == "never" or kept.convert is None:
            raise refusal(kept, what, copy)
        (data, mask), copied = kept.convert(), True
    assert data is not None
    if not copied and copy == "if_needed" and layout != "any" and not data.flags.contiguous:
        copied = True
    elif layout != "any" and not data.flags.contiguous and copy == "never":
        raise ZeroCopyError(f"view: {what} cannot be shared with layout={layout!r}: its values lie {data.strides[-1]} bytes apart, "
                            f"expected {data.itemsize}; copy the frame once with df.copy(), use copy='if_needed', or layout='any'")
    if na != "ignore":
        if mask is None and sentinel is not None:
            mask = data == sentinel  # pandas stores no mask for categories: this one is computed, and belongs to the view
        if mask is not None and na == "error":
            if mask.any():
                raise MaskError(f"view: {what} has {int(mask.sum())} missing value(s), and na='error'; use na='mask' to carry the mask, "
                                "or na='ignore' for the values alone, arbitrary where missing")
            mask = None
    else:
        mask = None
    owned = "always" if copied or copy == "always" else "never"
    values = view(data, copy=owned)
    return Resolved(values if mask is None else with_mask(values, view(mask, copy=owned)), owned == "always")


def refusal(kept: Storage, what: object, copy: str = "never") -> Exception:
    how = "be shared without a copy" if copy == "never" else "be viewed"
    return kept.error(f"view: {what} cannot {how}: {kept.reason}; {kept.remedy}")
