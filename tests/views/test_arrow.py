"""Arrow with pyarrow and polars as peers: every type in and out again, in the same buffers."""

from __future__ import annotations

import datetime as dt
import decimal
import gc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mojoview as mv
from mojoview.memory._lease import live_leases
from mojoview.memory.errors import (
    ArgumentError,
    DTypeError,
    FieldError,
    IndexingError,
    LayoutError,
    MaskError,
    ReadOnlyError,
    ReleasedError,
    ShapeError,
    ZeroCopyError,
)
from mojoview.views.arrow.arrays import (
    BooleanView,
    DictionaryView,
    FixedListView,
    InlineStringView,
    ListView,
    NullView,
    StringView,
    StructView,
)
from mojoview.views.arrow.chunked import ChunkedView

pa = pytest.importorskip("pyarrow")
UTC = dt.UTC


def buffers(array):
    return [None if buffer is None else buffer.address for buffer in array.buffers()]


def plain(element):
    """An element of a view as Python's own object."""
    if isinstance(element, np.generic):
        return element.item()
    if isinstance(element, dict):
        return {key: plain(value) for key, value in element.items()}
    return [plain(part) for part in element] if hasattr(element, "arrow_format") else element


NUMBERS = [
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.uint8(),
    pa.uint16(),
    pa.uint32(),
    pa.uint64(),
    pa.float16(),
    pa.float32(),
    pa.float64(),
]
MOMENT = dt.datetime(2024, 2, 29, 12, 30, 5)
FIXED = (
    [pa.array([1, None, 3, 4], kind) for kind in NUMBERS]
    + [
        pa.array([MOMENT, None, MOMENT], pa.timestamp(unit, zone))
        for unit in ("s", "ms", "us", "ns")
        for zone in (None, "Europe/Oslo", "+01:00")
    ]
    + [pa.array([dt.timedelta(1), None], pa.duration(unit)) for unit in ("s", "ms", "us", "ns")]
    + [
        pa.array([dt.date(2024, 1, 1), None], pa.date32()),
        pa.array([dt.date(2024, 1, 1), None], pa.date64()),
        pa.array([dt.time(1, 2, 3), None], pa.time32("s")),
        pa.array([dt.time(1, 2, 3), None], pa.time32("ms")),
        pa.array([dt.time(1, 2, 3), None], pa.time64("us")),
        pa.array([dt.time(1, 2, 3), None], pa.time64("ns")),
        pa.array([decimal.Decimal("1.25"), None, decimal.Decimal("-3.00")], pa.decimal128(10, 2)),
        pa.array([decimal.Decimal("1.25")], pa.decimal256(40, 2)),
        pa.array([b"abc", None, b"xyz"], pa.binary(3)),
        pa.array([None, None], pa.month_day_nano_interval()),
    ]
)
NESTED = [
    (pa.array(["a", None, "", "hé"]), StringView),
    (pa.array(["a", None], pa.large_string()), StringView),
    (pa.array([b"a", None, b"\xff"]), StringView),
    (pa.array([b"a", None], pa.large_binary()), StringView),
    (pa.array(["short", None, "longer than twelve bytes"], pa.string_view()), InlineStringView),
    (pa.array([b"short", b"\xff" * 40, None], pa.binary_view()), InlineStringView),
    (pa.array([True, None, False, True]), BooleanView),
    (pa.nulls(4), NullView),
    (pa.array([[1, 2], None, [], [3]]), ListView),
    (pa.array([["a"], ["b", None]], pa.large_list(pa.string())), ListView),
    (pa.array([[1, 2], [3], None], pa.list_view(pa.int8())), ListView),
    (pa.array([[1], [2, 3]], pa.large_list_view(pa.int8())), ListView),
    (pa.array([[1, 2], None, [5, 6]], pa.list_(pa.int32(), 2)), FixedListView),
    (pa.array([[("k", 1), ("l", 2)], None], pa.map_(pa.string(), pa.int32())), ListView),
    (pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}]), StructView),
    (pa.array(["x", "y", None, "x"]).dictionary_encode(), DictionaryView),
    (pa.array([[{"a": [1, 2]}], [], [{"a": None}, {"a": [3]}]]), ListView),
]


def check_round_trip(array, view):
    back = pa.array(view)
    assert back.type == array.type
    assert back.equals(array)
    return back


