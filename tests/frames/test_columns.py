"""Columns of each dtype: the view shares pandas' memory and has its dtype."""

import numpy as np
import pandas as pd
import pytest
from support.combination import combination

import mojoview as mv
from mojoview.frames import ColumnView, FrameView
from mojoview.memory.errors import ArgumentError, DTypeError, MaskError, MojoViewError, ReleasedError, ZeroCopyError

PANDAS_MAJOR = int(pd.__version__.split(".")[0])

NUMBERS = [
    "float64",
    "float32",
    "float16",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint64",
    "uint32",
    "uint16",
    "uint8",
    "bool",
    "complex128",
    "complex64",
    "M8[ns]",
    "M8[us]",
    "M8[ms]",
    "M8[s]",
    "m8[ns]",
    "m8[us]",
    "m8[ms]",
    "m8[s]",
]


def numbers(dtype, n=5):
    if np.dtype(dtype).kind in "mM":
        values = np.arange(n).astype("i8").view(dtype)
        values[1:2] = "NaT"
        return values
    return (np.arange(n) % 3).astype(dtype)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_numpy_dtypes_share_pandas_memory(dtype, route, cow, address):
    for n in (0, 1, 5):
        with combination(n):
            df = pd.DataFrame({"before": numbers(dtype, n), "x": numbers(dtype, n), "other": np.arange(n)})
            v = df.mojo.view("x")
            assert isinstance(v, ColumnView)
            assert (v.shape, v.dtype, v.logical_dtype) == ((n,), np.dtype(dtype), df["x"].dtype)
            assert v.readonly
            assert v.mask is None
            assert v.offset == 0
            assert v.chunks[0] is v
            assert v.frozen is cow
            assert not v.stale
            if n:
                assert v.ptr == address(df, 1)
            assert v.strides == df["x"].to_numpy().strides or n < 2
            np.testing.assert_array_equal(np.asarray(v), df["x"].to_numpy())
            assert np.asarray(v).dtype == df["x"].dtype
            assert not np.asarray(v).flags.writeable


@pytest.mark.parametrize(
    ("dtype", "data"),
    [
        ("Int64", [1, 2, 3]),
        ("Int8", [1, 2, 3]),
        ("UInt16", [1, 2, 3]),
        ("Float32", [1, 2, 3]),
        ("Float64", [1, 2, 3]),
        ("boolean", [True, False, True]),
    ],
)
def test_masked_without_missing_values(dtype, data, route, address):
    df = pd.DataFrame({"x": pd.array(data, dtype=dtype)})
    v = df.mojo.view("x")
    assert v.mask is None
    assert v.ptr == address(df, 0)
    assert v.logical_dtype == df["x"].dtype
    assert np.asarray(v).tolist() == data
    assert df.mojo.view("x", na="mask").mask is not None


def test_masked_columns_carry_values_and_mask(route, address):
    df = pd.DataFrame({"x": pd.array([1, None, 3], dtype="Int64")})
    with pytest.raises(MaskError, match=r"'x'.*Int64.*1 missing.*na='mask'"):
        df.mojo.view("x")
    with pytest.raises(MaskError, match=r"'x'"):
        df.mojo.view()
    v = df.mojo.view("x", na="mask")
    assert v.ptr == address(df, 0)
    assert v.dtype == np.int64
    assert np.asarray(v.mask).tolist() == [False, True, False]
    assert np.asarray(v.data)[[0, 2]].tolist() == [1, 3]
    masked = df["x"].array._mask
    assert v.mask.ptr == masked.__array_interface__["data"][0]
    with pytest.raises(MaskError):
        memoryview(v)
    ignored = df.mojo.view("x", na="ignore")
    assert ignored.mask is None
    assert ignored.ptr == v.ptr
    frame = df.mojo.view(na="mask")
    assert np.asarray(frame["x"].mask).tolist() == [False, True, False]


