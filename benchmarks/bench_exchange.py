"""What it costs to hand memory over by DLPack and Arrow. Run: python benchmarks/bench_exchange.py

Peers take turns in one process, many short rounds each; the smallest time of each counts, and the ratio is what to
quote. Figures of producers include the destruction of a capsule that nobody took.
"""

import argparse
import time

import numpy as np
import pandas as pd
import pyarrow as pa

import mojoview as mv
from mojoview.views._arrow_import import from_arrow

FLAT, SQUARE = np.arange(1_000_000.0), np.arange(12.0).reshape(3, 4)
FROZEN = np.arange(1000.0)
FROZEN.flags.writeable = False
FLAT_VIEW, SQUARE_VIEW, FROZEN_VIEW = mv.view(FLAT, writable=True), mv.view(SQUARE, writable=True), mv.view(FROZEN)
SERIES, BUFFER, ARROW = pd.Series(FLAT), pa.py_buffer(FLAT), pa.array(FLAT)


class OnlyDLPack:
    def __dlpack__(self, **options):
        return FLAT.__dlpack__(**options)

    def __dlpack_device__(self):
        return FLAT.__dlpack_device__()


PEER = OnlyDLPack()

# question: (target ratio of the first to the second, {name: call})
QUESTIONS = {
    "DLPack capsule, versioned, one dimension": (
        1.0,
        {
            "view": lambda: FLAT_VIEW.__dlpack__(max_version=(1, 0), dl_device=None, copy=None),
            "ndarray": lambda: FLAT.__dlpack__(max_version=(1, 0), dl_device=None, copy=None),
        },
    ),
    "DLPack capsule, versioned, two dimensions": (
        1.0,
        {
            "view": lambda: SQUARE_VIEW.__dlpack__(max_version=(1, 0), dl_device=None, copy=None),
            "ndarray": lambda: SQUARE.__dlpack__(max_version=(1, 0), dl_device=None, copy=None),
        },
    ),
    "DLPack capsule, versioned, read-only": (
        1.0,
        {
            "view": lambda: FROZEN_VIEW.__dlpack__(max_version=(1, 0), dl_device=None, copy=None),
            "ndarray": lambda: FROZEN.__dlpack__(max_version=(1, 0), dl_device=None, copy=None),
        },
    ),
    "DLPack capsule, old": (
        1.0,
        {"view": lambda: FLAT_VIEW.__dlpack__(), "ndarray": lambda: FLAT.__dlpack__()},
    ),
    "numpy.from_dlpack, both sides": (
        1.0,
        {"of a view": lambda: np.from_dlpack(FLAT_VIEW), "of an ndarray": lambda: np.from_dlpack(FLAT)},
    ),
    "import of an object that only speaks DLPack": (
        None,
        {"mojoview.view": lambda: mv.view(PEER), "numpy.from_dlpack": lambda: np.from_dlpack(PEER)},
    ),
    "Arrow capsules of 1e6 float64": (
        1.0,
        {
            "view": lambda: FLAT_VIEW.__arrow_c_array__(),
            "Array.from_buffers": lambda: pa.Array.from_buffers(pa.float64(), FLAT.size, [None, BUFFER]),
        },
    ),
    "Arrow capsules of 1e6 float64, beside a conversion": (
        1 / 500,
        {"view": lambda: FLAT_VIEW.__arrow_c_array__(), "pa.array(Series)": lambda: pa.array(SERIES)},
    ),
    "import of one array's capsules, their export included": (
        1.0,
        {
            "from_arrow": lambda: from_arrow(ARROW, False),
            "Array._import_from_c_capsule": lambda: pa.Array._import_from_c_capsule(*ARROW.__arrow_c_array__()),
        },
    ),
    "the same through the front doors": (
        None,
        {"mojoview.view(array)": lambda: mv.view(ARROW), "pa.array(view)": lambda: pa.array(FLAT_VIEW)},
    ),
}


def measure(calls, seconds=1.0):
    """Smallest nanoseconds a call of each, the calls taking turns."""
    counts, best = {}, dict.fromkeys(calls, float("inf"))
    for name, call in calls.items():  # as many calls a round as take about a millisecond
        call()
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
        best = measure(calls, seconds)
        ours, theirs = best.values()
        print(question)
        for name, nanoseconds in best.items():
            print(f"    {nanoseconds:12,.0f} ns  {name}")
        verdict = "" if target is None else f", target {target:g}: {'met' if ours <= target * theirs else 'MISSED'}"
        missed += target is not None and ours > target * theirs
        print(f"    {ours / theirs:12.4f}     ratio{verdict}")
    return missed


if __name__ == "__main__":
    raise SystemExit(main())
