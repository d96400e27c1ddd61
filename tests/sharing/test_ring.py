"""Ring: messages are read once and in order, for every mode, size, start of the counters and way of reading."""

import asyncio
import gc
import itertools
import os
import pickle
import select
import threading
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mojoview
from mojoview import Ring, view
from mojoview.memory import errors

MODES = ["spsc", "mpsc", "broadcast"]
LOSSLESS = ["spsc", "mpsc"]
STARTS = [0, 2**31, 2**32, 2**63, 2**64]


@pytest.fixture
def ring():
    with Ring.create() as made:
        yield made


def payloads(batch):
    return [bytes(frame) for frame in batch]


@pytest.mark.parametrize("mode", [*MODES, "recorder"])
def test_counters_pass_their_limits(mode, tmp_path):
    """Random sizes around many laps; position and number begin just below the limit of a narrower counter."""
    for start, crc in itertools.product(STARTS, [False, True]):
        case = f"start {start}, crc {crc}"
        begin = ((start - 8192) % 2**64, (start - 20) % 2**64)
        rng = np.random.default_rng(1)
        target = tmp_path / case if mode == "recorder" else None
        with Ring.create(target, 4096, mode, crc=crc, start="oldest", _begin=begin) as ring:
            for k in range(300):
                sent = [rng.bytes(int(n)) for n in rng.integers(0, 400, rng.integers(1, 4))]
                numbers = [ring.write(message) for message in sent]
                batch = ring.read(8, 0)
                assert payloads(batch) == sent, case
                assert [frame.seq for frame in batch] == numbers, case
                assert numbers[0] == (begin[1] + ring.frames_read - len(sent)) % 2**64, (case, k)
                batch.release()
            assert ring.lost == 0, case


def test_sequence_numbers_pass_32_bits():
    with Ring.create(_begin=(0, 2**32 - 2)) as ring:
        assert [ring.write(b"a"), ring.write(b"b"), ring.write(b"c")] == [2**32 - 2, 2**32 - 1, 2**32]
        assert [(frame.seq, bytes(frame)) for frame in ring.read()] == [
            (2**32 - 2, b"a"),
            (2**32 - 1, b"b"),
            (2**32, b"c"),
        ]


@pytest.mark.parametrize("mode", LOSSLESS)
def test_the_index_never_overtakes_the_bytes(mode):
    """100,000 messages (a million in the slow run) of which every byte is the low byte of their number."""
    stress(mode, 100_000)


@pytest.mark.slow
@pytest.mark.parametrize("mode", LOSSLESS)
def test_the_index_never_overtakes_the_bytes_long(mode):
    stress(mode, 1_000_000)


def stress(mode, count):
    with Ring.create(mode=mode, crc=True) as ring:

        def produce():
            with Ring.attach(ring) as writer:
                for first in range(0, count, 1000):
                    numbers = np.arange(first, first + 1000, dtype="u8").astype("u1")
                    writer.write_many(np.repeat(numbers[:, None], 100, axis=1))

        thread = threading.Thread(target=produce)
        thread.start()
        rows, seen = np.empty((512, 100), "u1"), 0
        while seen < count:
            n = ring.read_many(rows, timeout=20)
            assert n, "the producer stopped"
            expected = np.arange(seen, seen + n, dtype="u8").astype("u1")
            assert (rows[:n] == expected[:, None]).all()
            seen += n
        thread.join()
        assert ring.lost == 0


@pytest.mark.parametrize("mode", MODES)
def test_write_copies_the_array(mode):
    with Ring.create(mode=mode, start="oldest") as ring:
        a = np.zeros(4)
        ring.write(a)
        a[:] = 9
        assert np.frombuffer(ring.read()[0]).tolist() == [0, 0, 0, 0]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.binary(max_size=3000), max_size=12), st.sampled_from(MODES), st.booleans(), st.integers(1, 20))
def test_any_messages_make_a_round_trip(messages, mode, crc, most):
    """Also those that travel in fragments (more than 2,016 bytes here)."""
    with Ring.create(capacity=4096, mode=mode, crc=crc, start="oldest") as ring:
        for message in messages:
            ring.write(message)
            batch = ring.read(most, 0)
            assert payloads(batch) == [message]
        assert not ring.read(most, 0)
        assert ring.lost == ring.abandoned == 0


@pytest.mark.parametrize("mode", LOSSLESS)
def test_a_message_larger_than_the_ring(mode):
    message = np.random.default_rng(0).bytes(1_000_000)
    with Ring.create(capacity=65536, mode=mode, crc=True) as ring:
        thread = threading.Thread(target=lambda: write_and_close(ring, [message, b"after"]))
        thread.start()
        assert payloads(ring.read(1, 20)) == [message]
        assert payloads(ring.read(1, 20)) == [b"after"]
        thread.join()


