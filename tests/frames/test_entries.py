"""Every public entry takes every kind of object that `view()` opens, or refuses it with an error of the package."""

import importlib.util
from collections import UserDict

import numpy as np
import pandas as pd
import pytest

import mojoview as mv
from mojoview.frames import to_frame, to_series
from mojoview.memory.errors import ArgumentError, MojoViewError
from mojoview.sharing.memory_pool import Pool

pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")
duckdb = pytest.importorskip("duckdb")


def make_objects():
    zone = pa.timestamp("us", "Europe/Oslo")
    yield from {
        "polars series": pl.Series([1, 2]),  # polars#17693
        "polars series with null": pl.Series([1, None]),
        "polars text": pl.Series(["a", "b"]),
        "polars bool": pl.Series([True, False]),
        "polars categorical": pl.Series(["a", "b"], dtype=pl.Categorical),
        "polars struct": pl.Series([{"a": 1}, {"a": 2}]),
        "polars null": pl.Series([None, None]),
        "polars frame": pl.DataFrame({"a": [1, 2], "b": ["x", None]}),
        "arrow array": pa.array([1, 2]),
        "arrow array with null": pa.array([1, None]),
        "arrow text": pa.array(["a", "b"]),
        "arrow bool": pa.array([True, False]),
        "arrow decimal": pa.array([1, 2]).cast(pa.decimal128(30, 2)),
        "arrow zone": pa.array([1, 2], zone),
        "arrow dictionary": pa.array(["a", "b"]).dictionary_encode(),
        "arrow null": pa.nulls(2),
        "arrow list": pa.array([[1], [2]]),
        "arrow struct": pa.array([{"a": 1}, {"a": 2}]),
        "arrow struct with null": pa.array([{"a": 1}, None]),
        "chunked": pa.chunked_array([[1], [2]]),
        "chunked text": pa.chunked_array([["a"], ["b"]]),
        "chunked zone": pa.chunked_array([pa.array([1], zone), pa.array([2], zone)]),
        "no chunk": pa.chunked_array([], pa.int64()),
        "table": pa.table({"a": [1, 2]}),
        "table with repeated labels": pa.table([[1, 2], [3, 4]], ["a", "a"]),
        "record batch": pa.record_batch({"a": [1, 2]}),
        "reader": pa.table({"a": [1, 2]}).to_reader(),
        "duckdb": duckdb.sql("select 1 as a, 'x' as b"),  # quak#54
        "series": pd.Series([1, 2], name="n"),
        "series of text": pd.Series(["a", "b"]),
        "series of objects": pd.Series([object(), 1]),
        "series of categories": pd.Series(["a", "b"], dtype="category"),
        "series of zone": pd.Series(pd.date_range("2020", periods=2, tz="UTC")),
        "series of periods": pd.Series(pd.period_range("2020", periods=2)),
        "series of intervals": pd.Series(pd.interval_range(0, 2)),
        "series with NA": pd.Series([1, None], dtype="Int64"),
        "sparse": pd.Series(pd.arrays.SparseArray([0, 1])),
        "index": pd.Index([1, 2]),
        "range": pd.RangeIndex(2),
        "multi-index": pd.MultiIndex.from_product([[1], [1, 2]]),
        "array": pd.array([1, 2]),
        "frame": pd.DataFrame({"a": [1, 2]}),
        "frame view": pd.DataFrame({"a": [1, 2], "ok": [True, False]}).mojo.view(),
        "column view": pd.Series([1, 2]).mojo.view(),
        "categories view": pd.Series(["a", "b"], dtype="category").mojo.view(),
        "block view": pd.DataFrame({"a": [1, 2]}).mojo.block(),
        "string view": mv.view(pa.array(["a", "b"])),
        "chunked view": mv.view(pa.chunked_array([[1], [2]])),
        "masked view": mv.view(pa.array([1, None])),
        "accessor": pd.DataFrame({"a": [1, 2]}).mojo,
        "masked array": np.ma.array([1, 2], mask=[0, 1]),
        "ndarray": np.array([1.0, 2.0]),
        "bytearray": bytearray(8),
        "memoryview": memoryview(b"\1\2"),
        "list": [1, 2],
        "ragged list": [[1], [1, 2]],
        "dict": {"a": 1},
        "text": "ab",
        "None": None,
        "generator": (k for k in ()),
    }.items()
    if importlib.util.find_spec("nanoarrow"):
        import nanoarrow

        yield "nanoarrow", nanoarrow.Array([1, 2], nanoarrow.int64())
        yield "nanoarrow stream", nanoarrow.ArrayStream([1, 2], nanoarrow.int64())
    if importlib.util.find_spec("xarray"):
        import xarray

        yield "xarray", xarray.DataArray([1, 2])
        yield "xarray dataset", xarray.Dataset({"a": ("x", [1, 2])})
    if importlib.util.find_spec("h5py"):
        import h5py

        file = h5py.File("x", "w", driver="core", backing_store=False)
        yield "h5py", file.create_dataset("a", data=[1, 2])
        yield "h5py group", file
    if importlib.util.find_spec("zarr"):
        import zarr

        yield "zarr", zarr.array([1, 2])


