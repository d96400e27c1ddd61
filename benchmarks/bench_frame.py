"""What it costs to look at pandas' memory, beside pandas' own ways. Run: python benchmarks/bench_frame.py

Peers take turns in one process, many short rounds each; the smallest time of each counts, and the ratio is what to
quote.
"""

import argparse
import time

import numpy as np
import pandas as pd

import mojoview  # noqa: F401  registers the accessors


def frame(rows, columns=10):
    return pd.DataFrame({f"c{i}": np.random.default_rng(i).random(rows) for i in range(columns)})


LARGE, SMALL = frame(1_000_000), frame(10)
MIXED = LARGE.assign(n=np.arange(1_000_000), small=np.arange(1_000_000, dtype="i2"))
TIMES = LARGE.assign(t=np.arange(1_000_000).view("M8[ns]"), m=pd.array(np.arange(1_000_000), dtype="Int64"))
VIEW, COLUMN = LARGE.mojo.view(), LARGE.mojo.view("c0")

# question: (target ratio of the first to the second or None, {name: call})
QUESTIONS = {
    "a view of 10 float64 columns × 1e6 rows, pinned": (
        1.2,
        {"df.mojo.view()": lambda: LARGE.mojo.view(), "df.to_numpy()": lambda: LARGE.to_numpy()},
    ),
    "the same of 10 rows": (
        1.2,
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
    "a view with datetimes and a mask to look through": (
        1.0,
        {"df.mojo.view()": lambda: TIMES.mojo.view(), "df['m'].isna().any()": lambda: TIMES["m"].isna().any()},
    ),
    "is the view current?": (
        None,
        {"column.stale": lambda: COLUMN.stale, "frame.stale": lambda: VIEW.stale},
    ),
}


def measure(calls, seconds=1.0):
    """Smallest nanoseconds a call of each, the calls taking turns."""
    counts, best = {}, dict.fromkeys(calls, float("inf"))
    for name, call in calls.items():  # as many calls a round as take about a millisecond
        started = time.perf_counter_ns()
        call()
        counts[name] = max(1, min(1000, 1_000_000 // max(1, time.perf_counter_ns() - started)))
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, call in calls.items():
            repeat = range(counts[name])
            started = time.perf_counter_ns()
            for _ in repeat:
                call()
            best[name] = min(best[name], (time.perf_counter_ns() - started) / counts[name])
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1.0, help="for each question")
    seconds = parser.parse_args().seconds
    missed = 0
    for question, (target, calls) in QUESTIONS.items():
        found = measure(calls, seconds)
        ours, theirs = list(found.values())[:2]
        ratio = ours / theirs
        goal = "" if target is None else f"target ≤ {target}: {'reached' if ratio <= target else 'MISSED'}"
        missed += target is not None and ratio > target
        print(f"{question}\n  ratio {ratio:.3g}  {goal}")
        for name, nanoseconds in found.items():
            print(f"  {name:<28}{nanoseconds:>14,.0f} ns")
    raise SystemExit(1 if missed else 0)


if __name__ == "__main__":
    main()