def test_categories_are_codes_with_a_computed_mask(route, address):
    df = pd.DataFrame({"x": pd.Categorical(["b", None, "a"])})
    with pytest.raises(MaskError, match=r"'x'.*category.*1 missing"):
        df.mojo.view("x")
    v = df.mojo.view("x", na="mask")
    assert v.ptr == address(df, 0)
    assert v.dtype == np.int8
    assert v.logical_dtype == df["x"].dtype
    assert np.asarray(v.data).tolist() == [1, -1, 0]
    assert np.asarray(v.mask).tolist() == [False, True, False]
    assert np.asarray(df.mojo.view("x", na="ignore")).tolist() == [1, -1, 0]
    assert np.asarray(df.dropna().mojo.view("x")).tolist() == [1, 0]
    assert not v.stale


def test_time_zones_are_kept_in_the_logical_dtype(route, address):
    df = pd.DataFrame({"x": pd.DatetimeIndex(["2024-03-31 00:00", "NaT"], tz="Europe/Vienna")})
    v = df.mojo.view("x")
    assert v.ptr == address(df, 0)
    assert v.logical_dtype == df["x"].dtype
    assert v.dtype == np.dtype(f"M8[{df['x'].dtype.unit}]")
    assert np.asarray(v)[0] == np.datetime64("2024-03-30T23:00")
    assert np.isnat(np.asarray(v)[1])


def test_periods_are_ordinals(route, address):
    df = pd.DataFrame({"x": pd.PeriodIndex(["1970-01-03", "NaT"], freq="D")})
    v = df.mojo.view("x", na="ignore")
    assert (v.ptr, v.dtype, v.logical_dtype) == (address(df, 0), np.dtype("i8"), df["x"].dtype)
    assert np.asarray(v).tolist() == [2, np.iinfo("i8").min]


def test_a_missing_period_is_missing_and_no_number(route):
    series = pd.Series(pd.PeriodIndex(["1970-01-03", "NaT", "1970-01-02"], freq="D"), name="p")
    df = series.to_frame()
    for refused in (df.mojo.view, series.mojo.view, pd.PeriodIndex(series).mojo.view, df.mojo.blocks):
        with pytest.raises(MaskError, match="missing"):
            refused()
    v = df.mojo.view("p", na="mask")
    assert np.asarray(v.mask).tolist() == [False, True, False]
    for source in (series, v, pd.PeriodIndex(series), series.array):
        assert (mv.kernels.min(source), mv.kernels.max(source), mv.kernels.count(source)) == (1, 2, 2)
    assert df.mojo.explain()["reason"][0] == "1 missing: na='mask' turns NaT into a byte mask"
    pd.testing.assert_frame_equal(df.mojo.view(na="mask").to_pandas(), df)
    pd.testing.assert_series_equal(v.to_series(name="p"), series)


def test_a_period_column_with_missing_values_is_not_leased(cow_on):
    df = pd.DataFrame({"p": pd.PeriodIndex(["2020-01-01", None], freq="D")})
    with pytest.raises(MaskError, match="fill them"), df.mojo.lease("p"):
        pass


@pytest.mark.parametrize("breaks", [[0, 1, 2], [0.5, 1.5, 2.5]])
def test_an_interval_column_alone_gives_its_ends(breaks, route):
    df = pd.DataFrame({"iv": pd.arrays.IntervalArray.from_breaks(breaks), "x": [1.0, 2.0]})
    ends = df.mojo.view("iv")
    assert isinstance(ends, FrameView)
    assert list(ends) == ["left", "right"]
    assert ends.shape == (2, 2)
    assert np.asarray(ends["left"]).tolist() == breaks[:2]
    assert np.asarray(ends["right"]).tolist() == breaks[1:]
    kept = df._mgr.blocks[df._mgr.blknos[0]].values
    assert ends["left"].ptr == kept._left.__array_interface__["data"][0]
    assert ends["right"].ptr == kept._right.__array_interface__["data"][0]
    assert not ends.stale
    assert not ends["left"].stale
    for options in ({}, {"copy": "if_needed"}, {"copy": "always"}):
        with pytest.raises(ZeroCopyError, match=r"'iv'.*interval.*two arrays.*label"):
            df.mojo.view(**options)


