"""The reprs show what one asks of a view; they never raise."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from support.arrays import arrays

import mojoview as mv


def test_text_names_every_fact():
    array = np.zeros((3, 4), "f4")[:, ::2]
    text = repr(mv.view(array))
    for fact in (
        "3×2",
        "float32",
        f"{array.ctypes.data:#x}",
        "strides (16, 8)",
        "strided",
        "read-only",
        "ndarray at 0x",
    ):
        assert fact in text
    assert "writable" in repr(mv.view(array, writable=True))
    assert "masked" in repr(mv.view(np.ma.array([1], mask=[1])))
    assert "unaligned" in repr(mv.view(np.ndarray(1, "f8", bytes(9), 1)))
    assert ", F," in repr(mv.view(np.zeros((3, 4), order="F")))
    assert "0-d" in repr(mv.view(np.array(1.0)))


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.zeros((3, 4)),
        lambda: np.zeros(2, "M8[ns]"),
        lambda: np.ma.array([1, 2], mask=[0, 1]),
        lambda: np.zeros(1, [("<b>", "i4"), ("&", "f8")]),
    ],
)
def test_html_is_a_table_and_escaped(make):
    html = mv.view(make())._repr_html_()
    assert html.count("<tr>") == html.count("</tr>") == 9
    assert "<b>&" not in html.replace("<b>View</b>", "")
    tags = re.findall(r"</?(\w+)", html)
    assert set(tags) == {"div", "b", "table", "tr", "th", "td"}


@given(arrays())
def test_no_layout_breaks_them(array):
    view = mv.view(array)
    assert str(array.dtype) in repr(view)
    assert f"{view.nbytes:,}" in view._repr_html_()


def test_subclasses_carry_their_name():
    class ColumnView(mv.View):
        pass

    from mojoview.views._construct import rebind

    column = rebind(ColumnView.__new__(ColumnView), mv.view(np.arange(3)))
    assert repr(column).startswith("<ColumnView 3 int64")
    column.release()
    assert repr(column) == "<ColumnView released>"
