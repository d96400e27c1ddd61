"""Labels of index and columns, their names, and what else belongs to a frame, through every export.

They come back equal and of the same type, as pandas itself judges it, or they are refused by name.
"""

import datetime
import enum
import zoneinfo
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import mojoview as mv
from mojoview.memory.errors import ColumnError, DTypeError, MojoViewError, ZeroCopyError

PANDAS_MAJOR = int(pd.__version__.split(".")[0])


class Color(enum.Enum):
    RED = 1


class Number(enum.IntEnum):
    ONE = 1


class Text(str):
    __slots__ = ()


OSLO = zoneinfo.ZoneInfo("Europe/Oslo")
UNNAMED = datetime.timezone(datetime.timedelta(hours=1), "X")
SECONDS = datetime.timezone(datetime.timedelta(seconds=3661))
#: Label, and whether other processes can get it.
LABELS = [
    (None, True),  # arrow#1405
    (float("nan"), True),  # geopandas#2775
    (np.nan, True),
    (float("inf"), True),
    (-0.0, True),
    (pd.NaT, True),
    (pd.NA, True),
    (True, True),
    (1, True),
    (2**70, True),
    (2**5_000, False),
    (1.5, True),
    (np.int64(1), True),
    (np.int8(1), True),
    (np.float32(1.5), True),
    (np.float64("nan"), True),
    (np.bool_(True), True),
    (np.complex128(1j), True),
    (np.datetime64("2020-01-01", "s"), True),
    (np.timedelta64("NaT"), True),
    (np.str_("a"), True),
    (np.str_("a\0"), False),  # NumPy itself drops the last character
    ("a", True),
    ("", True),
    ("a\0b", True),
    ("\ud800", True),
    (Text("a"), False),
    (b"a\0\xff", True),
    ((1, "a", None), True),
    ((1, (2.0, float("nan"))), True),
    ((), True),
    (pd.Timestamp("2020-01-01 00:00:00.000000001"), True),
    (pd.Timestamp("2020-01-01", tz="Europe/Oslo"), True),
    (pd.Timestamp("2020-10-25 01:30", tz="UTC").tz_convert("Europe/Oslo"), True),
    (pd.Timestamp("2020-01-01").as_unit("s"), True),
    (pd.Timestamp("2020-01-01", tz=datetime.timezone(datetime.timedelta(hours=-3, minutes=-30))), True),
    (pd.Timestamp("2020-01-01", tz=UNNAMED), False),
    (pd.Timedelta(1, "ns"), True),
    (pd.Timedelta("1D").as_unit("s"), True),
    (pd.Period("2020-01", "M"), True),
    (pd.Period("2020-01-01", "3D"), True),
    (pd.Interval(0, 1), True),
    (pd.Interval(pd.Timestamp("2020"), pd.Timestamp("2021"), closed="both"), True),
    (datetime.date(2020, 1, 1), True),
    (datetime.datetime(2020, 1, 1, 12, 30, 0, 5), True),
    (datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC), True),
    (datetime.datetime(2020, 1, 1, tzinfo=OSLO), False),
    (datetime.time(1, 2, 3), True),
    (datetime.timedelta(days=-1, seconds=5), True),
    (Decimal("1.50"), True),
    (Decimal("NaN"), True),
    (Color.RED, False),
    (Number.ONE, False),
    (frozenset([1]), False),
]
NAMES = [f"{type(label).__name__} {ascii(label)[:30]}" for label, _ in LABELS]


def same(left, right):
    """Whether two labels are of one type and equal, NaN included."""
    return type(left) is type(right) and repr(left) == repr(right)


def all_same(left, right):
    return len(left) == len(right) and all(map(same, left, right))


def shared(frame):
    with frame.mojo.share() as handle:
        return handle.read()


def objects(labels, name=None):
    """An Index of exactly these objects."""
    values = np.empty(len(labels), object)
    values[:] = labels
    return pd.Index(values, dtype=object, tupleize_cols=False, name=name)


def frames(label):
    """Frames that have the label among those of the columns, of the index, or as a name."""
    yield pd.DataFrame([[1.0, 2.0]]).set_axis(objects([label, "other"]), axis=1)
    yield pd.DataFrame({"x": [1.0, 2.0]}, index=objects([label, "other"]))
    yield pd.DataFrame({"x": [1.0]}, index=pd.Index([5.0], name=label))
    yield pd.DataFrame([[1.0]], columns=pd.Index(["x"], name=label))
    yield pd.DataFrame({"x": [1.0]}, index=pd.MultiIndex.from_arrays([["a"], [1]], names=["first", label]))


def parts(frame):
    """Every label and name of a frame."""
    return [*frame.columns, *frame.index, *frame.columns.names, *frame.index.names]


@pytest.mark.parametrize(("label", "possible"), LABELS, ids=NAMES)
def test_a_label_is_shared_as_it_was_or_refused(label, possible):
    for frame in frames(label):
        if not possible:
            with pytest.raises(ZeroCopyError, match=type(label).__name__):
                shared(frame)
            continue
        back = shared(frame)
        np.testing.assert_array_equal(back.to_numpy(), frame.to_numpy())
        assert all_same(parts(back), parts(frame))