@pytest.mark.parametrize("array", FIXED, ids=[str(array.type) for array in FIXED])
def test_items_of_fixed_width_are_plain_views_of_the_same_memory(array):
    v = mv.view(array)
    assert type(v) is mv.View
    assert v.ptr == array.buffers()[1].address
    assert (v.size, v.masked, v.readonly) == (len(array), array.null_count > 0, True)
    assert v.owner is array
    back = check_round_trip(array, v)
    assert buffers(back) == buffers(array)
    assert back.null_count == array.null_count
    for part, same in ((v[1:], array[1:]), (v[1:][:1], array[1:2]), (v[0:0], array[0:0])):
        check_round_trip(same, part)


@pytest.mark.parametrize(("kind", "dtype"), [*zip(NUMBERS, "bhilBHILefd", strict=True)])
def test_numbers_have_numpy_dtypes_and_masks(kind, dtype):
    v = mv.view(pa.array([1, None, 3], kind))
    assert v.dtype == np.dtype(dtype)
    assert [plain(x) for x in v] == [1, None, 3]
    assert np.asarray(v.mask).tolist() == [False, True, False]
    assert [bool(x) for x in v.validity] == [True, False, True]
    assert v.arrow_format is None
    np.testing.assert_array_equal(np.asarray(v.data)[[0, 2]], np.array([1, 3], dtype))
    with pytest.raises(MaskError):
        np.asarray(v)


def test_units_and_zones_are_kept():
    v = mv.view(pa.array([MOMENT], pa.timestamp("us", "Europe/Oslo")))
    assert (v.dtype, v.arrow_format) == (np.dtype("M8[us]"), "tsu:Europe/Oslo")
    assert v[0] == np.datetime64(MOMENT)
    assert v[0:1].data.arrow_format == "tsu:Europe/Oslo"
    assert v.cast("i8").arrow_format is None
    assert mv.view(pa.array([1], pa.date32())).arrow_format == "tdD"
    assert mv.view(pa.array([decimal.Decimal("1.5")])).dtype == np.dtype("V16")
    assert mv.view(pa.array([decimal.Decimal("1.5")])).arrow_format == "d:2,1"


@pytest.mark.parametrize(("array", "kind"), NESTED, ids=[str(array.type) for array, _ in NESTED])
def test_all_other_types_have_small_views(array, kind):
    v = mv.view(array)
    assert type(v) is kind
    assert len(v) == v.size == len(array)
    assert v.null_count == array.null_count
    expected = array.to_pylist(maps_as_pydicts=None)
    if pa.types.is_map(array.type):
        expected = [None if row is None else [{"key": key, "value": value} for key, value in row] for row in expected]
    assert [plain(x) for x in v] == expected
    assert [plain(x) for x in v[1:3]] == expected[1:3]
    assert plain(v[-1]) == expected[-1]
    mask = v.mask
    assert (np.asarray(mask) if mask is not None else np.zeros(len(array), bool)).tolist() == [
        x is None for x in expected
    ]
    assert buffers(check_round_trip(array, v)) == buffers(array)
    for start, stop in ((0, 0), (1, 2), (1, len(array)), (0, len(array) - 1)):
        check_round_trip(array[start:stop], v[start:stop])
        check_round_trip(array[start:stop], mv.view(array[start:stop]))
    with pytest.raises(ZeroCopyError):
        v[::-1]
    assert len(v[1:1:2]) == 0
    for index, error in (
        (len(array), IndexingError),
        (-len(array) - 1, IndexingError),
        (1.0, IndexingError),
        (slice("1", None), ArgumentError),
    ):
        with pytest.raises(error):
            v[index]
    with pytest.raises(ZeroCopyError):
        np.asarray(v)
    with pytest.raises(ArgumentError):
        v.__reduce_ex__(4)
    assert type(v).__name__ in repr(v)
    with v:
        pass
    assert v.closed
    assert "released" in repr(v)
    with pytest.raises(ReleasedError):
        len(v)


def test_the_parts_of_strings_are_views():
    array = pa.array(["zero", "one", None, "three"])[1:]
    v = mv.view(array)
    assert v.offsets.dtype == np.int32
    assert np.asarray(v.offsets).tolist() == [4, 7, 7, 12]
    assert v.offsets.ptr == array.buffers()[1].address + 4
    assert v.bytes.ptr == array.buffers()[2].address
    assert bytes(v.bytes) == b"zeroonethree"
    assert bytes(v.at(2)) == b"three"
    assert v.at(2).ptr == array.buffers()[2].address + 7
    assert v.text
    assert not mv.view(pa.array([b"a"])).text
    assert mv.view(pa.array(["a"], pa.large_string())).offsets.dtype == np.int64
    assert mv.view(pa.array([], pa.string())).offsets.size == 0