def test_the_ends_of_an_interval_column_are_pinned(cow_on):
    df = pd.DataFrame({"iv": pd.arrays.IntervalArray.from_breaks([0, 1, 2])})
    left = df.mojo.view("iv")["left"]
    df.iloc[0, 0] = pd.Interval(7, 9)
    assert np.asarray(left).tolist() == [0, 1]
    assert left.frozen
    assert left.stale


@pytest.mark.parametrize("fill", [0.0, np.nan])
def test_a_sparse_column_alone_gives_indices_and_values(fill, route):
    values = np.array([fill, 5.0, fill, 7.0])
    df = pd.DataFrame({"sp": pd.arrays.SparseArray(values, fill_value=fill, kind="integer")})
    parts = df.mojo.view("sp")
    assert list(parts) == ["indices", "values"]
    assert np.asarray(parts["indices"]).tolist() == [1, 3]
    assert np.asarray(parts["values"]).tolist() == [5.0, 7.0]
    kept = df._mgr.blocks[0].values
    assert parts["values"].ptr == kept.sp_values.__array_interface__["data"][0]
    with pytest.raises(ZeroCopyError, match=r"'sp'.*Sparse"):
        df.mojo.view()
    dense = df.mojo.view("sp", copy="if_needed")
    np.testing.assert_array_equal(np.asarray(dense), values)
    assert dense.frozen
    assert dense.stale


# -- what is refused ---------------------------------------------------------------------------------------------------


def long_double():
    return pytest.param(
        lambda: np.ones(2, np.longdouble),
        ZeroCopyError,
        "long double",
        "astype",
        marks=pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="long double is double here"),
    )


REFUSED = [
    pytest.param(lambda: np.ones(2, ">f8"), ZeroCopyError, "big-endian", "if_needed", id="big-endian float"),
    pytest.param(lambda: np.ones(2, ">i4"), ZeroCopyError, "big-endian", "if_needed", id="big-endian int"),
    pytest.param(lambda: np.array([object(), 1], object), DTypeError, "Python objects", "astype", id="object"),
    pytest.param(
        lambda: pd.array(["a", None], dtype="string[python]"),
        DTypeError,
        "Python strings",
        "category",
        id="string[python]",
    ),
    pytest.param(
        lambda: pd.arrays.SparseArray([0, 1], kind="block"), ZeroCopyError, "only the", "if_needed", id="sparse in runs"
    ),
    long_double(),
]


@pytest.mark.parametrize(("make", "kind", "reason", "remedy"), REFUSED)
def test_refusals_name_column_dtype_reason_and_remedy(make, kind, reason, remedy, route):
    df = pd.DataFrame({"fine": [1.0, 2.0], "odd": pd.Series(make(), copy=False)})
    dtype = str(df["odd"].dtype)
    calls = [
        lambda: df.mojo.view("odd"),
        lambda: df.mojo.iview(-1),
        lambda: df.mojo.view(),
        lambda: df.mojo.view(["odd"]),
        lambda: df["odd"].mojo.view(),
    ]
    for call in calls:
        with pytest.raises(kind) as caught:
            call()
        message = str(caught.value)
        for words in ("'odd'", dtype, reason, remedy):
            assert words in message, message
        assert isinstance(caught.value, MojoViewError)
        assert isinstance(caught.value, (ValueError, TypeError))
    assert df.mojo.view("fine").shape == (2,)
    row = df.mojo.explain().iloc[1]
    assert not row["zero_copy"]
    assert reason in row["reason"]


