"""Pins: views under Copy-on-Write keep their values, know when they are stale, and unpin the memory when they die."""

import gc

import numpy as np
import pandas as pd
import pytest
from support.combination import combination

from mojoview.memory.errors import ReadOnlyError

pytestmark = pytest.mark.filterwarnings(
    "ignore:The inplace keyword"
)  # deprecated in pandas 3.1, and what these tests are about
PANDAS_MAJOR = int(pd.__version__.split(".")[0])


def whole_replace(df):
    df.replace(0.0, 99.0, inplace=True)


def whole_mask(df):
    df.mask(df == 0.0, 99.0, inplace=True)


def whole_interpolate(df):
    df.interpolate(inplace=True)


def boolean_write(df):
    df[df == 0.0] = 99.0


def iloc(df):
    df.iloc[0, 0] = 99.0


def loc(df):
    df.loc[0, "a"] = 99.0


def at(df):
    df.at[0, "a"] = 99.0


def iat(df):
    df.iat[0, 0] = 99.0


def update(df):
    df.update(pd.DataFrame({"a": [99.0]}))


def fillna(df):
    df.fillna(99.0, inplace=True)


def clip(df):
    df.clip(lower=1.0, inplace=True)


def loc_column(df):
    df.loc[:, "a"] = [99.0, 98.0, 97.0, 96.0]


def add(df):
    df += 1.0


def set_column(df):
    df["a"] = 5.0


def sort(df):
    df.sort_values("a", ascending=False, inplace=True)


# The table of in-place writes; the second member says whether memory changes without a pin.
WRITES = [
    (iloc, True),
    (loc, True),
    (at, True),
    (iat, True),
    (boolean_write, True),
    (whole_replace, True),
    (whole_mask, True),
    (update, True),
    (fillna, True),
    (clip, True),
    (loc_column, True),
    (whole_interpolate, True),
    (add, False),
    (set_column, False),
    (sort, False),
]


def make():
    return pd.DataFrame({"a": [0.0, 1.0, np.nan, 3.0], "b": [4.0, 5.0, 6.0, 7.0]})


TAKES = {
    "frame": lambda df: df.mojo.view(),
    "columns": lambda df: {"a": df.mojo.view("a"), "b": df.mojo.view("b")},
    "list": lambda df: df.mojo.view(["a", "b"]),
}


@pytest.mark.parametrize("write", [write for write, _ in WRITES], ids=lambda write: write.__name__)
def test_an_in_place_write_leaves_the_view_unchanged(write, route, cow_on):
    for name, take in TAKES.items():
        with combination(name):
            df, expected = make(), make()
            views = take(df)
            a, b = views["a"], views["b"]
            assert a.frozen
            assert b.frozen
            write(df)
            np.testing.assert_array_equal(np.asarray(a), expected["a"].to_numpy())
            np.testing.assert_array_equal(np.asarray(b), expected["b"].to_numpy())
            assert a.stale
            assert not df.equals(expected), "the write did nothing: the test shows nothing"
            fresh = df.mojo.view("a")
            np.testing.assert_array_equal(np.asarray(fresh), df["a"].to_numpy())
            assert not fresh.stale


@pytest.mark.parametrize(("write", "reaches"), WRITES, ids=lambda value: getattr(value, "__name__", None))
def test_without_a_pin_the_same_writes_go_in_place(write, reaches, cow_on):
    """The pin is what keeps the memory: without it twelve of the fifteen reach it."""
    df, expected = make(), make()
    memory = df._mgr.blocks[0].values[0].view()
    write(df)
    assert (not np.array_equal(memory, expected["a"].to_numpy(), equal_nan=True)) is reaches


@pytest.mark.skipif(PANDAS_MAJOR >= 3, reason="pandas 3 has no mode without Copy-on-Write")
def test_without_copy_on_write_a_view_is_a_live_window(route):
    df = make()
    v = df.mojo.view("a")
    assert not v.frozen
    assert not df.mojo.view().frozen
    df.iloc[0, 0] = 99.0
    assert np.asarray(v)[0] == 99.0
    assert not v.stale


