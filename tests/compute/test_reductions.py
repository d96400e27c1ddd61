"""Reductions against NumPy: value, type and error, over dtypes, layouts, axes and masks."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.numbers import (
    ALL,
    FLOATS,
    INTS,
    LAYOUTS,
    NUMBERS,
    UINTS,
    case,
    masked_view,
    number_arrays,
    spread,
    values,
    wide_sum,
)

import mojoview as mv
from mojoview import kernels
from mojoview.memory.errors import ArgumentError, DTypeError, KernelValueError, MaskError, ShapeError

SHAPES = [(7,), (5, 6), (3, 4, 5), (2048,), (2049,), (1,), (70_001,), (1, 9, 1)]


def numpy_of(name, array, axis=None, **options):
    """Return the expected result: NumPy with wide accumulators, and its dtype for results along an axis."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)
        if name == "sum":
            return wide_sum(array, axis)
        if name == "count":
            return np.sum(array == array, axis=axis)
        if name in ("mean", "var", "std"):
            return getattr(np, name)(array.astype(np.longdouble), axis=axis, **options)
        return getattr(np, name)(array, axis=axis)


def tolerance(array, name):
    """Return the tolerance relative to the magnitude of the numbers summed, not of their sum."""
    if array.dtype.kind != "f":
        return 1e-12
    return 1e-13 if array.dtype == "f8" else 1e-6 if array.dtype == "f4" else 2e-3


def magnitude(array, name):
    """Return what errors of a sum of these numbers are relative to."""
    wide = array.astype(np.longdouble)
    scale = np.abs(wide[np.isfinite(wide)]).max(initial=1) ** (2 if name == "var" else 1)
    return scale * (max(array.size, 1) if name in ("sum", "dot") else 1)


def assert_close(got, expected, array, name, scale=None):
    """Compare within the tolerance; `scale` is the magnitude, where the caller has it."""
    got, expected = np.asarray(got, np.longdouble), np.asarray(expected, np.longdouble)
    assert (np.isnan(got) == np.isnan(expected)).all(), (got, expected)
    scale = magnitude(array, name) if scale is None else scale
    both = np.isfinite(expected) & np.isfinite(got)
    assert (got[~both & ~np.isnan(got)] == expected[~both & ~np.isnan(got)]).all(), (got, expected)
    assert (np.abs(got[both] - expected[both]) <= tolerance(array, name) * scale).all(), (got, expected)


EXACT = ("min", "max", "argmin", "argmax", "count", "any", "all")


NAMES = ["sum", "mean", "var", "std", *EXACT]
KINDS = {
    "mean": float,
    "var": float,
    "std": float,
    "argmin": int,
    "argmax": int,
    "count": int,
    "any": bool,
    "all": bool,
}


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("name", NAMES)
def test_everything_to_one_number(name, dtype):
    kind = {"b": bool, "f": float}.get(np.dtype(dtype).kind, int)
    kind = KINDS.get(name) or (int if name == "sum" and kind is bool else kind)
    for seed, shape in enumerate(SHAPES):
        for specials in (False, True):
            array = values(shape, dtype, seed, specials)
            expected, scale = numpy_of(name, array), None if name in EXACT else magnitude(array, name)
            for layout in LAYOUTS:
                with case(shape=shape, specials=specials, layout=layout):
                    got = getattr(kernels, name)(spread(array, layout))
                    if name in EXACT or (name == "sum" and array.dtype.kind != "f"):
                        assert got == expected or (got != got and expected != expected), (got, expected)
                    else:
                        assert_close(got, expected, array, name, scale)
                    assert type(got) is kind


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("name", NAMES)
def test_along_an_axis(name, dtype):
    for seed, shape in enumerate([(5, 6), (3, 4, 5), (300, 2), (2, 300), (1, 9, 1), (40_000, 3), (3, 40_000)]):
        array = values(shape, dtype, seed, seed % 2 == 1)
        scale = None if name in EXACT else magnitude(array, name)
        for axis in range(-1 if array.size < 1000 else 0, len(shape)):
            expected = numpy_of(name, array, axis)
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                reference = (array == array).sum(axis=axis) if name == "count" else getattr(np, name)(array, axis=axis)
            for layout in LAYOUTS:
                with case(shape=shape, axis=axis, layout=layout):
                    got = getattr(kernels, name)(spread(array, layout), axis=axis)
                    assert isinstance(got, np.ndarray)
                    assert got.dtype == reference.dtype
                    assert got.shape == reference.shape
                    assert got.flags.owndata or got.base is None
                    if name in EXACT:
                        np.testing.assert_array_equal(got, expected)
                    elif got.dtype == "f2" and name in ("sum", "var"):
                        rounded = expected.astype("f2").astype("f4")
                        np.testing.assert_allclose(got.astype("f4"), rounded, rtol=2e-3, atol=2e-2)
                    else:
                        assert_close(got, np.asarray(expected).astype(got.dtype), array, name, scale)


