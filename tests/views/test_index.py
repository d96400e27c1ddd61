"""Basic indexing: exhaustively on small axes, by hypothesis on any layout. NumPy decides result and exception."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.arrays import DTYPES, arrays, assert_error_like, assert_same, filled, indices, outcome, raw_bytes

import mojoview as mv
from mojoview.memory.errors import IndexingError, ShapeError


def check(view, array, key):
    expected, got = outcome(array.__getitem__, key), outcome(view.__getitem__, key)
    if expected[0] == "value" and isinstance(expected[1], np.ndarray) and expected[1].ndim > 8:
        assert isinstance(got[1], ShapeError)
        return
    assert got[0] == expected[0], (key, got, expected)
    if got[0] == "error":
        assert_error_like(got[1], expected[1])
    elif isinstance(expected[1], np.ndarray):
        assert_same(got[1], expected[1])
        if view.strides == array.strides:  # then also those that are never used: an empty axis, one of one element
            assert got[1].strides == expected[1].strides
    else:
        assert_same_scalar(got[1], expected[1])


def assert_same_scalar(ours, theirs):
    assert type(ours) is type(theirs)
    if ours.dtype.char in "gG":  # six bytes of a long double are padding
        assert repr(ours) == repr(theirs)
    else:
        assert raw_bytes(ours) == raw_bytes(theirs)


@pytest.mark.parametrize("n", range(5))
def test_all_slices_of_a_short_axis(n):
    array = np.arange(3, n + 3, dtype="i2")
    view = mv.view(array)
    bounds = [None, *range(-n - 2, n + 3)]
    for start, stop, step in itertools.product(bounds, bounds, [None, -3, -2, -1, 1, 2, 3]):
        check(view, array, slice(start, stop, step))
    for i in range(-n - 2, n + 3):
        check(view, array, i)


def test_all_pairs_of_parts_in_two_dimensions():
    array = np.arange(12.0).reshape(3, 4)[:, ::-1]
    view = mv.view(array)
    parts = [0, -1, 2, 3, -4, slice(None), slice(None, None, -2), slice(2, 0), None, Ellipsis, np.int16(1)]
    for length in range(4):
        for key in itertools.product(parts, repeat=length):
            check(view, array, key)


def test_a_0d_integer_array_is_an_integer():
    array = np.arange(12).reshape(3, 4)
    assert_same(mv.view(array)[np.array(1)], array[1])  # NumPy copies here; a view never does


@given(st.data())
def test_any_index_of_any_layout(data):
    array = data.draw(arrays())
    view = mv.view(array)
    for _ in range(3):
        check(view, array, data.draw(indices(array.shape)))


@given(st.data())
def test_an_index_of_an_index(data):
    array = data.draw(arrays(st.just(np.dtype("i4"))))
    view = mv.view(array)
    for _ in range(4):
        key = data.draw(indices(array.shape))
        try:
            array = array[key]
        except Exception:
            continue
        if not isinstance(array, np.ndarray) or array.ndim > 8:
            return
        view = view[key]
        assert_same(view, array)


@pytest.mark.parametrize(
    "key",
    [
        True,
        np.True_,
        1.0,
        np.float64(1),
        "",
        b"a",
        [0, 1],
        [True],
        np.array([0]),
        np.array([True, False, True]),
        (0, [1]),
        {},
        object,
        float("nan"),
        1j,
        np.array(1.5),
        [],
        [[0]],
        (slice(None), True),
    ],
    ids=repr,
)
def test_what_only_a_copy_could_serve_is_refused(key):
    with pytest.raises(IndexingError):
        mv.view(np.arange(12).reshape(3, 4))[key]


@pytest.mark.parametrize(
    "key", [slice(None, None, 0), slice("a"), slice(1.5), slice(None, None, object), slice(float("nan"))], ids=repr
)
def test_bad_slices_fail_as_in_numpy(key):
    array = np.arange(3)
    check(mv.view(array), array, key)


def test_huge_integers_are_refused_without_being_printed():
    for key in (10**5000, -(10**5000)):
        with pytest.raises(IndexingError, match="bits does not fit 64"):
            mv.view(np.arange(3))[key]


def test_a_tuple_subclass_cannot_change_between_the_looks_at_it():
    class Shifty(tuple):
        def __iter__(self):
            raise RuntimeError

        __len__ = __getitem__ = __iter__

    assert mv.view(np.arange(12).reshape(3, 4))[Shifty((1, slice(2)))].shape == (2,)


def test_an_index_that_releases_the_view_meets_no_freed_memory():
    view = mv.view(np.arange(3.0))

    class Saboteur:
        def __index__(self):
            view.release()
            return 1

    assert view[Saboteur()] == 1.0  # the window was cut before the index was asked
    assert view.closed


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_scalars_of_every_dtype_are_numpys(dtype):
    array = filled((2,), dtype)
    assert_same_scalar(mv.view(array)[1], array[1])