def write_and_close(ring, messages):
    with Ring.attach(ring) as writer:
        for message in messages:
            writer.write(message)


def test_a_partial_message_is_abandoned_and_counted():
    with Ring.create(capacity=65536) as ring:
        with Ring.attach(ring) as writer, pytest.raises(errors.WaitTimeout):
            writer.write(bytes(200_000), timeout=0.05)
        with Ring.attach(ring) as writer:
            thread = threading.Thread(target=lambda: writer.write(b"whole", timeout=20))
            thread.start()
            assert payloads(ring.read(1, 20)) == [b"whole"]
            thread.join()
        assert ring.abandoned in (0, 1)  # counted with the next fragment of that source
        assert ring.lost == 0


@pytest.mark.parametrize("mode", MODES)
def test_frame_header(mode):
    with Ring.create(mode=mode, start="oldest") as ring:
        ring.write(b"abc", type=17)
        (frame,) = ring.read()
        assert (frame.seq, frame.type, frame.nbytes, len(frame), frame.position) == (0, 17, 3, 3, 0)
        assert abs(frame.timestamp_ns - time.monotonic_ns()) < 10**9
        assert bytes(frame.view) == bytes(memoryview(frame)) == b"abc"
        assert frame.view.dtype == np.uint8
        assert frame.view.readonly


def test_processor_clock_agrees_with_the_systems():
    with Ring.create(clock="ticks") as ring:
        ring.write(b"x")
        (frame,) = ring.read()
        assert abs(frame.timestamp_ns - time.monotonic_ns()) < 10**8


@pytest.mark.parametrize("mode", MODES)
def test_use_after_release_raises(mode):
    with Ring.create(mode=mode, start="oldest") as ring:
        ring.write(b"abc")
        batch = ring.read()
        frame = batch[0]
        shown = frame.view
        batch.release()
        batch.release()
        for use in (lambda: shown.shape, lambda: frame.view, lambda: bytes(frame), lambda: batch.records):
            with pytest.raises(errors.ReleasedError):
                use()
        assert frame.seq == 0  # the header is a copy


@pytest.mark.parametrize("mode", MODES)
def test_release_refuses_while_the_memory_is_used(mode):
    uses = {"array": np.asarray, "memoryview": memoryview, "slice": lambda shown: shown[1:], "view": view}
    for use, hold in uses.items():
        with Ring.create(mode=mode, start="oldest") as ring:
            ring.write(b"abc")
            batch = ring.read()
            held = hold(batch[0].view)
            with pytest.raises(errors.ExportedError):
                batch.release()
            assert not batch.closed, use
            del held
            gc.collect()
            batch.release()


@pytest.mark.parametrize("mode", LOSSLESS)
def test_what_is_held_is_never_overwritten(mode):
    with Ring.create(capacity=4096, mode=mode, full="drop") as ring:
        ring.write(b"held")
        kept = np.asarray(ring.read(1)[0].view)
        dropped = 0
        for k in range(200):
            dropped += ring.write(b"%100d" % k) is None
            ring.read(256, 0)
        assert bytes(kept) == b"held"
        assert dropped == ring.stats()["dropped"] > 100
        del kept
        assert ring.write(b"room again") is not None


def test_regions_are_released_in_order(ring):
    for k in range(8):
        ring.write(b"%d" % k)
    batches = [ring.read(1) for _ in range(8)]
    used = ring.stats()["used"]
    for k in (3, 1, 7, 5):
        batches[k].release()
    assert ring.stats()["used"] == used
    batches[0].release()
    assert ring.stats()["used"] == used - 2 * 64
    for batch in batches:
        batch.release()
    assert ring.stats()["used"] == 0


def test_views_outlive_the_ring():
    ring = Ring.create()
    ring.write(b"abc")
    shown = ring.read()[0].view
    ring.close()
    ring.close()
    assert bytes(shown) == b"abc"
    for use in (lambda: ring.read(), lambda: ring.write(b""), lambda: ring.capacity, lambda: ring.claim(3)):
        with pytest.raises(errors.ClosedError):
            use()


@pytest.mark.parametrize("mode", MODES)
def test_claim_commits_on_success_and_aborts_on_exception(mode):
    with Ring.create(mode=mode, crc=True, start="oldest") as ring:
        with ring.claim(5) as shown:
            shown[:] = 7
        with pytest.raises(ZeroDivisionError), ring.claim(5) as shown:
            raise ZeroDivisionError
        with ring.claim(0):
            pass
        assert payloads(ring.read()) == [b"\x07" * 5, b""]
        with pytest.raises(errors.ReleasedError):
            shown.shape  # noqa: B018
        assert ring.lost == 0


