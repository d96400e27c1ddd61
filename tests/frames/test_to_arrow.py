"""FrameView as an Arrow stream of the columns' own buffers, pinned until the consumer releases them."""

from __future__ import annotations

import gc
import subprocess
import sys
import textwrap

import numpy as np
import pandas as pd
import pytest

from mojoview.frames import blocks, to_series
from mojoview.memory._lease import live_leases
from mojoview.memory.errors import DTypeError, LayoutError, MaskError, ZeroCopyError

pa = pytest.importorskip("pyarrow", reason="what Arrow reads is compared by pyarrow")


class OnlyStream:
    def __init__(self, frame):
        self.__arrow_c_stream__ = frame.__arrow_c_stream__


def mixed():
    return pd.DataFrame(
        {
            "f8": [1.5, np.nan, 3.0],
            "u1": np.array([1, 2, 3], "u1"),
            "M8": np.array([1, "NaT", 3], "M8[us]"),
            "m8": np.array([1, 2, 3], "m8[ms]"),
            "zone": pd.date_range("2024-03-30", periods=3, tz="Europe/Oslo"),
            "offset": pd.date_range("2024-03-30", periods=3, tz="+05:30"),
            "utc": pd.date_range("2024-03-30", periods=3, tz="UTC"),
            "cat": pd.Categorical([3, None, 1], categories=[1, 3], ordered=True),
            "Int64": pd.array([1, None, 3], dtype="Int64"),
            "text": pd.array(["a", None, "ccc"], dtype="string[pyarrow]"),
            "chunks": pd.arrays.ArrowExtensionArray(pa.chunked_array([[1], [2, None]])),
            "lists": pd.arrays.ArrowExtensionArray(pa.chunked_array([pa.array([[1], None, [2, 3]])])),
            "bits": pd.arrays.ArrowExtensionArray(pa.chunked_array([pa.array([True, None, False])])),
            "coded": pd.arrays.ArrowExtensionArray(pa.chunked_array([pa.array(["x", "y", "x"]).dictionary_encode()])),
        }
    )


def test_every_column_goes_out_with_its_type_and_values():
    df = mixed()
    table = df.mojo.view(na="mask").to_arrow()
    expected = pa.Table.from_pandas(df, preserve_index=False)
    for name in table.column_names:
        ours, theirs = table.column(name), expected.column(name)
        if name == "f8":  # NaN is a value: nothing is missing
            assert ours.null_count == 0
            np.testing.assert_array_equal(ours.to_numpy(), df["f8"])
            continue
        assert ours.type == theirs.type, name
        assert ours.combine_chunks().equals(theirs.combine_chunks()), name
    assert [len(batch) for batch in table.to_batches()] == [1, 2]


def test_addresses_are_the_columns_own():
    df = mixed().drop(columns="chunks")
    table = df.mojo.view(na="mask").to_arrow()
    for name in ("f8", "u1", "M8", "m8", "zone", "offset", "utc", "cat", "Int64"):
        [chunk] = table.column(name).chunks
        assert chunk.buffers()[1].address == df.mojo.view(name, na="mask").ptr, name
    for name in ("text", "lists", "bits", "coded"):
        theirs = df[name].array.__arrow_array__().chunk(0).buffers()
        assert [b and b.address for b in table.column(name).chunk(0).buffers()] == [b and b.address for b in theirs]


def test_periods_keep_their_meaning():
    df = pd.DataFrame({"p": pd.period_range("2024", periods=3, freq="M")})
    pd.array(df["p"]).__arrow_array__()  # pandas registers the type when it first uses it
    table = df.mojo.view().to_arrow()
    assert table.to_pandas()["p"].dtype == df["p"].dtype
    assert table.column("p").chunk(0).storage.buffers()[1].address == df.mojo.view("p").ptr
    pd.testing.assert_frame_equal(table.to_pandas(), df)


@pytest.mark.parametrize("na", ["mask", "ignore"])
def test_a_missing_period_is_missing_for_arrow(na):
    df = pd.DataFrame({"p": pd.PeriodIndex(["2020-01", None], freq="M")})
    column = df.mojo.view(na=na).to_arrow().column(0)
    assert (column.null_count, column.is_null().to_pylist()) == (1, [False, True])


