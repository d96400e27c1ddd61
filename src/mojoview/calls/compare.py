"""Comparison of a kernel with its reference: arguments as plain arrays, and the difference between two results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mojoview.memory.errors import ArgumentError
from mojoview.views import View, view

__all__ = ["Difference", "difference", "read", "row_count", "rows", "take", "write"]


@dataclass(frozen=True, slots=True)
class Difference:
    """Difference between two arrays or numbers.

    Attributes
    ----------
    index : tuple of int
        The first element that differs; () for numbers and for arrays that cannot be compared.
    got, expected : object
        That element on both sides.
    count, size : int
        The number of elements that differ, and of all.
    largest : float
        The largest absolute difference of finite numbers.
    """

    index: tuple[int, ...]
    got: Any
    expected: Any
    count: int = 1
    size: int = 1
    largest: float = float("nan")

    def __str__(self) -> str:
        at = f" at element {', '.join(map(str, self.index))}" if self.index else ""
        many = f"; {self.count} of {self.size} differ, at most by {self.largest:.3g}" if self.size > 1 else ""
        return f"got {self.got!r}, the reference {self.expected!r}{at}{many}"


def difference(got: Any, expected: Any, rtol: float | None, atol: float) -> Difference | None:
    """Return the difference between two results; None if they agree.

    Parameters
    ----------
    got, expected : array-like, number or None
    rtol : float or None
        Relative to the expected value; None: the square root of the machine epsilon of the coarser dtype. Integers,
        bools and times must be equal.
    atol : float

    Returns
    -------
    Difference or None

    Notes
    -----
    NaN agrees with NaN, an infinity with itself, 0.0 with -0.0, a missing element with a missing one. The default
    tolerance is that of Julia's `isapprox`: half of the digits. Thread safety: any thread.

    Examples
    --------
    >>> difference(np.array([1.0, 2.0]), np.array([1.0, 2.5]), None, 0.0).index
    (1,)
    >>> difference(1.0, 1.0 + 1e-12, None, 0.0) is None
    True
    """
    if got is None or expected is None:
        return None if got is expected else Difference((), got, expected)
    try:
        a, b = np.ma.asanyarray(got), np.ma.asanyarray(expected)
    except (TypeError, ValueError):
        return Difference((), got, expected)
    if a.shape != b.shape:
        return Difference((), f"shape {a.shape}", f"shape {b.shape}")
    missing = np.ma.getmaskarray(a), np.ma.getmaskarray(b)
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype.kind in "fc" or b.dtype.kind in "fc":
        if a.dtype.kind not in "biufc" or b.dtype.kind not in "biufc":
            return Difference((), f"dtype {a.dtype}", f"dtype {b.dtype}")
        if rtol is None:
            rtol = max(float(np.finfo(d).eps) ** 0.5 for d in (a.dtype, b.dtype) if d.kind in "fc")
        with np.errstate(all="ignore"):
            same = np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
    elif a.dtype.kind in "mM" and b.dtype.kind == a.dtype.kind:
        same = (a == b) | (np.isnat(a) & np.isnat(b))
    else:
        same = np.asarray(a == b)
    same = np.where(missing[0] | missing[1], missing[0] & missing[1], same)
    if same.all():
        return None
    index = tuple(int(k) for k in np.unravel_index(int(np.argmin(same)), same.shape)) if same.ndim else ()
    largest = float("nan")
    if a.dtype.kind in "biuf" and b.dtype.kind in "biuf":
        with np.errstate(all="ignore"):
            gaps = np.abs(a.astype("f8") - b.astype("f8"))[~same]
            gaps = gaps[np.isfinite(gaps)]
            largest = float(gaps.max()) if gaps.size else largest
    mine, other = ("missing" if m[index] else v[index].item() for m, v in zip(missing, (a, b), strict=True))
    return Difference(index, mine, other, int((~same).sum()), int(same.size), largest)


def read(obj: Any) -> Any:
    """Return an argument of a kernel as an ndarray on the same memory; a masked array if it has a mask."""
    if isinstance(obj, np.ndarray):
        return obj
    window = obj if isinstance(obj, View) else view(obj)
    if not isinstance(window, View):
        raise ArgumentError(f"expected one array or column, got a {type(obj).__name__}")
    if window.mask is None:
        return np.asarray(window)
    return np.ma.MaskedArray(np.asarray(window.data), mask=np.asarray(window.mask))


def take(obj: Any) -> Any:
    """Return a copy of an argument, in the same memory order."""
    return read(obj).copy(order="K")


def write(obj: Any, values: Any) -> None:
    """Write values to an argument that a kernel may write to."""
    if not isinstance(obj, np.ndarray):
        obj = np.asarray(obj if isinstance(obj, View) else view(obj, writable=True))
    obj[...] = values


def row_count(arrays: Mapping[str, np.ndarray]) -> int:
    """Return the common length of the arrays along their first axis; 0 if they have none."""
    lengths = {array.shape[0] if array.ndim else 0 for array in arrays.values()}
    return lengths.pop() if len(lengths) == 1 else 0


def rows(arrays: Mapping[str, np.ndarray], part: slice) -> dict[str, np.ndarray]:
    """Return copies of some rows of the arrays."""
    return {name: array[part].copy(order="K") for name, array in arrays.items()}
