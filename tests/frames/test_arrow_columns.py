"""Columns that Arrow holds: every type is viewed in place, by the class of view that explain() names."""

from __future__ import annotations

import datetime
import decimal
from xml.dom import minidom

import numpy as np
import pandas as pd
import pytest
from support.combination import combination

from mojoview import kernels
from mojoview.frames import ColumnView
from mojoview.memory.errors import DTypeError, MaskError, ReadOnlyError, ZeroCopyError
from mojoview.views.arrow.chunked import ChunkedView

pa = pytest.importorskip("pyarrow", reason="Arrow-backed columns need pyarrow")

DAY = datetime.date(1970, 1, 2)
MOMENT = datetime.datetime(2024, 2, 29, 12)

# name: (array without missing values, class of the view, dtype of a ColumnView, which buffer it begins in)
TYPES = {
    "int8": (pa.array([1, 2, 3], pa.int8()), "ColumnView", "i1"),
    "int64": (pa.array([1, 2, 3]), "ColumnView", "i8"),
    "uint32": (pa.array([1, 2, 3], pa.uint32()), "ColumnView", "u4"),
    "float16": (pa.array(np.array([1, 2, 3], "f2")), "ColumnView", "f2"),
    "double": (pa.array([1.5, 2.5, 3.5]), "ColumnView", "f8"),
    "timestamp[us]": (pa.array([MOMENT] * 3, pa.timestamp("us")), "ColumnView", "M8[us]"),
    "timestamp[ns, zone]": (pa.array([MOMENT] * 3, pa.timestamp("ns", "Europe/Oslo")), "ColumnView", "M8[ns]"),
    "duration": (pa.array([1, 2, 3], pa.duration("ms")), "ColumnView", "m8[ms]"),
    "date32": (pa.array([DAY] * 3), "ColumnView", "i4"),
    "date64": (pa.array([DAY] * 3, pa.date64()), "ColumnView", "M8[ms]"),
    "time64": (pa.array([datetime.time(1)] * 3), "ColumnView", "i8"),
    "decimal128": (pa.array([decimal.Decimal("1.25")] * 3), "ColumnView", "V16"),
    "fixed binary": (pa.array([b"ab", b"cd", b"ef"], pa.binary(2)), "ColumnView", "V2"),
    "bool": (pa.array([True, False, True]), "BooleanView", None),
    "string": (pa.array(["a", "bb", ""]), "StringView", None),
    "large_string": (pa.array(["a", "bb", ""], pa.large_string()), "StringView", None),
    "binary": (pa.array([b"a", b"bb", b""]), "StringView", None),
    "string_view": (pa.array(["a", "b" * 20, ""], pa.string_view()), "InlineStringView", None),
    "dictionary": (pa.array(["a", "b", "a"]).dictionary_encode(), "DictionaryView", None),
    "list": (pa.array([[1, 2], [], [3]]), "ListView", None),
    "large_list": (pa.array([[1, 2], [], [3]], pa.large_list(pa.int64())), "ListView", None),
    "fixed list": (pa.array([[1, 2]] * 3, pa.list_(pa.int64(), 2)), "FixedListView", None),
    "struct": (pa.array([{"x": 1, "y": "a"}] * 3), "StructView", None),
    "map": (pa.array([[("k", 1)]] * 3, pa.map_(pa.string(), pa.int64())), "ListView", None),
}


def column(*chunks):
    """A frame whose column "c" holds exactly these chunks."""
    return pd.DataFrame({"n": 1.0, "c": pd.arrays.ArrowExtensionArray(pa.chunked_array(list(chunks)))})


def with_missing(array):
    return pa.concat_arrays([array.slice(0, 1), pa.nulls(1, array.type), array.slice(1, 2)])


@pytest.mark.parametrize("name", TYPES)
def test_every_type_is_viewed_in_place(name, route, cow):
    array, kind, dtype = TYPES[name]
    df = column(array)
    v = df.mojo.view("c")
    assert type(v).__name__ == kind
    assert v.readonly
    assert len(v) == 3
    row = df.mojo.explain().iloc[1]
    assert (row.kind, row.zero_copy, row.reason) == (kind, True, "")
    assert int(row.address, 16) == next(b.address for b in array.buffers()[1:] if b is not None)
    if dtype is not None:
        assert (v.dtype, v.ptr, v.offset) == (np.dtype(dtype), array.buffers()[1].address, 0)
        assert v.logical_dtype == df.dtypes["c"]
        assert (v.frozen, v.stale) == (True, False)
    else:
        assert pa.array(v).equals(array)
    assert df["c"].mojo.explain().iloc[0].kind == kind


