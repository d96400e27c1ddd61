"""What a column means: it travels with the column on every route, or the route refuses the column."""

import operator

import numpy as np
import pandas as pd
import pytest

import mojoview as mv
from mojoview.frames import to_frame
from mojoview.memory.errors import ArgumentError, DTypeError, MaskError, RangeError, ZeroCopyError

pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")

COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
UUIDS = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16, b"1" * 16], pa.binary(16)))
#: Columns whose numbers are not what the column means.
CODED = {
    "category": pd.Series(["a", "b"], dtype="category"),
    "category of numbers": pd.Series([30, 10], dtype="category"),
    "zone": pd.Series(pd.date_range("2020", periods=2, tz="Europe/Oslo")),
    "period": pd.Series(pd.period_range("2020", periods=2, freq="M")),
    "zone[pyarrow]": pd.Series(pd.date_range("2020", periods=2, tz="UTC")).astype("timestamp[us, tz=UTC][pyarrow]"),
    "uuid[pyarrow]": pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([UUIDS]))),
}
#: Columns whose numbers are what the column means.
PLAIN = {
    "int64": pd.Series([1, 2]),
    "float32": pd.Series([1.5, 2.5], dtype="f4"),
    "bool": pd.Series([True, False]),
    "datetime": pd.Series(pd.date_range("2020", periods=2)),
    "Int64": pd.Series([1, 2], dtype="Int64"),
    "boolean": pd.Series([True, False], dtype="boolean"),
    "int64[pyarrow]": pd.Series([1, 2], dtype="int64[pyarrow]"),
}


# -- comparisons, truth, membership, constructors ----------------------------------------------------------------------


@pytest.mark.parametrize("name", PLAIN)
def test_a_column_compares_elementwise_as_its_series(name):
    series = PLAIN[name]
    column = series.mojo.view()
    value = series.to_numpy()[1]
    for compare in COMPARISONS:
        assert compare(column, value).tolist() == compare(series, value).tolist()
        assert compare(column, column).tolist() == compare(series, series).tolist()
    assert (value in column, [value] * 2 == list(column)) == (True, False)


@pytest.mark.parametrize("name", CODED)
def test_codes_do_not_compare(name):
    column, plain = CODED[name].mojo.view(), PLAIN["int64"].mojo.view()
    for compare in COMPARISONS:
        for sides in ((column, 0), (column, "a"), (column, column), (column, plain), (plain, column)):
            with pytest.raises(DTypeError, match="to_series"):
                compare(*sides)
    with pytest.raises(DTypeError, match="to_series"):
        "a" in column  # noqa: B015
    with pytest.raises(TypeError):
        hash(column)


def test_a_frame_view_has_no_comparison_truth_or_hash():
    frame = pd.DataFrame({"v": [1.5, 2.0], "ok": [True, False]}).mojo.view()
    for refused in (*(lambda c=c: c(frame, frame) for c in COMPARISONS), lambda: frame == 1.5, lambda: bool(frame)):
        with pytest.raises(ArgumentError, match="to_pandas"):
            refused()
    with pytest.raises(TypeError):
        hash(frame)
    assert ("v" in frame, 1.5 in frame, list(frame)) == (True, False, ["v", "ok"])


def with_columns(frame):
    return pd.DataFrame(frame, columns=["v"])


@pytest.mark.parametrize("make", [pd.DataFrame, pd.Series, np.asarray, np.array, with_columns])
def test_a_constructor_never_takes_the_labels_of_a_frame_view(make):
    with pytest.raises(ZeroCopyError, match="to_pandas"):
        make(pd.DataFrame({"v": [1.5, 2.0], "ok": [True, False]}).mojo.view())
    assert pl.DataFrame(pd.DataFrame({"v": [1.5]}).mojo.view()).to_dict(as_series=False) == {"v": [1.5]}


@pytest.mark.parametrize("source", [["a", None], [[1], [2]], [True, None], [None, None], [{"a": 1}] * 2])
@pytest.mark.parametrize("chunked", [False, True])
def test_views_of_arrow_arrays_have_no_comparison_truth_or_hash(source, chunked):
    array = pa.chunked_array([source, source]) if chunked else pa.array(source)
    found = mv.view(array)
    for refused in (*(lambda c=c: c(found, "a") for c in COMPARISONS), lambda: bool(found)):
        with pytest.raises(ArgumentError, match="no comparisons"):
            refused()
    with pytest.raises(TypeError):
        hash(found)


# -- Arrow -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*CODED, *PLAIN])
def test_a_column_alone_has_the_arrow_type_of_its_frame(name):
    series = {**CODED, **PLAIN}[name]
    frame, column = series.to_frame("x").mojo.view(copy="if_needed"), series.mojo.view()
    if series.dtype == bool or name == "boolean":  # bytes, not bits: alone only on request
        with pytest.raises(ZeroCopyError):
            pa.array(column)
        return
    whole = frame.to_arrow().column(0)
    assert pa.array(column).type == whole.type
    assert pa.array(column).to_pylist() == whole.to_pylist()
    if name != "uuid[pyarrow]":
        assert pl.Series(column).to_list() == pl.from_arrow(whole).to_list()


def test_missing_categories_go_out_alone_only_with_a_mask():
    series = pd.Series(["a", None], dtype="category")
    assert pa.array(series.mojo.view(na="mask")).to_pylist() == ["a", None]
    with pytest.raises(MaskError, match="na='mask'"):
        pa.array(series.mojo.view(na="ignore"))