def test_the_stream_needs_no_pyarrow():
    code = """
        import sys
        import pandas as pd, numpy as np
        import mojoview as mv
        frame = pd.DataFrame({"x": np.arange(3.0), "n": [1, 2, 3]}).mojo.view()
        before = "pyarrow" in sys.modules
        sys.modules["pyarrow"] = None
        class Only:
            def __arrow_c_stream__(self, requested_schema=None):
                return frame.__arrow_c_stream__(requested_schema)
        got = mv.view(Only())
        assert got["x"].chunks[0].ptr == frame["x"].ptr
        assert [float(x) for x in got["x"]] == [0.0, 1.0, 2.0]
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_a_table_never_sees_later_writes(cow_on):
    """apache/arrow#51162: everybody else's Table changes when the frame is written to."""
    df = pd.DataFrame({"a": np.arange(5.0), "n": np.arange(5)})
    table = df.mojo.view().to_arrow()
    gc.collect()
    block = blocks.locate_block(df, 0)[0]
    assert block.refs.has_reference()  # the consumer alone holds it
    df.iloc[0, 0] = 99.0
    df.loc[1, "n"] = -1
    assert table.column("a").to_pylist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert table.column("n").to_pylist() == [0, 1, 2, 3, 4]
    assert df.iloc[0, 0] == 99.0
    other = pa.Table.from_pandas(df)
    df.iloc[0, 0] = 5.0
    assert other.column("a")[0].as_py() == 5.0  # what happens without a pin


def test_the_pin_ends_with_the_consumer(cow_on):
    before = live_leases()
    df = mixed()[["f8", "Int64", "cat"]]
    located = [blocks.locate_block(df, k)[0] for k in range(3)]
    table = df.mojo.view(na="mask").to_arrow()
    column = table.column("Int64")
    assert all(block.refs.has_reference() for block in located)
    del table
    gc.collect()
    assert column.to_pylist() == [1, None, 3]  # children may be kept alone
    del column
    gc.collect()
    assert not any(block.refs.has_reference() for block in located)
    for unread in (df.mojo.view(na="mask").__arrow_c_stream__(), df.mojo.view(na="mask").__arrow_c_schema__()):
        del unread
    gc.collect()
    assert live_leases() == before


def test_consumers_after_the_frame_is_gone():
    df = mixed()
    reader = pa.RecordBatchReader.from_stream(df.mojo.view(na="mask"))
    del df
    gc.collect()
    assert reader.read_all().column("text").to_pylist() == ["a", None, "ccc"]


@pytest.mark.parametrize(
    ("column", "error", "text"),
    [
        ([True, False], ZeroCopyError, r"'c'.*booleans as bits.*if_needed"),
        ([1j, 2j], ZeroCopyError, r"'c'.*complex"),
        (pd.Categorical([("a", 1), ("b", 2)]), DTypeError, r"'c'.*categories.*if_needed"),
    ],
)
def test_what_arrow_has_no_words_for_is_refused_by_name(column, error, text):
    df = pd.DataFrame({"x": [1.0, 2.0], "c": column})
    before = live_leases()
    for export in (lambda: df.mojo.view().__arrow_c_stream__(), lambda: df.mojo.view().to_arrow()):
        with pytest.raises(error, match=text):
            export()
    assert live_leases() == before


def test_a_view_that_may_copy_packs_and_gathers():
    df = pd.DataFrame(np.arange(6.0).reshape(3, 2), columns=["a", "b"], copy=False)
    df["f"] = [True, False, True]
    df["m"] = pd.array([True, None, False], dtype="boolean")
    with pytest.raises(LayoutError, match=r"'a'.*strides.*if_needed"):
        df.mojo.view(["a"]).to_arrow()
    table = df.mojo.view(na="mask", copy="if_needed").to_arrow()
    assert table.to_pydict() == {
        "a": [0.0, 2.0, 4.0],
        "b": [1.0, 3.0, 5.0],
        "f": [True, False, True],
        "m": [True, None, False],
    }
    objects = pd.DataFrame({"c": pd.Series(["x", None, "y"], dtype=object).astype("category")})
    assert objects.mojo.view(na="mask", copy="if_needed").to_arrow().column("c").to_pylist() == ["x", None, "y"]


