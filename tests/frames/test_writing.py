"""lease and assign: the two ways to write to a frame."""

import gc

import numpy as np
import pandas as pd
import pytest

import mojoview as mv
from mojoview.frames import blocks
from mojoview.memory.errors import (
    ArgumentError,
    ColumnError,
    DTypeError,
    ExportedError,
    FrameError,
    MaskError,
    OverlapError,
    ReadOnlyError,
    ShapeError,
    SharedError,
    StaleError,
    ZeroCopyError,
)

PANDAS_MAJOR = int(pd.__version__.split(".")[0])


def make():
    return pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [4.0, 5.0, 6.0], "n": [7, 8, 9]})


# -- lease -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", ["a", "b", "n"])
def test_lease_writes_into_the_column(label, cow_on, address):
    df = make()
    at = address(df, df.columns.get_loc(label))
    with df.mojo.lease(label) as v:
        assert v.ptr == at
        assert not v.readonly
        assert not v.frozen
        assert not v.stale
        v[1] = 50
    assert v.closed
    assert df[label].tolist()[1] == 50
    assert address(df, df.columns.get_loc(label)) == at
    assert not blocks._leased
    with df.mojo.lease(label) as v:
        v[:] = 0
    assert df[label].tolist() == [0, 0, 0]


@pytest.mark.parametrize("dtype", ["M8[ns]", "m8[s]"])
def test_lease_of_datetimes(dtype, cow_on):
    df = pd.DataFrame({"t": np.arange(3).view(dtype)})
    with df.mojo.lease("t") as v:
        v.cast("i8")[0] = 41
        v[1] = np.array(42).view(dtype)[()]
    assert df["t"].to_numpy().view("i8").tolist() == [41, 42, 2]


def test_lease_of_other_columns(cow_on):
    df = pd.DataFrame(
        {
            "tz": pd.date_range("2024", periods=2, tz="UTC"),
            "p": pd.period_range("2024", periods=2, freq="D"),
            "i": pd.array([1, 2], dtype="Int64"),
        }
    )
    with df.mojo.lease("i") as v:
        v[0] = 5
    assert df["i"].tolist() == [5, 2]
    with df.mojo.lease("p") as v:
        v[0] = 0
    assert str(df["p"].iloc[0]) == "1970-01-01"
    with df.mojo.lease("tz") as v:
        v.cast("i8")[0] = 0
    assert df["tz"].iloc[0] == pd.Timestamp(0, tz="UTC")


@pytest.mark.skipif(PANDAS_MAJOR >= 3, reason="pandas 3 always has Copy-on-Write")
def test_lease_needs_copy_on_write():
    df = make()
    with pytest.raises(FrameError, match="copy_on_write") as caught:
        df.mojo.lease("a")
    assert isinstance(caught.value, RuntimeError)
    with pytest.raises(FrameError):
        df["a"].mojo.lease()


@pytest.mark.parametrize(
    "share",
    [
        lambda df: df.copy(deep=False),
        lambda df: df["b"],
        lambda df: df[["a"]] if PANDAS_MAJOR >= 3 else df["a"],
        lambda df: df.iloc[:2],
        lambda df: df.mojo.view(),
        lambda df: df.mojo.view("b"),
    ],
)
def test_lease_refuses_what_is_shared_and_detach_copies(share, cow_on):
    df = make()
    other = share(df)
    with pytest.raises(SharedError, match=r"'a'.*detach") as caught, df.mojo.lease("a"):
        pass
    assert isinstance(caught.value, BufferError)
    assert not blocks._leased
    with df.mojo.lease("a", detach=True) as v:
        v[0] = 99.0
    assert df["a"].tolist() == [99.0, 2.0, 3.0]
    assert df["b"].tolist() == [4.0, 5.0, 6.0]
    seen = other["a"] if isinstance(other, pd.DataFrame) and "a" in other else None
    if seen is not None:
        assert seen.iloc[0] == 1.0
    del other, seen


def test_detach_does_not_copy_what_is_not_shared(cow_on, address):
    df = make()
    at = address(df, 0)
    with df.mojo.lease("a", detach=True) as v:
        assert v.ptr == at


def test_lease_notices_sharing_at_the_end(cow_on):
    df = make()
    with pytest.raises(SharedError, match="came to share"), df.mojo.lease("a") as v:  # noqa: PT012  the body is what is tested
        v[0] = 9.0
        kept = df.copy(deep=False)
    assert kept is not None
    assert v.closed
    assert not blocks._leased