@pytest.mark.parametrize("name", TYPES)
def test_missing_values_are_refused_carried_or_ignored(name, route):
    array = with_missing(TYPES[name][0])
    df = column(array)
    with pytest.raises(MaskError, match=r"'c' of dtype .* has 1 missing"):
        df.mojo.view("c")
    assert "1 missing" in df.mojo.explain()["reason"][1]
    v = df.mojo.view("c", na="mask")
    assert v.validity.ptr == array.buffers()[0].address
    assert [v.validity[k] for k in range(4)] == [True, False, True, True]
    assert np.asarray(v.mask).tolist() == [False, True, False, False]
    if name not in ("timestamp[ns, zone]", "date32", "date64", "time64", "decimal128"):  # their types live in pandas
        assert pa.array(v).equals(array)
    plain = df.mojo.view("c", na="ignore")
    assert plain.mask is None
    assert len(plain) == 4
    assert df.mojo.view(na="mask")["c"].masked


def test_offsets_apply_to_values_and_validity(route):
    array = pa.array([None if k % 3 == 0 else k for k in range(20)], pa.int32()).slice(8, 8)
    df = column(array)
    v = df.mojo.view("c", na="mask")
    assert v.ptr == array.buffers()[1].address + 4 * 8
    assert (v.validity.ptr, v.validity.offset) == (array.buffers()[0].address + 1, 0)
    assert [None if x is None else int(x) for x in v] == [8, None, 10, 11, None, 13, 14, None]
    assert (kernels.sum(v), kernels.count(v), kernels.min(v)) == (56, 5, 8)
    for start in range(8):  # and at every bit
        part = column(array.slice(start)).mojo.view("c", na="mask")
        assert [None if x is None else int(x) for x in part] == array.slice(start).to_pylist()
        assert kernels.sum(part) == sum(x for x in array.slice(start).to_pylist() if x is not None)


def test_integers_with_nulls_stay_integers(route):
    df = column(pa.array([1, None, 2**53 + 1]))
    v = df.mojo.view("c", na="mask")
    assert (v.dtype, int(v[2])) == (np.dtype("i8"), 2**53 + 1)
    assert kernels.max(v) == 2**53 + 1


@pytest.mark.parametrize("name", TYPES)
def test_chunks_are_never_joined_silently(name, route):
    array = TYPES[name][0]
    df = column(array, with_missing(array))
    v = df.mojo.view("c", na="mask")
    assert isinstance(v, ChunkedView)
    assert [len(chunk) for chunk in v.chunks] == [3, 4]
    assert type(df.mojo.view("c", na="ignore")) is ChunkedView
    with pytest.raises(ZeroCopyError, match="2 chunks"):
        v.ptr  # noqa: B018
    with pytest.raises(ZeroCopyError, match=r"'c'.*layout='contiguous'.*2 chunks.*if_needed"):
        df.mojo.view("c", na="mask", layout="contiguous")
    row = df.mojo.explain().iloc[1]
    assert (row.kind, row.zero_copy, row.address) == ("ChunkedView", True, None)
    assert "2 chunks" in row.reason
    together = df.mojo.view("c", na="mask", copy="if_needed")
    assert not isinstance(together, ChunkedView)
    assert len(together) == 7
    assert np.asarray(together.mask).tolist() == [False] * 4 + [True] + [False] * 2
    if isinstance(together, ColumnView):
        assert (together.frozen, together.stale) == (True, True)


def test_no_chunk_is_an_empty_column(route):
    df = pd.DataFrame({"c": pd.arrays.ArrowExtensionArray(pa.chunked_array([], pa.int16()))})
    v = df.mojo.view("c")
    assert (v.shape, v.dtype) == ((0,), np.dtype("i2"))
    assert len(df.mojo.view("c", copy="always")) == 0


def test_nulls_have_no_values(route):
    df = column(pa.nulls(3))
    with pytest.raises(MaskError, match="3 missing"):
        df.mojo.view("c")
    assert list(df.mojo.view("c", na="mask")) == [None] * 3
    with pytest.raises(MaskError, match="only missing"):
        df.mojo.view("c", na="ignore")


def test_types_without_a_view_are_refused_with_a_reason(route):
    array = pa.RunEndEncodedArray.from_arrays([2, 3], [1.0, 2.0])
    df = column(array)
    with pytest.raises(ZeroCopyError, match=r"'c'.*run-end"):
        df.mojo.view("c")
    row = df.mojo.explain().iloc[1]
    assert (row.zero_copy, row.kind) == (False, None)
    assert "run-end" in row.reason


@pytest.mark.parametrize("name", TYPES)
def test_copies_are_made_only_on_request(name, route):
    array, kind, dtype = TYPES[name]
    df = column(array)
    for copy in ("if_needed", "always"):
        with combination(copy):
            v = df.mojo.view("c", copy=copy)
            if kind == "BooleanView":  # bits become bytes
                assert np.asarray(v).tolist() == [True, False, True]
                continue
            assert type(v).__name__ == kind
            shared = pa.array(v).buffers()[-1].address == array.buffers()[-1].address
            assert shared == (copy == "if_needed")
            if dtype is not None:
                assert bytes(memoryview(v.cast("u1"))) == bytes(memoryview(df.mojo.view("c").cast("u1")))
                assert (v.arrow_format, v.stale) == (df.mojo.view("c").arrow_format, copy == "always")


