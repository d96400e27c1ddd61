"""view() of arrays: value, dtype, geometry, flags and address are NumPy's own."""

from __future__ import annotations

import operator
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.arrays import DTYPES, arrays, assert_same, filled

import mojoview as mv
from mojoview.memory import errors
from mojoview.memory.errors import ArgumentError, DTypeError, LayoutError, ReadOnlyError, ReleasedError, ShapeError


@pytest.mark.parametrize("shape", [(), (0,), (1,), (5,), (2, 3), (3, 0, 2), (1, 1), (2, 1, 3)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_view_of_every_dtype(dtype, shape):
    for order in "CF":
        for shift in (0, 1):
            array = filled(shape, dtype, order, shift)
            assert_same(mv.view(array), array, readonly=True)
            assert_same(mv.view(array, writable=True), array, readonly=False)


@given(arrays())
def test_view_of_any_layout(array):
    view = mv.view(array)
    assert_same(view, array, readonly=True)
    assert view.owner is array
    assert_same(mv.view(view), array, readonly=True)


@given(arrays(max_dims=3))
def test_writable_needs_elements_without_overlap(array):
    # the bytes that each element covers, counted in an integer array of the same geometry
    element = np.lib.stride_tricks.as_strided(np.zeros(1, "u1"), array.shape, [0] * array.ndim)
    offsets = sum(
        (
            np.arange(n).reshape([-1 if a == k else 1 for a in range(array.ndim)]) * s
            for k, (n, s) in enumerate(zip(array.shape, array.strides, strict=True))
        ),
        np.zeros(element.shape, "i8"),
    ).ravel()
    offsets.sort()
    overlaps = array.itemsize > 0 and bool((np.diff(offsets) < array.itemsize).any())
    if array.flags.writeable and not overlaps:
        assert_same(mv.view(array, writable=True), array, readonly=False)
    else:
        with pytest.raises((LayoutError, ReadOnlyError)):
            mv.view(array, writable=True)


def test_equal_records_are_aligned_each_by_its_own_dtype():
    aligned = np.dtype([("a", "f8"), ("b", "i8")], align=True)
    packed = np.dtype([("a", "f8"), ("b", "i8")])
    assert aligned == packed
    for dtype in (aligned, packed, aligned):
        array = np.ndarray(2, dtype, bytes(40), 4)
        assert_same(mv.view(array), array)
        assert mv.view(array).aligned == (dtype.alignment <= 4)


def test_nine_dimensions_are_refused_by_number():
    with pytest.raises(ShapeError, match="9 dimensions, the descriptor holds 8"):
        mv.view(np.zeros((1,) * 9))
    assert mv.view(np.zeros((1,) * 8)).ndim == 8


@pytest.mark.parametrize("dtype", [object, [("a", "i4"), ("b", "O")]], ids=str)
def test_references_are_refused(dtype):
    for copy in ("never", "if_needed", "always"):
        with pytest.raises(DTypeError, match="Python objects"):
            mv.view(np.zeros(2, dtype), copy=copy)


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="NumPy 1.26 has no StringDType")
def test_variable_width_strings_are_refused():
    with pytest.raises(DTypeError, match="variable-width strings"):
        mv.view(np.array(["a", "bc"], np.dtypes.StringDType()))


class Liar(np.ndarray):
    """Says int64 whatever it holds."""

    @property
    def dtype(self):
        return np.dtype("i8")


def test_a_subclass_is_not_believed_about_its_dtype():
    assert mv.view(np.zeros(3).view(Liar)).dtype == np.dtype("f8")
    with pytest.raises(DTypeError):
        mv.view(np.array([None, "x"], object).view(Liar))


@pytest.mark.parametrize("kind", ["matrix", "recarray", "memmap", "subclass"])
def test_subclasses_of_ndarray(kind, tmp_path):
    array = {
        "matrix": lambda: np.arange(6.0).reshape(2, 3).view(np.matrix),
        "recarray": lambda: np.rec.array([(1, 2.0), (3, 4.0)], dtype=[("a", "i4"), ("b", "f8")]),
        "memmap": lambda: np.memmap(tmp_path / "file", "i2", "w+", shape=(3, 4)),
        "subclass": lambda: np.arange(3).view(type("Sub", (np.ndarray,), {})),
    }[kind]()
    view = mv.view(array)
    assert_same(view, array, readonly=True)
    assert view.owner is array


def test_iteration_length_and_truth_follow_the_first_axis():
    array = np.arange(12).reshape(3, 4)
    view = mv.view(array)
    assert len(view) == 3
    for row, expected in zip(view, array, strict=True):
        assert_same(row, expected)
    assert [int(x) for x in mv.view(array[0])] == [0, 1, 2, 3]
    assert np.int64(7) in mv.view(array[1])
    for many in (view, mv.view(np.zeros(0)), mv.view(np.ones(1))):
        with pytest.raises(ArgumentError, match="truth"):
            bool(many)
    for function in (len, iter):
        with pytest.raises(ArgumentError):
            function(mv.view(np.array(1.0)))
        with pytest.raises(TypeError):
            function(np.array(1.0))


@pytest.mark.parametrize("value", [
    np.uint8(53), np.int64(-(2**63)), np.uint64(2**64 - 1), np.float64(2.5), np.float32("nan"), np.float64(-0.0),
    np.bool_(True), np.bool_(False), np.complex128(1 + 2j), np.datetime64("2020-01-01"), np.str_("7"), np.bytes_(b"8"),
], ids=repr)  # fmt: skip
@pytest.mark.parametrize("convert", [int, float, complex, bool, operator.index], ids=lambda f: f.__name__)
def test_an_element_converts_as_numpy_scalar_does(value, convert):
    """Not by its bytes: `int()` of a buffer parses them as text."""
    view = mv.view(np.array(value))
    try:
        expected = convert(value)
    except (TypeError, ValueError, np.exceptions.ComplexWarning) as error:
        with pytest.raises(type(error)):
            convert(view)
        return
    assert repr(convert(view)) == repr(expected)


@pytest.mark.parametrize("convert", [int, float, complex, operator.index], ids=lambda f: f.__name__)
@pytest.mark.parametrize("shape", [(1,), (0,), (2, 1)])
def test_more_than_an_element_does_not_convert(convert, shape):
    with pytest.raises(TypeError):
        convert(mv.view(np.ones(shape, "i8")))
    released = mv.view(np.array(1))
    released.release()
    with pytest.raises(errors.ReleasedError):
        convert(released)


@pytest.mark.parametrize("name", ["lt", "le", "eq", "ne", "gt", "ge"])
def test_comparisons_are_elementwise_as_numpy_has_them(name):
    compare = getattr(operator, name)
    array, other = np.array([[1.0, np.nan, 3.0], [4.0, 5.0, 0.0]]), np.array([1.0, 2.0, 3.0])
    for left, right in [(array, 1.0), (array, other), (other, array), (array, array), (array[:, ::-1], array)]:
        views = [mv.view(side) if isinstance(side, np.ndarray) else side for side in (left, right)]
        expected = compare(left, right)
        for found in (compare(*views), compare(views[0], right), compare(left, views[1])):
            assert isinstance(found, np.ndarray)
            np.testing.assert_array_equal(found, expected)
    if name in ("eq", "ne"):
        assert compare(mv.view(np.array(["a", "b"])), "a").tolist() == compare(np.array(["a", "b"]), "a").tolist()
    with pytest.raises(TypeError):
        hash(mv.view(other))
    masked = mv.view(np.ma.array([1.0, 2.0], mask=[0, 1]))
    with pytest.raises(errors.MaskError):
        compare(masked, 1.0)


def test_assignment_writes_through_to_the_array():
    array = np.arange(12.0).reshape(3, 4)
    view = mv.view(array, writable=True)
    expected = array.copy()
    for key, value in [
        ((0, 0), 5),
        (slice(None, None, 2), [[1], [2]]),
        ((Ellipsis, -1), 9),
        (expected > 8, 0),
        ([1, 2], 7),
    ]:
        view[key] = value
        expected[key] = value
        np.testing.assert_array_equal(array, expected)
    assert array.flags.writeable


def test_assignment_to_fields_and_datetimes():
    array = np.zeros(3, [("a", "i4"), ("t", "M8[D]")])
    view = mv.view(array, writable=True)
    view["a"] = [1, 2, 3]
    view["t"] = np.datetime64("2024-01-01")
    view["t"][1] = "NaT"
    assert array["a"].tolist() == [1, 2, 3]
    assert array["t"].astype(str).tolist() == ["2024-01-01", "NaT", "2024-01-01"]


@given(st.data())
def test_assignment_equals_numpy_or_fails_as_numpy_does(data):
    from support.arrays import PLAIN, assert_error_like, indices, outcome

    array = filled((3, 4), data.draw(st.sampled_from([d for d in PLAIN if d.kind in "biuf"])))
    key = data.draw(indices(array.shape))
    value = data.draw(st.sampled_from([0, 1, -1, 300, 10**30, 1.5, [1, 2], [[1], [2], [0]], "x", None]))
    ours, theirs = array.copy(), array.copy()
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # NumPy 1.26 still lets integers wrap around
        expected = outcome(theirs.__setitem__, key, value)
        got = outcome(mv.view(ours, writable=True).__setitem__, key, value)
    assert got[0] == expected[0], (got, expected)
    if got[0] == "error":
        assert_error_like(got[1], expected[1])
    assert ours.tobytes() == theirs.tobytes()


def test_assignment_to_a_read_only_view_changes_nothing():
    array = np.arange(3)
    for key in (0, slice(None), 99, "field"):
        with pytest.raises(ReadOnlyError, match="writable=True"):
            mv.view(array)[key] = 1
    assert array.tolist() == [0, 1, 2]


def test_elements_cannot_be_deleted():
    with pytest.raises(ArgumentError):
        del mv.view(np.arange(3), writable=True)[0]


def test_a_view_of_a_writable_view_is_read_only_by_default():
    array = np.arange(3)
    writable = mv.view(array, writable=True)
    mv.view(writable, writable=True)[0] = 9
    assert array[0] == 9
    assert mv.view(writable).readonly
    assert not writable.readonly
    with pytest.raises(ReadOnlyError):
        mv.view(mv.view(array), writable=True)


PUBLIC = [
    "ptr",
    "shape",
    "strides",
    "ndim",
    "size",
    "nbytes",
    "itemsize",
    "dtype",
    "readonly",
    "contiguous",
    "f_contiguous",
    "aligned",
    "device",
    "mask",
    "masked",
    "validity",
    "arrow_format",
    "data",
    "owner",
    "T",
    "__array_interface__",
    "__cuda_array_interface__",
]
CALLS = {
    "getitem": lambda v: v[0],
    "field": lambda v: v["a"],
    "ellipsis": lambda v: v[...],
    "reshape": lambda v: v.reshape(-1),
    "cast": lambda v: v.cast("u1"),
    "to_series": lambda v: v.to_series(),
    "len": len,
    "iter": iter,
    "enter": lambda v: v.__enter__(),
    "array": lambda v: v.__array__(),
    "setitem": lambda v: v.__setitem__(0, 1),
    "view": mv.view,
    "writable": lambda v: mv.view(v, writable=True),
    "copy": lambda v: mv.view(v, copy="always"),
    "dlpack": lambda v: v.__dlpack__(),
    "dlpack device": lambda v: v.__dlpack_device__(),
    "arrow": lambda v: v.__arrow_c_array__(),
    "arrow schema": lambda v: v.__arrow_c_schema__(),
    "arrow device": lambda v: v.__arrow_c_device_array__(),
    "bool": bool,
    "contains": lambda v: 1 in v,
}


def test_every_public_attribute_is_tried_after_release():
    skipped = {
        "closed",
        "release",
        "reshape",
        "cast",
        "to_series",
    }  # `closed` answers, `release` is idempotent, the others are in CALLS
    public = {name for name in PUBLIC if not name.startswith("_")}
    assert {name for name in dir(mv.View) if not name.startswith("_")} - skipped == public


@pytest.mark.parametrize("name", PUBLIC)
def test_attributes_after_release_raise(name):
    view = mv.view(np.arange(3))
    view.release()
    with pytest.raises(ReleasedError, match="released"):
        getattr(view, name)


@pytest.mark.parametrize("name", CALLS)
def test_calls_after_release_raise(name):
    view = mv.view(np.arange(3), writable=True)
    view.release()
    with pytest.raises(ReleasedError, match="released"):
        CALLS[name](view)


def test_a_released_view_still_says_so():
    view = mv.view(np.arange(3))
    assert not view.closed
    view.release()
    view.release()
    assert view.closed
    assert repr(view) == "<View released>"
    assert "released" in view._repr_html_()
    for consumer in (memoryview, bytes, np.asarray):
        with pytest.raises(ReleasedError):
            consumer(view)