@pytest.mark.parametrize("kind", ["uuid", "bool8", "json"])
def test_extension_types_of_arrow_survive(kind):  # apache/arrow: ARROW:extension:name
    storage = {"uuid": pa.array([b"0" * 16, None], pa.binary(16)), "bool8": pa.array([1, None], pa.int8())}
    if kind == "json":
        array = pa.ExtensionArray.from_storage(pa.json_(pa.string()), pa.array(['{"a":1}', None]))
    else:
        array = pa.ExtensionArray.from_storage(getattr(pa, kind)(), storage[kind])
    df = pd.DataFrame({"x": pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([array])))})
    view = df.mojo.view(na="mask")
    assert view.to_pandas().dtypes.tolist() == df.dtypes.tolist()
    assert view["x"].to_series().dtype == df["x"].dtype
    assert view.to_arrow().schema.field(0).type == array.type
    assert view.to_pandas()["x"].array.__arrow_array__().to_pylist() == array.to_pylist()
    with df.mojo.share() as shared:
        assert shared.read().dtypes.tolist() == df.dtypes.tolist()


# -- shared memory -----------------------------------------------------------------------------------------------------

COPYING = {
    "share": lambda column: mv.share(column),
    "publish": lambda column: mv.Snapshot.create(None, 2, "i8").publish(column),
}


@pytest.mark.parametrize("how", COPYING)
@pytest.mark.parametrize("name", CODED)
@pytest.mark.parametrize("form", [pd.Series, pd.Index, lambda series: series.array, lambda series: series.mojo.view()])
def test_codes_are_not_shared_as_numbers(how, name, form):
    source = CODED[name] if name == "uuid[pyarrow]" and form is pd.Index else form(CODED[name])  # has no index
    with pytest.raises((DTypeError, ZeroCopyError), match=r"mojoview\.share\(pandas\.DataFrame"):
        COPYING[how](source)


@pytest.mark.parametrize("name", PLAIN)
def test_numbers_are_shared_as_they_are(name):
    series = PLAIN[name]
    with mv.share(series) as shared:
        np.testing.assert_array_equal(np.asarray(shared.read()), series.to_numpy())


def test_a_frame_view_is_shared_as_a_frame():
    df = pd.DataFrame({"c": ["a", "b"], "ok": [True, False]}, index=[5, 6]).astype({"c": "category"})
    with mv.share(df.mojo.view()) as shared:
        pd.testing.assert_frame_equal(shared.read(), df)
    with df.mojo.view().share(capacity=10_000) as shared:
        assert shared.capacity == 10_000


# -- records of a ring -------------------------------------------------------------------------------------------------


def written(column, field):
    """What a ring stores of a column."""
    with mv.Ring.create(None, capacity=1 << 16, dtype=[("x", field)]) as ring:
        ring.write(pd.DataFrame({"x": column}))
        return ring.read(timeout=10).records["x"].tolist()


@pytest.mark.parametrize(
    ("column", "field", "stored"),
    [
        (pd.Series([1.0, np.nan]), "f4", [1.0, np.nan]),
        (pd.Series([2**53 + 1]), "i8", [2**53 + 1]),
        (pd.Series([1, 2], dtype="Int64"), "u1", [1, 2]),
        (pd.Series([2**63 - 1, 0], dtype="int64[pyarrow]"), "u8", [2**63 - 1, 0]),
        (pd.Series([30, 10], dtype="category"), "i2", [30, 10]),
        (pd.Series(["a", "b"], dtype="category"), "U3", ["a", "b"]),
        (pd.Series([b"a", b"bc"]), "S2", [b"a", b"bc"]),
        (pd.Series(pd.arrays.SparseArray([0, 3])), "i4", [0, 3]),
        (pd.Series([1, 2]), "c16", [1, 2]),
    ],
)
def test_a_ring_stores_the_values_of_a_column(column, field, stored):
    np.testing.assert_array_equal(written(column, field), stored)


@pytest.mark.parametrize(
    ("column", "field", "error"),
    [
        (pd.Series(["a", "b"], dtype="category"), "i8", DTypeError),
        (CODED["zone"], "M8[ns]", DTypeError),
        (CODED["period"], "i8", DTypeError),
        (pd.Series(pd.to_timedelta([1], "s")), "i8", DTypeError),
        (pd.Series([1]), "m8[s]", DTypeError),
        (pd.Series([1j]), "f8", DTypeError),
        (pd.Series(["a"]), "i8", DTypeError),
        (pd.Series([1]), "U4", DTypeError),
        (pd.Series(["a", None]), "U4", DTypeError),
        (pd.Series(pd.interval_range(0, 2)), "i8", ZeroCopyError),
        (pd.Series([1, None], dtype="Int64"), "f8", MaskError),
        (pd.Series([30, None], dtype="category"), "i8", MaskError),
        (pd.Series([2**53 + 1]), "f8", RangeError),
        (pd.Series([2**63 - 1]), "f8", RangeError),
        (pd.Series([2.0**63]), "i8", RangeError),
        (pd.Series([np.nan]), "i8", RangeError),
        (pd.Series(["abc"]), "U2", RangeError),
        (pd.Series(pd.to_datetime(["2020-01-01 00:00:00.5"])), "M8[s]", RangeError),
    ],
)
def test_a_ring_refuses_what_its_field_cannot_say(column, field, error):
    with pytest.raises(error):
        written(column, field)


def test_a_ring_refuses_repeated_labels():
    frame = pd.DataFrame([[1, 2]], columns=["x", "x"])
    with (
        mv.Ring.create(None, capacity=1 << 16, dtype=[("x", "i8")]) as ring,
        pytest.raises(KeyError, match="2 columns"),
    ):
        ring.write(frame)


def test_to_frame_takes_a_mapping_only():
    for wrong in (None, [1], pa.array([1]), pd.Series([1]), pl.Series([1])):
        with pytest.raises(ArgumentError, match="mapping"):
            to_frame(wrong)
