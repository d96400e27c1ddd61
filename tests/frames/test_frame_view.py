"""FrameView: the mapping, labels of all kinds, layouts, and the blocks underneath."""

import numpy as np
import pandas as pd
import pytest

from mojoview.frames import BlockView, ColumnView, FrameView
from mojoview.memory.errors import (
    ArgumentError,
    ColumnError,
    DTypeError,
    IndexingError,
    MaskError,
    ReleasedError,
    ZeroCopyError,
)

PANDAS_MAJOR = int(pd.__version__.split(".")[0])


def make(n=4):
    df = pd.DataFrame({"a": np.arange(n) * 1.0, "i": np.arange(n), "b": np.arange(n) * 10.0})
    df["t"] = np.arange(n).view("M8[ns]")
    df["m"] = pd.array(np.arange(n), dtype="Int64")
    return df


def test_it_is_a_mapping_in_column_order(route):
    df = make()
    frame = df.mojo.view()
    assert isinstance(frame, FrameView)
    assert list(frame) == list(frame.keys()) == list(df.columns)
    assert len(frame) == 5
    assert frame.shape == df.shape
    assert "a" in frame
    assert "z" not in frame
    assert frame.nbytes == 5 * 4 * 8
    for (label, column), expected in zip(frame.items(), df.columns, strict=True):
        assert label == expected
        assert isinstance(column, ColumnView)
        np.testing.assert_array_equal(np.asarray(column), df[label].to_numpy(dtype=column.dtype))
        assert column.logical_dtype == df[label].dtype
    assert (
        [c.ptr for c in frame.values()] == [frame.iloc(i).ptr for i in range(5)] == [frame[c].ptr for c in df.columns]
    )
    assert frame.iloc(-1).ptr == frame["m"].ptr


def test_it_does_not_copy(route, address):
    df = make()
    frame = df.mojo.view()
    assert [column.ptr for column in frame.values()] == [address(df, i) for i in range(5)]


def test_a_list_selects_in_its_order(route, address):
    df = make()
    for labels in (
        ["b", "t", "a"],
        pd.Index(["b", "t", "a"]),
        np.array(["b", "t", "a"], object),
        pd.Series(["b", "t", "a"]),
    ):
        frame = df.mojo.view(labels)
        assert list(frame) == ["b", "t", "a"]
        assert [c.ptr for c in frame.values()] == [address(df, 2), address(df, 3), address(df, 0)]
    assert len(df.mojo.view([])) == 0
    assert df.mojo.view([]).nbytes == 0


def test_a_list_pins_only_the_blocks_it_needs(cow_on):
    df = make()
    frame = df.mojo.view(["a"])
    blocks = {str(block.dtype): block for block in df._mgr.blocks}
    assert blocks["float64"].refs.has_reference()
    assert not blocks["int64"].refs.has_reference()
    assert frame["a"][1] == 1.0


def test_duplicate_labels_are_reached_by_position(route):
    df = pd.DataFrame(np.arange(6.0).reshape(2, 3), columns=["x", "y", "x"])
    frame = df.mojo.view()
    assert [label for label, _ in frame.items()] == ["x", "y", "x"]
    assert [np.asarray(frame.iloc(i)).tolist() for i in range(3)] == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
    assert np.asarray(df.mojo.iview(2)).tolist() == [2.0, 5.0]
    assert list(df.mojo.view(["x"])) == ["x", "x"]
    for call in (lambda: frame["x"], lambda: df.mojo.view("x")):
        with pytest.raises(ColumnError, match=r"'x' names 2 columns, at positions 0, 2; use iview") as caught:
            call()
        assert isinstance(caught.value, ValueError)
        assert isinstance(caught.value, KeyError)


@pytest.mark.parametrize(
    "label", ["s", 7, ("p", "q"), 2.5, np.nan, None, True, pd.Timestamp("2024-01-01"), frozenset({1})]
)
def test_labels_of_every_kind(label, route):
    df = pd.DataFrame([[1.0, 2.0], [3.0, 4.0]], columns=pd.Index(["other", label], dtype=object, tupleize_cols=False))
    assert np.asarray(df.mojo.view([label]).iloc(0)).tolist() == [2.0, 4.0]
    if label is not None:
        assert np.asarray(df.mojo.view(label)).tolist() == [2.0, 4.0]
        assert np.asarray(df.mojo.view()[label]).tolist() == [2.0, 4.0]


