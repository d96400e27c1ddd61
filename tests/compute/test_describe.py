"""describe against NumPy and pandas: NaN, NaT and masks are skipped, integers stay exact, frames keep their columns."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.numbers import ALL, LAYOUTS, masked_view, number_arrays, spread, values

from mojoview import kernels
from mojoview.kernels import Description, FrameDescription
from mojoview.memory.errors import DTypeError, MojoViewError


def check(got, present, positions):
    """`present`: the elements that count, `positions`: where they stood."""
    assert got.count == present.size
    if present.size == 0:
        assert (got.min, got.max, got.argmin, got.argmax) == (None, None, -1, -1)
        assert got.mean != got.mean
        return
    low, high = present.argmin(), present.argmax()
    assert (got.argmin, got.argmax) == (positions[low], positions[high])
    assert (got.min, got.max) == (present[low], present[high])
    exact = {"b": bool, "f": float}.get(present.dtype.kind, int)
    assert type(got.min) is type(got.max) is exact
    wide = present.astype("g")
    with np.errstate(all="ignore"):
        mean, scale = wide.mean(), float(np.abs(wide).max()) or 1.0
        var = wide.var(ddof=1) if present.size > 1 else np.nan
    if np.isfinite(wide).all():
        assert abs(got.mean - mean) <= 1e-13 * scale
        assert (got.var != got.var and var != var) or abs(got.var - var) <= 1e-11 * scale**2
        assert got.std == pytest.approx(float(np.sqrt(got.var)), nan_ok=True)
    else:
        assert got.mean == mean or (got.mean != got.mean and mean != mean)
        assert got.var != got.var


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ALL)
def test_arrays(dtype, layout):
    for seed, shape in enumerate([(1,), (2,), (37,), (5, 7), (2047,), (2049,), (200_001,)]):
        for specials in (False, True):
            flat = values(shape, dtype, seed, specials)
            positions = np.flatnonzero(flat == flat)
            check(kernels.describe(spread(flat, layout)), flat[flat == flat], positions)


@given(number_arrays(max_dims=2), st.integers(0, 9), st.sampled_from([0.2, 0.9, 1.0]))
@settings(max_examples=150, deadline=None)
def test_masks(array, seed, share):
    missing = np.random.default_rng(seed).random(array.shape) < share
    kept = ~missing & (array == array)
    check(kernels.describe(masked_view(array, missing, "stepped")), array[kept], np.flatnonzero(kept))


@pytest.mark.parametrize("shape", ["rising", "falling", "flat", "late NaN", "only NaN", "spikes"])
def test_orders_that_take_every_path(shape):
    n = 300_000
    x = {
        "rising": np.arange(n, dtype=float),
        "falling": -np.arange(n, dtype=float),
        "flat": np.full(n, 2.5),
        "late NaN": np.where(np.arange(n) > n - 3, np.nan, np.arange(n) % 7.0),
        "only NaN": np.full(n, np.nan),
        "spikes": np.where(np.arange(n) % 4096 == 4095, np.arange(n) * 1.0, 0.0),
    }[shape]
    for dtype in ("f8", "f4"):
        y = x.astype(dtype)
        check(kernels.describe(y), y[y == y], np.flatnonzero(y == y))


def test_times():
    t = pd.to_datetime(["2024-01-03", None, "2024-01-01", "2024-01-02"]).to_numpy()
    d = kernels.describe(t)
    assert (d.count, d.argmin, d.argmax) == (3, 2, 0)
    assert (d.min, d.max, d.mean) == tuple(np.array(["2024-01-01", "2024-01-03", "2024-01-02"], t.dtype))
    assert d.std == pd.Series(t).std()
    none = kernels.describe(np.array(["NaT"], "m8[s]"))
    assert (none.count, none.min, none.argmax) == (0, None, -1)


def test_frames_as_pandas_has_them():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"x": rng.standard_normal(100_000), "k": rng.integers(-5, 5, 100_000), "b": rng.random(100_000) < 0.5}
    )
    frame.loc[::7, "x"] = np.nan
    frame["big"] = np.int64(2**60) + np.arange(100_000)
    for source in (frame, {name: frame[name].to_numpy() for name in frame}, frame.mojo.view()):
        got = kernels.describe(source)
        assert isinstance(got, FrameDescription)
        assert got.labels == ("x", "k", "b", "big")
        numbers = frame.astype({"b": int})
        np.testing.assert_array_equal(got.count, frame.count())
        np.testing.assert_allclose(got.mean, numbers.mean(), rtol=1e-12)
        np.testing.assert_allclose(got["x"].std, frame["x"].std(), rtol=1e-12)
        np.testing.assert_array_equal(got.argmin, [numbers[c].argmin() for c in numbers])
        assert got["big"].max == 2**60 + 99_999
        assert got.max.dtype == object
        assert isinstance(got["k"], Description)
        assert [label for label, _ in got] == list(got.labels)
        assert len(got) == 4
        assert repr(got).splitlines()[0].split() == ["count", "mean", "std", "min", "max", "argmin", "argmax"]
        assert len(repr(got).splitlines()) == 5


def test_labels_may_repeat_and_frames_be_empty():
    class Pairs:
        def items(self):
            return [("a", np.array([1.0])), ("a", np.array([2.0]))]

    got = kernels.describe(Pairs())
    assert got.labels == ("a", "a")
    assert got["a"].mean == 1.0
    assert got.mean.tolist() == [1.0, 2.0]
    assert got.min.dtype == np.float64
    assert len(kernels.describe({})) == 0
    assert kernels.describe(pd.Series([1.0, 3.0])).mean == 2.0


def test_results_have_the_same_bits_for_every_number_of_threads():
    rng = np.random.default_rng(3)
    frame = {k: rng.standard_normal(n) for k, n in enumerate([10, 65_536, 65_537, 400_000, 0])}
    first = kernels.describe(frame, threads=1)
    for threads in (2, 3, 8):
        again = kernels.describe(frame, threads=threads)
        assert again.mean.tobytes() == first.mean.tobytes()
        assert again.var.tobytes() == first.var.tobytes()
        assert repr(again) == repr(first)


def test_what_has_no_statistics_is_named():
    with pytest.raises(DTypeError, match=r"describe\(\): column 's': describe has no loop for dtype"):
        kernels.describe({"n": np.ones(3), "s": np.array(["a", "b"])})
    with pytest.raises(DTypeError, match="argument 'x': expected native byte order"):
        kernels.describe(np.ones(3, ">f8"))
    with pytest.raises(MojoViewError, match="NoneType"):
        kernels.describe({"a": None})
    for bad in (
        lambda: kernels.describe(),
        lambda: kernels.describe(np.ones(2), threads=-1),
        lambda: kernels.describe(3.5, thread=1),
    ):
        with pytest.raises(MojoViewError):
            bad()
