"""Elementwise kernels against NumPy, over dtypes, layouts and masks; what they refuse leaves the output as it was."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.numbers import ALL, LAYOUTS, NUMBERS, case, masked_view, number_arrays, spread, values

import mojoview as mv
from mojoview import kernels
from mojoview.calls.binding import COMPARISONS
from mojoview.memory.errors import (
    ArgumentError,
    DTypeError,
    KernelOverflowError,
    KernelValueError,
    MaskError,
    MojoViewError,
    OverlapError,
    ReadOnlyError,
    ShapeError,
)

UFUNCS = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply}
COMPARES = {
    "lt": np.less,
    "le": np.less_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "ge": np.greater_equal,
    "gt": np.greater,
}


def expected_binary(name, x, y):
    with np.errstate(all="ignore"):
        return UFUNCS[name](x, y)


def assert_identical(got, expected):
    """Bit for bit, but for the payload of NaN."""
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)
    if got.dtype.kind == "f":
        ordinary = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(got)[ordinary], np.signbit(expected)[ordinary])


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("name", [*UFUNCS, "compare"])
def test_two_arrays(name, dtype):
    for seed, shape in enumerate([(0,), (1,), (37,), (5, 7), (2, 3, 5), (70_000,)]):
        x, y = values(shape, dtype, seed, True), values(shape, dtype, seed + 50, True)
        for layout in LAYOUTS:
            with case(shape=shape, layout=layout):
                check_two_arrays(name, x, y, layout)


def check_two_arrays(name, x, y, layout):
    if name == "compare":
        for op, ufunc in COMPARES.items():
            out = spread(np.zeros(x.shape, bool), layout)
            assert kernels.compare(spread(x, layout), y, out, op=op) is None
            np.testing.assert_array_equal(out, ufunc(x, y))
    elif name == "subtract" and x.dtype == "?":
        with pytest.raises(DTypeError):
            kernels.subtract(x, y, x.copy())
    else:
        out = spread(np.zeros(x.shape, x.dtype), layout)
        assert getattr(kernels, name)(spread(x, layout), y, out) is None
        assert_identical(out, expected_binary(name, x, y))


@pytest.mark.parametrize("dtype", NUMBERS)
def test_scalars_and_one_array(dtype):
    for seed, shape in enumerate([(0,), (37,), (5, 7), (70_000,)]):
        x, y = values(shape, dtype, seed, True), values(shape, dtype, seed + 50, True)
        for layout in LAYOUTS:
            with case(shape=shape, layout=layout):
                check_scalars_and_one_array(dtype, x, y, layout)


def check_scalars_and_one_array(dtype, x, y, layout):
    number = 3 if np.dtype(dtype).kind != "f" else 1.5
    source, out = spread(x, layout), spread(np.zeros(x.shape, dtype), layout)
    typed = np.dtype(dtype).type(number)
    with np.errstate(all="ignore"):
        kernels.scale(number, source, out)
        assert_identical(out, typed * x)
        for name in UFUNCS:
            getattr(kernels, name)(source, number, out)
            assert_identical(out, UFUNCS[name](x, typed))
        kernels.copy(source, out)
        assert_identical(out, x)
        kernels.clip(source, 1, 4, out)
        assert_identical(out, np.clip(x, np.dtype(dtype).type(1), np.dtype(dtype).type(4)))
        target = spread(y, layout)
        kernels.axpy(number, source, target)
        wide = "f4" if dtype == "f2" else dtype
        assert_identical(target, (y.astype(wide) + np.dtype(wide).type(number) * x.astype(wide)).astype(dtype))
        answer = spread(np.zeros(x.shape, bool), layout)
        kernels.compare(source, number, answer, op="ge")
        np.testing.assert_array_equal(answer, x >= typed)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_clip_bounds(dtype):
    x = np.array([np.nan, -np.inf, -1, -0.0, 0.0, 1, np.inf], dtype)
    out = np.empty_like(x)
    for lo, hi in [(-1, 1), (1, -1), (np.nan, 1), (-1, np.nan), (-np.inf, np.inf), (0, 0)]:
        kernels.clip(x, lo, hi, out)
        np.testing.assert_array_equal(out, np.clip(x, np.dtype(dtype).type(lo), np.dtype(dtype).type(hi)))
    ints, clipped = np.arange(-5, 6), np.empty(11, int)
    kernels.clip(ints, 2, -2, clipped)
    np.testing.assert_array_equal(clipped, np.clip(ints, 2, -2))


@given(number_arrays(max_dims=2), st.data())
@settings(max_examples=200, deadline=None)
def test_masks_leave_the_output_alone(x, data):
    y = spread(values(x.shape, x.dtype.str, 3), data.draw(st.sampled_from(LAYOUTS)))
    out = spread(values(x.shape, x.dtype.str, 4), data.draw(st.sampled_from(LAYOUTS)))
    before, missing, sources = out.copy(), np.zeros(x.shape, bool), [x, y, out]
    for k in range(3):
        if data.draw(st.booleans()):
            mask = np.random.default_rng(data.draw(st.integers(0, 9))).random(x.shape) < 0.4
            missing |= mask
            sources[k] = masked_view(
                sources[k], mask, data.draw(st.sampled_from(["dense", "reversed", "stepped", "fortran"])), k == 2
            )
    kernels.multiply(*sources)
    np.testing.assert_array_equal(out, np.where(missing, before, expected_binary("multiply", x, y)))


def test_copy_keeps_every_bit():
    payload = np.array([0x7FF8000000000123, 0x8000000000000000], "u8").view("f8")
    out = np.empty(2)
    kernels.copy(payload, out)
    assert out.tobytes() == payload.tobytes()
    times = np.array(["2024-01-01", "NaT"], "M8[ns]")
    target = np.zeros(2, "M8[ns]")
    kernels.copy(times, target)
    assert target.view("i8").tolist() == times.view("i8").tolist()
    with pytest.raises(DTypeError):
        kernels.copy(times, np.zeros(2, "M8[us]"))


def test_shifted_output_is_refused():
    d = np.arange(10.0)
    for x, y, out in [
        (d[1:], d[:-1], d[1:]),
        (d[:-1], np.ones(9), d[1:]),
        (np.ones(9), d[1:], d[:-1]),
        (d[::2], np.ones(5), d[:5]),
        (d[::-1], np.ones(10), d),
        (d.reshape(2, 5), np.ones((2, 5)), np.lib.stride_tricks.as_strided(d, (2, 5), (8, 8))),
    ]:
        with pytest.raises(OverlapError, match=r"memory with argument|reach some bytes twice"):
            kernels.subtract(x, y, out)
        with pytest.raises(ValueError, match="out"):
            kernels.subtract(x, y, out)
    assert d.tolist() == list(range(10))
    kernels.subtract(d, np.ones(10), d)  # exactly the same elements
    kernels.add(np.ones(10), d, d)
    kernels.add(d, d, d)
    assert d.tolist() == [2.0 * k for k in range(10)]
    table = np.arange(12.0).reshape(6, 2)  # columns of a row-major block share no byte
    kernels.add(table[:, 0], table[:, 0], table[:, 1])
    assert table[:, 1].tolist() == [0, 4, 8, 12, 16, 20]
    kernels.scale(2.0, d[::2], d[1::2])


def test_output_dtype_must_match():
    out = np.full(8, 5, "i1")
    for name, x in (("add", np.arange(8, dtype="u1")), ("multiply", np.arange(8, dtype="i2"))):
        with pytest.raises(DTypeError, match=r"argument 'out': expected dtype"):
            getattr(kernels, name)(x, x, out)
    with pytest.raises(TypeError, match="expected dtype bool, got int8"):
        kernels.compare(np.arange(8), np.arange(8), out)
    assert (out == 5).all()


def test_read_only_output_is_refused():
    frozen = np.frombuffer(bytes(80), "f8")
    for call in (
        lambda: kernels.add(frozen, frozen, frozen),
        lambda: kernels.axpy(1.0, np.ones(10), frozen),
        lambda: kernels.copy(np.ones(10), mv.view(np.ones(10))),
        lambda: kernels.copy(np.zeros(4, "u1"), b"abcd"),
        lambda: kernels.add(np.ones(3), np.ones(3), np.broadcast_to(np.ones(1), (3,))),
    ):
        with pytest.raises((ReadOnlyError, OverlapError)):
            call()
    assert not frozen.any()
    out = bytearray(4)
    kernels.copy(b"abcd", out)
    assert bytes(out) == b"abcd"
    kernels.copy(np.ones(10), mv.view(target := np.zeros(10), writable=True))
    assert target.all()


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda a: kernels.add(a, a[:3], a.copy()),
            ShapeError,
            r"argument 'y': expected shape \(6,\) like argument 'x', got \(3,\)",
        ),
        (lambda a: kernels.add(a, a.reshape(2, 3), a.copy()), ShapeError, "shape"),
        (
            lambda a: kernels.add(a, a.astype("f4"), a.copy()),
            DTypeError,
            "argument 'y': expected dtype float64, got float32",
        ),
        (lambda a: kernels.add(a), ArgumentError, "missing a required argument: 'y'"),
        (lambda a: kernels.add(a, a, a, a, a), ArgumentError, "too many"),
        (lambda a: kernels.add(a, a, out=a, hold=1), ArgumentError, "hold"),
        (lambda a: kernels.add([1], a, a), ArgumentError, "list"),
        (lambda a: kernels.add(None, a, a), ArgumentError, "None"),
        (
            lambda a: kernels.axpy("2", a, a.copy()),
            ArgumentError,
            "argument 'a': expected a number for float64, got str",
        ),
        (lambda a: kernels.axpy(2j, a, a.copy()), ArgumentError, "complex"),
        (lambda a: kernels.axpy(10**400, a, a.copy()), KernelOverflowError, "fits float64"),
        (lambda a: kernels.scale(300, a.astype("u1"), a.astype("u1")), KernelOverflowError, "fits uint8, got 300"),
        (lambda a: kernels.scale(-1, a.astype("u8"), a.astype("u8")), KernelOverflowError, "fits uint64"),
        (lambda a: kernels.add(a.astype("i8"), 2**63, a.astype("i8")), KernelOverflowError, "fits int64"),
        (
            lambda a: kernels.scale(1.0, a.astype("i8"), a.astype("i8")),
            ArgumentError,
            "expected a number for int64, got float",
        ),
        (
            lambda a: kernels.compare(a, a, np.zeros(6, bool), op="less"),
            KernelValueError,
            "one of lt, le, eq, ne, ge, gt",
        ),
        (lambda a: kernels.scale(2, a != 0, a != 0), MojoViewError, "scale"),
        (lambda a: kernels.add(a, a, a.copy(), threads=0), KernelValueError, "at least 1"),
        (lambda a: kernels.add(a, a, a.copy(), threads=1.5), ArgumentError, "threads"),
        (lambda a: kernels.add(a, mv.view(np.ma.array(np.zeros((1, 2, 3)), mask=True)), a), MaskError, "mask"),
    ],
)
def test_refusals_name_what_they_expected(call, error, text):
    with pytest.raises(error, match=text):
        call(np.arange(6.0))


def test_overflow_is_also_the_builtin():
    with pytest.raises(OverflowError):
        kernels.scale(256, np.zeros(1, "u1"), np.zeros(1, "u1"))
    out = np.zeros(1, "u8")
    kernels.scale(2**64 - 1, np.ones(1, "u8"), out)  # exact: never through a float
    assert out[0] == 2**64 - 1
    assert tuple(COMPARES) == COMPARISONS
