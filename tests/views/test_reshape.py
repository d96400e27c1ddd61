""".T, reshape and cast: possible exactly where NumPy needs no copy, with NumPy's strides."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.arrays import DTYPES, PLAIN, RECORDS, arrays, assert_error_like, assert_same, filled, outcome

import mojoview as mv
from mojoview.memory.errors import ArgumentError, DTypeError, LayoutError, ShapeError, ZeroCopyError


def reshaped(array, shape):
    """NumPy's reshape where it needs no copy; AttributeError-free on every NumPy."""
    result = array.reshape(shape)
    if result.size and not np.shares_memory(result, array):
        raise ValueError("needs a copy")
    return result


def factorisations(size):
    """All shapes of up to three dimensions with that many elements, -1 and impossible ones included."""
    sides = [n for n in range(1, size + 1) if size % n == 0] or [0, 1, 3]
    shapes = [
        shape
        for length in range(4)
        for shape in itertools.product(sides, repeat=length)
        if np.prod(shape, dtype=int) == size
    ]
    return [*shapes, (-1,), (size + 1,), (2, -1), (-1, -1), (0, -1), (size, 1, 1), (1, size)]


@given(arrays(st.sampled_from([np.dtype("u1"), np.dtype("f8"), np.dtype("S3"), RECORDS[0]])), st.data())
def test_reshape_of_any_layout(array, data):
    view = mv.view(array)
    for shape in data.draw(st.lists(st.sampled_from(factorisations(array.size)), max_size=6)):
        expected, got = outcome(reshaped, array, shape), outcome(view.reshape, shape)
        assert got[0] == expected[0], (shape, array.shape, array.strides, got, expected)
        if got[0] == "error":
            assert_error_like(got[1], expected[1])
        else:
            assert_same(got[1], expected[1])
            assert_same(view.reshape(*shape), expected[1]) if shape else None


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_all_reshapes_of_small_strided_arrays(dims):
    base = np.arange(8**dims, dtype="i2").reshape([8] * dims)
    for steps in itertools.product([1, 2, -1, -2], repeat=dims):
        for axes in itertools.permutations(range(dims)):
            array = base[tuple(slice(None, None, s) for s in steps)][(slice(4),) * dims].transpose(axes)
            view = mv.view(array)
            for shape in factorisations(array.size):
                expected, got = outcome(reshaped, array, shape), outcome(view.reshape, shape)
                assert got[0] == expected[0], (array.shape, array.strides, shape)
                if got[0] == "value":
                    assert got[1].shape == expected[1].shape
                    assert got[1].strides == expected[1].strides or 1 in got[1].shape


@given(arrays())
def test_transpose(array):
    assert_same(mv.view(array).T, array.T)
    assert_same(mv.view(array).T.T, array)


def test_reshape_says_which_rule_was_broken():
    view = mv.view(np.arange(12).reshape(3, 4).T)
    with pytest.raises(ZeroCopyError, match="need a copy"):
        view.reshape(12)
    with pytest.raises(ShapeError, match="12 elements do not fill"):
        view.reshape(5, 2)
    with pytest.raises(ShapeError, match="at most 8"):
        view.reshape((1,) * 9)
    for bad in ((-2,), (3, -4), (12, -2)):  # NumPy takes any negative size for -1
        with pytest.raises(ShapeError, match="at most one -1"):
            view.reshape(bad)
    for bad in ("abc", None, 1.5, (1.5,), [None], True, (10**40,), 10**5000, object(), float("nan"), [[12]]):
        with pytest.raises(ArgumentError):
            view.reshape(bad)


@given(arrays(), st.sampled_from([*DTYPES, np.dtype(("i2", (2,))), np.dtype(("u1", (2, 2)))]))
def test_cast_is_numpys_view(array, dtype):
    expected, got = outcome(array.view, dtype), outcome(mv.view(array).cast, dtype)
    if expected[0] == "value" and expected[1].ndim > 8:
        return
    assert got[0] == expected[0], (array.dtype, array.shape, array.strides, dtype, got, expected)
    if got[0] == "error":
        assert_error_like(got[1], expected[1])
    else:
        assert_same(got[1], expected[1])


def test_every_pair_of_plain_dtypes():
    for old, new in itertools.product(PLAIN, repeat=2):
        for shape in [(), (0,), (1,), (6,), (2, 8), (4, 0), (0, 4)]:
            for array in (filled(shape, old), filled(shape, old).T):
                expected, got = outcome(array.view, new), outcome(mv.view(array).cast, new)
                assert got[0] == expected[0], (old, new, shape)
                if got[0] == "value":
                    assert (got[1].shape, got[1].dtype) == (expected[1].shape, expected[1].dtype)


@pytest.mark.parametrize("dtype", ["O", None, "nonsense", 3.5, [("a", "O")], "f8,O", np.array, int("1" * 50)], ids=repr)
def test_casts_to_no_dtype_or_to_references_are_refused(dtype):
    with pytest.raises(DTypeError):
        mv.view(np.arange(3)).cast(dtype)


def test_cast_takes_no_dtype_without_a_size():
    for dtype in ("V", "S", "U"):  # NumPy would choose the size
        with pytest.raises(LayoutError):
            mv.view(np.arange(3)).cast(dtype)


def test_cast_keeps_addresses_and_units():
    array = np.array(["2024-01-01", "NaT"], "M8[ns]")
    view = mv.view(array)
    integers = view.cast("i8")
    assert integers.ptr == view.ptr
    assert int(integers[1]) == np.iinfo("i8").min
    assert np.asarray(integers.cast("M8[ns]"))[0] == array[0]
    with pytest.raises(LayoutError, match="last axis must be contiguous"):
        mv.view(np.arange(6)[::2]).cast("i4")
