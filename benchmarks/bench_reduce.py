"""Statistics on 10 columns of 10^6 float64 beside polars, pandas, NumPy and bottleneck."""

from __future__ import annotations

import bottleneck
import numpy as np
import pandas as pd
import polars as pl
import pytest
from peers import compare

from mojoview import kernels

ROWS, COLUMNS = 1_000_000, 10


@pytest.fixture(scope="module")
def frames():
    rng = np.random.default_rng(0)
    columns = {f"c{k}": rng.standard_normal(ROWS) for k in range(COLUMNS)}
    return columns, pd.DataFrame(columns), pl.DataFrame(columns)


def test_six_statistics(frames, benchmark):
    columns, pandas, polars = frames
    expressions = [
        e
        for c in columns
        for e in (
            pl.col(c).sum().alias(c + "_sum"),
            pl.col(c).mean().alias(c + "_mean"),
            pl.col(c).var().alias(c + "_var"),
            pl.col(c).min().alias(c + "_min"),
            pl.col(c).max().alias(c + "_max"),
            pl.col(c).arg_max().alias(c + "_argmax"),
        )
    ]
    ours, theirs = kernels.describe(columns), polars.select(expressions)
    for name, column in ours:
        assert (column.min, column.max, column.argmax) == tuple(
            theirs[f"{name}_{s}"][0] for s in ("min", "max", "argmax")
        )
        assert column.mean == pytest.approx(theirs[f"{name}_mean"][0], rel=1e-9)
        assert column.var == pytest.approx(pandas[name].var(), rel=1e-12)
    table = compare(
        "count, mean, var, min, max, argmin, argmax of 10 x 10^6 float64",
        {
            "kernels.describe": lambda: kernels.describe(columns),
            "kernels.describe, 2 threads": lambda: kernels.describe(columns, threads=2),
            "kernels.describe, 1 thread": lambda: kernels.describe(columns, threads=1),
            "polars select (sum mean var min max arg_max)": lambda: polars.select(expressions),
            "pandas (sum mean var min max idxmax)": lambda: (
                pandas.sum(),
                pandas.mean(),
                pandas.var(),
                pandas.min(),
                pandas.max(),
                pandas.idxmax(),
            ),
        },
        rounds=20,
        targets={
            "polars select (sum mean var min max arg_max)": 5,
            "pandas (sum mean var min max idxmax)": 12,
        },
    )
    table.record(benchmark)
    benchmark(kernels.describe, columns)


def test_sum(frames, benchmark):
    columns, pandas, polars = frames
    block = np.column_stack(list(columns.values())).T.copy().T
    assert [kernels.sum(c) for c in columns.values()] == pytest.approx(polars.sum().row(0), abs=1e-7)
    table = compare(
        "sum of 10 x 10^6 float64",
        {
            "kernels.sum": lambda: [kernels.sum(c) for c in columns.values()],
            "polars": lambda: polars.sum(),
            "pandas": lambda: pandas.sum(),
            "NumPy block": lambda: block.sum(axis=0),
            "bottleneck": lambda: bottleneck.nansum(block, axis=0),
        },
        rounds=30,
        targets={"polars": 1},
    )
    table.record(benchmark)
    benchmark(lambda: [kernels.sum(c) for c in columns.values()])


@pytest.mark.parametrize("name", ["mean", "var", "min", "argmax"])
def test_single_statistics(frames, benchmark, name):
    columns, _, polars = frames
    function = getattr(kernels, name)
    column = pl.all()
    theirs = {"mean": column.mean, "var": lambda: column.var(ddof=0), "min": column.min, "argmax": column.arg_max}[
        name
    ]()
    assert [function(c) for c in columns.values()] == pytest.approx(polars.select(theirs).row(0), rel=1e-9, abs=1e-9)
    table = compare(
        f"{name} of 10 x 10^6 float64",
        {
            f"kernels.{name}": lambda: [function(c) for c in columns.values()],
            "polars": lambda: polars.select(theirs),
            "NumPy": lambda: [getattr(np, name)(c) for c in columns.values()],
        },
        rounds=20,
    )
    table.record(benchmark)
    benchmark(lambda: [function(c) for c in columns.values()])


def test_two_threads_where_the_work_is_arithmetic(benchmark):
    """A variance within the cache: two threads against one."""
    x = np.random.default_rng(0).integers(0, 1000, 4_000_000, dtype="i2")
    assert kernels.var(x, threads=1) == kernels.var(x, threads=2)
    table = compare(
        "var of 4 * 10^6 int16",
        {
            "2 threads": lambda: kernels.var(x, threads=2),
            "1 thread": lambda: kernels.var(x, threads=1),
        },
        rounds=50,
        targets={"1 thread": 1.7},
    )
    table.record(benchmark)
    benchmark(lambda: kernels.var(x, threads=2))


def test_slow_axis(benchmark):
    x = np.random.default_rng(0).standard_normal((ROWS, COLUMNS))
    assert kernels.sum(x, axis=0) == pytest.approx(x.sum(axis=0), rel=1e-9, abs=1e-7)
    table = compare(
        "sum of (10^6, 10) float64 along axis 0",
        {
            "kernels.sum": lambda: kernels.sum(x, axis=0),
            "NumPy": lambda: x.sum(axis=0),
        },
        rounds=30,
    )
    table.record(benchmark)
    benchmark(kernels.sum, x, axis=0)
