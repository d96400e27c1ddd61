"""Properties of views of arbitrary frames under arbitrary writes, with pandas as the oracle."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mojoview.memory.errors import MojoViewError

pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword", "ignore:Setting an item of incompatible dtype")
RELAXED = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

DTYPES = [
    "f8",
    "f4",
    "f2",
    "i8",
    "i4",
    "i2",
    "i1",
    "u8",
    "u4",
    "u2",
    "u1",
    "?",
    "c16",
    "c8",
    "M8[ns]",
    "M8[s]",
    "m8[us]",
    ">f8",
    "<i4",
    ">u2",
    "Int64",
    "Float32",
    "boolean",
    "category",
    "object",
]


def column(dtype, n, missing):
    base = np.arange(n) % 5
    if dtype in ("Int64", "Float32", "boolean"):
        values = pd.array(base % 2 if dtype == "boolean" else base, dtype=dtype)
        if missing and n:
            values[n // 2] = pd.NA
        return values
    if dtype == "category":
        return pd.Categorical.from_codes(np.where((base == 2) & missing, -1, base), categories=list("abcde"))
    if dtype[0] in "Mm":
        return base.astype("i8").view(dtype)
    return base.astype(dtype)


@st.composite
def frames(draw):
    n = draw(st.integers(0, 7))
    dtypes = draw(st.lists(st.sampled_from(DTYPES), max_size=6))
    df = pd.DataFrame(
        {
            f"c{i}": pd.Series(column(dtype, n, draw(st.booleans())), copy=draw(st.booleans()))
            for i, dtype in enumerate(dtypes)
        },
        index=range(n),
    )
    steps = ["reverse", "every other", "swap", "slice", "copy", "insert", "duplicate", "drop"]
    if int(pd.__version__.split(".")[0]) < 3 and not {">f8", ">u2"}.isdisjoint(dtypes):
        # Taking columns is what pandas 2 cannot do itself: "Big-endian buffer not supported"
        steps = [step for step in steps if step not in ("swap", "duplicate", "drop")]
    for step in draw(st.lists(st.sampled_from(steps), max_size=3)):
        if step == "reverse":
            df = df.iloc[::-1]
        elif step == "every other":
            df = df.iloc[::2]
        elif step == "swap":
            df = df.iloc[:, ::-1]
        elif step == "slice":
            df = df.iloc[1:]
        elif step == "copy":
            df = df.copy()
        elif step == "insert":
            df = df.copy()
            df.insert(0, f"new{df.shape[1]}", np.arange(len(df)) * 1.5, allow_duplicates=True)
        elif step == "duplicate":
            df = pd.concat([df, df], axis=1)
        elif df.shape[1]:
            df = df.iloc[:, 1:]
    return df


def expected(series):
    """The numbers that pandas says a column holds."""
    values = series.array
    if isinstance(values, pd.Categorical):
        return values.codes
    if hasattr(values, "_mask"):
        return values._data
    return series.to_numpy()


@RELAXED
@given(frames())
def test_every_column_is_what_pandas_says_or_refused(route, df):
    blocks = df._mgr.blocks
    explained = df.mojo.explain()
    for position in range(df.shape[1]):
        series = df.iloc[:, position]
        if not explained["zero_copy"].iloc[position]:
            with pytest.raises((TypeError, ValueError)) as caught:
                df.mojo.iview(position, na="mask")
            assert isinstance(caught.value, MojoViewError)
            assert str(series.dtype) in str(caught.value)
            continue
        v = df.mojo.iview(position, na="mask")
        want = expected(series)
        assert (v.shape, v.dtype, v.logical_dtype) == (want.shape, want.dtype, series.dtype)
        assert len(df) < 2 or v.strides == want.strides
        assert not v.size or v.ptr == want.__array_interface__["data"][0]
        np.testing.assert_array_equal(np.asarray(v.data), want)
        if v.mask is not None:
            np.testing.assert_array_equal(np.asarray(v.mask), series.isna().to_numpy())
        assert not v.stale
    assert df._mgr.blocks is blocks, "looking at the frame has changed it"


@RELAXED
@given(frames(), st.data())
def test_a_frozen_view_never_changes(cow_on, df, data):
    held = []
    for position in range(df.shape[1]):
        try:
            v = df.mojo.iview(position, na="ignore")
        except MojoViewError:
            continue
        assert v.frozen
        held.append((v, np.array(np.asarray(v))))
    if len(df) and df.shape[1]:
        for _ in range(data.draw(st.integers(1, 3))):
            row, at = data.draw(st.integers(0, len(df) - 1)), data.draw(st.integers(0, df.shape[1] - 1))
            value = df.iloc[data.draw(st.integers(0, len(df) - 1)), at]
            match data.draw(st.sampled_from(["cell", "column in place", "new column"])):
                case "cell":
                    df.iloc[row, at] = value
                case "column in place":
                    df.iloc[:, at] = value
                case "new column":
                    df.isetitem(at, df.iloc[::-1, at].array)
    for v, before in held:
        np.testing.assert_array_equal(np.asarray(v), before)