@pytest.mark.parametrize("dtype", ["str", "string[pyarrow]", "large_string[pyarrow]"])
def test_strings_that_arrow_holds(dtype, route):
    s = pd.Series(["a", None, "ccc"], dtype=dtype)
    if s.dtype == object or getattr(s.dtype, "storage", "pyarrow") == "python":
        pytest.skip("pandas 2 keeps its default strings as objects")
    held = s.array.__arrow_array__().chunk(0)
    with pytest.raises(MaskError, match="1 missing"):
        s.mojo.view()
    v = s.mojo.view(na="mask")
    assert list(v) == ["a", None, "ccc"]
    assert v.offsets.ptr == held.buffers()[1].address
    assert v.bytes.ptr == held.buffers()[2].address
    assert list(pd.Index(["x", "y"], dtype=dtype).mojo.view()) == ["x", "y"]


def test_arrow_memory_is_frozen_and_knows_when_it_is_stale(route, cow):
    df = column(pa.array([1, 2, 3]))
    df["s"] = pd.array(["a", "b", "c"], dtype="string[pyarrow]")
    frame, v, s = df.mojo.view(), df.mojo.view("c"), df.mojo.view("s")
    assert (v.stale, frame.stale) == (False, False)
    df.loc[0, "c"] = 99
    df.loc[0, "s"] = "zzz"
    assert (v.frozen, v.stale) == (True, True)
    if cow:
        assert frame.stale
    assert [int(x) for x in v] == [1, 2, 3]
    assert list(s) == ["a", "b", "c"]
    assert [int(x) for x in frame["c"]] == [1, 2, 3]
    assert (int(df.mojo.view("c")[0]), df.mojo.view("s")[0]) == (99, "zzz")


def test_whole_frames_contain_them():
    df = pd.DataFrame({name: pd.arrays.ArrowExtensionArray(pa.chunked_array([a])) for name, (a, *_) in TYPES.items()})
    df.insert(0, "plain", [1.0, 2.0, 3.0])
    frame = df.mojo.view()
    assert [type(v).__name__ for v in frame.values()] == ["ColumnView", *(kind for _, kind, _ in TYPES.values())]
    assert frame.shape == (3, 1 + len(TYPES))
    assert frame.nbytes > 3 * 8
    text, html = repr(frame), frame._repr_html_()
    assert "StringView" in text
    assert "✕" not in html
    minidom.parseString(f"<html>{html}</html>")
    first = frame["string"]
    first.release()
    assert list(frame["string"]) == ["a", "bb", ""]  # each holder has its own window
    frame.release()
    minidom.parseString(f"<html>{column(TYPES['int8'][0], TYPES['int8'][0]).mojo._repr_html_()}</html>")


def test_kernels_take_bitmaps_and_refuse_what_is_no_array():
    df = column(pa.array([1.5, None, 2.5]))
    df["t"] = pd.array(["a", "b", "c"], dtype="string[pyarrow]")
    assert kernels.sum(df.mojo.view("c", na="mask")) == 4.0
    assert df.mojo.describe()["count"].tolist() == [3, 2]
    for refused in (df.mojo.view("t"), column(pa.array([1]), pa.array([2])).mojo.view("c"), pa.array(["a"])):
        with pytest.raises(DTypeError, match="bytes in place"):
            kernels.sum(refused)
    with pytest.raises(DTypeError, match="'t'"):
        df.mojo.describe(["t"])
    with pytest.raises(ZeroCopyError, match="2 chunks"):
        column(pa.array([1]), pa.array([2])).mojo.describe(["c"])


def test_describe_knows_the_zone_of_arrow_timestamps():
    df = column(TYPES["timestamp[ns, zone]"][0])
    assert str(df.mojo.describe(["c"])["min"].iloc[0].tz) == "Europe/Oslo"
    with pytest.raises(DTypeError, match="no mean"):
        column(TYPES["date32"][0]).mojo.describe(["c"])


def test_arrow_columns_are_not_leased_and_lie_in_no_block(cow_on):
    df = column(pa.array([1, 2, 3]))
    with pytest.raises(ReadOnlyError, match=r"'c'.*Arrow"), df.mojo.lease("c"):
        pass
    with pytest.raises(ZeroCopyError, match="Arrow"):
        df.mojo.blocks()
    out = np.zeros(3)
    df.mojo.assign("c", out)
    assert np.shares_memory(df["c"].to_numpy(), out)
