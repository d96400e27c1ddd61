"""Many threads on one view, from a barrier on: slicing, exporting, releasing."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from support.threads import run_threaded

import mojoview as mv
from mojoview.memory._lease import live_leases
from mojoview.memory.errors import ExportedError, ReleasedError


@pytest.fixture(autouse=True)
def frequent_switches():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


def test_readers_of_one_view_do_not_disturb_each_other():
    source = np.arange(1200.0).reshape(30, 40)
    view = mv.view(source)

    def read(number):
        for k in range(200):
            part = view[number::3, :: (-1) ** k].T
            assert part.shape == (40, len(range(number, 30, 3)))
            assert np.asarray(part)[0, 0] == source[number, -(k % 2)]
            assert view.reshape(-1)[number] == number
            assert len(memoryview(view.cast("i8"))) == 30
        return True

    assert all(run_threaded(read))


def test_one_of_many_concurrent_releases_wins():
    for _ in range(50):
        view = mv.view(np.full(5000, 7.0))

        def work(number, view=view):
            seen = 0
            try:
                for _ in range(20):
                    array = np.asarray(view[number:])
                    assert array[-1] == 7.0
                    assert memoryview(view)[0] == 7.0
                    seen += 1
                    if number == 0:
                        del array
                        view.release()
            except (ReleasedError, ExportedError) as error:
                return type(error).__name__, seen
            return "done", seen

        results = run_threaded(work, 4)
        assert {name for name, _ in results} <= {"ReleasedError", "ExportedError", "done"}


def test_the_number_of_live_leases_is_exact_after_many_threads():
    before = live_leases()
    array = np.arange(100)

    def churn(number):
        for _ in range(500):
            view = mv.view(array)
            part = view[1:]
            view.release()
            del part
            mv.view(bytearray(8))

    run_threaded(churn)
    assert live_leases() == before


def test_flags_of_the_callers_array_never_change():
    array = np.arange(10)

    def open_and_look(number):
        for _ in range(500):
            view = mv.view(array)
            assert view.readonly
            assert not np.asarray(view).flags.writeable
            assert array.flags.writeable
            mv.view(array, writable=True)[number] = number
        return True

    assert all(run_threaded(open_and_look))
    assert array.tolist()[:8] == list(range(8))


def test_dtypes_met_first_by_many_threads_at_once():
    def meet(number):
        found = []
        for k in range(50):
            dtype = np.dtype([(f"field{k}", "i4"), ("t", f"M8[{k + 1}s]")])
            found.append(mv.view(np.zeros(2, dtype))["t"].dtype)
        return found

    results = run_threaded(meet)
    assert all(result == results[0] for result in results)