@pytest.mark.parametrize("mode", MODES)
def test_claimed_memory_cannot_be_kept(mode):
    with Ring.create(mode=mode, start="oldest") as ring:
        with pytest.raises(errors.ExportedError), ring.claim(5) as shown:
            kept = np.asarray(shown)
        assert not ring.read(1, 0)
        del kept, shown


def test_an_mpsc_ring_allows_several_open_claims():
    with Ring.create(mode="mpsc") as ring:
        with ring.claim(1) as first:
            with ring.claim(1) as second:
                second[:] = 2
            first[:] = 1
            assert not ring.read(1, 0)  # in the order of the claims
        assert payloads(ring.read()) == [b"\x01", b"\x02"]


def test_an_spsc_ring_allows_one_open_claim(ring):
    with ring.claim(1) as shown:
        for use in (lambda: ring.write(b""), lambda: ring.claim(1).__enter__(), lambda: ring.close()):
            with pytest.raises(errors.Busy):
                use()
        shown[:] = 1
    assert payloads(ring.read()) == [b"\x01"]


@pytest.mark.parametrize("wait", ["spin", "hybrid", "futex", "event"])
@pytest.mark.parametrize("mode", MODES)
def test_every_wait_wakes_up(mode, wait):
    capacity = 4096 if mode in LOSSLESS else 65536  # three frames fill the first; all have room in the second
    with (
        Ring.create(capacity=capacity, mode=mode, wait=wait, start="oldest") as ring,
        Ring.attach(ring, wait=wait) as back,
    ):
        assert not ring.read(1, 0)

        def consume():
            if all(ring.read(1, 20) for _ in range(30)):
                done.set()

        done = threading.Event()
        thread = threading.Thread(target=consume)
        thread.start()
        for k in range(30):
            back.write(b"%1000d" % k)
            if k % 7 == 0:
                done.wait(0.001)
        thread.join(30)
        assert done.is_set()
        assert not ring.read(1, 0.01)


def test_poll_never_waits():
    with Ring.create(wait="poll") as ring:
        assert not ring.read()


@pytest.mark.parametrize("mode", LOSSLESS)
def test_back_pressure(mode):
    with Ring.create(capacity=4096, mode=mode, full="error") as ring:
        with pytest.raises(errors.RingFull):
            ring.write_many(np.zeros((1000, 64), "u1"))
        held = len(ring.read(1000, 0))
        assert held == 4096 // 128
        with Ring.attach(ring, full="drop") if mode == "mpsc" else Ring.create(capacity=4096, full="drop") as writer:
            assert writer.write_many(np.zeros((1000, 64), "u1")) == 32
            assert writer.write(b"") is None
            assert writer.write_many([b"", b""]) == 0
            assert writer.stats()["dropped"] == 1000 - 32 + 3
    with Ring.create(capacity=4096, mode=mode) as ring:
        ring.write_many(np.zeros((32, 64), "u1"))
        with pytest.raises(errors.WaitTimeout):
            ring.write(b"", timeout=0.01)
        with pytest.raises(errors.WaitTimeout) as caught:
            ring.write_many(np.zeros((2, 64), "u1"), timeout=0)
        assert caught.value.written == 0
        assert "took 0 of 2 in time" in str(caught.value)
        assert len(ring.read(2)) == 2
        with pytest.raises(errors.WaitTimeout) as caught:
            ring.write_many([bytes(64)] * 4, timeout=0)
        assert caught.value.written == 2


def test_roles_are_exclusive(ring):
    ring.write(b"1")
    ring.read()
    with Ring.attach(ring) as other:
        with pytest.raises(errors.NotOwnerError, match=f"has a producer, process {os.getpid()}"):
            other.write(b"2")
        with pytest.raises(errors.NotOwnerError, match="has a reader"):
            other.read()


def test_the_ring_ends_when_the_producer_closes(ring):
    writer = Ring.attach(ring)
    writer.write(b"1")
    writer.close()
    assert [bytes(frame) for frame in ring] == [b"1"]
    assert ring.ended
    assert not ring.read()


@pytest.mark.parametrize("mode", MODES)
def test_a_break_keeps_the_frames_after_it(mode):
    with Ring.create(mode=mode, start="oldest") as ring:
        ring.write_many([b"%d" % k for k in range(10)])
        for frame in ring:
            if bytes(frame) == b"3":
                break
        got = []
        while batch := ring.read(2, 0):
            got += payloads(batch)
        assert got == [b"%d" % k for k in range(4, 10)]
        assert ring.lost == 0


