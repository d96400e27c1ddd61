"""Exchange with other libraries: the same addresses after each hop, and everything released at the end."""

from __future__ import annotations

import gc
import itertools

import numpy as np
import pandas as pd
import pytest

import mojoview as mv
from mojoview import kernels
from mojoview.frames import blocks, to_frame
from mojoview.memory._lease import live_leases

pa = pytest.importorskip("pyarrow", reason="the hops go through Arrow")

NUMBERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"]


def frame_of(table):
    """A FrameView of anything that streams one chunk a column."""
    columns = mv.view(table)
    return to_frame({name: columns[name].single() for name in table_names(table)}).mojo.view(na="mask")


def table_names(table):
    return getattr(table, "column_names", None) or list(table.columns)


def by_polars(frame):
    pl = pytest.importorskip("polars", reason="the hop needs polars")
    return frame_of(pl.DataFrame(frame))


def by_polars_and_pandas(frame):
    pl = pytest.importorskip("polars", reason="the hop needs polars")
    return pl.DataFrame(frame).to_pandas(use_pyarrow_extension_array=True).mojo.view(na="mask")


def by_dlpack(frame):
    if np.lib.NumpyVersion(np.__version__) < "2.1.0":
        pytest.skip("NumPy speaks versioned DLPack from 2.1 on")
    return to_frame({label: mv.view(np.from_dlpack(column)) for label, column in frame.items()}).mojo.view()


# Each hop converts a FrameView to another library and returns a view of the result.
HOPS = {
    "pandas": lambda frame: frame.to_pandas().mojo.view(na="mask"),
    "dictionary": lambda frame: to_frame(frame.to_dict_of_views()).mojo.view(na="mask"),
    "series": lambda frame: to_frame({k: v.to_series().mojo.view(na="mask") for k, v in frame.items()}).mojo.view(
        na="mask"
    ),
    "table": lambda frame: frame_of(frame.to_arrow()),
    "table, arrow dtypes": lambda frame: frame.to_arrow().to_pandas(types_mapper=pd.ArrowDtype).mojo.view(na="mask"),
    "polars": by_polars,
    "polars, pandas": by_polars_and_pandas,
}
PLAIN = {
    **HOPS,
    "table, split blocks": lambda frame: frame.to_arrow().to_pandas(split_blocks=True, zero_copy_only=True).mojo.view(),
    "dlpack": by_dlpack,
}


def places(frame):
    return [column.ptr for column in frame.values()]


@pytest.mark.parametrize(("first", "second"), list(itertools.product(PLAIN, repeat=2)))
def test_addresses_survive_every_two_hops(first, second):
    before = live_leases()
    df = pd.DataFrame({dtype: np.arange(64).astype(dtype) for dtype in NUMBERS})
    frame = df.mojo.view()
    for hop in (first, second):
        frame = PLAIN[hop](frame)
        assert places(frame) == places(df.mojo.view()), hop
        assert [(c.dtype, c.shape, c.readonly) for c in frame.values()] == [(np.dtype(d), (64,), True) for d in NUMBERS]
    for label, column in frame.items():
        np.testing.assert_array_equal(np.asarray(column), df[label])
    del frame, column
    gc.collect()
    assert live_leases() == before
    if blocks.cow_enabled():
        assert not any(block.refs.has_reference() for block in df._mgr.blocks)


@pytest.mark.parametrize(("first", "second"), list(itertools.product(HOPS, repeat=2)))
def test_validity_text_and_timestamps_survive_two_hops(first, second):
    df = pd.DataFrame(
        {
            "n": pd.arrays.ArrowExtensionArray(pa.chunked_array([pa.array([1, None, 2**53 + 1])])),
            "t": pd.arrays.ArrowExtensionArray(pa.chunked_array([pa.array([1, None, 3], pa.timestamp("us", "UTC"))])),
            "s": pd.arrays.ArrowExtensionArray(pa.chunked_array([pa.array(["a", None, "c"], pa.large_string())])),
        }
    )
    frame = df.mojo.view(["n", "t"], na="mask")
    for hop in (first, second):
        frame = HOPS[hop](frame)
        assert places(frame) == places(df.mojo.view(["n", "t"], na="mask"))
        assert [c.validity.ptr for c in frame.values()] == [
            c.validity.ptr for c in df.mojo.view(["n", "t"], na="mask").values()
        ]
        assert (kernels.sum(frame["n"]), kernels.count(frame["n"])) == (2**53 + 2, 2)
    text = df.mojo.view(["s"], na="mask")
    for hop in (first, second):
        text = HOPS[hop](text)
        assert list(text["s"]) == ["a", None, "c"]