def test_byte_order_is_reported_or_converted(route):
    df = pd.DataFrame({"x": np.arange(10, dtype=">f4")})
    with pytest.raises(ValueError, match="byte order is big-endian"):
        df.mojo.view("x")
    v = df.mojo.view("x", copy="if_needed")
    assert v.dtype == np.dtype("f4")
    assert v.dtype.isnative
    assert np.asarray(v).sum() == 45
    assert df.mojo.view(copy="if_needed")["x"].frozen


def test_unaligned_memory_is_refused_or_copied():
    raw = np.frombuffer(bytearray(8 * 4 + 1), np.uint8)[1:].view("f8")
    assert not raw.flags.aligned
    df = pd.DataFrame({"x": pd.Series(raw, copy=False)}, copy=False)
    if df.mojo.explain().loc[0, "aligned"]:
        pytest.skip("this pandas has copied the unaligned memory")
    with pytest.raises(ZeroCopyError, match=r"'x'.*float64.*not aligned"):
        df.mojo.view("x")
    with pytest.raises(ZeroCopyError):
        df.mojo.view()
    v = df.mojo.view("x", copy="if_needed")
    assert v.aligned
    assert v.ptr % 64 == 0


def test_unaligned_series_is_refused():
    raw = np.frombuffer(bytearray(8 * 4 + 1), np.uint8)[1:].view("f8")
    with pytest.raises(ZeroCopyError, match="not aligned"):
        pd.Series(raw, copy=False).mojo.view()


def test_strings_of_python_are_refused_by_name():
    for dtype in ("string[python]", object):
        df = pd.DataFrame({"s": pd.Series(["a", "b"], dtype=dtype)})
        with pytest.raises(DTypeError, match=f"'s' of dtype {'object' if dtype is object else 'string'}.*references"):
            df.mojo.view("s")
        row = df.mojo.explain().iloc[0]
        assert not row.zero_copy
        assert row.kind is None


# -- options -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["copy", "na", "layout"])
def test_unknown_options_are_refused(option):
    df = pd.DataFrame({"x": [1.0]})
    for call in (
        df.mojo.view,
        lambda **kw: df.mojo.view("x", **kw),
        lambda **kw: df.mojo.view(["x"], **kw),
        lambda **kw: df.mojo.iview(0, **kw),
        df["x"].mojo.view,
        df.index.mojo.view,
    ):
        with pytest.raises(ArgumentError, match=rf"{option}='maybe'"):
            call(**{option: "maybe"})


@pytest.mark.parametrize("dtype", ["float64", "M8[ns]", "Int64", "category"])
def test_copy_always_owns_aligned_memory(dtype, route, address):
    df = pd.DataFrame({"x": pd.array([1, 2, 3]).astype(dtype) if dtype != "M8[ns]" else np.arange(3).view("M8[ns]")})
    v = df.mojo.view("x", copy="always")
    assert v.ptr != address(df, 0)
    assert v.ptr % 64 == 0
    assert v.frozen
    assert v.readonly
    assert df.mojo.view(copy="always")["x"].ptr not in (address(df, 0), 0)
    assert df.mojo.view("x", copy="if_needed").ptr == address(df, 0)


@pytest.mark.parametrize("layout", ["contiguous", "f", "c"])
def test_layout_of_a_strided_column(layout, route):
    df = pd.DataFrame(np.arange(12.0).reshape(4, 3), columns=list("abc"), copy=False)
    assert df.mojo.view("b").strides == (24,)
    with pytest.raises(ZeroCopyError, match=rf"'b'.*layout='{layout}'.*24 bytes"):
        df.mojo.view("b", layout=layout)
    v = df.mojo.view("b", layout=layout, copy="if_needed")
    assert v.strides == (8,)
    assert np.asarray(v).tolist() == [1.0, 4.0, 7.0, 10.0]


# -- Series and Index --------------------------------------------------------------------------------------------------


def test_series_view_is_the_frames_memory(address):
    df = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    assert df["b"].mojo.view().ptr == address(df, 1) == df.mojo.view("b").ptr
    assert mv.view(df["b"]).ptr == address(df, 1)


