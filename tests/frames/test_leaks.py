"""Leaks over many calls, successful and failing; and many threads that view one frame."""

import os
import subprocess
import sys
import threading
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mojoview.memory._lease import live_leases
from mojoview.memory.errors import MojoViewError, SharedError

SCRIPT = Path(__file__).parents[1] / "isolated" / "frames_flat.py"
GROUPS = {
    "views": [
        "view",
        "view_column",
        "view_list",
        "iview",
        "items",
        "series",
        "index",
        "masked",
        "copied",
        "asarray",
        "stale",
    ],
    "blocks and texts": ["block", "blocks", "repr", "explain"],
    "writing": ["lease", "assign", "refused_lease", "refused_view_in_lease", "refused_assign", "escaping_lease"],
    "exchange": ["level", "to_pandas", "to_series", "stream", "read_stream", "refused_stream"],
    "refusals": ["refused_view", "refused_column", "refused_mask", "refused_label", "refused_option", "refused_block"],
}


if find_spec("pyarrow"):
    GROUPS["arrow"] = [
        "arrow_column",
        "arrow_text",
        "arrow_chunks",
        "arrow_frame",
        "arrow_explain",
        "arrow_combined",
        "to_table",
        "arrow_to_pandas",
        "refused_arrow",
    ]


def run(*args):
    return subprocess.run([sys.executable, SCRIPT, *args], capture_output=True, text=True, timeout=290)


LONG = pytest.mark.skipif("MOJOVIEW_LONG" not in os.environ, reason="1e5 calls of each: set MOJOVIEW_LONG")


@pytest.mark.unsanitized
def test_references_leases_pins_and_memory_do_not_grow():
    """All cases in one process; an error names its case."""
    done = run("0.02")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split()) == sorted(case for cases in GROUPS.values() for case in cases)


@pytest.mark.unsanitized
@pytest.mark.slow
@LONG
@pytest.mark.parametrize("group", GROUPS)
def test_nothing_grows_over_many_calls(group):
    done = run("1.0", *GROUPS[group])
    assert done.returncode == 0, done.stderr


def in_threads(count, work):
    barrier, errors = threading.Barrier(count), []

    def body(number):
        try:
            barrier.wait(timeout=30)
            work(number)
        except BaseException as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=body, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads)
    return errors


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_many_threads_view_one_frame(cow_on):
    df = pd.DataFrame({c: np.arange(100.0) + i for i, c in enumerate("abcd")})
    owner = df._mgr.blocks[0].values
    before, flags = live_leases(), owner.flags.num
    kept = [None] * 8

    def work(number):
        views = []
        for _ in range(300):
            frame = df.mojo.view()
            label = "abcd"[number % 4]
            assert frame[label][1] == 1.0 + number % 4
            assert np.asarray(df.mojo.view(label))[2] == 2.0 + number % 4
            views.append(frame[label])
        kept[number] = views[-1]

    assert in_threads(8, work) == []
    assert owner.flags.num == flags, "the caller's array was touched"
    df.iloc[:, :] = 0.0
    assert [v[1] for v in kept] == [1.0 + n % 4 for n in range(8)]
    kept.clear()
    assert live_leases() == before


def test_of_many_threads_one_leases(cow_on):
    df = pd.DataFrame({"a": np.zeros(10)})
    rounds, won, wrong = 100, [], []

    def work(number):
        for _ in range(rounds):
            try:
                with df.mojo.lease("a") as v:
                    before = v[0]
                    v[0] = before + 1
                    won.append(number)
            except SharedError:
                continue
            except MojoViewError as error:
                wrong.append(error)

    assert in_threads(4, work) == []
    assert wrong == []
    assert df["a"].iloc[0] == len(won) > 0