def test_lease_notices_a_replaced_column(cow_on):
    df = make()
    with pytest.raises(StaleError, match="'a'"), df.mojo.lease("a") as v:  # noqa: PT012  the body is what is tested
        df["a"] = 0.0
        assert v.stale
        v[0] = 9.0
    assert df["a"].tolist() == [0.0, 0.0, 0.0]


def test_lease_notices_arrays_and_slices_that_escape(cow_on):
    df = make()
    with pytest.raises(ExportedError, match="arrays made from it"), df.mojo.lease("a") as v:
        kept = np.asarray(v)
    del kept
    v.release()
    with pytest.raises(ExportedError, match="slice"), df.mojo.lease("a") as v:
        kept = v[1:]
    kept.release()
    with df.mojo.lease("a") as v:
        np.asarray(v)[:] = 1.5
        v[1:][0] = 2.5
    assert df["a"].tolist() == [1.5, 2.5, 1.5]


def test_an_error_inside_a_lease_carries_its_errors_as_notes(cow_on):
    df = make()
    with pytest.raises(KeyError, match="mine") as caught, df.mojo.lease("a") as v:  # noqa: PT012  the body is what is tested
        df["a"] = 0.0
        raise KeyError("mine")
    assert v.closed
    assert any("moved the column" in note for note in caught.value.__notes__)
    assert not blocks._leased


def test_views_of_a_leased_block_are_refused(cow_on):
    df = make()
    with df.mojo.lease("a") as v:
        for take in (
            lambda: df.mojo.view("a"),
            lambda: df.mojo.view("b"),
            lambda: df.mojo.view(),
            lambda: df.mojo.block("float64"),
        ):
            with pytest.raises(SharedError, match="leased for writing"):
                take()
        with pytest.raises(SharedError, match="leased already"), df.mojo.lease("a"):
            pass
        assert df.mojo.view("n")[0] == 7
        with df.mojo.lease("b") as w:
            w[0] = v[0]
        assert df.mojo.explain()["zero_copy"].all()
    assert df["b"].iloc[0] == 1.0
    assert df.mojo.view("b")[0] == 1.0


def test_lease_refuses_what_it_cannot_write(cow_on):
    values = np.arange(3.0)
    values.flags.writeable = False
    df = pd.DataFrame(
        {
            "o": pd.Series([object(), 1, 2], dtype=object),
            "c": pd.Categorical(["x", "y", "x"]),
            "m": pd.array([1, None, 3], dtype="Int64"),
            "iv": pd.interval_range(0, 3),
        }
    )
    df["r"] = pd.Series(values, copy=False)
    for label, kind in (
        ("o", DTypeError),
        ("c", DTypeError),
        ("m", MaskError),
        ("iv", ZeroCopyError),
        ("r", ReadOnlyError),
    ):
        with pytest.raises(kind, match=f"'{label}'"), df.mojo.lease(label):
            pass
    with pytest.raises(ColumnError, match="'zz'"):
        df.mojo.lease("zz")
    assert not blocks._leased


def test_lease_of_a_series(cow_on):
    s = pd.Series([1.0, 2.0])
    with s.mojo.lease() as v:
        v[0] = 9.0
    assert s.tolist() == [9.0, 2.0]
    df = make()
    with pytest.raises(SharedError), df["a"].mojo.lease():
        pass


def test_lease_needs_the_internals(cow_on, monkeypatch):
    monkeypatch.setattr(blocks, "INTERNALS", False)
    with pytest.raises(FrameError, match="internals"), make().mojo.lease("a"):
        pass


# -- assign ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", ["a", "n", "new"])
@pytest.mark.parametrize("kind", ["view", "array"])
def test_assign_makes_memory_a_column_without_a_copy(label, kind, cow):
    df = make()
    out = np.array([10.0, 20.0, 30.0])
    at = out.ctypes.data
    given = mv.view(out, writable=True) if kind == "view" else out
    df.mojo.assign(label, given)
    assert df[label].tolist() == [10.0, 20.0, 30.0]
    if cow:
        assert np.shares_memory(df[label].to_numpy(), out)
        assert df.mojo.view(label).ptr == at
        assert not df._mgr.blocks[df._mgr.blknos[df.columns.get_loc(label)]].refs.has_reference()
        with df.mojo.lease(label) as v:
            v[0] = 11.0
        assert out[0] == 11.0
    if kind == "view":
        assert given.closed
    assert list(df.columns) == ["a", "b", "n"] + (["new"] if label == "new" else [])
    assert [df[c].tolist() for c in "abn" if c != label] == [make()[c].tolist() for c in "abn" if c != label]