def test_the_parts_of_string_views_are_views():
    array = pa.array(["0", "x" * 12, None, "y" * 13, "z" * 100], pa.string_view())[1:]
    v = mv.view(array)
    assert v.views.dtype == np.dtype("V16")
    assert v.views.ptr == array.buffers()[1].address + 16
    assert v.at(0).ptr == v.views.ptr + 4
    assert [b.ptr for b in v.buffers] == [b.address for b in array.buffers()[2:]]
    assert bytes(v.at(2)) == b"y" * 13
    assert v.at(3).ptr == v.buffers[0].ptr + 13


def test_the_parts_of_lists_structs_and_dictionaries_are_views():
    lists = pa.array([[0], [1, 2], None, [3]])[1:]
    v = mv.view(lists)
    assert np.asarray(v.offsets).tolist() == [1, 3, 3, 4]
    assert np.asarray(v.values).tolist() == [0, 1, 2, 3]
    assert v.sizes is None
    assert v[0].ptr == lists.values.buffers()[1].address + 8
    assert np.asarray(mv.view(pa.array([[1, 2], [3]], pa.list_view(pa.int8()))).sizes).tolist() == [2, 1]
    fixed = mv.view(pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int32(), 2))[1:])
    assert fixed.width == 2
    assert np.asarray(fixed.values.reshape(2, 2)).tolist() == [[3, 4], [5, 6]]
    struct = mv.view(pa.array([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}, {"a": None, "b": "z"}])[1:])
    assert struct.names == ("a", "b")
    assert [plain(x) for x in struct["a"]] == [2, None]
    assert list(struct.children[1]) == ["y", "z"]
    with pytest.raises(FieldError):
        struct["c"]
    twice = mv.view(pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"]))
    with pytest.raises(FieldError, match="once"):
        twice["a"]
    assert [int(child[0]) for child in twice.children] == [1, 2]
    encoded = pa.array(["x", "y", None, "x"]).dictionary_encode()[1:]
    d = mv.view(encoded)
    assert [plain(x) for x in d.codes] == [1, None, 0]
    assert list(d.dictionary) == ["x", "y"]
    assert not d.ordered


def test_booleans_are_bits_until_unpacked():
    array = pa.array([True, None, False, True] * 5)[3:17]
    v = mv.view(array)
    assert len(v.bits) == 14
    assert v.bits.ptr == array.buffers()[1].address
    assert v.bits.offset == 3
    unpacked = v.unpack()
    assert unpacked.dtype == bool
    assert [plain(x) for x in unpacked] == array.to_pylist()
    assert unpacked.validity.ptr == array.buffers()[0].address
    assert np.array(mv.view(pa.array([True, False])), copy=True).tolist() == [True, False]
    with pytest.raises(ZeroCopyError):
        np.array(v, copy=True)  # nulls


def test_the_offset_of_a_slice_is_respected():
    x = pa.array(range(1, 11))[5:]
    v = mv.view(x)
    assert np.asarray(v).tolist() == [6, 7, 8, 9, 10]
    assert v.ptr == x.buffers()[1].address + 8 * 5


def test_integers_with_nulls_stay_integers():
    array = pa.array([1, None, 2**53 + 1])
    v = mv.view(array)
    assert v.dtype == np.int64
    assert v.ptr == array.buffers()[1].address
    assert [plain(x) for x in v] == [1, None, 9007199254740993]
    copied = mv.view(array, copy="always")
    assert copied.dtype == np.int64
    assert [plain(x) for x in copied] == [1, None, 9007199254740993]


def test_one_offset_applies_to_values_and_validity():
    a = pa.array([None if k % 3 == 0 else k for k in range(20)], pa.int32()).slice(8, 8)
    expected = [8, None, 10, 11, None, 13, 14, None]
    v = mv.view(a)
    assert [plain(x) for x in v] == expected
    assert pa.array(v).to_pylist() == expected
    assert pa.array(v[3:]).to_pylist() == expected[3:]
    assert [plain(x) for x in v[3:][1:4]] == expected[4:7]
    assert np.asarray(v.mask).tolist() == [x is None for x in expected]


@given(
    values=st.lists(st.one_of(st.none(), st.integers(-100, 100)), max_size=40),
    cuts=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=4),
)
def test_slices_of_slices_agree_with_pyarrow(values, cuts):
    array = pa.array(values, pa.int16())
    view = mv.view(array)
    for start, stop in cuts:
        values, array, view = values[start:stop], array[start : max(start, stop)], view[start:stop]
    assert [plain(x) for x in view] == values
    assert pa.array(view).to_pylist() == values
    assert [plain(x) for x in mv.view(array)] == values
    assert np.asarray(view.mask).tolist() == [x is None for x in values] if view.masked else None not in values


