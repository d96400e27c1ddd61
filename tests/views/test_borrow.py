"""Borrow checking: many readers or one writer for every byte, across threads; nothing while it is off."""

from __future__ import annotations

import gc
import itertools
import threading

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.threads import run_threaded

import mojoview as mv
from mojoview.memory.errors import ArgumentError, BorrowError
from mojoview.views._borrowing import live_borrows


@pytest.fixture(autouse=True)
def checking():
    """On; and whatever a test does, no borrow outlives its views."""
    before = live_borrows()
    with mv.borrow_check(True):
        yield
    gc.collect()
    assert live_borrows() == before


def conflicts(a, b, writable=(True, True)):
    """Whether views of two arrays, taken in this order, get in each other's way."""
    first = mv.view(a, writable=writable[0])
    try:
        mv.view(b, writable=writable[1]).release()
        return False
    except BorrowError:
        return True
    finally:
        first.release()


@pytest.mark.parametrize("writable", list(itertools.product([False, True], repeat=2)))
def test_many_readers_or_one_writer(writable):
    array = np.zeros(8)
    assert conflicts(array, array[4:], writable) == any(writable)
    assert not conflicts(array[:4], array[4:], writable)
    assert not conflicts(array, array.copy(), writable)


def test_the_error_names_both_holders():
    array = np.zeros(8)
    held = []

    def body():
        held.append(mv.view(array, writable=True))

    thread = threading.Thread(target=body, name="painter")
    thread.start()
    thread.join()
    with pytest.raises(BorrowError) as caught:
        mv.view(array[2:3])
    words = str(caught.value)
    lines = [body.__code__.co_firstlineno + 1, test_the_error_names_both_holders.__code__.co_firstlineno + 11]
    assert words.count(f"{__file__}:") == 2
    assert f"a read-only view taken at {__file__}:{lines[1]} (thread MainThread)" in words
    assert f"a writable view taken at {__file__}:{lines[0]} (thread painter)" in words
    assert isinstance(caught.value, BufferError)
    held.clear()
    mv.view(array[2:3]).release()


def test_a_refused_view_changes_nothing():
    array = np.zeros(8)
    reader = mv.view(array)
    for _ in range(3):
        with pytest.raises(BorrowError, match="writable view taken at"):
            mv.view(array, writable=True)
    assert live_borrows() == 1
    another = mv.view(array)
    reader.release()
    another.release()
    mv.view(array, writable=True).release()


def test_windows_belong_to_the_view_they_were_cut_from():
    array = np.zeros((4, 4))
    view = mv.view(array, writable=True)
    parts = [view[1:], view.T, view.reshape(16), view.cast("i8"), mv.view(view), mv.view(view, writable=True)]
    view.release()
    while parts:
        with pytest.raises(BorrowError):
            mv.view(array)
        parts.pop()
    mv.view(array).release()


def test_a_consumer_keeps_the_borrow():
    array = np.zeros(4)
    window = memoryview(mv.view(array, writable=True))
    with pytest.raises(BorrowError):
        mv.view(array)
    window.release()
    mv.view(array).release()
    shared = np.asarray(mv.view(array))
    with pytest.raises(BorrowError):
        mv.view(array, writable=True)
    del shared
    mv.view(array, writable=True).release()


TABLE = np.zeros((6, 4))
RECORDS = np.zeros(
    5, np.dtype({"names": ["whole", "low", "high"], "formats": ["u4", "u2", "u2"], "offsets": [0, 0, 2]})
)


@pytest.mark.parametrize(
    ("a", "b", "shared"),
    [
        (TABLE[:, 0], TABLE[:, 1], False),
        (TABLE[:, 0], TABLE[:, 0], True),
        (TABLE[:, ::2], TABLE[:, 1::2], False),
        (TABLE[:, :2], TABLE[:, 1:3], True),
        (TABLE[::-1, 0], TABLE[::2, 3], False),
        (TABLE[::2], TABLE[1::2], False),
        (TABLE[::2], TABLE[::3], True),
        (TABLE.T[1], TABLE[:, 1], True),
        (TABLE[2:4, 1:3], TABLE[4:, 1:3], False),
        (TABLE[2:4, :2], TABLE[2:4, 2:], False),
        (TABLE.ravel()[::2], TABLE.ravel()[1::2], False),
        (TABLE.ravel()[::2], TABLE.ravel()[::3], True),
        (TABLE.ravel()[1::6], TABLE.ravel()[2::4], False),  # 1 + 6i is odd, 2 + 4j even
        (TABLE[:0], TABLE, False),
        (RECORDS["low"], RECORDS["high"], False),
        (RECORDS["whole"], RECORDS["high"], True),
        (TABLE[:1], TABLE[0, :1], True),
    ],
)
def test_strides_are_compared_exactly(a, b, shared):
    assert conflicts(a, b) == conflicts(b, a) == np.shares_memory(a, b) == shared