def test_a_dropped_handle_releases_its_role(ring):
    Ring.attach(ring).write(b"1")
    assert [bytes(frame) for frame in ring] == [b"1"]
    assert ring.ended


def test_a_full_ring_without_its_reader_raises():
    with Ring.create(capacity=4096) as ring:
        with Ring.attach(ring) as reader:
            reader.read(1, 0)
        with pytest.raises(errors.PeerGone):
            ring.write_many(np.zeros((1000, 64), "u1"))


def test_an_observer_consumes_no_frames(ring):
    with Ring.attach(ring, observe=True, start="oldest") as observer:
        ring.write(b"1")
        assert payloads(observer.read(8, 0)) == [b"1"]
        assert ring.stats()["read"] == 0
        assert payloads(ring.read()) == [b"1"]
        assert ring.stats()["read"] == 1
        with pytest.raises(errors.NotOwnerError):
            observer.write(b"2")


@pytest.mark.parametrize("mode", MODES)
def test_fileno_and_epoll(mode):
    with Ring.create(mode=mode) as ring, Ring.attach(ring) as writer:
        poll = select.poll()
        poll.register(ring.fileno(), select.POLLIN)
        for k in range(5):
            assert not poll.poll(0)
            writer.write(b"%d" % k)
            assert poll.poll(5000)
            assert payloads(ring.read(8, 0)) == [b"%d" % k]
            assert not ring.read(8, 0)


@pytest.mark.parametrize("mode", ["spsc", "broadcast"])
def test_async_iteration_ends_with_the_producer(mode):
    async def main():
        with Ring.create(mode=mode) as ring:
            ring.fileno()

            def produce():
                with Ring.attach(ring) as writer:
                    for k in range(500):
                        writer.write(b"%d" % k)

            task = asyncio.get_running_loop().run_in_executor(None, produce)
            got = [bytes(frame) async for frame in ring]
            await task
            return got

    assert asyncio.run(asyncio.wait_for(main(), 30)) == [b"%d" % k for k in range(500)]


def test_a_lapped_reader_counts_what_it_missed():
    with Ring.create(capacity=4096, mode="broadcast") as ring, Ring.attach(ring) as slow:
        assert not slow.read(1, 0)
        total = 0
        for n in (10, 500, 3, 2000):
            for k in range(n):
                ring.write(b"%d" % (total + k))
            total += n
            for frame in slow.read(100, 0):
                assert int(bytes(frame)) == frame.seq
            while slow.read(100, 0):
                pass
            assert slow.frames_read + slow.lost == total
        assert slow.overruns == 2


def test_start_and_seek(tmp_path):
    with Ring.create(tmp_path / "r", 1 << 16, "recorder") as ring:
        for k in range(100):
            ring.write(b"%d" % k)
        for start, first in (("oldest", 0), (40, 40)):
            with Ring.attach(tmp_path / "r", start=start) as reader:
                assert reader.read(1, 0)[0].seq == first
        with Ring.attach(tmp_path / "r", start="newest") as reader:
            assert not reader.read(1, 0)
            reader.seek(97)
            assert [frame.seq for frame in reader.read(9, 0)] == [97, 98, 99]
            reader.seek(0)
            assert len(reader.read(200, 0)) == 100


def test_a_read_only_recording_can_be_read(tmp_path):
    with Ring.create(tmp_path / "r", 4096, "recorder", permissions=0o400) as ring:
        ring.write(b"1")
    with Ring.attach(tmp_path / "r") as reader:
        if not os.access(tmp_path / "r", os.W_OK):
            with pytest.raises(errors.NotOwnerError):
                reader.write(b"2")
        assert payloads(reader.read(2, 0)) == [b"1"]


def test_names(name):
    with Ring.create(name) as ring:
        with Ring.attach(name) as other:
            other.write(b"1")
            assert payloads(ring.read()) == [b"1"]
            assert other.name == name
        with mojoview.attach(name) as other:
            assert isinstance(other, Ring)
            assert other.write(b"2") == 1
        with pytest.raises(errors.SegmentExists):
            Ring.create(name)
    with pytest.raises(errors.SegmentNotFound):
        Ring.attach(name)
    with pytest.raises(errors.SegmentNotFound):
        Ring.attach("/nowhere/at/all")


def test_pickle_carries_a_named_ring(name):
    with Ring.create(name, dtype=[("x", "f8")]) as ring:
        with pickle.loads(pickle.dumps(ring)) as other:
            other.write(np.ones(2, ring.dtype))
        assert ring.read()[0].to_pandas()["x"].tolist() == [1.0, 1.0]
