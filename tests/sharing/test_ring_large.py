"""Messages larger than a frame: policy and timeout hold for the whole message, and no loop blocks its writer."""

import gc
import threading

import numpy as np
import pytest

from mojoview.memory import errors
from mojoview.sharing.ring.ring import Ring

CAPACITY = 1 << 14
LOSSLESS = ["spsc", "mpsc"]


def wrote(ring):
    stats = ring.stats()
    return stats["written"], stats["dropped"], stats["used"]


@pytest.mark.parametrize("mode", LOSSLESS)
@pytest.mark.parametrize("size", [CAPACITY // 2, CAPACITY - 4096, CAPACITY, 5 * CAPACITY])
def test_without_space_for_all_of_it_nothing_is_written(mode, size):
    """The ring holds a quarter of other messages, or the message never fits: decided before its first fragment."""
    other = b"x" * (CAPACITY // 4 + 600)
    with Ring.create(capacity=CAPACITY, mode=mode, full="drop") as ring:
        ring.write(other)
        ring.write(other)
        written, _, used = wrote(ring)
        assert ring.write(b"y" * size) is None
        assert wrote(ring)[1] == 1
        if mode == "spsc":
            assert wrote(ring)[::2] == (written, used)
        assert [bytes(frame) for frame in ring.read()] == [other, other]
        assert len(ring.read(9, 0)) == 0
        assert ring.abandoned == 0
        ring.write(b"after")
        assert [bytes(frame) for frame in ring.read(9, 0)] == [b"after"]
    with Ring.create(capacity=CAPACITY, mode=mode, full="error") as ring:
        ring.write(other)
        ring.write(other)
        with pytest.raises(errors.RingFull, match=str(size)) as caught:
            ring.write(b"y" * size)
        assert ("never fits" in str(caught.value)) == (size >= CAPACITY)
        assert [bytes(frame) for frame in ring.read()] == [other, other]


@pytest.mark.parametrize("mode", LOSSLESS)
@pytest.mark.parametrize("full", ["drop", "error", "block"])
@pytest.mark.parametrize("before", [0, 1, 100, 5000])
def test_with_space_for_all_of_it_it_arrives(mode, full, before):
    message = np.random.default_rng(1).bytes(CAPACITY * 5 // 8)
    with Ring.create(capacity=CAPACITY, mode=mode, full=full, crc=True) as ring:
        for _ in range(9):  # from every position in the ring
            ring.write(b"z" * before)
            ring.read(1).release()
            assert ring.write(message) is not None
            batch = ring.read()
            assert bytes(batch[0]) == message
            del batch
        assert ring.stats()["dropped"] == ring.abandoned == 0


@pytest.mark.parametrize("mode", ["broadcast", "recorder"])
def test_a_lossy_ring_refuses_what_it_cannot_hold(mode, tmp_path):
    name = tmp_path / "r.ring" if mode == "recorder" else None
    with Ring.create(name, CAPACITY, mode, start="oldest") as ring:
        ring.write(b"a")
        with pytest.raises(errors.ShapeError, match=rf"{CAPACITY + 1} bytes.*{CAPACITY}"):
            ring.write(b"y" * (CAPACITY + 1))
        message = bytes(CAPACITY * 5 // 8)
        ring.write(message)
        assert [bytes(frame) for _ in range(2) for frame in ring.read()] == [b"a", message]


def test_a_timeout_leaves_nothing_of_a_message_that_would_fit():
    with Ring.create(capacity=CAPACITY) as ring:
        ring.write(b"x" * (CAPACITY // 2 - 100))
        used = ring.stats()["used"]
        for timeout in (0, 0.001):
            with pytest.raises(errors.WaitTimeout):
                ring.write(b"y" * (CAPACITY * 5 // 8), timeout=timeout)
        assert ring.stats()["used"] == used
        assert len(ring.read()) == 1
        assert len(ring.read(9, 0)) == 0
        assert ring.abandoned == 0


def loop_frames(ring, got):
    for frame in ring:
        got.append(len(frame))


def loop_batches(ring, got):
    while batch := ring.read():
        got.extend(len(frame) for frame in batch)


def loop_kept(ring, got):
    kept = []
    for frame in ring:
        kept.append(frame)  # frames stay valid: they are copied when the writer needs their memory
        got.append(len(frame))
    assert [bytes(frame)[:1] for frame in kept] == [b"a", b"b"] * (len(kept) // 2)


def loop_with(ring, got):
    while True:
        with ring.read() as batch:
            got.extend(len(frame) for frame in batch)
            if not batch:
                return


def loop_slice(ring, got):
    while True:
        frames = ring.read()[:]
        if not frames:
            return
        got.extend(map(len, frames))


@pytest.mark.parametrize("loop", [loop_frames, loop_batches, loop_kept, loop_with, loop_slice])
@pytest.mark.parametrize("mode", LOSSLESS)
def test_no_loop_holds_what_the_writer_needs(loop, mode):
    """A small message, then one larger than half the ring, as faster-fifo#21 has it, again and again."""
    sizes = [100, CAPACITY * 5 // 8] * 20
    with Ring.create(capacity=CAPACITY, mode=mode) as ring:
        got, failed = [], []

        def read():
            try:
                with Ring.attach(ring) as reader:
                    loop(reader, got)
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=read)
        thread.start()
        for number, size in enumerate(sizes):
            ring.write((b"a", b"b")[number % 2] * size, timeout=60)
        ring.close()
        thread.join(60)
        assert not failed
        assert got == sizes


def test_memory_in_use_by_an_array_stays_in_the_ring():
    with Ring.create(capacity=CAPACITY) as ring, Ring.attach(ring) as reader:
        ring.write(b"1" * 100)
        array = np.asarray(reader.read()[0].view)
        assert len(reader.read(9, 0.001)) == 0
        assert reader.stats()["used"] > 0  # the array is the ring's memory
        assert bytes(array) == b"1" * 100
        del array
        gc.collect()
        assert reader.stats()["used"] == 0
        ring.write(b"2" * 100)
        frame = reader.read()[0]
        assert len(reader.read(9, 0.001)) == 0
        assert reader.stats()["used"] == 0  # the frame has its own memory now
        assert bytes(frame) == b"2" * 100
        assert bytes(frame.view) == b"2" * 100


def test_frames_that_are_read_again_stay_valid():
    with Ring.create(capacity=CAPACITY) as ring:
        for number in range(4):
            ring.write(b"%d" % number * 100)
        frame = next(iter(ring))
        rest = ring.read(9, 0)
        first = bytes(frame)
        del frame
        assert len(ring.read(9, 0.001)) == 0
        for _ in range(300):
            ring.write(b"z" * 200)
            ring.read().release()
        assert [first[:1], *(bytes(frame)[:1] for frame in rest)] == [b"0", b"1", b"2", b"3"]