def test_equal_labels_of_different_types_keep_theirs():
    labels = [1, True, 1.0, np.int64(1), np.bool_(True)]
    for label in labels * 2:  # of hash and value they are the same
        frame = pd.DataFrame([[0.0]]).set_axis(objects([label]), axis=1)
        assert same(shared(frame).columns[0], label)


@pytest.mark.parametrize(("label", "possible"), LABELS, ids=NAMES)
def test_a_label_comes_back_from_a_view_as_it_was(label, possible):
    for frame in frames(label):
        back = frame.mojo.view().to_pandas()
        np.testing.assert_array_equal(back.to_numpy(), frame.to_numpy())
        assert all_same(parts(back), parts(frame))


INDEXES = {
    "range": pd.RangeIndex(5, 11, 2, name="r"),
    "empty range": pd.RangeIndex(0),
    "int": pd.Index([3, 1, 3]),
    "uint8": pd.Index([3, 1, 2], dtype="u1"),
    "float32": pd.Index([1.5, np.nan, 2], dtype="f4"),
    "bool": pd.Index([True, False, True]),
    "complex": pd.Index([1j, 2, 3]),
    "text": pd.Index(["a", "b", "a"], name=("x", 1)),
    "text with NaN": pd.Index(["a", None, "c"]),
    "string[python]": pd.Index(["a", None, "c"], dtype="string[python]"),
    "datetime": pd.DatetimeIndex(["2020-01-01", None, "2019-01-01"], name=pd.Timestamp("2020")),
    "datetime[s]": pd.DatetimeIndex(["2020-01-01", "2018-01-01"]).as_unit("s"),
    "zone": pd.DatetimeIndex(["2020-10-25 00:30", "2020-10-25 01:30"]).tz_localize("UTC").tz_convert("Europe/Oslo"),
    "offset": pd.DatetimeIndex(["2020-10-25 00:30"], tz=datetime.timezone(datetime.timedelta(minutes=-90))),
    "timedelta": pd.TimedeltaIndex(["1s", None]),
    "period": pd.PeriodIndex(["2020-01", None], freq="M"),
    "period of two quarters": pd.PeriodIndex(["2020Q1"], freq="2Q-JAN"),
    "interval": pd.IntervalIndex.from_breaks([0, 1, 2], closed="left"),
    "interval with NaN": pd.IntervalIndex.from_tuples([(0.5, 1), np.nan]),
    "interval of dates": pd.IntervalIndex.from_breaks(pd.date_range("2020", periods=3, tz="UTC")),
    "category": pd.CategoricalIndex(["a", None, "b"], ordered=True, categories=["b", "a", "c"], name="c"),
    "category of dates": pd.CategoricalIndex(pd.DatetimeIndex(["2020-01-01", "2021-01-01"])),
    "category of mixed": pd.CategoricalIndex([1, "a"]),
    "category of intervals": pd.CategoricalIndex(pd.cut([1, 2, 5], 2)),
    "Int64": pd.Index(pd.array([1, None, 3], dtype="Int64")),
    "boolean": pd.Index(pd.array([True, None], dtype="boolean")),
    "multi": pd.MultiIndex.from_product([["a", "b"], [1, 2.5]], names=["x", None]),
    "multi of dates": pd.MultiIndex.from_product([pd.date_range("2020", periods=2, tz="UTC"), pd.interval_range(0, 2)]),
    "multi with missing": pd.MultiIndex.from_tuples([("a", 1), (None, 2), ("a", 1)]),
    "empty multi": pd.MultiIndex.from_arrays([[], []], names=["x", "y"]),
    "mixed": pd.Index([None, float("nan"), "a", 1, True, (1, 2)], dtype=object, tupleize_cols=False),
    "tuples": pd.Index([(1, 2), (3, 4)], tupleize_cols=False),
    "empty": pd.Index([], dtype=object),
    "empty text": pd.Index([], dtype="string[python]"),
    "long text": pd.Index([f"label {k}" for k in range(3000)]),
}


@pytest.mark.parametrize("name", INDEXES)
@pytest.mark.parametrize("how", ["index", "columns"])
def test_an_index_of_any_type_comes_back(name, how):
    index = INDEXES[name]
    frame = pd.DataFrame({"x": np.arange(len(index), dtype=float)}, index=index)
    if how == "columns":
        frame = pd.DataFrame(np.zeros((2, len(index)))).set_axis(index, axis=1)
    for back in (shared(frame), frame.mojo.view().to_pandas()):
        pd.testing.assert_frame_equal(back, frame, check_index_type=True, check_column_type=True)
        for ours, theirs in ((back.index, frame.index), (back.columns, frame.columns)):
            pd.testing.assert_index_equal(ours, theirs, exact=True)
            assert all_same([*ours, *ours.names], [*theirs, *theirs.names])


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.binary(),
    st.dates(),
    st.datetimes(),
    st.times(),
    st.timedeltas(),
    st.decimals(allow_nan=False),
    st.sampled_from([label for label, _ in LABELS]),
)
labels = st.one_of(scalars, st.lists(scalars, max_size=3).map(tuple))