def test_multiindex_columns(route):
    columns = pd.MultiIndex.from_tuples([("x", 1), ("x", 2), ("y", 1)])
    df = pd.DataFrame(np.arange(6.0).reshape(2, 3), columns=columns)
    assert np.asarray(df.mojo.view(("x", 2))).tolist() == [1.0, 4.0]
    assert list(df.mojo.view([("y", 1), ("x", 1)])) == [("y", 1), ("x", 1)]
    assert list(df.mojo.view(["x"])) == [("x", 1), ("x", 2)]
    with pytest.raises(ColumnError, match="names 2 columns"):
        df.mojo.view("x")


def test_what_is_no_label_or_position():
    df = make()
    frame = df.mojo.view()
    for label in ("z", 3, ("a", "b"), slice(None), {"a"}, {}):
        with pytest.raises(ColumnError):
            df.mojo.view(label)
        with pytest.raises(ColumnError):
            df.mojo.view(["a", label])
        with pytest.raises(ColumnError):
            frame[label]
    for position in (5, -6, 10**30):
        with pytest.raises(IndexingError):
            df.mojo.iview(position)
        with pytest.raises(IndexError):
            frame.iloc(position)
    for position in ("a", 1.0, None, True):
        with pytest.raises(ArgumentError):
            df.mojo.iview(position)
    assert np.asarray(df.mojo.iview(np.int64(1))).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("df", "shape"),
    [
        (pd.DataFrame(), (0, 0)),
        (pd.DataFrame(index=range(3)), (3, 0)),
        (pd.DataFrame({"a": [], "b": []}, dtype="f8"), (0, 2)),
        (pd.DataFrame({"a": [1.0]}), (1, 1)),
    ],
)
def test_small_frames(df, shape, route):
    frame = df.mojo.view()
    assert frame.shape == shape == (frame.shape[0], len(list(frame.items())))
    assert not frame.stale
    assert [c.shape for c in frame.values()] == [(shape[0],)] * shape[1]
    assert len(df.mojo.explain()) == shape[1]
    assert repr(frame)
    assert frame._repr_html_()
    assert repr(df.mojo)


def test_release_closes_it_and_not_its_columns(route):
    df = make()
    with df.mojo.view() as frame:
        column = frame["a"]
    assert frame.closed
    assert column[1] == 1.0
    frame.release()
    for use in (
        lambda: frame["a"],
        lambda: frame.shape,
        lambda: frame.stale,
        lambda: frame.frozen,
        lambda: frame.nbytes,
        lambda: frame.block("float64"),
        lambda: list(frame.items()),
        lambda: frame.__enter__(),
    ):
        with pytest.raises(ReleasedError, match=r"df.mojo.view"):
            use()
    assert "released" in repr(frame)
    assert "released" in frame._repr_html_()


def test_the_first_problem_is_named_and_the_others_counted(route):
    df = make()
    df["o"] = [object()] * 4
    df["be"] = np.arange(4, dtype=">i2")
    with pytest.raises(DTypeError, match=r"'o' of dtype object.*1 more column\(s\).*explain"):
        df.mojo.view()
    assert len(df.mojo.view(["a", "m"])) == 2


# -- layouts and copies ------------------------------------------------------------------------------------------------


def test_layout_of_a_frame(route):
    good = make()
    rows = pd.DataFrame(np.arange(12.0).reshape(4, 3), columns=list("abc"), copy=False)
    for layout in ("contiguous", "f"):
        assert good.mojo.view(layout=layout)["b"].contiguous
        with pytest.raises(ZeroCopyError, match=f"layout='{layout}'"):
            rows.mojo.view(layout=layout)
        copied = rows.mojo.view(layout=layout, copy="if_needed")
        assert all(c.contiguous and c.frozen for c in copied.values())
        assert copied.stale
    with pytest.raises(ZeroCopyError, match="layout='c'"):
        good.mojo.view(layout="c")
    with pytest.raises(ZeroCopyError, match="layout='c'"):
        good.mojo.view(layout="c", copy="if_needed")
    if route == "internal":
        assert rows.mojo.view(layout="c")["b"].strides == (24,)