slices = st.builds(slice, st.integers(0, 5), st.integers(0, 9), st.sampled_from([1, 2, 3, -1, -2]))
windows = st.tuples(slices, slices, slices)


@given(windows, windows, st.sampled_from(["f8", "i2", "V3", "u1"]), st.permutations(range(3)))
def test_as_numpy_decides(one, other, dtype, axes):
    array = np.zeros((5, 6, 7), dtype)
    a, b = array[one], array.transpose(axes)[other]
    assert conflicts(a, b) == np.shares_memory(a, b)
    a, b = array.reshape(-1)[one[0]], array.reshape(-1).view("u1")[other[1]]
    assert conflicts(a, b) == np.shares_memory(a, b)


def test_what_takes_too_long_to_decide_counts_as_a_conflict():
    """Strides that do not nest make a knapsack problem. NumPy sees that 6 divides them all; here the steps run out."""
    raw = np.zeros(10**6, "u1")
    reader = np.lib.stride_tricks.as_strided(raw, (40,) * 4, (6 * 1009, 6 * 1013, 6 * 1019, 6 * 1021))
    writer = raw[3::6]
    assert not np.shares_memory(reader, writer)
    assert conflicts(writer, reader, (True, False))


def test_threads_at_a_barrier_one_writer_wins():
    array = np.zeros(100)
    for _ in range(50):
        barrier = threading.Barrier(4)

        def body(number, barrier=barrier):
            try:
                view = mv.view(array[number:], writable=True)
            except BorrowError:
                view = None
            barrier.wait()  # all have tried before one lets go
            if view is not None:
                view.release()
            return view is not None

        assert sum(run_threaded(body, 4)) == 1


def test_threads_with_columns_of_their_own_do_not_meet():
    array = np.zeros((500, 8))

    def body(number):
        for _ in range(100):
            with mv.view(array[:, number], writable=True) as column:
                column[...] = number
            with mv.view(array[:, number]) as column:
                assert column[499] == number

    run_threaded(body, 8)
    assert (array == np.arange(8)).all()


def test_readers_and_writers_exclude_each_other():
    """A torn pair would show: writers change both elements, readers compare them, nothing else protects them."""
    array, seen = np.zeros(2), []

    def body(number):
        for k in range(300):
            try:
                with mv.view(array, writable=number % 2 == 0) as view:
                    if number % 2 == 0:
                        view[0] = view[1] = k
                    else:
                        seen.append(view[0] == view[1])
            except BorrowError:
                continue

    run_threaded(body, 6)
    assert all(seen)


def test_pandas_is_read_by_many():
    frame = pd.DataFrame({"a": np.arange(4.0), "b": np.arange(4.0)})
    with frame.mojo.view() as one, frame.mojo.view() as two:
        assert mv.kernels.sum(one["a"]) == mv.kernels.sum(two["b"])


def test_masks_are_borrowed_with_their_values():
    values, mask = np.zeros(4), np.zeros(4, bool)
    view = mv.view(np.ma.MaskedArray(values, mask))
    before = live_borrows()
    for _ in range(10):
        view.mask.release()
    assert live_borrows() == before
    with pytest.raises(BorrowError):
        mv.view(view.mask.owner, writable=True)
    view.release()


def test_off_nothing_is_entered_and_the_switch_goes_back():
    array = np.zeros(4)
    with mv.borrow_check(False):
        pair = [mv.view(array, writable=True), mv.view(array, writable=True)]
        assert live_borrows() == 0
        with mv.borrow_check(True):
            late = mv.view(array, writable=True)  # views from before are not known
            assert live_borrows() == 1
        mv.view(array).release()
    with pytest.raises(BorrowError):
        mv.view(array)
    late.release()
    pair.clear()
    for bad in (1, None, "on", np.True_):
        with pytest.raises(ArgumentError, match="expected a bool"):
            mv.borrow_check(bad)


def test_garbage_lets_go():
    array = np.zeros(4)
    cycle = [mv.view(array, writable=True)]
    cycle.append(cycle)
    del cycle
    gc.collect()
    mv.view(array).release()
    for _ in range(1000):
        mv.view(array)
    assert live_borrows() == 0


def test_device_memory_and_empty_arrays_are_not_entered():
    empty = np.zeros((0, 4))
    views = [mv.view(empty, writable=True) for _ in range(3)]
    assert live_borrows() == 0
    views.clear()
