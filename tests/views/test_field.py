"""Fields of records: nested, overlapping, padded, sub-arrays, titles, several at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.arrays import RECORDS, arrays, assert_same, filled

import mojoview as mv
from mojoview.memory.errors import FieldError, IndexingError, ShapeError


@given(arrays(st.sampled_from(RECORDS), max_dims=3))
def test_each_field_of_any_layout(array):
    view = mv.view(array)
    for name in array.dtype.fields:  # titles included
        assert_same(view[name], np.asarray(array[name]))
    names = list(array.dtype.names)
    for some in (names, names[::-1], names[:1], []):
        if some:
            assert_same(view[some], np.asarray(array[some]))


def test_fields_of_fields():
    array = filled((3,), np.dtype([("in", [("deep", [("z", ">f8")])], (2,))]))
    view = mv.view(array)
    assert_same(view["in"]["deep"]["z"], array["in"]["deep"]["z"])
    assert_same(view["in"][1:, ::-1]["deep"], array["in"][1:, ::-1]["deep"])
    assert mv.view(np.zeros(2, [("a", "i4")]))[0]["a"] == 0


def test_writing_through_a_field():
    array = np.zeros(3, [("a", "i4"), ("b", "f8")])
    mv.view(array, writable=True)["b"][1:] = 2
    assert array["b"].tolist() == [0, 2, 2]


def test_missing_fields_say_what_there_is():
    view = mv.view(np.zeros(3, [("a", "i4"), ("b", "f8")]))
    for key in ("c", ["a", "c"], "", ["a", "a"]):
        with pytest.raises(FieldError) as caught:
            view[key]
        assert isinstance(caught.value, KeyError)
    with pytest.raises(FieldError, match=r"expected one of \('a', 'b'\)"):
        view["c"]
    with pytest.raises(IndexingError, match="no fields"):
        mv.view(np.arange(3))["a"]
    for key in ([0, 1], ["a", 1]):
        with pytest.raises(IndexingError, match="needs a copy"):
            view[key]


def test_sub_arrays_stop_at_eight_dimensions():
    array = np.zeros((1,) * 7, [("x", "f4", (2, 2))])
    with pytest.raises(ShapeError, match="9 dimensions"):
        mv.view(array)["x"]
    assert_same(mv.view(array[0])["x"], array[0]["x"])
