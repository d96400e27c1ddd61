"""Deaths and damage: no committed frame of a lossless ring is lost, losses of a lossy one are counted exactly, no
flipped bit passes, and no content of the memory crashes a reader.
"""

import itertools
import multiprocessing
import os
import random
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from mojoview import Ring
from mojoview.memory import errors

fork = multiprocessing.get_context("fork")
# Of seven kinds of deaths: 56, and 1,001 in the slow run.
kills = pytest.mark.parametrize("kills", [8, pytest.param(143, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])])


def producer(name, number, progress):
    """Write numbered messages without end, and count each after it was written."""
    with Ring.attach(name, wait_for_peer=True) as ring:
        rng = random.Random(number)
        for k in range(10**9):
            ring.write(b"%d:%d:" % (number, k) + bytes(rng.randrange(600)))
            progress.value = k + 1


def claimer(name, progress):
    """Wait with an open claim to be killed."""
    ring = Ring.attach(name)
    with ring.claim(100) as view:
        view[:50] = 1
        progress.value = 1
        signal.pause()


def killed(target, *arguments, seconds):
    """Start a process, kill it `seconds` after its first count, and yield (process, count) meanwhile."""
    progress = fork.Value("Q", 0, lock=False)
    process = fork.Process(target=target, args=(*arguments, progress))
    process.start()
    deadline = time.monotonic() + 20
    while progress.value == 0 and time.monotonic() < deadline:
        yield process, progress
        time.sleep(0.0002)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield process, progress
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    yield process, progress


