"""Arguments of every wrong kind, handles closed under other threads: one exception of the tree, and no crash."""

import sys
import threading
import time

import numpy as np
import pandas as pd
import pytest

import mojoview as mv
from mojoview.memory import errors


def kind(value) -> str:
    return type(value).__name__


NO_NUMBERS = [None, "3", b"3", 1.5, float("nan"), [], (3,), object(), np.array([2, 3])]
FAR = [-1, -(2**70), 2**63, 2**70]


@pytest.fixture
def frame():
    return pd.DataFrame({"a": [1, 2]})


@pytest.mark.parametrize("value", [*NO_NUMBERS, *FAR], ids=kind)
@pytest.mark.parametrize(
    "use",
    [
        lambda value, frame: mv.State.create(None, "f8", slots=value),
        lambda value, frame: mv.State.create("refused", "f8", mode=value),
        lambda value, frame: mv.Snapshot.create(None, 3, "f8", value),
        lambda value, frame: mv.Snapshot.create(None, 3, "f8", readers=value),
        lambda value, frame: mv.share(np.zeros(3), "refused", mode=value),
        lambda value, frame: frame.mojo.share("refused", slots=value),
        lambda value, frame: mv.Pool(value),
        lambda value, frame: mv.Pool().reserve(value),
    ],
    ids=["State slots", "State mode", "Snapshot slots", "readers", "share mode", "frame slots", "Pool", "reserve"],
)
def test_numbers_that_are_none(use, value, frame):
    with pytest.raises((errors.ArgumentError, errors.ShmFullError)):
        use(value, frame)


@pytest.mark.parametrize("mode", [0, 0o377, 0o1600, 0o7777])
def test_modes_that_nobody_could_attach_to(mode):
    with pytest.raises(errors.ArgumentError, match="mode"):
        mv.State.create("refused", "f8", mode=mode)


@pytest.mark.parametrize("shape", [None, 1.5, "ab", object(), (2, None), (1.0, 2), (-1,), (1,) * 9, {"a": 1}], ids=kind)
def test_shapes_that_are_none(shape):
    with pytest.raises(errors.ShapeError):
        mv.Snapshot.create(None, shape, "f8")


def test_numbers_of_numpy_are_numbers():
    with mv.Snapshot.create(None, np.int64(3), "f8", np.uint8(4), readers=np.int16(2)) as snapshot:
        assert (snapshot.shape, snapshot.slots) == ((3,), 4)
    with mv.State.create(np.str_("of-numpy"), "f8", slots=np.int32(4)) as state:
        assert (type(state.name), mv.attach(np.str_("of-numpy")).slots) == (str, 4)


@pytest.mark.parametrize("timeout", ["3", b"3", [], object(), float("nan"), -1, -0.001, -float("inf")], ids=kind)
def test_timeouts_that_are_none(timeout, frame):
    with mv.State.create(None, "f8") as state, mv.Snapshot.create(None, 3, "f8", 2) as snapshot:
        with pytest.raises(errors.ArgumentError, match="timeout"):
            state.wait_newer(timeout)
        with pytest.raises(errors.ArgumentError, match="timeout"):
            snapshot.wait_newer(timeout)
        with pytest.raises(errors.ArgumentError, match="timeout"):
            snapshot.publish(np.zeros(3), timeout=timeout)


@pytest.mark.parametrize("timeout", [None, float("inf"), 1e300, 2**70, np.float32(60)], ids=kind)
def test_timeouts_beyond_any_clock(timeout):
    with mv.State.create(None, "f8") as state, state.reader() as reader:
        state.publish()
        assert reader.wait_newer(timeout) == 1


@pytest.mark.parametrize("value", [None, "3", 1.5, -1, 2**70, object(), []], ids=kind)
def test_other_words(value, frame):
    with mv.Snapshot.create(None, 3, "f8") as snapshot, frame.mojo.share(None) as shared:
        if value is not None:
            with pytest.raises(errors.ArgumentError):
                snapshot.wait_newer(0, after=value)
        for use in (
            lambda: snapshot.publish(np.zeros(3), busy=value),
            lambda: shared.append(value),
            lambda: shared.publish(value),
            lambda: shared.publish(frame, busy=value),
            lambda: mv.attach("nobody", uid=value if value is not None else "root"),
        ):
            with pytest.raises(errors.ArgumentError):
                use()
        assert (snapshot.version, shared.version) == (0, 1)