def test_pins_end_with_their_views(cow_on):
    df = make()
    block = df._mgr.blocks[0]
    for take in (
        lambda: df.mojo.view(),
        lambda: df.mojo.view("a"),
        lambda: df.mojo.view()["b"],
        lambda: df.mojo.view("a")[1:],
        lambda: df.mojo.block(),
        lambda: np.asarray(df.mojo.view("a")),
    ):
        held = take()
        assert block.refs.has_reference()
        del held
        assert not block.refs.has_reference()
    frame = df.mojo.view()
    column = frame["a"]
    frame.release()
    assert block.refs.has_reference()
    assert column[0] == 0.0
    column.release()
    assert not block.refs.has_reference()


def test_a_slice_of_a_column_view_keeps_the_pin(cow_on):
    df = make()
    part = df.mojo.view("a")[:2]
    df.iloc[0, 0] = 99.0
    assert part[0] == 0.0


def test_stale_follows_the_block(route, cow_on):
    df = make()
    df["n"] = [1, 2, 3, 4]
    frame = df.mojo.view()
    a, n = frame["a"], frame["n"]
    df.insert(0, "first", 1.0)
    assert not a.stale
    assert not n.stale
    assert not frame.stale
    df.loc[0, "n"] = 9
    assert n.stale
    assert not a.stale
    assert frame.stale
    df.drop(columns="a", inplace=True)
    assert a.stale
    assert not df.mojo.view().stale


def test_reading_does_not_make_stale(cow_on):
    df = make()
    df["c"] = 1.0
    frame = df.mojo.view()
    for read in (
        df.sum,
        df.describe,
        df.copy,
        lambda: df.groupby("a").sum(),
        lambda: repr(df),
        df.to_numpy,
        lambda: df.merge(df, on="a"),
    ):
        read()
    assert not frame.stale


def test_a_view_outlives_its_frame(route):
    df = make()
    frame, column, series = df.mojo.view(), df.mojo.view("b"), df["b"].mojo.view()
    del df
    gc.collect()
    assert (
        np.asarray(column).tolist()
        == [4.0, 5.0, 6.0, 7.0]
        == np.asarray(series).tolist()
        == np.asarray(frame["b"]).tolist()
    )
    assert not column.stale
    assert not frame.stale
    assert frame.shape == (4, 2)


def test_views_are_read_only_and_a_shared_series_has_no_lease(cow_on):
    s = pd.Series([1.0, 2.0, 3.0])
    t = s[:]
    v = t.mojo.view()
    with pytest.raises(ReadOnlyError):
        v[0] = 99.0
    a = np.asarray(v)
    with pytest.raises(ValueError, match="WRITEABLE"):
        a.flags.writeable = True
    with pytest.raises(BufferError), t.mojo.lease():
        pass
    assert s.tolist() == t.tolist() == [1.0, 2.0, 3.0]


def test_an_old_view_stays_readable_and_knows_it_is_stale(cow):
    s = pd.Series([1.0, 2.0, 3.0])
    v = s.mojo.view()
    t = s[:]
    s.iloc[0] = 99.0
    assert np.asarray(s.mojo.view()).tolist() == [99.0, 2.0, 3.0]
    if cow:
        assert t.tolist() == np.asarray(t.mojo.view()).tolist() == [1.0, 2.0, 3.0]
    assert np.asarray(v).tolist() == ([1.0, 2.0, 3.0] if cow else [99.0, 2.0, 3.0])
    assert v.stale is cow
    with pytest.raises(ReadOnlyError):
        v[0] = -5.0
    del s, t
    gc.collect()
    assert np.asarray(v)[1:].tolist() == [2.0, 3.0]


@pytest.mark.parametrize("kind", ["split", "readonly"])
def test_a_pin_turns_read_only_blocks_into_copy_on_write(kind, cow_on):
    if kind == "split":
        pa = pytest.importorskip("pyarrow")
        df = pa.table({"a": [1.0, 2.0], "b": [3.0, 4.0]}).to_pandas(split_blocks=True)
    else:
        values = np.array([[1.0, 2.0], [3.0, 4.0]])
        values.flags.writeable = False
        df = pd.DataFrame(values.T, columns=["a", "b"], copy=False)
    assert df.mojo.explain()["readonly"].all()
    with pytest.raises(ValueError, match="read-only"):
        df.iloc[0, 0] = 9.0
    v = df.mojo.view("a")
    df.iloc[0, 0] = 9.0
    assert df.iloc[0, 0] == 9.0
    assert v[0] == 1.0
