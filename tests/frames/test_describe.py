"""df.mojo.describe(), with pandas as the oracle."""

import numpy as np
import pandas as pd
import pytest

from mojoview.memory.errors import ColumnError, DTypeError, ZeroCopyError


def make(n=1000):
    rng = np.random.default_rng(7)
    df = pd.DataFrame({"f": rng.normal(size=n), "i": rng.integers(-50, 50, n), "g": rng.normal(size=n).astype("f4")})
    df.loc[::7, "f"] = np.nan
    df["big"] = np.int64(2**62) + np.arange(n)
    df["m"] = pd.array(rng.integers(0, 9, n), dtype="Int64")
    df.loc[::5, "m"] = pd.NA
    df["b"] = rng.integers(0, 2, n).astype(bool)
    df["t"] = np.arange(n).astype("M8[s]")
    df["z"] = pd.Series(np.arange(n).astype("M8[s]")).dt.tz_localize("UTC").dt.tz_convert("Europe/Vienna")
    df["c"] = pd.Categorical(["a", "b"] * (n // 2))
    df["o"] = pd.Series(["x"] * n, dtype=object)
    df["p"] = pd.period_range("2024", periods=n, freq="D")
    df["be"] = rng.normal(size=n).astype(">f8")
    return df


@pytest.mark.parametrize("threads", [1, 2])
def test_it_agrees_with_pandas(threads, route):
    df = make()
    found = df.mojo.describe(threads=threads)
    assert found.index.tolist() == ["f", "i", "g", "big", "m", "b", "t", "z"]
    assert list(found.columns) == ["count", "mean", "std", "min", "max", "argmin", "argmax"]
    for label in ("f", "i", "g", "m"):
        column, row = df[label], found.loc[label]
        assert row["count"] == column.count()
        assert row["mean"] == pytest.approx(column.astype("float64").mean(), rel=1e-12, abs=1e-12)
        assert row["std"] == pytest.approx(column.astype("float64").std(), rel=1e-12)
        assert (row["min"], row["max"]) == (column.min(), column.max())
        assert (row["argmin"], row["argmax"]) == (column.argmin(), column.argmax())
    assert found.loc["big", "max"] == 2**62 + 999, "an integer went through float"
    assert found.loc["b", "mean"] == df["b"].mean()
    assert pd.Timestamp(found.loc["t", "max"]) == df["t"].max()
    assert found.loc["z", "min"] == df["z"].min()
    assert str(found.loc["z", "max"].tz) == "Europe/Vienna"


def test_it_takes_labels_and_refuses_what_has_no_statistics(route):
    df = make()
    assert df.mojo.describe(["i", "f"]).index.tolist() == ["i", "f"]
    assert df.mojo.describe("i").index.tolist() == ["i"]
    for label, kind in (
        ("c", DTypeError),
        ("o", DTypeError),
        ("p", DTypeError),
        ("be", ZeroCopyError),
        ("?", ColumnError),
    ):
        with pytest.raises(kind, match=f"'{label}'".replace("?", r"\?")):
            df.mojo.describe([label])


def test_of_nothing():
    assert pd.DataFrame().mojo.describe().shape == (0, 7)
    found = pd.DataFrame({"x": np.empty(0)}).mojo.describe()
    assert (found.loc["x", "count"], found.loc["x", "argmin"]) == (0, -1)
    assert pd.isna(found.loc["x", "min"])


def test_duplicate_labels_keep_their_rows():
    found = pd.DataFrame([[1.0, 2.0], [3.0, 4.0]], columns=["x", "x"]).mojo.describe()
    assert found["mean"].tolist() == [2.0, 3.0]
    assert found.index.tolist() == ["x", "x"]


def test_nothing_stays_pinned(cow_on):
    df = make().copy()
    df.mojo.describe()
    assert not any(block.refs.has_reference() for block in df._mgr.blocks)