@given(number_arrays(), st.sampled_from(NAMES), st.data())
@settings(max_examples=300, deadline=None)
def test_any_layout_axis_and_mask(array, name, data):
    axis = data.draw(st.none() | st.integers(0, array.ndim - 1))
    missing = np.zeros(array.shape, bool)
    source = array
    if array.ndim <= 2 and data.draw(st.booleans()):
        missing = np.random.default_rng(data.draw(st.integers(0, 9))).random(array.shape) < data.draw(
            st.sampled_from([0.2, 0.9, 1.0])
        )
        source = masked_view(array, missing, data.draw(st.sampled_from(["dense", "reversed", "stepped", "fortran"])))
    function = getattr(kernels, name)
    lines = (
        [(array.reshape(-1), missing.reshape(-1))]
        if axis is None
        else list(
            zip(
                np.moveaxis(array, axis, -1).reshape(-1, array.shape[axis]),
                np.moveaxis(missing, axis, -1).reshape(-1, array.shape[axis]),
                strict=True,
            )
        )
        if array.size
        else None
    )
    if lines is None or (name in ("min", "max", "argmin", "argmax") and any(m.all() for _, m in lines)):
        if lines is not None or axis is None:
            with pytest.raises(ValueError, match="at least one element"):
                function(source, axis=axis)
        return
    got = np.ravel(np.asarray(function(source, axis=axis)))
    assert got.size == len(lines)
    for one, (line, absent) in zip(got, lines, strict=True):
        if name in ("argmin", "argmax"):
            expected = np.flatnonzero(~absent)[getattr(np, name)(line[~absent])]
        else:
            expected = numpy_of(name, line[~absent])
        if name in EXACT:
            assert one == expected or (one != one and expected != expected)
        elif got.dtype == "f2":
            np.testing.assert_allclose(np.float32(one), np.float16(expected).astype("f4"), rtol=2e-3, atol=2e-2)
        elif name == "sum" and line.dtype.kind != "f":
            assert one == expected
        else:
            assert_close(one, np.asarray(expected).astype(got.dtype), line, name)


@pytest.mark.parametrize("dtype", ALL)
def test_dot(dtype):
    for seed, shape in enumerate([(7,), (5, 6), (5000,)]):
        x, y = values(shape, dtype, seed), values(shape, dtype, seed + 9)
        if np.dtype(dtype).kind == "f":
            assert_close(kernels.dot(x, y), (x.astype("g") * y.astype("g")).sum(), x * y, "dot")
        else:
            wide = np.uint64 if x.dtype.kind == "u" else np.int64
            with np.errstate(over="ignore"):
                assert kernels.dot(x, y) == (x.astype(wide) * y.astype(wide)).sum()
        assert kernels.dot(spread(x, "stepped"), spread(y, "field")) == kernels.dot(x, y)
    x, y = np.arange(12.0).reshape(3, 4), np.ones((3, 4))
    np.testing.assert_array_equal(kernels.dot(x, y, axis=0), (x * y).sum(axis=0))
    with pytest.raises(ShapeError):
        kernels.dot(x, y[:2])


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("name", ["sum", "mean", "var", "count", "any", "all"])
def test_nothing_to_reduce(name, dtype):
    got = getattr(kernels, name)(np.empty(0, dtype))
    assert (
        got == {"sum": 0, "count": 0, "any": False, "all": True}[name]
        if name in ("sum", "count", "any", "all")
        else got != got
    )
    assert getattr(kernels, name)(np.empty((0, 3), dtype), axis=0).shape == (3,)
    assert getattr(kernels, name)(np.empty((0, 3), dtype), axis=1).shape == (0,)


