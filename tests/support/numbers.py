"""Arrays of plain numbers in every layout, masks of every kind, and NumPy's sums with wide accumulators."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

import numpy as np
from hypothesis import strategies as st

import mojoview as mv
from mojoview.views._construct import with_mask

BOOL, INTS, UINTS, FLOATS = ["?"], ["i1", "i2", "i4", "i8"], ["u1", "u2", "u4", "u8"], ["f2", "f4", "f8"]
NUMBERS = INTS + UINTS + FLOATS
ALL = BOOL + NUMBERS


def values(shape: tuple[int, ...] | int, dtype: str, seed: int = 0, specials: bool = False) -> np.ndarray[Any, Any]:
    """Numbers over the dtype's range: extremes and ties, and for floats NaN, infinities and both zeros on demand."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        out = rng.integers(info.min, info.max, shape, dtype, endpoint=True)
        small = rng.integers(0, 5, shape).astype(dtype)
        return np.where(rng.random(shape) < 0.5, small, out).astype(dtype)
    out = (rng.standard_normal(shape) * 10).astype(dtype)
    if specials:
        picks = rng.choice(np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0], dtype), shape)
        out = np.where(rng.random(shape) < 0.4, picks, out)
    return out


@contextmanager
def case(**names):
    """Name the combination of a loop in the error of a failing check."""
    try:
        yield
    except BaseException as error:
        error.add_note(", ".join(f"{key}={value!r}" for key, value in names.items()))
        raise


def spread(array: np.ndarray[Any, Any], layout: str) -> np.ndarray[Any, Any]:
    """Return the same numbers in another layout; a view on new memory."""
    if layout == "dense" or array.ndim == 0:
        return array.copy()
    if layout == "fortran":
        return array.copy(order="F")
    if layout == "reversed":
        return array[..., ::-1].copy()[..., ::-1]
    if layout == "stepped":
        wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
        wide[..., ::2] = array
        return wide[..., ::2]
    if layout == "field":  # byte strides and addresses that are no multiples of the item size
        record = np.zeros(array.shape, np.dtype([("pad", "u1"), ("x", array.dtype)]))
        record["x"] = array
        return record["x"]
    raise AssertionError(layout)


LAYOUTS = ["dense", "fortran", "reversed", "stepped", "field"]


def masked_view(
    array: np.ndarray[Any, Any], missing: np.ndarray[Any, Any], layout: str = "dense", writable: bool = False
) -> mv.View:
    """A view with a byte mask that has strides of its own."""
    return with_mask(mv.view(array, writable=writable), mv.view(spread(missing, layout)))


@st.composite
def number_arrays(
    draw: st.DrawFn, dtypes: list[str] = ALL, max_dims: int = 3, min_side: int = 0
) -> np.ndarray[Any, Any]:
    shape = tuple(draw(st.lists(st.integers(min_side, 6), min_size=1, max_size=max_dims)))
    array = values(shape, draw(st.sampled_from(dtypes)), draw(st.integers(0, 50)), draw(st.booleans()))
    array = spread(array, draw(st.sampled_from(LAYOUTS)))
    return array.transpose(draw(st.permutations(range(array.ndim))))


def wide_sum(array: np.ndarray[Any, Any], axis: int | None = None) -> Any:
    """NumPy's sum with an accumulator that loses nothing worth naming."""
    kind = array.dtype.kind
    return array.sum(axis=axis, dtype=np.longdouble if kind == "f" else np.uint64 if kind == "u" else np.int64)