def test_polars_keeps_text_dictionaries_and_nesting():
    pl = pytest.importorskip("polars", reason="compares with polars")
    df = pd.DataFrame(
        {
            "s": pd.array(["a", None, "ccc"], dtype="string[pyarrow]"),
            "l": pd.arrays.ArrowExtensionArray(pa.chunked_array([pa.array([[1], None, [2, 3]])])),
            "c": pd.Categorical([1.5, None, 2.5]),
            "m": pd.array([1, None, 3], dtype="Int64"),
        }
    )
    df["c"] = df["c"].cat.rename_categories(pd.Index(["x", "y"], dtype="string[pyarrow]"))
    got = pl.DataFrame(df.mojo.view(na="mask"))
    assert got.to_dict(as_series=False) == {
        "s": ["a", None, "ccc"],
        "l": [[1], None, [2, 3]],
        "c": ["x", None, "y"],
        "m": [1, None, 3],
    }


def test_polars_never_sees_later_writes(cow_on):
    pl = pytest.importorskip("polars", reason="compares with polars")
    df = pd.DataFrame({"a": [1.0, 2.0]})
    got = pl.DataFrame(df.mojo.view())
    assert mv.view(got["a"]).single().ptr == df.mojo.view("a").ptr
    df.iloc[0, 0] = 99.0
    assert got["a"].to_list() == [1.0, 2.0]


def test_duckdb_reads_frames_and_is_read_in_place():
    duckdb = pytest.importorskip("duckdb", reason="compares with DuckDB")
    before = live_leases()
    df = pd.DataFrame({"x": np.arange(5.0), "n": pd.array([1, None, 3, 4, 5], dtype="Int64")})
    df["s"] = pd.array(["a", "b", None, "a", "b"], dtype="string[pyarrow]")
    connection = duckdb.connect()
    relation = connection.from_arrow(df.mojo.view(na="mask"))
    assert relation.aggregate("sum(x), sum(n), count(s)").fetchall() == [(10.0, 13, 4)]
    grouped = connection.from_arrow(df.mojo.view(na="mask")).aggregate("s, sum(n) as n").order("s").fetchall()
    assert grouped == [("a", 5), ("b", 5), (None, 3)]
    result = connection.sql("select i, i * 0.5::double as half from range(3000) t(i)").to_arrow_table()
    columns = mv.view(result)
    assert [c.ptr for c in columns["half"].chunks] == [
        c.buffers()[1].address + 8 * c.offset for c in result.column("half").chunks
    ]
    assert sum(kernels.sum(chunk) for chunk in columns["half"].chunks) == 3000 * 2999 / 4
    del relation, columns, result
    connection.close()
    gc.collect()
    assert live_leases() == before
    if blocks.cow_enabled():
        assert not any(block.refs.has_reference() for block in df._mgr.blocks)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # what its dependencies say while they are imported
def test_scikit_learn_computes_on_pandas_own_memory():
    pytest.importorskip("sklearn", reason="compares with scikit-learn")
    from sklearn.linear_model import LinearRegression
    from sklearn.preprocessing import FunctionTransformer
    from sklearn.utils import check_array

    before = live_leases()
    rng = np.random.default_rng(0)
    df = pd.DataFrame(rng.random((50, 3)), columns=list("abc"))
    df["y"] = np.asarray(df) @ [1.0, 2.0, 3.0]
    features = df.mojo.view(["a", "b", "c"]).block().T
    assert check_array(features).__array_interface__["data"][0] == features.ptr
    seen = []
    FunctionTransformer(lambda x: seen.append(x) or x, validate=True).fit_transform(features)
    assert seen[0].__array_interface__["data"][0] == features.ptr
    model = LinearRegression().fit(features, df.mojo.view("y"))
    np.testing.assert_allclose(model.coef_, [1.0, 2.0, 3.0])
    frame = df.mojo.view(["a", "b", "c"]).to_pandas()
    assert LinearRegression().fit(frame, df["y"]).feature_names_in_.tolist() == ["a", "b", "c"]
    single = df.mojo.view(["b"]).to_pandas()
    assert check_array(single).__array_interface__["data"][0] == df.mojo.view("b").ptr
    seen.clear()
    del features, frame, single
    gc.collect()
    assert live_leases() == before
