"""Time to exchange memory by DLPack and Arrow.

`QUESTIONS`: the least ratio of the second call's time to the first's, or None; and the calls.
"""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from peers import compare

import mojoview as mv
from mojoview.views.arrow._from_arrow import from_arrow

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
        500,
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


@pytest.mark.parametrize("question", QUESTIONS)
def test_question(question, benchmark):
    target, calls = QUESTIONS[question]
    ours, *peers = calls
    table = compare(question, calls, rounds=300, targets={peers[0]: target} if target else {})
    table.record(benchmark)
    benchmark(calls[ours])