# -- views of NumPy memory, out ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("letter", "bhilqBHILQefd")
def test_numbers_go_out_in_place(letter):
    a = np.arange(5).astype(letter)
    back = pa.array(mv.view(a))
    assert back.buffers()[1].address == a.ctypes.data
    assert back.buffers()[0] is None
    assert back.to_pylist() == a.tolist()
    assert mv.view(back).ptr == a.ctypes.data


def test_more_dimensions_go_out_as_fixed_size_lists():
    a = np.arange(24, dtype="i4").reshape(2, 3, 4)
    back = pa.array(mv.view(a))
    assert back.type == pa.list_(pa.list_(pa.int32(), 4), 3)
    assert back.to_pylist() == a.tolist()
    assert back.values.values.buffers()[1].address == a.ctypes.data
    assert mv.view(back).values.values.ptr == a.ctypes.data
    assert len(pa.array(mv.view(np.empty((3, 0))))) == 3


def test_missing_values_go_out_as_a_bitmap():
    values = np.arange(20)
    mask = values % 3 == 0
    back = pa.array(mv.view(np.ma.array(values, mask=mask))[1:])
    assert back.to_pylist() == [None if k % 3 == 0 else k for k in range(1, 20)]
    assert back.null_count == mask[1:].sum()
    assert back.buffers()[1].address == values.ctypes.data + 8
    moments = np.array(["2024-01-01", "NaT", "2024-01-03"], "M8[ns]")
    back = pa.array(mv.view(moments))
    assert back.null_count == 1
    assert back.cast(pa.timestamp("s")).to_pylist() == [dt.datetime(2024, 1, 1), None, dt.datetime(2024, 1, 3)]
    assert back.buffers()[1].address == moments.ctypes.data
    assert pa.array(mv.view(moments[::2].copy())).buffers()[0] is None
    both = mv.view(np.ma.array(moments, mask=[True, False, False]))
    assert pa.array(both).is_valid().to_pylist() == [False, False, True]
    assert pa.array(mv.view(np.array(["NaT"], "m8[s]"))).to_pylist() == [None]


def test_bytes_go_out_as_fixed_size_binary():
    assert pa.array(mv.view(np.array([b"ab", b"c"]))).to_pylist() == [b"ab", b"c\0"]
    assert pa.array(mv.view(np.zeros(2, "V3"))).type == pa.binary(3)


def test_booleans_go_out_only_where_bits_were_asked_for():
    v = mv.view(np.array([True, False, True] * 4))
    with pytest.raises(ZeroCopyError, match="bits"):
        v.__arrow_c_array__()
    assert pa.array(v, type=pa.bool_()).to_pylist() == [True, False, True] * 4
    masked = mv.view(np.ma.array([True, False], mask=[0, 1]))
    assert pa.array(masked, type=pa.bool_()).to_pylist() == [True, None]
    with pytest.raises(ArgumentError):
        v.__arrow_c_array__(7)


REFUSED = [
    (np.zeros(2, ">f4"), ZeroCopyError, "byte order"),
    (np.zeros(2, ">M8[s]"), ZeroCopyError, "byte order"),
    (np.zeros(2, "F"), ZeroCopyError, "complex64"),
    (np.zeros(2, "g"), ZeroCopyError, "no items"),
    (np.zeros(2, "U2"), ZeroCopyError, "no items"),
    (np.zeros(2, "i4,i4"), ZeroCopyError, "no items"),
    (np.zeros(2, "M8[D]"), ZeroCopyError, "cast"),
    (np.zeros(2, "M8[25s]"), ZeroCopyError, "cast"),
    (np.zeros(4)[::2], LayoutError, "contiguous items"),
    (np.zeros(4)[::-1], LayoutError, "contiguous items"),
    (np.zeros((2, 3), order="F"), LayoutError, "C order"),
    (np.zeros(()), ShapeError, "0 dimensions"),
    (np.ma.zeros((2, 2), "i4"), None, ""),
    (np.ma.array(np.zeros((2, 2)), mask=np.eye(2)), MaskError, "one dimension"),
]