def make_entries():
    structured = np.dtype([("a", "i8")])
    ring = mv.Ring.create(None, capacity=1 << 16, full="drop")
    records = mv.Ring.create(None, capacity=1 << 16, dtype=structured, full="drop")
    state = mv.State.create(None, structured)
    return {
        "view": mv.view,
        "view if needed": lambda obj: mv.view(obj, copy="if_needed"),
        "view always": lambda obj: mv.view(obj, copy="always"),
        "share": mv.share,
        "Pool.share": Pool().share,
        "publish": mv.Snapshot.create(None, 2, "i8").publish,
        "Ring.write": ring.write,
        "Ring.write of records": records.write,
        "write_many": ring.write_many,
        "write_many of records": records.write_many,
        "read_into": state.read_into,
        "kernel": mv.kernels.sum,
        "kernel of two": lambda obj: mv.kernels.add(obj, obj, np.empty(2)),
        "describe": mv.kernels.describe,
        "safe_call": lambda obj: mv.safe_call(mv.kernels.sum, obj),
        "to_series": to_series,
        "to_frame": to_frame,
        "to_frame of it": lambda obj: to_frame({"x": obj}),
        "assign": lambda obj: pd.DataFrame({"a": [1, 2]}).mojo.assign("b", obj),
        "PointerTable": lambda obj: mv.PointerTable([obj]),
    }


@pytest.mark.parametrize("entry", list(make_entries()))  # names: pytest would keep the segments open
def test_an_entry_takes_every_object_or_refuses_it_in_words(entry):
    taken, foreign = 0, {}
    call = make_entries()[entry]
    for name, obj in make_objects():
        try:
            call(obj)
            taken += 1
        except MojoViewError as error:
            if len(str(error)) < 25:
                foreign[name] = error
        except Exception as error:
            foreign[name] = error
    assert foreign == {}
    assert taken > 0


def shared(obj):
    with mv.share(obj) as handle:
        found = handle.read()
        return found if isinstance(found, pd.DataFrame) else np.array(found)


@pytest.mark.parametrize(
    "obj",
    [pl.Series([1, 2]), pa.array([1, 2]), pa.chunked_array([[1], [2]]), mv.view(pa.chunked_array([[1, 2]])), [1, 2]],
    ids=["polars", "array", "chunked", "view", "list"],
)
def test_arrays_of_every_kind_are_shared_as_an_array(obj):
    assert (shared(obj).dtype, shared(obj).tolist()) == (np.dtype("i8"), [1, 2])


def test_bits_are_shared_as_bytes():
    for obj in (pl.Series([True, False]), pa.array([True, False]), pa.chunked_array([[True], [False]])):
        assert (shared(obj).dtype, shared(obj).tolist()) == (np.dtype(bool), [True, False])


TABLE = pa.table({"n": [1, None], "text": ["x", None], "when": pa.array([0, 1], pa.timestamp("us", "UTC"))})


@pytest.mark.parametrize(
    "make",
    [
        lambda: TABLE,
        lambda: pa.concat_tables([TABLE.slice(0, 1), TABLE.slice(1)]),
        lambda: TABLE.to_batches()[0],
        lambda: TABLE.to_reader(),
        lambda: mv.view(TABLE),
        lambda: mv.view(TABLE.to_batches()[0]),
    ],
    ids=["table", "chunks", "batch", "reader", "view of a table", "view of a batch"],
)
def test_tables_of_every_kind_are_shared_as_a_frame(make):
    expected = TABLE.to_pandas(types_mapper=pd.ArrowDtype)
    pd.testing.assert_frame_equal(shared(make()), expected)


def test_tables_of_other_libraries_are_shared_as_a_frame():
    for obj in (pl.DataFrame({"n": [1, 2], "t": ["x", None]}), duckdb.sql("from (values (1, 'x'), (2, null)) t(n, t)")):
        frame = shared(obj)
        assert (frame["n"].tolist(), frame["t"][0], frame["t"].isna().tolist()) == ([1, 2], "x", [False, True])
    frame = shared(pa.table([[1, 2], [3, 4]], ["a", "a"]))
    assert (list(frame.columns), frame.to_numpy().tolist()) == (["a", "a"], [[1, 3], [2, 4]])


def test_a_mapping_is_not_an_array_of_its_keys():
    mapping = UserDict({"a": [1.0]})  # as an HDF5 file is one
    for refused in (mv.share, mv.Snapshot.create(None, (1,), "U1").publish, lambda obj: mv.view(obj, copy="if_needed")):
        with pytest.raises(ArgumentError):
            refused(mapping)


def test_a_missing_record_is_not_shared_as_a_row():
    with pytest.raises(mv.MojoViewError, match="missing as a whole"):
        mv.share(pa.array([{"a": 1}, None]))