def test_missing_categories_are_exported_only_with_a_mask():
    df = pd.DataFrame({"c": pd.Categorical([1, None])})
    with pytest.raises(MaskError, match=r"'c'.*-1"):
        df.mojo.view(na="ignore").to_arrow()


def test_batches_end_where_chunks_do():
    def chunked(*lengths):
        return pd.arrays.ArrowExtensionArray(pa.chunked_array([np.arange(n) for n in lengths]))

    df = pd.DataFrame({"x": np.arange(10.0), "a": chunked(3, 0, 7), "b": chunked(5, 5)})
    table = df.mojo.view().to_arrow()
    assert [len(batch) for batch in table.to_batches()] == [3, 2, 5]
    assert [c.buffers()[1].address + 8 * c.offset for c in table.column("x").chunks] == [
        df.mojo.view("x").ptr + 8 * start for start in (0, 3, 5)
    ]
    assert table.to_pydict() == {name: df[name].tolist() for name in df}


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_small_and_odd_frames(rows):
    df = pd.DataFrame({"x": np.arange(float(rows)), 5: np.arange(rows)})
    table = df.mojo.view().to_arrow()
    assert (table.num_rows, table.column_names) == (rows, ["x", "5"])
    doubled = pd.DataFrame(np.zeros((rows, 2)), columns=["a", "a"])
    assert doubled.mojo.view().to_arrow().column_names == ["a", "a"]
    assert pa.table(OnlyStream(pd.DataFrame().mojo.view())).num_columns == 0
    assert pa.schema(df.mojo.view()) == table.schema


def test_arrow_views_become_series():
    for array in (pa.array(["a", None]), pa.chunked_array([[1], [None]]), pa.array([True, False]), pa.array([1, None])):
        import mojoview as mv

        s = to_series(mv.view(array))
        assert s.dtype == pd.ArrowDtype(array.type)
        assert s.array.__arrow_array__().to_pylist() == array.to_pylist()
        first = array.chunk(0) if isinstance(array, pa.ChunkedArray) else array
        ours = s.array.__arrow_array__().chunk(0)
        assert [b and b.address for b in ours.buffers()] == [b and b.address for b in first.buffers()]


def test_frames_of_arrow_columns_come_back(cow):
    df = mixed()[["text", "chunks", "lists", "bits", "coded"]]
    made = df.mojo.view(na="mask").to_pandas()
    pd.testing.assert_frame_equal(made, df)
    for name in df:
        ours, theirs = (frame[name].array.__arrow_array__() for frame in (made, df))
        assert ours.num_chunks == theirs.num_chunks
        for a, b in zip(ours.chunks, theirs.chunks, strict=True):
            assert [x and x.address for x in a.buffers()] == [x and x.address for x in b.buffers()]
    made.loc[0, "chunks"] = 77
    made.loc[0, "text"] = "zzz"
    assert (df.loc[0, "chunks"], df.loc[0, "text"]) == (1, "a")
    packed = df.mojo.view(["bits", "chunks"], na="mask", copy="always").to_pandas()
    pd.testing.assert_frame_equal(packed, df[["bits", "chunks"]])


def test_work_grows_with_the_number_of_chunks_and_not_faster():
    """The function calls of an export, counted: eight times the chunks, about eight times the calls (pandas#42357)."""

    def calls(count):
        chunks = pa.chunked_array([pa.array([1.0, None, 3.0])] * count)
        view = pa.table(dict.fromkeys("abc", chunks)).to_pandas(types_mapper=pd.ArrowDtype).mojo.view(na="mask")
        seen = 0

        def count_call(frame, event, argument):
            nonlocal seen
            seen += event in ("call", "c_call")

        sys.setprofile(count_call)
        try:
            table = view.to_arrow()
        finally:
            sys.setprofile(None)
        assert table.num_rows == 3 * count
        return seen

    assert calls(400) < 10 * calls(50)