def test_a_block_is_entered_and_left_once():
    with mv.Snapshot.create(None, 3, "f8") as snapshot:
        block = snapshot.write()
        with pytest.raises(errors.ArgumentError, match="not entered"):
            block.__exit__(None, None, None)
        with block as slot:
            slot[:] = 1
        with pytest.raises(errors.ArgumentError, match="has ended"):
            block.__exit__(None, None, None)
        assert snapshot.version == 1


def test_closing_inside_the_block_publishes_nothing():
    snapshot = mv.Snapshot.create(None, 3, "f8")
    reader = snapshot.reader()
    block = snapshot.write()
    slot = block.__enter__()
    slot[:] = 7
    snapshot.close()
    with pytest.raises(errors.ClosedError):
        block.__exit__(None, None, None)
    assert reader.version == 0
    reader.close()


USES = {
    "State.wait_newer": lambda state, snapshot: state.wait_newer(0.0005),
    "State.read": lambda state, snapshot: state.read(),
    "State.history": lambda state, snapshot: state.history(),
    "State.reader": lambda state, snapshot: state.reader().close(),
    "Snapshot.read": lambda state, snapshot: snapshot.read(),
    "Snapshot.wait_newer": lambda state, snapshot: snapshot.wait_newer(0.0005),
    "Snapshot.reader": lambda state, snapshot: snapshot.reader().close(),
}


@pytest.fixture
def quick_switches():
    """Let threads take turns every 50 µs: more interleavings, and busy loops do not hold up the others for 5 ms."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("what", USES)
def test_a_handle_that_another_thread_closes(what, quick_switches):
    """Whatever the moment: the call ends with a result or with one of these, and the process lives."""
    with mv.State.create(None, "f8") as writer, mv.Snapshot.create(None, 1000, "f8") as publisher:
        writer.publish()
        publisher.publish(np.zeros(1000))
        for attempt in range(60):
            state, snapshot = writer.reader(), publisher.reader()
            state.refresh()
            ended = []

            def use(state=state, snapshot=snapshot, ended=ended):
                try:
                    while True:
                        try:
                            USES[what](state, snapshot)
                        except errors.WaitTimeout:
                            continue
                except errors.ClosedError:
                    ended.append(True)

            threads = [threading.Thread(target=use) for _ in range(2)]
            for thread in threads:
                thread.start()
            time.sleep(attempt * 2e-5)
            state.close()
            snapshot.close()
            for thread in threads:
                thread.join(60)
            assert ended == [True, True]


def test_a_writer_that_is_closed_while_it_waits_for_a_slot():
    for pause in (0, 1e-4, 1e-3):
        snapshot = mv.Snapshot.create(None, 4, "i8", 2)
        held = []
        for value in range(2):
            snapshot.publish(np.full(4, value))
            held.append(snapshot.read())
        ended = []

        def write(snapshot=snapshot, ended=ended):
            try:
                snapshot.publish(np.zeros(4, "i8"), busy="wait", timeout=60)
                ended.append("published")
            except errors.ClosedError:
                ended.append("closed")

        thread = threading.Thread(target=write)
        thread.start()
        time.sleep(pause)
        snapshot.close()
        held.pop(0)  # wakes it
        thread.join(60)
        assert ended in (["closed"], ["published"])
        held.clear()
        del held


def test_a_read_that_gives_up_leaves_no_mixture(monkeypatch):
    """The writer laps every attempt: `out` is zero and the number 0, as before the first publication."""
    with mv.State.create("lapped", [("words", "u8", 64)], slots=2) as state, mv.State.attach("lapped") as reader:
        state.out["words"] = 5
        state.publish()
        assert reader.poll()
        state.publish()
        raw = np.asarray(state.segment.view(4096, (512,), "u8", writable=True))
        raw[16] = raw[16 + 66] = 1  # both marks odd: as if the writer were always in the middle
        now = iter(range(100))
        monkeypatch.setattr("mojoview.sharing.state._state.time.monotonic", lambda: next(now))
        with pytest.raises(errors.WaitTimeout, match="lapped"):
            reader.refresh()
        assert (reader.number, reader.out["words"].any(), reader.age_ns, reader.retries > 0) == (0, False, None, True)
        monkeypatch.undo()
        state.publish()
        assert (reader.refresh(), reader.out["words"].tolist()) == (3, [5] * 64)
        del raw