@pytest.mark.parametrize(
    "make",
    [
        lambda: pd.Index([1.5, 2.5, 3.5]),
        lambda: pd.Index([1, 2, 3]),
        lambda: pd.date_range("2024", periods=3),
        lambda: pd.date_range("2024", periods=3, tz="UTC"),
        lambda: pd.timedelta_range("1s", periods=3),
        lambda: pd.period_range("2024", periods=3, freq="D"),
        lambda: pd.CategoricalIndex(["a", "b", "a"]),
        lambda: pd.Index(pd.array([1, 2, 3], dtype="Int64")),
    ],
)
def test_index_views_share_and_are_read_only(make):
    index = make()
    v = index.mojo.view()
    assert v.shape == (3,)
    assert v.readonly
    assert not v.stale
    assert v.logical_dtype == index.dtype
    kept = index._values
    for name in ("_ndarray", "_data"):
        kept = getattr(kept, name, kept) if not isinstance(kept, np.ndarray) else kept
    assert v.ptr == kept.__array_interface__["data"][0]
    del index, kept
    assert len(np.asarray(v)) == 3


def test_index_without_memory_of_its_own_is_refused():
    with pytest.raises(ZeroCopyError, match=r"RangeIndex.*if_needed"):
        pd.RangeIndex(3).mojo.view()
    assert np.asarray(pd.RangeIndex(1, 7, 2).mojo.view(copy="if_needed")).tolist() == [1, 3, 5]
    row = pd.RangeIndex(3).mojo.explain().iloc[0]
    assert (row.zero_copy, row.kind) == (False, None)
    assert "computed" in row.reason
    assert pd.Index([1.5]).mojo.explain()["zero_copy"].tolist() == [True]
    with pytest.raises(DTypeError):
        pd.Index([object(), 1]).mojo.view()
    with pytest.raises(ZeroCopyError, match="interval"):
        pd.interval_range(0, 3).mojo.view()


def test_a_multi_index_is_viewed_level_by_level():
    index = pd.MultiIndex.from_arrays([["a", None, "b", "a"], [3, 4, 3, 4]], names=["s", None])
    with pytest.raises(ZeroCopyError, match=r"MultiIndex.*level=.*codes"):
        index.mojo.view()
    v = index.mojo.view(level=1)
    assert v.ptr == index.codes[1].__array_interface__["data"][0]
    assert (np.asarray(v).tolist(), v.readonly, v.stale) == ([0, 1, 0, 1], True, False)
    assert v.logical_dtype == index.levels[1].dtype
    with pytest.raises(MaskError, match=r"level 's'.*1 missing"):
        index.mojo.view(level="s")
    masked = index.mojo.view(level=-2, na="mask")
    assert np.asarray(masked.mask).tolist() == [False, True, False, False]
    assert np.asarray(index.mojo.view(level="s", na="ignore")).tolist() == [0, -1, 1, 0]
    assert index.mojo.explain()["column"].tolist() == ["s", None]
    assert index.mojo.explain()["zero_copy"].tolist() == [True, True]
    for level in ("t", 2, -3, True, 0.0):
        with pytest.raises(ArgumentError, match="level="):
            index.mojo.view(level=level)
    with pytest.raises(ArgumentError, match="only a MultiIndex"):
        pd.Index([1]).mojo.view(level=0)


def test_a_series_that_shares_an_index_cannot_write_to_it(cow_on):
    s = pd.Series([1.0, 2.0, 3.0])
    v = pd.Index(s, copy=False).mojo.view()
    s.iloc[0] = 99.0
    assert np.asarray(v).tolist() == [1.0, 2.0, 3.0]


def test_released_views_say_so():
    v = pd.DataFrame({"x": [1.0]}).mojo.view("x")
    v.release()
    for name in ("ptr", "frozen", "stale", "logical_dtype", "offset", "chunks"):
        with pytest.raises(ReleasedError):
            getattr(v, name)
    assert v.closed
    assert "released" in repr(v)
    assert "released" in v._repr_html_()