@pytest.mark.parametrize("name", ["min", "max", "argmin", "argmax"])
def test_extremes_of_nothing(name):
    for empty in (np.empty(0), np.empty((3, 0)), masked_view(np.ones(3), np.ones(3, bool))):
        with pytest.raises(KernelValueError, match=rf"{name}\(\): expected at least one element"):
            getattr(kernels, name)(empty)
    with pytest.raises(ValueError, match="at least one element"):
        getattr(kernels, name)(np.empty((3, 0)), axis=1)
    assert getattr(kernels, name)(np.empty((0, 3)), axis=1).shape == (0,)


@pytest.mark.parametrize("name", ["sum", "mean", "argmax", "all"])
def test_axis_arguments(name):
    function, array = getattr(kernels, name), np.arange(6.0).reshape(2, 3)
    for axis in (2, -3, 10**20):
        with pytest.raises(ShapeError, match="axis"):
            function(array, axis=axis)
    for axis in (1.0, "0", True, (0, 1)):
        with pytest.raises(ArgumentError, match="axis"):
            function(array, axis=axis)
    assert function(np.arange(3.0), axis=0) == function(np.arange(3.0), axis=-1) == function(np.arange(3.0))
    with pytest.raises(ShapeError):
        function(np.array(1.0), axis=0)
    assert function(np.array(1.0)) == getattr(np, name)(np.array(1.0))


@pytest.mark.parametrize("ddof", [0, 1, 2, 2.5, 7, 8, -1])
def test_ddof(ddof):
    x = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 0.5, 3.0])
    expected = np.nan if ddof >= 7 else ((x - x.mean()) ** 2).sum() / (7 - ddof)
    np.testing.assert_allclose(kernels.var(x, ddof=ddof), expected, rtol=1e-14)
    np.testing.assert_allclose(kernels.std(x, None, ddof), np.sqrt(expected), rtol=1e-14)


def test_variance_is_stable():
    x = np.random.default_rng(0).standard_normal(300_000)
    for shift in (0, 1e6, 1e9):
        moved = x + shift
        np.testing.assert_allclose(kernels.var(moved), moved.astype("g").var(), rtol=1e-9)
    assert kernels.var(np.full(100_000, 0.1)) < 1e-30
    big = np.arange(300_000, dtype="i8") + 2**60
    np.testing.assert_allclose(kernels.var(big), np.arange(300_000).var(), rtol=1e-2)  # doubles near 2^60 are 256 apart
    np.testing.assert_allclose(kernels.var(big - 2**60 + 2**45), np.arange(300_000).var(), rtol=1e-9)


def test_swapped_byte_order_is_named():
    a = np.ones(10, ">f4")
    for name in ("sum", "min", "count", "describe"):
        with pytest.raises(DTypeError, match=r"native byte order, got swapped float32"):
            getattr(kernels, name)(a)
    assert kernels.sum(a.astype("<f4")) == 10.0
    with pytest.raises(DTypeError, match="byte order"):
        kernels.add(np.ones(3), np.ones(3), np.ones(3, ">f8"))


def test_strides_in_bytes():
    z = np.zeros(3, np.dtype({"names": ["i", "d"], "formats": ["i4", "f8"], "offsets": [0, 4], "itemsize": 12}))
    z["d"] = [1, 2, 4]
    a = z["d"]
    assert a.strides == (12,)
    assert kernels.sum(a) == kernels.sum(mv.view(z)["d"]) == 7.0
    assert (kernels.max(a), kernels.argmax(a), kernels.mean(a)) == (4.0, 2, 7 / 3)
    kernels.scale(2.0, a, a)
    assert z["d"].tolist() == [2, 4, 8]
    assert z["i"].tolist() == [0, 0, 0]