@pytest.mark.parametrize(
    "dtype", ["float32", "int8", "uint64", "bool", "complex64", "float16", "M8[s]", "M8[ns]", "m8[us]"]
)
@pytest.mark.parametrize("step", [1, 2, -1])
def test_assign_keeps_dtype_and_strides(dtype, step, cow_on):
    memory = np.arange(6).astype("i8" if dtype[0] in "Mm" else dtype)
    memory = (memory.view(dtype) if dtype[0] in "Mm" else memory)[::step][:3]
    df = make()
    expected = memory.copy()
    df.mojo.assign("a", mv.view(memory, writable=True))
    v = df.mojo.view("a")
    assert v.dtype == np.dtype(dtype)
    assert v.strides == memory.strides
    assert np.shares_memory(np.asarray(v), memory)
    np.testing.assert_array_equal(np.asarray(v), expected)


def test_memory_of_a_published_view_outlives_everything_else(cow_on):
    df = make()
    out = mv.view(bytearray(24), writable=True).cast("f8")
    out[:] = [7.0, 8.0, 9.0]
    df.mojo.assign("a", out)
    del out
    gc.collect()
    assert df["a"].tolist() == [7.0, 8.0, 9.0]
    df.iloc[0, 0] = 1.0
    assert df["a"].tolist() == [1.0, 8.0, 9.0]


def test_assign_refuses_and_changes_nothing(cow_on):
    df, before = make(), make()
    frozen = np.arange(3.0)
    frozen.flags.writeable = False
    bad = [
        (np.arange(4.0), ShapeError, r"\(3,\).*\(4,\)"),
        (np.zeros((3, 1)), ShapeError, r"\(3, 1\)"),
        (np.array(1.0), ShapeError, r"\(\)"),
        (np.array([1, 2, 3], object), DTypeError, "Python objects"),
        (np.array(["a", "b", "c"]), DTypeError, "U1"),
        (np.arange(3, dtype=">f8"), ZeroCopyError, "big-endian"),
        (np.arange(3).view("M8[D]"), DTypeError, r"M8\[D\]|datetime64\[D\]"),
        (frozen, ReadOnlyError, "read-only"),
        (mv.view(np.arange(3.0)), ReadOnlyError, "writable"),
        (np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0]), MaskError, "mask"),
        ([1.0, 2.0, 3.0], ArgumentError, "list"),
        (pd.Series([1.0, 2.0, 3.0]), ArgumentError, "Series"),
        (df.mojo.view("b"), OverlapError, "pandas"),
        (df._mgr.blocks[0].values[1], OverlapError, "'b'"),
    ]
    for out, kind, words in bad:
        with pytest.raises(kind, match=words):
            df.mojo.assign("a", out)
        with pytest.raises(kind, match=words):
            df.mojo.assign("new", out)
        if isinstance(out, mv.View):
            assert not out.closed
    with pytest.raises(ArgumentError, match="hashable"):
        df.mojo.assign(["a"], np.arange(3.0))
    pd.testing.assert_frame_equal(df, before)


def test_assign_refuses_a_view_in_use(cow_on):
    df = make()
    out = mv.view(np.arange(3.0), writable=True)
    held = memoryview(out)
    with pytest.raises(ExportedError):
        df.mojo.assign("a", out)
    assert df["a"].tolist() == [1.0, 2.0, 3.0]
    assert not out.closed
    held.release()
    df.mojo.assign("a", out)
    assert df["a"].tolist() == [0.0, 1.0, 2.0]


def test_assign_needs_one_column(cow_on):
    df = pd.DataFrame([[1.0, 2.0]], columns=["x", "x"])
    with pytest.raises(ColumnError, match="2 columns"):
        df.mojo.assign("x", np.zeros(1))


def test_assign_does_not_align(cow_on):
    df = pd.DataFrame({"a": [1.0, 2.0, 3.0]}, index=[5, 5, 1])
    df.mojo.assign("a", np.array([7.0, 8.0, 9.0]))
    assert df["a"].tolist() == [7.0, 8.0, 9.0]
    assert df.index.tolist() == [5, 5, 1]


def test_assign_leaves_views_of_the_old_column(cow_on):
    df = make()
    v = df.mojo.view("a")
    df.mojo.assign("a", np.zeros(3))
    assert np.asarray(v).tolist() == [1.0, 2.0, 3.0]
    assert v.stale
