"""explain() and the reprs of frames and views."""

import re
from xml.dom import minidom

import numpy as np
import pandas as pd
import pytest

COLUMNS = [
    "column",
    "dtype",
    "kind",
    "block",
    "address",
    "strides",
    "contiguous",
    "aligned",
    "readonly",
    "shared",
    "zero_copy",
    "reason",
]


def make():
    df = pd.DataFrame(
        {
            "x": [1.0, 2.0],
            "n": [1, 2],
            "y": [3.0, 4.0],
            "m": pd.array([1, None], dtype="Int64"),
            "c": pd.Categorical(["a", None]),
            "o": pd.Series([object(), 1], dtype=object),
        }
    )
    df["be"] = np.arange(2, dtype=">f8")
    return df


def test_explain_is_one_row_a_column(route, address):
    df = make()
    table = df.mojo.explain()
    assert list(table.columns) == COLUMNS
    assert table["column"].tolist() == list(df.columns)
    assert table["dtype"].tolist() == [str(dtype) for dtype in df.dtypes]
    for position, row in enumerate(table.itertuples()):
        if row.column == "o":
            assert pd.isna(row.address)
            assert pd.isna(row.contiguous)
            assert row.strides is None
        else:
            assert int(row.address, 16) == address(df, position)
            assert row.contiguous
            assert row.aligned
            assert pd.isna(row.readonly) if route == "public" else not row.readonly
    assert table["kind"].tolist() == ["ColumnView"] * 5 + [None] * 2
    assert table["zero_copy"].tolist() == [True, True, True, True, True, False, False]
    reasons = dict(zip(table["column"], table["reason"], strict=True))
    assert reasons["x"] == ""
    assert "1 missing" in reasons["m"]
    assert "the code -1" in reasons["c"]
    assert "Python objects" in reasons["o"]
    assert "big-endian" in reasons["be"]
    if route == "internal":
        assert table["block"].tolist()[0] == table["block"].tolist()[2] == df._mgr.blknos[0]
        assert not table["shared"].any()
    else:
        assert table["block"].isna().all()
        assert table["shared"].isna().all()


def test_explain_agrees_with_view(route):
    df = make()
    for label, zero_copy in df.mojo.explain().set_index("column")["zero_copy"].items():
        if zero_copy:
            df.mojo.view(label, na="mask")
        else:
            with pytest.raises((ValueError, TypeError)):
                df.mojo.view(label, na="mask")


def test_explain_pins_nothing(cow_on):
    df = make()
    df.mojo.explain()
    repr(df.mojo)
    df.mojo._repr_html_()
    assert not any(block.refs.has_reference() for block in df._mgr.blocks)


def test_explain_of_odd_frames():
    assert df_labels(pd.DataFrame()) == []
    assert df_labels(pd.DataFrame(np.zeros((1, 3)), columns=["a", "a", ("b", 1)])) == ["a", "a", ("b", 1)]
    assert df_labels(pd.DataFrame(np.zeros((0, 2)))) == [0, 1]
    assert pd.Series([1.0], name="s").mojo.explain()["column"].tolist() == ["s"]


def df_labels(df):
    return df.mojo.explain()["column"].tolist()


def test_texts_name_columns_blocks_and_reasons():
    df = make()
    text = repr(df.mojo)
    assert text.startswith("<mojo accessor of DataFrame, 2 rows × 7 columns>")
    for label, words in (
        ("x", f"block {df._mgr.blknos[0]} "),
        ("o", "Python objects"),
        ("be", "big-endian"),
        ("m", "na='mask'"),
    ):
        line = next(line for line in text.splitlines() if repr(label) in line)
        assert words in line
    frame = df.mojo.view(["x", "n", "be"], copy="if_needed")
    assert "3 columns" in repr(frame)
    assert "copied: its byte order is big-endian" in repr(frame)
    column = df.mojo.view("c", na="ignore")
    assert "pandas dtype category" in repr(column)
    assert "ColumnView" in repr(column)
    assert f"{column.ptr:#x}" in repr(column)
    assert repr(df["x"].mojo).startswith("<mojo accessor of Series, 2 rows>")
    assert "Index" in repr(df.index.mojo)


def test_wide_frames_are_cut():
    df = pd.DataFrame(np.zeros((2, 100)))
    assert "… and 76 more columns" in repr(df.mojo)
    assert len(repr(df.mojo.view()).splitlines()) == 26
    html = df.mojo.view()._repr_html_()
    assert "… and 76 more columns" in html
    assert html.count("✓ zero-copy") == 24


@pytest.mark.parametrize(
    "draw",
    [
        lambda df: df.mojo,
        lambda df: df.mojo.view(["x", "n", "y", "be"], copy="if_needed"),
        lambda df: df.mojo.view("x"),
        lambda df: df["c"].mojo,
        lambda df: df.iloc[::-1][["x", "n"]].mojo.view(),
        lambda df: pd.DataFrame().mojo.view(),
    ],
)
def test_pictures_are_well_formed(draw):
    html = draw(make())._repr_html_()
    minidom.parseString(f"<html>{html}</html>")
    assert "<script" not in html
    assert "id='mojoview" not in re.sub(r"<pattern id='mojoview-none'", "", html)


def test_a_picture_colours_columns_by_block():
    df = pd.DataFrame({"x": [1.0, 2.0], "n": [1, 2], "y": [3.0, 4.0], "o": pd.Series([object(), 1], dtype=object)})
    html = df.mojo._repr_html_()
    rows = re.findall(r"<tr style='background:none'><td.*?</tr>", html.split("positions in memory")[0], re.S)
    hues = [re.search(r"(?:fill|stroke)='(#\w+)'", row).group(1) for row in rows[-4:]]
    assert hues[0] == hues[2]
    assert len({hues[0], hues[1], hues[3]}) == 3
    assert html.count("<rect x='0'") == 4
    assert "block 0 · float64 · 2 × 2 · columns in one piece" in html
    assert "✕ refused" in html
    assert "Python objects" in html


def test_pictures_escape_labels():
    html = pd.DataFrame({"<b>&'x": [1.0]}).mojo.view()._repr_html_()
    assert "<b>&'x" not in html
    assert "&lt;b&gt;&amp;&#x27;x" in html
    minidom.parseString(f"<html>{html}</html>")
