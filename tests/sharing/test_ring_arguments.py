"""Ring: invalid arguments raise errors of the tree, and no message is lost by them."""

import os
import threading
import warnings

import numpy as np
import pytest

from mojoview import Ring
from mojoview.memory import errors
from mojoview.sharing.ring._batch import Batch, Frame
from mojoview.sharing.ring.ring import Claim


@pytest.fixture
def ring():
    with Ring.create() as made:
        yield made


def test_create_refuses():
    for arguments in [
        {"capacity": 5000},
        {"capacity": 64},
        {"mode": "any"},
        {"wait": "long"},
        {"full": "maybe"},
        {"broken": "x"},
        {"dtype": "f8"},
        {"clock": "sun"},
        {"start": "soon"},
        {"start": -1},
        {"mode": "recorder"},
        {"name": "a/b"},
        {"dtype": [("x", "f8", 10**6)]},
        {"capacity": None},
        {"capacity": "4096"},
        {"capacity": 4096.0},
        {"capacity": -4096},
        {"capacity": 2**70},
        {"mode": []},
        {"wait": None},
        {"pin": "0"},
        {"priority": 1.5},
        {"permissions": "rw"},
        {"name": 5},
        {"name": "a\0b"},
        {"name": b"a/b", "mode": "recorder"},
    ]:
        assert "Ring.create" in refusal(arguments), arguments


def refusal(arguments):
    try:
        Ring.create(**arguments).close()
    except errors.ArgumentError as error:
        return str(error)
    return "accepted"


def test_calls_refuse(ring):
    for call, kind in [
        (lambda: ring.write("text"), errors.ArgumentError),
        (lambda: ring.write(np.arange(10)[::2]), errors.LayoutError),
        (lambda: ring.write(b"", type=2), errors.ArgumentError),
        (lambda: ring.write(b"", type=256), errors.ArgumentError),
        (lambda: ring.read(0), errors.ArgumentError),
        (lambda: ring.read(timeout=-1), errors.ArgumentError),
        (lambda: ring.read(timeout=float("nan")), errors.ArgumentError),
        (lambda: ring.read_into(b"constant"), errors.ReadOnlyError),
        (lambda: ring.read_into(3), errors.ArgumentError),
        (lambda: ring.write_many(np.zeros(3)), errors.ShapeError),
        (lambda: ring.claim(2**40), errors.ShapeError),
        (lambda: ring.seek(3), errors.ArgumentError),
        (lambda: ring.seek("3"), errors.ArgumentError),
        (lambda: ring.write(b"", type="x"), errors.ArgumentError),
        (lambda: ring.write(b"", type=2**80), errors.ArgumentError),
        (lambda: ring.write(np.array([[1]], object)), errors.DTypeError),
        (lambda: ring.write(np.zeros(1, [("O", "i4"), ("x", "O")])), errors.DTypeError),
        (lambda: ring.write_many(np.array([["a"]], object)), errors.DTypeError),
        (lambda: ring.read_into(np.array([None])), errors.DTypeError),
        (lambda: ring.read("5"), errors.ArgumentError),
        (lambda: ring.read(timeout="soon"), errors.ArgumentError),
        (lambda: ring.claim(-1), errors.ArgumentError),
        (lambda: ring.claim(1, type=3), errors.ArgumentError),
        (lambda: ring.wait_for_reader("soon"), errors.ArgumentError),
        (lambda: ring.append(b"x"), errors.ArgumentError),
        (lambda: ring.claim(1).__exit__(None, None, None), errors.ArgumentError),
        (lambda: Ring.attach(5), errors.ArgumentError),
        (lambda: Ring(), errors.ArgumentError),
    ]:
        with pytest.raises(kind):
            call()
    assert ring.stats()["written"] == 0


@pytest.mark.parametrize("kind", [Batch, Claim, Frame, Ring])
def test_bare_objects_raise_errors_of_the_tree(kind):
    bare = kind.__new__(kind)
    for attribute in (
        "seq",
        "view",
        "headers",
        "records",
        "capacity",
        "read",
        "stats",
        "release",
        "to_pandas",
        "__enter__",
    ):
        if hasattr(kind, attribute):
            try:
                value = getattr(bare, attribute)
                value() if callable(value) else None
            except errors.MojoViewError:
                continue


def test_a_batch_is_a_sequence(ring):
    ring.write_many([b"0", b"1", b"2"])
    batch = ring.read()
    assert [bytes(frame) for frame in batch[::-1]] == [b"2", b"1", b"0"]
    assert bytes(batch[-1]) == b"2"
    for key, kind in [
        (3, errors.IndexingError),
        (10**30, errors.IndexingError),
        ("x", errors.ArgumentError),
        (slice(None, None, 0), errors.ArgumentError),
    ]:
        with pytest.raises(kind):
            batch[key]
    assert ring.write(np.zeros(3, [("O", "i4")])) == 3  # the "O" is a field's name, not a type


def test_a_buffer_that_is_too_small_loses_no_message(ring):
    ring.write(b"abc")
    with pytest.raises(errors.ShapeError, match="3 bytes"):
        ring.read_into(bytearray(2))
    buffer = bytearray(3)
    assert ring.read_into(buffer) == 3
    assert buffer == b"abc"
    assert ring.last[0] == 0


def test_a_core_that_cannot_be_pinned_is_a_warning():
    with pytest.warns(RuntimeWarning, match="pin=100000"):
        Ring.create(pin=100_000).close()


def test_a_pin_binds_the_calling_thread():
    bound = []
    core = min(os.sched_getaffinity(0))

    def pin():
        Ring.create(pin=core).close()
        bound.append(os.sched_getaffinity(0))

    thread = threading.Thread(target=pin)
    thread.start()
    thread.join()
    assert bound == [{core}]


def test_a_priority_is_set_or_a_warning():
    found = []

    def run():
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            Ring.create(priority=1).close()
        found.append(bool(said) != (os.sched_getscheduler(0) == os.SCHED_FIFO))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [True]
