"""Masks: with the values through every operation that keeps them, refused by name where they would be lost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.arrays import arrays, assert_same, indices, outcome

import mojoview as mv
from mojoview.memory.errors import ArgumentError, MaskError, MojoViewError, ShapeError, ZeroCopyError
from mojoview.views._construct import with_mask


@st.composite
def masked_arrays(draw):
    values = draw(
        arrays(
            st.sampled_from([np.dtype("i4"), np.dtype("f8"), np.dtype("M8[ns]"), np.dtype("S2")]), max_dims=2
        ).filter(lambda a: 1 <= a.ndim <= 2)
    )
    mask = draw(arrays(st.just(np.dtype(bool)), max_dims=0))
    bits = np.random.default_rng(draw(st.integers(0, 5))).integers(0, 2, values.shape).astype(bool)
    if draw(st.booleans()):
        bits = np.asfortranarray(bits)
    if draw(st.booleans()):
        bits = np.ascontiguousarray(bits[..., ::-1])[..., ::-1]
    del mask
    return values, bits


def check(view, values, mask):
    """A view with a mask, or an element of one, against two plain arrays."""
    if np.ndim(values) == 0 and not isinstance(view, mv.View):
        assert view is None if mask else view == values or values != values
        return
    assert_same(view.data, values)
    assert_same(view.mask, mask)


@given(masked_arrays(), st.data())
def test_slicing_and_transposing_carry_the_mask(pair, data):
    values, mask = pair
    view = with_mask(mv.view(values), mv.view(mask))
    check(view, values, mask)
    check(view.T, values.T, mask.T)
    for _ in range(4):
        key = data.draw(indices(values.shape))
        expected = outcome(lambda key=key: (values[key], mask[key]))
        got = outcome(view.__getitem__, key)
        if expected[0] == "error":
            assert isinstance(got[1], MojoViewError)
        elif np.ndim(expected[1][0]) > 2:
            assert isinstance(got[1], ShapeError)
        else:
            check(got[1], *expected[1])


def test_masked_arrays_keep_their_mask():
    source = np.ma.array([1, 2], mask=[0, 1])
    view = mv.view(source)
    assert view.mask is not None
    assert np.asarray(view.mask).tolist() == [False, True]
    assert np.shares_memory(np.asarray(view.data), source.data)
    assert np.shares_memory(np.asarray(view.mask), source.mask)
    assert (view[0], view[1]) == (1, None)
    for consumer in (np.asarray, memoryview, bytes, np.array):
        with pytest.raises(MaskError, match=r"view\.data and view\.mask"):
            consumer(view)
    assert mv.view(np.ma.array([1, 2])).mask is None
    table = np.ma.array(np.arange(6).reshape(2, 3), mask=np.eye(2, 3, dtype=bool))
    check(mv.view(table), table.data, table.mask)


@pytest.mark.parametrize(
    "source",
    [
        np.ma.array(1, mask=True),
        np.ma.masked,
        np.ma.array(np.zeros((2, 2, 2)), mask=True),
        np.ma.array([(1, 2.0)], mask=[(True, False)], dtype=[("a", "i4"), ("b", "f8")]),
    ],
    ids=["0-d", "masked", "3-d", "record"],
)
def test_masked_arrays_that_a_view_cannot_carry(source):
    for copy in ("never", "if_needed", "always"):
        with pytest.raises(MaskError):
            mv.view(source, copy=copy)


def test_operations_that_would_lose_the_mask_are_refused():
    view = mv.view(np.ma.array(np.arange(6), mask=[0, 1, 0, 0, 0, 1]), writable=True)
    with pytest.raises(MaskError, match=r"reshape view\.data"):
        view.reshape(2, 3)
    with pytest.raises(MaskError, match=r"cast view\.data"):
        view.cast("i4")
    with pytest.raises(MaskError):
        view[0] = 5
    assert view.reshape(6).mask is not None
    assert view.cast("u8").mask is not None
    view.data[1] = 50
    assert view.owner[1] == 50
    with pytest.raises(ShapeError, match="at most 2"):
        view[None, None]
    with pytest.raises(MaskError):
        _ = view.__array_interface__


def test_with_mask_checks_both():
    values = mv.view(np.arange(6))
    for bad in (
        np.zeros(5, bool),
        np.zeros(6, "u1"),
        np.zeros((2, 3), bool),
        np.zeros((6, 1), bool),
        np.zeros((), bool),
    ):
        with pytest.raises(MaskError, match=r"expected bool of shape \(6,\)"):
            with_mask(values, mv.view(bad))
    with pytest.raises(MaskError, match="in 1 or 2 dimensions"):
        with_mask(mv.view(np.zeros((1, 1, 1))), mv.view(np.zeros((1, 1, 1), bool)))
    once = with_mask(values, mv.view(np.zeros(6, bool)))
    with pytest.raises(MaskError, match="without masks"):
        with_mask(once, mv.view(np.zeros(6, bool)))
    for arguments in ((None, values), (values, None), (1, 2)):
        with pytest.raises(TypeError):
            with_mask(*arguments)


def test_sub_array_fields_of_masked_records():
    record = mv.view(np.zeros(3, [("x", "f4", (2,)), ("y", "f4", (2, 2)), ("z", "i2")]))
    view = with_mask(record, mv.view(np.array([True, False, True])))
    assert np.asarray(view["x"].mask).tolist() == [[True, True], [False, False], [True, True]]
    assert np.asarray(view["z"].mask).tolist() == [True, False, True]
    assert view["x"][1, 0] == 0.0
    assert view["x"][0, 1] is None
    with pytest.raises(ShapeError, match="masked view has at most 2"):
        view["y"]


def test_copies_keep_the_mask_apart_from_the_original():
    source = np.ma.array([1, 2, 3], mask=[0, 1, 0])
    for origin in (source, mv.view(source)):
        view = mv.view(origin, copy="always", writable=True)
        view.data[0] = 9
        source.mask[2] = True
        assert np.asarray(view.mask).tolist() == [False, True, False]
        assert source[0] == 1
        source.mask[2] = False


def test_a_mask_outlives_its_view_and_its_array():
    view = mv.view(np.ma.array(np.arange(1000), mask=np.arange(1000) % 2))
    mask, part = view.mask, view[1::2]
    view.release()
    del view
    assert np.asarray(mask).sum() == 500
    assert part[0] is None
    assert np.asarray(part.mask).all()


def test_errors_have_the_builtins_that_callers_expect():
    assert issubclass(MaskError, ValueError)
    assert issubclass(MaskError, BufferError)
    assert issubclass(ZeroCopyError, ValueError)
    assert issubclass(ArgumentError, TypeError)