@settings(max_examples=150, deadline=None)
@given(st.lists(labels, min_size=1, max_size=6), labels)
@example([None, float("nan"), "a"], None)
def test_any_labels_come_back_or_are_refused(found, name):
    frame = pd.DataFrame(np.arange(len(found), dtype=float)[None]).set_axis(objects(found, name), axis=1)
    try:
        back = shared(frame)
    except ZeroCopyError:  # as the tables above say
        return
    assert all_same(parts(back), parts(frame))


# -- Arrow: its labels are text ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", [["a", "b"], [1, 2], [1.5, None], ["x", "x"], [("a", 1), ("a", 2)]])
def test_labels_are_text_for_arrow(labels):
    pa = pytest.importorskip("pyarrow")
    frame = pd.DataFrame([[1.0, 2.0]]).set_axis(objects(labels), axis=1)
    assert pa.table(frame.mojo.view()).column_names == [str(label) for label in labels]


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ([1, "1"], "1 and '1' are both '1'"),
        ([None, "None"], "None and 'None'"),
        ([True, "True"], "True and 'True'"),
        ([1, np.int64(1)], "both '1'"),
        (["a\0b", "c"], r"'a\\x00b'"),
        (["\ud800", "c"], "ud800"),
    ],
)
def test_labels_that_arrow_cannot_write_are_refused(labels, words):
    frame = pd.DataFrame([[1.0, 2.0]]).set_axis(objects(labels), axis=1)
    view = frame.mojo.view()
    for refused in (view.__arrow_c_stream__, view.__arrow_c_schema__):
        with pytest.raises(ColumnError, match=words):
            refused()


# -- what else belongs to a frame --------------------------------------------------------------------------------------


def test_attrs_and_flags_come_back_from_shared_memory():
    frame = pd.DataFrame({"x": [1.0]}).set_flags(allows_duplicate_labels=False)
    frame.attrs = {"source": "probe", 1: [1.5, None, {"when": pd.Timestamp("2020", tz="UTC")}], "shape": (1, 2)}
    back = shared(frame)
    assert (back.attrs, back.flags.allows_duplicate_labels) == (frame.attrs, False)
    assert shared(pd.DataFrame({"x": [1.0]})).flags.allows_duplicate_labels
    with frame.mojo.share(capacity=1 << 16) as handle:
        handle.append(pd.DataFrame({"x": [2.0]}))
        assert (handle.read().attrs, len(handle.read())) == (frame.attrs, 2)


def test_the_freq_of_an_index_comes_back_from_views_only():
    frame = pd.DataFrame({"x": [1, 2, 3]}, index=pd.date_range("2020", periods=3, freq="D"))
    pd.testing.assert_frame_equal(frame.mojo.view().to_pandas(), frame, check_freq=True)
    back = shared(frame)
    pd.testing.assert_frame_equal(back, frame, check_freq=False)
    assert back.index.freq is None


def test_attrs_that_cannot_be_shared_are_refused_by_name():
    frame = pd.DataFrame({"x": [1.0]})
    frame.attrs = {"unit": {"color": Color.RED}}
    with pytest.raises(ZeroCopyError, match=r"attrs.*'color'.*Color"):
        shared(frame)


def test_rows_with_a_missing_label_are_appended():
    frame = pd.DataFrame([[1.0, 2.0]]).set_axis(objects([float("nan"), "a"]), axis=1)
    with frame.mojo.share(capacity=1 << 16) as handle:
        handle.append(frame)
        assert len(handle.read()) == 2


@pytest.mark.parametrize("zone", [UNNAMED, SECONDS])
def test_a_zone_without_a_name_is_refused_where_it_would_change(zone):
    times = pd.DatetimeIndex(["2020-01-01"], tz=zone)
    frames = (pd.DataFrame({"t": times}), pd.DataFrame({"x": [1]}, index=times))
    for frame in frames:
        with pytest.raises(ZeroCopyError, match="time zone"):
            shared(frame)
        pd.testing.assert_frame_equal(frame.mojo.view().to_pandas(), frame)
    if zone is SECONDS:
        with pytest.raises(DTypeError, match="1:01:01"):
            frames[0].mojo.view().__arrow_c_stream__()


def test_a_damaged_label_is_refused():
    frame = pd.DataFrame([[1.0]]).set_axis(objects([b"abcd"]), axis=1)
    with frame.mojo.share("damaged-label") as handle:
        snapshot = mv.Snapshot.attach("damaged-label")
        good = np.array(snapshot.read())
        snapshot.close()
        for right, wrong in ((b"61626364", b"6162636g"), (b"bytes", b"bites")):
            bad = bytes(good).replace(right, wrong)
            assert bad != bytes(good)
            with handle._snapshot.write(busy="grow") as slot:
                slot[:] = np.frombuffer(bad, np.uint8)
            with pytest.raises(MojoViewError, match="description"):
                mv.attach("damaged-label").read()
