"""Conversion of views to pandas: same memory, same dtype, and a write through pandas copies first."""

from __future__ import annotations

import gc

import numpy as np
import pandas as pd
import pytest

import mojoview as mv
from mojoview.frames import blocks, to_frame, to_series
from mojoview.memory._lease import live_leases
from mojoview.memory.errors import (
    ArgumentError,
    ColumnError,
    DTypeError,
    ExportedError,
    MaskError,
    MojoViewError,
    ReleasedError,
    ShapeError,
)
from mojoview.views._construct import with_mask

DTYPES = {
    "float64": lambda: pd.Series([1.5, np.nan, 3.0]),
    "float32": lambda: pd.Series([1.5, 2.5, 3.0], dtype="f4"),
    "int8": lambda: pd.Series([1, 2, 3], dtype="i1"),
    "uint64": lambda: pd.Series([1, 2, 2**64 - 1], dtype="u8"),
    "bool": lambda: pd.Series([True, False, True]),
    "complex128": lambda: pd.Series([1j, 2, 3]),
    "datetime64": lambda: pd.Series(np.array([1, 2, "NaT"], "M8[ns]")),
    "datetime64[s]": lambda: pd.Series(np.array([1, 2, 3], "M8[s]")),
    "timedelta64": lambda: pd.Series(np.array([1, 2, 3], "m8[ns]")),
    "datetime64, zone": lambda: pd.Series(pd.date_range("2024-03-30", periods=3, tz="Europe/Oslo")),
    "period": lambda: pd.Series(pd.period_range("2024", periods=3, freq="M")),
    "category": lambda: pd.Series(pd.Categorical(["b", None, "a"], categories=["b", "a"], ordered=True)),
    "Int64": lambda: pd.Series([1, None, 3], dtype="Int64"),
    "Float32": lambda: pd.Series([1.5, None, 3], dtype="Float32"),
    "boolean": lambda: pd.Series([True, None, False], dtype="boolean"),
}
OTHER = {"datetime64, zone": pd.Timestamp("2000", tz="Europe/Oslo"), "period": pd.Period("2000-01"), "category": "a"}


def other_value(name, s):
    if name in OTHER:
        return OTHER[name]
    if s.dtype.kind in "mM":
        return pd.Timedelta(77, "s") if s.dtype.kind == "m" else pd.Timestamp("2001")
    return not bool(s.iloc[0]) if name in ("bool", "boolean") else 77


def place(column):
    return column.mojo.view(na="mask").ptr


@pytest.mark.parametrize("name", DTYPES)
def test_frames_are_converted_back_without_a_copy(name, route, cow):
    before = live_leases()
    df = pd.DataFrame({"a": DTYPES[name](), "b": [1.0, 2.0, 3.0]})
    df.index = ["x", "y", "z"]
    kept, value = df.copy(), other_value(name, df["a"])
    made = df.mojo.view(na="mask").to_pandas()
    pd.testing.assert_frame_equal(made, df)
    assert place(made["a"]) == place(df["a"])
    assert place(made["b"]) == place(df["b"])
    if cow:  # pandas copies before it writes, on either side
        made.iloc[0, 0] = value
        assert made.iloc[0, 0] == value
        pd.testing.assert_frame_equal(df, kept)
        again = df.mojo.view(na="mask").to_pandas()
        df.iloc[0, 0] = value
        pd.testing.assert_frame_equal(again, kept)
    else:
        with pytest.raises((ValueError, AssertionError), match=r"read-only|gone wrong"):  # pandas 2 blames itself
            made.iloc[0, 0] = value
        pd.testing.assert_frame_equal(df, kept)
    del df, made
    if cow:
        del again
    gc.collect()
    assert live_leases() == before


@pytest.mark.parametrize("name", DTYPES)
def test_a_column_view_becomes_a_series_of_its_dtype(name, cow):
    s = DTYPES[name]()
    made = s.mojo.view(na="mask").to_series(name="n", index=[7, 8, 9])
    assert (made.name, made.index.tolist(), made.dtype) == ("n", [7, 8, 9], s.dtype)
    assert place(made) == place(s)
    pd.testing.assert_series_equal(made.reset_index(drop=True), s, check_names=False)


def test_memory_outlives_every_view_and_frame(cow):
    before = live_leases()
    array = np.arange(5.0)
    v = mv.view(array, writable=True)
    df = to_frame({"x": v, ("t", 1): mv.view(np.arange(5))})
    assert list(df.columns) == ["x", ("t", 1)]
    assert np.shares_memory(df["x"].to_numpy(), array)
    v[0] = 42.0  # whoever may write to the memory still may
    assert df.iloc[0, 0] == 42.0
    v.release()
    column = df["x"]
    del v, df
    gc.collect()
    assert column.tolist() == [42.0, 1.0, 2.0, 3.0, 4.0]
    if cow and blocks.INTERNALS:
        column.iloc[1] = -1.0
        assert (column.iloc[1], array[1]) == (-1.0, 1.0)
    del column
    gc.collect()
    assert live_leases() == before


def test_a_pin_ends_with_the_memory(cow_on):
    before, array = live_leases(), np.arange(3.0)
    df = to_frame({"x": mv.view(array)})
    block = blocks.locate_block(df, 0)[0]
    assert block.refs.has_reference()
    df.iloc[0, 0] = 9.0
    fresh = blocks.locate_block(df, 0)[0]
    assert fresh is not block
    assert not fresh.refs.has_reference()
    del block
    gc.collect()
    assert live_leases() == before
    df.iloc[0, 0] = 10.0
    assert array.tolist() == [0.0, 1.0, 2.0]