def wait_until(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"still waiting after {seconds} s"
        time.sleep(0.001)


def take(ring, seen):
    """Read the available messages; each must be the next of its writer."""
    with ring.read(256, 0) as batch:
        for frame in batch:
            number, k, _ = bytes(frame).split(b":", 2)
            assert int(k) == seen.get(int(number), 0), (number, k, seen)
            seen[int(number)] = int(k) + 1
        return len(batch)


@kills
@pytest.mark.parametrize("mode", ["spsc", "mpsc"])
def test_killed_producers_lose_nothing_they_committed(mode, kills, name):
    rng = random.Random(7)
    with Ring.create(name, 1 << 16, mode, crc=True, wait_for_peer=True) as ring:
        seen = {}
        for number in range(kills):
            for _, counted in killed(producer, name, number, seconds=rng.random() * 0.03):
                take(ring, seen)
                progress = counted
            while take(ring, seen):
                pass
            committed = seen.get(number, 0)
            assert committed - progress.value in (0, 1)  # the producer may die between write and count
        assert ring.lost == 0
        assert not ring.broken


@kills
def test_open_claims_of_the_dead_are_skipped(kills, name):
    with Ring.create(name, 1 << 16, "mpsc", crc=True) as ring:
        for k in range(kills):
            for _ in killed(claimer, name, seconds=0):
                pass
            ring.write(b"after %d" % k)
            assert bytes(ring.read(1, 20)[0]) == b"after %d" % k
        assert ring.stats()["unblocked"] == kills
        assert ring.lost == 0


def consumer(name, log, progress):
    """Log what was read, and release it only then."""
    with Ring.attach(name, wait_for_peer=True) as ring, open(log, "ab", buffering=0) as file:
        while True:
            batch = ring.read(8, 1)
            for frame in batch:
                file.write(bytes(frame).split(b":")[0] + b"\n")
            batch.release()
            progress.value += len(batch)


@kills
@pytest.mark.parametrize("mode", ["spsc", "mpsc"])
def test_frames_of_killed_consumers_are_redelivered(mode, kills, name, tmp_path):
    """Frames not released are delivered to the successor, at least once and in order."""
    with Ring.create(name, 1 << 14, mode, crc=True, wait_for_peer=True, full="error") as ring:
        sent = 0
        for _ in range(kills):
            for _ in killed(consumer, name, tmp_path / "log", seconds=0.01):
                try:
                    sent = ring.write(b"%d:" % sent + bytes(100)) + 1
                except errors.RingFull:
                    time.sleep(0.001)
        with Ring.attach(name) as last, open(tmp_path / "log", "ab") as file:
            for frame in last.read(10_000, 0):
                file.write(bytes(frame).split(b":")[0] + b"\n")
        numbers = [int(line) for line in (tmp_path / "log").read_text().splitlines()]
        assert sorted(set(numbers)) == list(range(sent))
        assert all(after <= before + 1 for before, after in itertools.pairwise(numbers))


@kills
def test_killed_broadcasters_leave_exact_losses(kills, name):
    """A reader that runs along, and one that reads only between the deaths: both count what they missed."""
    with (
        Ring.create(name, 1 << 14, "broadcast", crc=True, wait_for_peer=True) as ring,
        Ring.attach(name, wait_for_peer=True) as slow,
    ):
        ring.read(1, 0)
        slow.read(1, 0)
        last = 0
        for number in range(kills):
            for _ in killed(producer, name, number, seconds=0.005):
                for frame in ring.read(256, 0):
                    assert frame.seq >= last
                    last = frame.seq + 1
            for reader in (ring, slow):
                while batch := reader.read(256, 0):
                    last = batch[-1].seq + 1
                assert reader.frames_read + reader.lost == last == ring.stats()["written"]
                assert not reader.broken
        assert slow.lost > 0


@kills
def test_a_killed_recorder_continues_where_it_stopped(kills, tmp_path):
    path = tmp_path / "flight.ring"
    Ring.create(path, 1 << 20, "recorder", crc=True).close()
    for number in range(kills):
        *_, (_, progress) = killed(producer, path, number, seconds=0.003)
        with Ring.attach(path, start="newest") as ring:
            written = ring.stats()["written"]
            ring.seek(max(written - 1, 0))
            tail = ring.read(5, 0)
            assert int(bytes(tail[-1]).split(b":")[1]) + 1 - progress.value in (0, 1)
    with Ring.attach(path) as ring:
        count = sum(1 for _ in iter_all(ring))
        assert count == written or ring.stats()["used"] == ring.capacity
        assert ring.lost == 0
        assert not ring.broken


def iter_all(ring):
    while batch := ring.read(256, 0):
        yield from batch


def test_a_dead_producer_raises_peer_gone(name):
    with Ring.create(name, 4096) as ring:
        for _ in killed(producer, name, 1, seconds=0.01):
            pass
        while ring.stats()["read"] < ring.stats()["written"]:
            ring.read(100, 5)
        with pytest.raises(errors.PeerGone, match="died"):
            ring.read(100, 5)


def test_a_forked_child_must_attach(ring_pair):
    ring, _ = ring_pair

    def child():
        for use in (lambda: ring.write(b""), lambda: ring.read(1, 0)):
            with pytest.raises(errors.NotOwnerError, match="fork"):
                use()
        with Ring.attach(ring, observe=True, start="oldest") as other:
            assert bytes(other.read(1, 0)[0]) == b"before"

    process = fork.Process(target=child)
    process.start()
    process.join(20)
    assert process.exitcode == 0
    ring.write(b"after")
    assert [bytes(frame) for frame in ring.read(5, 0)] == [b"after"]


@pytest.fixture
def ring_pair():
    with Ring.create() as ring:
        ring.write(b"before")
        batch = ring.read(1, 0)
        yield ring, batch
        batch.release()


@pytest.mark.parametrize("way", ["read", "read_into", "read_many"])
@pytest.mark.parametrize("mode", ["spsc", "mpsc", "broadcast", "recorder"])
def test_every_flipped_byte_is_found(mode, way, tmp_path):
    flips(mode, way, 60, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mode", ["spsc", "mpsc", "broadcast"])
def test_every_flipped_byte_is_found_long(mode, tmp_path):
    flips(mode, "read", 20_000, tmp_path)


def flips(mode, way, rounds, tmp_path):
    rng = np.random.default_rng(3)
    for k in range(rounds):
        target = tmp_path / f"r{k}" if mode == "recorder" else None
        with Ring.create(target, 4096, mode, crc=True, broken="skip", start="oldest") as ring:
            for number in range(12):
                ring.write(bytes([number] * 64))
            at = int(rng.integers(12)) * 128 + int(rng.integers(96))  # of 128 bytes a frame uses 96
            memory = ring.segment.view(4096 + 12288, (4096,), "u1", writable=True)
            memory[at] = int(memory[at]) ^ int(rng.integers(1, 256))
            memory.release()
            got = [int(number) for number in read_all(ring, way)]
            expected = [number for number in range(12) if number != at // 128]
            assert got == expected, (mode, at)
            assert len(ring.broken) == ring.stats()["broken"] == 1
            assert ring.broken[0].position == at // 128 * 128
            in_payload = at % 128 >= 32
            assert (
                ring.broken[0].reason == "payload checksum"
                if in_payload
                else ring.broken[0].reason in ("header check", "length")
            )
            assert ring.stats()["crc_errors"] == in_payload
            assert ring.lost == (not in_payload and at // 128 != 11)
        if target:
            target.unlink()


def read_all(ring, way):
    if way == "read":
        while batch := ring.read(5, 0):
            yield from (bytes(frame)[0] for frame in batch)
    elif way == "read_into":
        buffer = bytearray(64)
        while ring.read_into(buffer, 0) is not None:
            yield buffer[0]
    else:
        rows = np.empty((5, 64), "u1")
        while n := ring.read_many(rows, 0):
            yield from rows[:n, 0]


def test_damage_raises_once_and_reading_goes_on():
    with Ring.create(crc=True) as ring:
        for k in range(3):
            ring.write(bytes([k] * 64))
        memory = ring.segment.view(4096 + 12288, (4096,), "u1", writable=True)
        memory[128 + 40] = 99
        memory.release()
        assert len(ring.read(10, 0)) == 1
        with pytest.raises(errors.BrokenFrame, match="frame 1 at position 128 is damaged: payload checksum") as caught:
            ring.read(10, 0)
        assert (caught.value.position, caught.value.seq, caught.value.reason) == (128, 1, "payload checksum")
        assert bytes(ring.read(10, 0)[0]) == bytes([2] * 64)


def crc32c(data: bytes) -> int:
    """Compute the Castagnoli CRC bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def renumber(ring, at, by):
    """Add to the sequence number of the frame at a position, and forge the header's checksum."""
    memory = ring.segment.view(4096 + 12288, (4096,), "u1", writable=True)
    header = np.asarray(memory)[at : at + 32]
    header[8:16].view("u8")[0] += by
    checked = header[:24].tobytes() + int(header[24:28].view("u4")[0]).to_bytes(8, "little") + at.to_bytes(8, "little")
    header[28:32].view("u4")[0] = crc32c(checked)
    del header
    memory.release()


@pytest.mark.parametrize("by", [0, 1, 3])
@pytest.mark.parametrize("way", ["read", "read_into", "read_many"])
@pytest.mark.parametrize("mode", ["spsc", "mpsc", "broadcast", "recorder"])
def test_a_forged_gap_is_reported_once(mode, way, by, tmp_path):
    """Intact frames whose numbers jump: all are delivered, and one break says what was expected.

    A recording may have gaps: those of the recorded stream. They are only counted.
    """
    target = tmp_path / "r" if mode == "recorder" else None
    with Ring.create(target, 4096, mode, crc=True, broken="skip", start="oldest") as ring:
        for number in range(6):
            ring.write(bytes([number] * 64))
        for number in range(2, 6):
            renumber(ring, number * 128, by)
        assert [int(number) for number in read_all(ring, way)] == list(range(6))
        expected = [(2 * 128, 2, "sequence gap")] if by and mode != "recorder" else []
        assert [(broken.position, broken.seq, broken.reason) for broken in ring.broken] == expected
        assert (ring.stats()["broken"], ring.lost) == (len(expected), by)


def test_a_forged_gap_raises_once_and_reading_goes_on():
    with Ring.create(None, 4096) as ring:
        for number in range(3):
            ring.write(bytes([number] * 64))
        renumber(ring, 128, 5)
        renumber(ring, 256, 5)
        assert len(ring.read(10, 0)) == 1
        with pytest.raises(errors.BrokenFrame, match="frame 1 at position 128 is damaged: sequence gap"):
            ring.read(10, 0)
        assert [frame.seq for frame in ring.read(10, 0)] == [6, 7]


@pytest.mark.parametrize("mode", ["spsc", "mpsc", "broadcast"])
def test_no_content_crashes_a_reader(mode):
    rng = np.random.default_rng(5)
    for _ in range(150):
        ring = Ring.create(capacity=4096, mode=mode, broken="skip", start="oldest", wait_for_peer=True)
        memory = ring.segment.view(4096, (12288 + 4096,), "u1", writable=True)
        where = rng.integers(0, 512 if rng.random() < 0.7 else len(memory), 40)
        for at in where:
            memory[int(at)] = int(rng.integers(256))
        memory.release()
        for use in (
            lambda r: r.read(100, 0),
            lambda r: r.write(b"x" * 100, timeout=0),
            lambda r: r.read(100, 0),
            lambda r: r.stats(),
        ):
            try:
                use(ring)
            except errors.MojoViewError:
                continue
        try:
            ring.close()
        except errors.MojoViewError as error:
            pytest.fail(f"close: {error}")


def test_a_start_off_the_grid_leads_nowhere(tmp_path):
    """A file whose first frame would be one byte before the end of the ring."""
    path = tmp_path / "r"
    with Ring.create(path, 4096, "recorder") as ring:
        for _ in range(3):
            ring.write(bytes(64))
        control = ring.segment.view(4096, (1536,), "u8", writable=True)
        control[0] = control[1] = 2 * 4096  # tail, claim
        control[64] = 4096 + 4095  # start
        control.release()
    with Ring.attach(path, broken="skip") as ring:
        assert not ring.read(9, 0)


def test_a_read_only_lossless_ring_can_only_be_observed(tmp_path, monkeypatch):
    """Without write access to the mapping, consuming would be a segmentation fault."""
    path = tmp_path / "r"
    with Ring.create("spsc-file") as ring:
        ring.write(b"1")
        path.write_bytes(Path(ring.segment.path).read_bytes())
    monkeypatch.setattr(os, "access", lambda *_: False)
    with Ring.attach(path) as ring:
        for use in (lambda: ring.read(1, 0), lambda: ring.write(b"2"), lambda: ring.fileno()):
            with pytest.raises(errors.NotOwnerError):
                use()
    with Ring.attach(path, observe=True, start="oldest") as ring:
        assert bytes(ring.read(1, 0)[0]) == b"1"
        assert not ring.read(1, 0.01)


def test_a_stopped_producer_is_waited_for(name):
    """A stopped producer is alive: its open claim is not skipped, and its death not reported."""
    with Ring.create(name, 1 << 16, "mpsc", crc=True) as ring:
        progress = fork.Value("Q", 0, lock=False)
        process = fork.Process(target=claimer, args=(name, progress))
        process.start()
        wait_until(lambda: progress.value)
        os.kill(process.pid, signal.SIGSTOP)
        ring.write(b"behind it")
        assert not ring.read(1, 0.1)
        assert ring.stats()["unblocked"] == 0
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        assert bytes(ring.read(1, 20)[0]) == b"behind it"
        assert ring.stats()["unblocked"] == 1


def test_threads_sharing_a_handle_get_busy(name):
    """Two readers and two writers of one handle: each call is atomic or raises Busy."""
    with Ring.create(name, 1 << 12) as ring, Ring.attach(name) as writer:
        faults, got = [], []

        def run(use):
            for _ in range(300):
                try:
                    use()
                except errors.MojoViewError as error:
                    if not isinstance(error, (errors.Busy, errors.WaitTimeout)):
                        faults.append(error)

        def take():
            with ring.read(4, 0.0002) as batch:
                got.extend(int(bytes(frame)) for frame in batch)

        uses = [take, take, lambda: writer.write(b"7", timeout=0.0002), lambda: writer.write(b"7", timeout=0.0002)]
        threads = [threading.Thread(target=run, args=(use,)) for use in uses]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(100)
            assert not thread.is_alive()
        while batch := ring.read(100, 0):
            got.extend(int(bytes(frame)) for frame in batch)
        assert not faults
        assert set(got) == {7}
        assert len(got) == writer.stats()["written"]
        assert ring.lost == 0


@pytest.mark.parametrize(("broken", "following"), [(None, 10), (7, 7)])
def test_a_recording_continues_after_its_last_frame(tmp_path, broken, following):
    """The page with the tail is older than the frames, as after a power failure; frames up to the first break count."""
    path = tmp_path / "flight.ring"
    with Ring.create(path, 1 << 16, "recorder", crc=True) as ring:
        for k in range(5):
            ring.write(b"%d" % k)
        old = path.read_bytes()[4096 : 4096 + 512]
        for k in range(5, 10):
            ring.write(b"%d" % k)
    content = bytearray(path.read_bytes())
    content[4096 : 4096 + 512] = old
    if broken is not None:
        content[16384 + 64 * broken + 32] ^= 1
    path.write_bytes(content)
    with Ring.attach(path) as ring:
        assert ring.write(b"next") == following
        assert [bytes(frame) for frame in ring.read(99, 0)] == [*(b"%d" % k for k in range(following)), b"next"]