@pytest.mark.parametrize(
    ("array", "error", "words"), REFUSED, ids=[f"{case[0].dtype}{case[0].strides}" for case in REFUSED]
)
def test_what_arrow_cannot_say_is_refused(array, error, words):
    v = mv.view(array)
    if error is None:
        assert len(pa.array(v)) == len(array)
        return
    for export in (v.__arrow_c_array__, v.__arrow_c_schema__, v.__arrow_c_device_array__):
        with pytest.raises(error, match=words):
            export()
    v.release()


def test_opaque_numbers_are_not_passed_off_as_binary():
    from producers.dlpack import Producer

    with pytest.raises(ZeroCopyError, match="type code 4"):
        mv.view(Producer((np.ctypeslib.ctypes.c_uint16 * 4)(), (4,), (1,), code=4, bits=16)).__arrow_c_array__()


# -- chunks ------------------------------------------------------------------------------------------------------------


def test_chunks_stay_apart():
    chunked = pa.chunked_array([[1, 2], [], [3, None, 5]])
    v = mv.view(chunked)
    assert type(v) is ChunkedView
    assert [c.ptr for c in v.chunks if c.size] == [c.buffers()[1].address for c in chunked.chunks if len(c)]
    assert [plain(x) for x in v] == [1, 2, 3, None, 5]
    assert (len(v), v.size, v.dtype, v.masked) == (5, 5, np.int64, True)
    assert [plain(v[k]) for k in (0, 2, 3, -1)] == [1, 3, None, 5]
    assert [plain(x) for x in v[1:4]] == [2, 3, None]
    for refused in (lambda: v.ptr, lambda: np.asarray(v), lambda: v.single(), lambda: v[::2]):
        with pytest.raises(ZeroCopyError):
            refused()
    back = pa.chunked_array(v)
    assert back.equals(chunked)
    assert [buffers(c) for c in back.chunks] == [buffers(c) for c in chunked.chunks]
    combined = v.combine()
    assert [plain(x) for x in combined] == [1, 2, 3, None, 5]
    assert [plain(x) for x in mv.view(chunked, copy="always", writable=True)] == [1, 2, 3, None, 5]
    assert np.array(mv.view(pa.chunked_array([[1], [2]])), copy=True).tolist() == [1, 2]
    with pytest.raises(IndexingError):
        v[5]


def test_chunks_of_other_types():
    words = mv.view(pa.chunked_array([["a", None], ["b"]]))
    assert list(words) == ["a", None, "b"]
    with pytest.raises(DTypeError):
        words.combine()
    assert [plain(x) for x in mv.view(pa.chunked_array([[True], [False, None]])).combine()] == [True, False, None]
    empty = mv.view(pa.chunked_array([], pa.float32()))
    assert (len(empty), empty.dtype, len(empty.combine())) == (0, np.float32, 0)
    assert pa.chunked_array(empty).type == pa.float32()


def test_chunked_views_of_plain_views():
    a, b = np.arange(3.0), np.arange(2.0)
    v = ChunkedView([mv.view(a), mv.view(b)])
    back = pa.chunked_array(v)
    assert [c.buffers()[1].address for c in back.chunks] == [a.ctypes.data, b.ctypes.data]
    with pytest.raises(DTypeError):
        ChunkedView([mv.view(a), mv.view(b.astype("f4"))])
    with pytest.raises(ArgumentError):
        ChunkedView([])
    with pytest.raises(ArgumentError):
        ChunkedView([mv.view(np.zeros((2, 2)))])


def test_tables_are_chunks_of_structs():
    table = pa.table({"n": [1, 2, None], "s": ["x", "y", "z"]})
    v = mv.view(table)
    assert pa.table(v).equals(table)
    assert [plain(x) for x in v["n"]] == [1, 2, None]
    assert v["n"].single().ptr == table["n"].chunk(0).buffers()[1].address
    with pytest.raises(DTypeError):
        v["none"]
    batch = table.to_batches()[0]
    assert mv.view(batch)["s"][1] == "y"
    assert pa.RecordBatch.from_struct_array(pa.array(mv.view(batch))).equals(batch)
    reader = pa.RecordBatchReader.from_batches(table.schema, [batch, batch])
    assert len(mv.view(reader)) == 6


# -- polars, devices, options ------------------------------------------------------------------------------------------