def test_the_source_frame_is_pinned_while_the_new_one_lives(cow_on):
    df = pd.DataFrame({"x": [1.0, 2.0]})
    made = df.mojo.view().to_pandas()
    assert blocks.locate_block(df, 0)[0].refs.has_reference()
    with pytest.raises(MojoViewError), df.mojo.lease("x"):
        pass
    del made
    with df.mojo.lease("x") as x:
        x[0] = 5.0
    assert df.iloc[0, 0] == 5.0


@pytest.mark.parametrize("dtype", ["bool", "i1", "u2", "i8", "f4", "f8"])
def test_byte_masks_become_pandas_masked_dtypes(dtype):
    array, mask = np.arange(3).astype(dtype), np.array([False, True, False])
    made = to_series(with_mask(mv.view(array), mv.view(mask)))
    assert made.isna().tolist() == [False, True, False]
    assert place(made) == array.ctypes.data
    assert np.asarray(made.mojo.view(na="mask").mask).ctypes.data == mask.ctypes.data


def test_structures():
    df = pd.DataFrame(np.arange(12.0).reshape(4, 3), columns=["a", "a", 5], copy=False)[::2]
    made = df.mojo.view().to_pandas()
    pd.testing.assert_frame_equal(made, df)
    assert [made.mojo.iview(k).ptr for k in range(3)] == [df.mojo.iview(k).ptr for k in range(3)]
    assert made.mojo.iview(0).strides == df.mojo.iview(0).strides
    nothing = pd.DataFrame(index=[1, 2])
    pd.testing.assert_frame_equal(nothing.mojo.view().to_pandas(), nothing)
    empty = pd.DataFrame({"x": np.empty(0)})
    pd.testing.assert_frame_equal(empty.mojo.view().to_pandas(), empty)
    many = pd.DataFrame({"x": [1.0]}, index=pd.MultiIndex.from_tuples([("k", 1)], names=["s", None]))
    many.columns = pd.MultiIndex.from_tuples([("x", "y")])
    pd.testing.assert_frame_equal(many.mojo.view().to_pandas(), many)
    parts = pd.Series(pd.interval_range(0.0, 3.0)).mojo.view().to_pandas()
    assert parts["right"].tolist() == [1.0, 2.0, 3.0]
    swapped = pd.DataFrame({"x": np.arange(2, dtype=">f8")})
    assert swapped.mojo.view(copy="if_needed").to_pandas()["x"].tolist() == [0.0, 1.0]


def test_dictionaries_of_views():
    df = pd.DataFrame({"x": [1.0], "n": [1]})
    views = df.mojo.view().to_dict_of_views()
    assert (type(views), list(views)) == (dict, ["x", "n"])
    assert views["x"].ptr == df.mojo.view("x").ptr
    with pytest.raises(ColumnError, match="repeat"):
        pd.DataFrame([[1, 2]], columns=["a", "a"]).mojo.view().to_dict_of_views()


def test_what_cannot_come_back_is_refused():
    x = mv.view(np.arange(3.0))
    for call, error in (
        (lambda: to_series(np.arange(3.0)), ArgumentError),
        (lambda: to_series(mv.view(np.zeros((2, 2)))), ShapeError),
        (lambda: to_series(x, index=[1]), ShapeError),
        (lambda: to_frame({"x": x, "y": mv.view(np.arange(2))}), ShapeError),
        (lambda: to_frame({"x": x}, index=[1]), ShapeError),
        (lambda: to_series(mv.view(np.zeros(2, "S3"))), DTypeError),
        (lambda: to_series(mv.view(np.zeros(2, [("a", "i4")]))), DTypeError),
        (lambda: to_series(with_mask(mv.view(np.zeros(1, "c16")), mv.view(np.ones(1, bool)))), MaskError),
    ):
        before = live_leases()
        with pytest.raises(error):
            call()
        assert live_leases() == before
    frame = pd.DataFrame({"x": [1.0]}).mojo.view()
    frame.release()
    for call in (frame.to_pandas, frame.to_dict_of_views, frame.__arrow_c_stream__):
        with pytest.raises(ReleasedError):
            call()


def test_a_series_keeps_no_hold_on_the_view_itself():
    v = mv.view(np.arange(3.0))
    s = to_series(v)
    v.release()  # the Series has a window of its own
    assert s.tolist() == [0.0, 1.0, 2.0]
    held = mv.view(np.arange(3.0))
    array = np.asarray(held)
    with pytest.raises(ExportedError):
        held.release()
    assert array[0] == 0.0


def test_every_view_becomes_a_series():
    a = np.arange(3.0)
    made = mv.view(a).to_series(name="x", index=[7, 8, 9])
    assert np.shares_memory(made.to_numpy(), a)
    assert (made.name, list(made.index)) == ("x", [7, 8, 9])
    pa = pytest.importorskip("pyarrow", reason="makes Arrow arrays")
    text = pa.array(["a", None, "ccc"])
    chunks = pa.chunked_array([text, text])
    assert mv.view(text).to_series().tolist() == pd.Series(text, dtype=pd.ArrowDtype(text.type)).tolist()
    assert mv.view(chunks).to_series().tolist() == pd.Series(chunks, dtype=pd.ArrowDtype(text.type)).tolist()
    address = text.buffers()[2].address
    assert mv.view(text).to_series().array.__arrow_array__().chunk(0).buffers()[2].address == address


@pytest.mark.skipif(int(pd.__version__.split(".")[0]) < 3, reason="pandas copies before it writes from version 3 on")
def test_writing_to_a_series_leaves_the_viewed_array_alone():
    array = np.arange(3.0)
    v = mv.view(array)
    series = to_series(v)
    series.iloc[0] = 9.0
    assert (series.tolist(), array.tolist()) == ([9.0, 1.0, 2.0], [0.0, 1.0, 2.0])
    assert v.ptr == array.ctypes.data