def test_nat_as_in_numpy():
    m = np.arange(10).astype("m8[s]")
    m[1] = "NaT"
    for got in (kernels.min(m), kernels.max(m)):
        assert np.isnat(got)
        assert got.dtype == m.dtype
    assert (kernels.argmin(m), kernels.argmax(m), kernels.count(m)) == (1, 1, 9)
    assert kernels.describe(m).min == np.timedelta64(0, "s")
    for seed, dtype in enumerate(["M8[ns]", "m8[us]", "M8[D]", "m8[7D]"]):
        days = np.random.default_rng(seed).integers(-1000, 1000, 5000).astype(dtype)
        for array in (days, np.where(np.arange(5000) == 3210, np.array("NaT", dtype), days)):
            for layout in ("dense", "stepped", "field"):
                x = spread(array, layout)
                for name in ("min", "max", "argmin", "argmax"):
                    got, expected = getattr(kernels, name)(x), getattr(np, name)(x)
                    assert got == expected or (np.isnat(got) and np.isnat(expected))
                    assert np.asarray(got).dtype == expected.dtype
                assert kernels.count(x) == (~np.isnat(x)).sum()
                rows = spread(array.reshape(50, 100), layout)
                for name in ("min", "max", "argmin", "argmax"):
                    got, expected = getattr(kernels, name)(rows, axis=0), getattr(np, name)(rows, axis=0)
                    np.testing.assert_array_equal(got, expected)
                    assert got.dtype == expected.dtype
    for name in ("sum", "mean", "var", "any", "all"):
        with pytest.raises(DTypeError, match=r"cast\('i8'\)"):
            getattr(kernels, name)(m)
    with pytest.raises(DTypeError, match=r"cast\('i8'\)"):
        kernels.add(m, m, m.copy())


def test_wide_accumulators():
    for array, expected in [
        (np.full(300, 100, "i1"), 30000),
        (np.full((5, 60), 100, "i1").T, 30000),
        (np.full(300, -100, "i1"), -30000),
        (np.full(300, 255, "u1"), 76500),
        (np.full(70_000, 32767, "i2"), 2293690000),
        (np.full(3, 2**31 - 1, "i4"), 6442450941),
        (np.array([2**63, 2**63 - 1], "u8"), 18446744073709551615),
        (np.ones(300, bool), 300),
        (np.zeros(5, bool), 0),
    ]:
        got = kernels.sum(array)
        assert got == expected
        assert type(got) is int
        for name in ("min", "max", "argmin", "argmax"):
            assert getattr(kernels, name)(array) == getattr(np, name)(array)
    with np.errstate(over="ignore"):
        for dtype in ("i8", "u8"):
            wraps = np.full(5, np.iinfo(dtype).max, dtype)
            assert kernels.sum(wraps) == wraps.sum()
            assert kernels.mean(wraps) == float(np.iinfo(dtype).max)
    assert kernels.mean(np.array([-(2**63), -(2**63), 2**63 - 1], "i8")) == -(2**63 + 1) / 3