def test_polars_both_ways():
    pl = pytest.importorskip("polars")
    series = pl.Series("n", [1, None, 3])
    v = mv.view(series)
    assert [plain(x) for x in v] == [1, None, 3]
    assert pl.Series(v.single()).to_list() == pl.Series(v).to_list() == [1, None, 3]
    a = np.arange(5.0)
    assert pl.Series(mv.view(a)).to_list() == a.tolist()
    words = pl.Series(["abc", None, "d" * 40])
    assert list(mv.view(words)) == words.to_list()
    assert pl.Series(mv.view(words)).to_list() == words.to_list()
    frame = pl.DataFrame({"a": [1, 2], "b": [[1.0], [2.0, None]], "c": ["x", "y"]})
    assert pl.DataFrame(mv.view(frame)).equals(frame)
    assert [plain(x) for x in mv.view(frame)["b"]] == [[1.0], [2.0, None]]


class OnDevice:
    def __init__(self, obj):
        self.obj = obj

    def __arrow_c_device_array__(self, requested_schema=None, **options):
        return self.obj.__arrow_c_device_array__()


class StreamOnDevice:
    def __init__(self, obj):
        self.obj = obj

    def __arrow_c_device_stream__(self, requested_schema=None, **options):
        return self.obj.__arrow_c_device_stream__()


def test_device_structures_of_the_host():
    array = pa.array([1, None, 3])
    assert mv.view(OnDevice(array)).ptr == array.buffers()[1].address
    assert buffers(pa.array(mv.view(OnDevice(mv.view(array))))) == buffers(array)
    words = pa.array(["a", None])
    assert list(mv.view(OnDevice(mv.view(words)))) == ["a", None]
    chunked = mv.view(pa.chunked_array([[1], [2]]))
    assert [plain(x) for x in mv.view(StreamOnDevice(chunked))] == [1, 2]
    for view in (mv.view(array), mv.view(words)):
        view.__arrow_c_device_array__(other=None)
        with pytest.raises(NotImplementedError, match="other"):
            view.__arrow_c_device_array__(other=1)
    with pytest.raises(NotImplementedError, match="other"):
        chunked.__arrow_c_device_stream__(other=1)


def test_arrow_memory_is_never_writable():
    with pytest.raises(ReadOnlyError):
        mv.view(pa.array([1]), writable=True)
    assert not mv.view(pa.array([1, 2]), writable=True, copy="always").readonly


@pytest.mark.parametrize(
    "array", [pa.array([1.5, None]), pa.array(["a", None]), pa.array([[1], None]), pa.array([True])]
)
def test_exports_hold_the_memory_until_the_consumer_lets_go(array):
    values = array.to_pylist()
    gc.collect()  # of earlier tests
    before, bytes_before = live_leases(), pa.total_allocated_bytes()
    v = mv.view(array)
    back = pa.array(v)
    if isinstance(v, mv.View):
        with pytest.raises(BufferError):
            v.release()
    del v
    assert live_leases() > before
    assert back.to_pylist() == values
    del back
    gc.collect()
    assert (live_leases(), pa.total_allocated_bytes()) == (before, bytes_before)


def test_dropped_capsules_leak_nothing():
    a = np.arange(4.0)
    views = [
        mv.view(a),
        mv.view(a.reshape(2, 2)),
        mv.view(np.ma.array(a, mask=[0, 1, 0, 0])),
        mv.view(pa.array(["a", None])),
        mv.view(pa.array([[1], None])),
    ]
    before = live_leases()
    for v in views:
        for _ in range(50):
            v.__arrow_c_array__()
            v.__arrow_c_schema__()
            v.__arrow_c_device_array__()
    chunked = mv.view(pa.chunked_array([[1], [2]]))
    for _ in range(50):
        chunked.__arrow_c_stream__()
        chunked.__arrow_c_device_stream__()
    del chunked
    gc.collect()
    assert live_leases() == before
    for v in views:
        v.release()


def test_null_series_of_polars():
    polars = pytest.importorskip("polars")
    for values in ([None], [None, None, None], []):
        series = polars.Series(values, dtype=polars.Null)
        view = mv.view(series)
        assert list(view) == values
        assert view.masked == bool(values)
        assert mv.view(series[1:]).size == max(0, len(values) - 1)
    column = mv.view(polars.DataFrame({"a": [None, None], "b": [1, 2]}).to_struct("s"))
    assert [element["a"] for element in column] == [None, None]
