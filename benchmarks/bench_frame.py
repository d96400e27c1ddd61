"""Time to view pandas' memory, compared with pandas' own calls.

`QUESTIONS`: the least ratio of the second call's time to the first's, or None; and the calls.
"""

import numpy as np
import pandas as pd
import pytest
from peers import compare

import mojoview  # noqa: F401  registers the accessors


def frame(rows, columns=10):
    return pd.DataFrame({f"c{i}": np.random.default_rng(i).random(rows) for i in range(columns)})


LARGE, SMALL = frame(1_000_000), frame(10)
MIXED = LARGE.assign(n=np.arange(1_000_000), small=np.arange(1_000_000, dtype="i2"))
TIMES = LARGE.assign(t=np.arange(1_000_000).view("M8[ns]"), m=pd.array(np.arange(1_000_000), dtype="Int64"))
VIEW, COLUMN = LARGE.mojo.view(), LARGE.mojo.view("c0")

QUESTIONS = {
    "a view of 10 float64 columns × 1e6 rows, pinned": (
        1 / 1.2,
        {"df.mojo.view()": lambda: LARGE.mojo.view(), "df.to_numpy()": lambda: LARGE.to_numpy()},
    ),
    "the same of 10 rows": (
        1 / 1.2,
        {"small.mojo.view()": lambda: SMALL.mojo.view(), "df.mojo.view()": lambda: LARGE.mojo.view()},
    ),
    "a view of one column": (
        1.0,
        {"df.mojo.view('c0')": lambda: LARGE.mojo.view("c0"), "df['c0'].to_numpy()": lambda: LARGE["c0"].to_numpy()},
    ),
    "a column of a frame view": (
        1.0,
        {"frame['c0']": lambda: VIEW["c0"], "df['c0'].to_numpy()": lambda: LARGE["c0"].to_numpy()},
    ),
    "a view of a frame of three dtypes": (
        1.0,
        {"df.mojo.view()": lambda: MIXED.mojo.view(), "df.to_numpy() (copies)": lambda: MIXED.to_numpy()},
    ),
    "a view with datetimes and a mask": (
        1.0,
        {"df.mojo.view()": lambda: TIMES.mojo.view(), "df['m'].isna().any()": lambda: TIMES["m"].isna().any()},
    ),
    "is the view current?": (
        None,
        {"column.stale": lambda: COLUMN.stale, "frame.stale": lambda: VIEW.stale},
    ),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_question(question, benchmark):
    target, calls = QUESTIONS[question]
    ours, *peers = calls
    table = compare(question, calls, rounds=300, targets={peers[0]: target} if target else {})
    table.record(benchmark)
    benchmark(calls[ours])
