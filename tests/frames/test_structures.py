"""Layout of columns by the way a frame was built, and by pandas version."""

import io

import numpy as np
import pandas as pd
import pytest

PANDAS = tuple(map(int, pd.__version__.split(".")[:2]))
N = 64


def two_d(order):
    return np.asarray(np.arange(N * 4.0).reshape(N, 4), order=order)


def inserted():
    df = pd.DataFrame(two_d("C"), columns=list("abcd"))
    df["e"] = 1.0
    return df


def concat(axis):
    a = pd.DataFrame(two_d("F")[:, :2], columns=list("ab"))
    b = pd.DataFrame(two_d("F")[:, 2:], columns=list("cd") if axis else list("ab"))
    return pd.concat([a, b], axis=axis)


def base():
    return pd.DataFrame({c: np.arange(N) + 10.0 * i for i, c in enumerate("abcd")})


def read_csv():
    return pd.read_csv(io.StringIO("a,b\n" + "1.5,2.5\n3.5,4.5\n" * 8))


STRIDED = "strided"
# name: (build, blocks, layout of a column: one for all, or pandas 2, where 2.3 with Copy-on-Write is as 3, and pandas
# 3)
STRUCTURES = {
    "dict of arrays": (base, 1, "contiguous"),
    "dict of arrays, copy=False": (
        lambda: pd.DataFrame({c: np.arange(N * 1.0) for c in "abcd"}, copy=False),
        4,
        "contiguous",
    ),
    "dict of Series": (lambda: pd.DataFrame({c: pd.Series(np.arange(N * 1.0)) for c in "abcd"}), 1, "contiguous"),
    "2-D C": (lambda: pd.DataFrame(two_d("C")), 1, (STRIDED, "contiguous")),
    "2-D C, copy=False": (lambda: pd.DataFrame(two_d("C"), copy=False), 1, STRIDED),
    "2-D F": (lambda: pd.DataFrame(two_d("F")), 1, "contiguous"),
    "2-D F, copy=False": (lambda: pd.DataFrame(two_d("F"), copy=False), 1, "contiguous"),
    "concat axis=1": (lambda: concat(1), 2, "contiguous"),
    "concat axis=0": (lambda: concat(0), 1, "contiguous"),
    "insert": (inserted, 2, (STRIDED, "contiguous")),
    "insert, then copy": (lambda: inserted().copy(), 1, "contiguous"),
    "rows 8:40": (lambda: base().iloc[8:40], 1, "contiguous"),
    "rows ::2": (lambda: base().iloc[::2], 1, STRIDED),
    "rows ::-1": (lambda: base().iloc[::-1], 1, STRIDED),
    "boolean mask": (lambda: base()[base()["a"] > 5], 1, "contiguous"),
    "columns c, a": (lambda: base()[["c", "a"]], 1, "contiguous"),
    "columns 1:3": (lambda: base().iloc[:, 1:3], 1, "contiguous"),
    "columns ::2": (lambda: base().iloc[:, ::2], 1, "contiguous"),
    "transpose": (lambda: pd.DataFrame(two_d("F").T.copy(order="F"), copy=False).T, 1, STRIDED),
    "duplicate labels": (lambda: pd.DataFrame(two_d("C"), columns=list("aabb")), 1, (STRIDED, "contiguous")),
    "no rows": (lambda: pd.DataFrame({"a": np.empty(0), "b": np.empty(0)}), 1, "contiguous"),
    "astype no-op": (lambda: base().astype("f8"), None, "contiguous"),
    "rename": (lambda: base().rename(columns={"a": "z"}), None, "contiguous"),
    "reset_index": (lambda: base().reset_index(), 2, "contiguous"),
    "drop": (lambda: base().drop(columns="b"), None, "contiguous"),
    "MultiIndex": (
        lambda: pd.DataFrame(two_d("C"), columns=pd.MultiIndex.from_product([[0, 1], list("ab")])),
        1,
        (STRIDED, "contiguous"),
    ),
    "read_csv": (read_csv, None, "contiguous"),
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_every_structure_is_viewed_in_place(name, route, cow, address):
    build, blocks, layout = STRUCTURES[name]
    df = build()
    if isinstance(layout, tuple):
        layout = layout[PANDAS >= (3, 0) or (cow and PANDAS >= (2, 3))]
    frame = df.mojo.view()
    expected = df.to_numpy()
    for position, column in enumerate(frame.values()):
        assert not len(df) or column.ptr == address(df, position)
        np.testing.assert_array_equal(np.asarray(column), expected[:, position])
        assert column.strides == df.iloc[:, position].to_numpy().strides or len(df) < 2
        alone = df.mojo.iview(position)
        assert (alone.ptr, alone.strides, alone.shape) == (column.ptr, column.strides, column.shape)
    assert frame.iloc(0).contiguous is (layout == "contiguous")
    explained = df.mojo.explain()
    assert explained["zero_copy"].all()
    assert explained.loc[0, "contiguous"] == (layout == "contiguous")
    if route == "internal":
        if blocks is not None:
            assert len(df.mojo.blocks()) == blocks
        for block in df.mojo.blocks():
            for row, label in enumerate(block.columns):
                assert any(
                    np.array_equal(np.asarray(block)[row], expected[:, i]) for i in np.flatnonzero(df.columns == label)
                )


def test_reversed_rows_have_negative_strides():
    v = base().iloc[::-1].mojo.view("a")
    assert v.strides == (-8,)
    assert v[0] == N - 1


@pytest.mark.skipif(PANDAS < (3, 0), reason="pandas 2 copies a list of columns")
def test_a_list_of_columns_gives_a_negative_block_stride():
    df = base()
    swapped = df[["c", "a"]]
    block = swapped.mojo.block()
    assert block.strides == (-2 * 8 * N, 8)
    assert list(block.columns) == ["c", "a"]
    assert block.ptr == df.mojo.view("c").ptr
    np.testing.assert_array_equal(np.asarray(block.T), swapped.to_numpy())


# -- what derived frames share, and whether pandas knows it ------------------------------------------------------------

DERIVED = {
    # name: (derive, explain says shared in 3.x and with Copy-on-Write, in 2.x without)
    "copy": (lambda df: df.copy(), False, False),
    "shallow copy": (lambda df: df.copy(deep=False), True, True),
    "column": (lambda df: df["a"], True, True),
    "rows": (lambda df: df.iloc[0:2], True, True),
    "columns": (lambda df: df[["a"]], True, False),
    "rename": (lambda df: df.rename(columns={"a": "z"}), True, False),
    "astype no-op": (lambda df: df.astype("f8"), True, False),
    "assign": (lambda df: df.assign(c=1), True, False),
    "drop": (lambda df: df.drop(columns="d"), True, False),
    "transpose": (lambda df: df.T, True, False),  # pandas 2 shares it without knowing
    "to_numpy": (lambda df: df.to_numpy(), False, False),  # shared, and pandas does not know
}


@pytest.mark.parametrize("name", DERIVED)
def test_explain_says_what_pandas_knows(name, cow):
    derive, with_cow, without = DERIVED[name]
    df = base()
    assert not df.mojo.explain()["shared"].any()
    other = derive(df)
    assert df.mojo.explain()["shared"].all() == (with_cow if cow else without)
    assert other is not None


@pytest.mark.parametrize("name", [name for name in DERIVED if name not in ("copy", "to_numpy")])
def test_a_write_to_the_source_reaches_no_view_of_derived_frames(name, cow_on):
    df = base()
    other = DERIVED[name][0](df)
    if isinstance(other, pd.Series):
        view = other.mojo.view()
        before = np.asarray(view).copy()
    else:
        view = other.mojo.iview(0)
        before = np.asarray(view).copy()
    df.iloc[0, 0] = 99.0
    np.testing.assert_array_equal(np.asarray(view), before)
    assert not view.stale