def test_first_nan_and_first_zero_win():
    assert kernels.argmax(np.array([1, np.nan, 3, np.nan])) == kernels.argmin(np.array([1, np.nan, 3, np.nan])) == 1
    for zeros in ([-0.0, 0.0], [0.0, -0.0]):
        a = np.array(zeros)
        assert kernels.argmax(a) == kernels.argmin(a) == 0
        assert kernels.max(a) == kernels.min(a) == 0
    for dtype in FLOATS:
        for n in (3, 40, 5000, 200_000):
            for at in {0, 1, n // 2, n - 1}:
                x = values(n, dtype, at)
                x[at] = np.nan
                x[n - 1] = np.nan
                for name in ("argmin", "argmax"):
                    assert getattr(kernels, name)(x) == at
                    assert getattr(kernels, name)(spread(x, "stepped")) == at
                assert np.isnan(kernels.min(x))
                assert np.isnan(kernels.max(x))


def test_slow_axis_of_float32():
    x = np.ones((20_000_000, 2), "f4")
    for axis in (0, 1):
        got = kernels.mean(x, axis=axis)
        assert got.dtype == np.float32
        assert np.abs(got - 1).max() < 1e-6
    assert kernels.mean(x) == 1.0
    assert kernels.sum(x.T, axis=1).tolist() == [20_000_000, 20_000_000]


def test_float32_sums_in_every_order():
    assert kernels.sum(np.ones(2**24 + 4096, "f4")) == 16781312
    for array in (np.full(2**20, 0.1, "f4"), np.full(2**20, 0.1, "f4")[::-1], np.full(2**21, 0.1, "f4")[::2]):
        assert abs(kernels.sum(array) / 104857.6015625 - 1) < 1e-9
    half = np.full(100_000, 0.1, "f2")
    assert abs(kernels.sum(half) / half.astype("f8").sum() - 1) < 1e-12


def test_compensation_across_blocks():
    x = np.concatenate([[1e16], np.ones(1_000_000), [-1e16]])
    assert abs(kernels.sum(x) - 1_000_000) < 3000  # within a block sixteen lanes add plainly
    assert kernels.sum(np.tile([1.0, 1e100, 1.0, -1e100], 1)) in (0.0, 1.0, 2.0)
    assert kernels.sum(np.array([np.inf, 1.0])) == np.inf
    assert np.isnan(kernels.sum(np.array([np.inf, -np.inf])))
    assert kernels.sum(np.array([1e308, 1e308])) == np.inf
    assert kernels.mean(np.concatenate([np.full(5000, 1.0), [np.inf], np.full(5000, 1.0)])) == np.inf


def test_bools_of_other_bytes():
    raw = np.array([0, 2, 1, 255, 0], "u1").view(bool)
    assert (kernels.sum(raw), kernels.argmax(raw), kernels.max(raw), kernels.min(raw)) == (3, 1, True, False)
    assert (kernels.any(raw), kernels.all(raw), kernels.dot(raw, raw), kernels.mean(raw)) == (True, False, 3, 0.6)


@pytest.mark.parametrize("name", ["sum", "mean", "std", "argmin", "count", "any"])
@pytest.mark.parametrize("dtype", ["c8", "c16", "S3", "U2", "V4", "g", [("a", "i4")]])
def test_dtypes_without_a_loop(name, dtype):
    with pytest.raises(DTypeError, match=rf"{name}\(\): argument 'x'"):
        getattr(kernels, name)(np.zeros(3, dtype))


def test_masks_in_three_dimensions_are_refused():
    view = mv.view(np.ma.array(np.zeros((2, 3)), mask=np.eye(2, 3, dtype=bool)))
    assert kernels.count(view) == 4
    assert kernels.count(view, axis=0).tolist() == [1, 1, 2]
    with pytest.raises(MaskError):
        kernels.sum(mv.view(np.ma.array(np.zeros((2, 3, 2)), mask=True)))


def test_nullable_columns():
    import pandas as pd

    x = pd.array([1, None, 3], dtype="Int64")
    series = pd.Series(x)
    assert (kernels.sum(series), kernels.min(series), kernels.count(series), kernels.argmax(series)) == (4, 1, 2, 2)
    view = mv.view(np.ma.array(x._data, mask=x._mask))
    assert (kernels.sum(view), kernels.min(view), kernels.count(view), kernels.mean(view)) == (4, 1, 2, 2.0)
    assert (kernels.describe(series).count, kernels.describe(series).max) == (2, 3)


def test_read_only_input_is_fine():
    frozen = np.frombuffer(np.arange(10.0).tobytes(), "f8")
    assert not frozen.flags.writeable
    for name in ("sum", "mean", "var", "min", "argmax", "count", "any"):
        assert getattr(kernels, name)(frozen) == getattr(np, name if name != "count" else "size")(frozen)
    assert kernels.sum(memoryview(bytes(8)).cast("d")) == 0
    import pandas as pd

    assert kernels.sum(pd.Series([1.0, 2.0])) == 3.0


def test_float16_is_exact_both_ways():
    every = np.arange(65536, dtype="u2").view("f2")
    out = np.empty_like(every)
    kernels.scale(1.0, every, out)
    nan = np.isnan(every)
    assert (out[~nan].view("u2") == every[~nan].view("u2")).all()
    assert np.isnan(out[nan]).all()
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal(100_000).astype("f2"), rng.standard_normal(100_000).astype("f2")
    for scale in (1, 1e-4, 1e-6, 300):
        a = (x * np.float16(scale)).astype("f2")
        kernels.multiply(a, y, out := np.empty_like(a))
        np.testing.assert_array_equal(out, (a.astype("f4") * y.astype("f4")).astype("f2"))


def test_numbers_of_every_kind_are_listed():
    assert set(ALL) == {"?", *NUMBERS} == {"?", *INTS, *UINTS, *FLOATS}