def test_copy_if_needed_copies_only_what_needs_it(route, address):
    df = make()
    df["be"] = np.arange(4, dtype=">f8")
    frame = df.mojo.view(copy="if_needed")
    assert frame["a"].ptr == address(df, 0)
    assert not frame["a"].stale
    assert np.asarray(frame["be"]).dtype == np.dtype("f8")
    assert frame["be"].stale
    with pytest.raises(ZeroCopyError, match="copies"):
        frame.block("float64")


# -- blocks ------------------------------------------------------------------------------------------------------------


def test_block_is_two_dimensional_and_shared(address, cow_on):
    df = make()
    block = df.mojo.block("float64")
    assert isinstance(block, BlockView)
    assert block.shape == (2, 4)
    assert list(block.columns) == ["a", "b"]
    assert block.ptr == address(df, 0)
    assert block.T.shape == (4, 2)
    assert block.readonly
    assert block.frozen
    assert not block.stale
    np.testing.assert_array_equal(np.asarray(block.T), df[["a", "b"]].to_numpy())
    assert df.mojo.view(["b", "a"]).block().ptr == block.ptr
    df.iloc[0, 0] = 99.0
    assert block[0, 0] == 0.0
    assert block.stale
    assert df.mojo.block("M8[ns]").dtype == np.dtype("M8[ns]")
    assert df.mojo.block("Int64").shape == (1, 4)


def test_block_order_is_not_column_order(route):
    df = make()[["a", "b"]].copy()
    df["a"] = [9.0, 8.0, 7.0, 6.0]
    if route == "internal":
        assert [list(b.columns) for b in df.mojo.blocks()] == [["b"], ["a"]]
    assert sorted(label for b in df.mojo.blocks() for label in b.columns) == ["a", "b"]
    for b in df.mojo.blocks():
        np.testing.assert_array_equal(np.asarray(b)[0], df[b.columns[0]])


def test_block_of_several_is_refused_and_lists_them(route):
    df = make()
    with pytest.raises(ZeroCopyError, match=r"expected exactly one block for the frame, got \d.*float64.*int64"):
        df.mojo.block()
    with pytest.raises(ZeroCopyError, match="float32, got 0"):
        df.mojo.block("float32")
    df = pd.DataFrame({"x": [1.0, 2.0]})
    df["y"] = [3.0, 4.0]
    blocks = df._mgr.blocks
    with pytest.raises(ZeroCopyError, match=r"float64, got 2.*df\.copy\(\)"):
        df.mojo.block("float64")
    assert df._mgr.blocks is blocks, "the user's frame was consolidated"
    assert df.copy().mojo.block("float64").shape == (2, 2)


def test_block_of_a_selection():
    df = pd.DataFrame(np.arange(20.0).reshape(4, 5).copy(order="F"), columns=list("abcde"))
    for labels in (list("bd"), list("ace"), list("c"), list("abcde"), list("db")):
        block = df.mojo.view(labels).block()
        assert list(block.columns) == sorted(labels)
        np.testing.assert_array_equal(np.asarray(block.T), df[sorted(labels)].to_numpy())
    for labels in (list("abd"), list("aa"), list("aab")):
        with pytest.raises(ZeroCopyError, match="no slice"):
            df.mojo.view(labels).block()


def test_blocks_of_extension_columns_have_one_row(route):
    df = pd.DataFrame(
        {
            "tz": pd.date_range("2024", periods=2, tz="UTC"),
            "c": pd.Categorical(["a", "b"]),
            "p": pd.period_range("2024", periods=2, freq="D"),
            "m": pd.array([1, 2], dtype="Int64"),
        }
    )
    assert [b.shape for b in df.mojo.blocks()] == [(1, 2)] * 4
    df.loc[0, "m"] = pd.NA
    with pytest.raises(MaskError, match="'m'"):
        df.mojo.blocks()
    with pytest.raises(DTypeError):
        pd.DataFrame({"o": [object()]}).mojo.blocks()
    assert pd.DataFrame(index=[1]).mojo.blocks() == ()
