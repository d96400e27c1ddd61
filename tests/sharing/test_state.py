"""State: what Python sees of the latch, with threads, other processes, dead and stopped writers."""

import gc
import os
import pickle
import signal
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.headers import recrc
from support.waiting import wait_until

import mojoview as mv
from mojoview.memory import errors
from mojoview.sharing.segment import naming, segments

ATTITUDE = np.dtype(
    [("t_sample_ns", "i8"), ("t_recv_ns", "i8"), ("q", "f8", 4), ("w", "f8", 3), ("status", "u4"), ("frame", "u4")]
)


@pytest.fixture
def writer(name):
    with mv.State.create(name, ATTITUDE) as state:
        yield state


def test_publish_and_refresh(writer, name):
    reader = mv.State.attach(name)
    assert (reader.refresh(), reader.read(), reader.age_ns, reader.number) == (0, None, None, 0)
    writer.out["q"] = 1, 2, 3, 4
    assert (writer.publish(), reader.refresh(), reader.refresh()) == (1, 1, 1)
    assert reader.out["q"].tolist() == [1, 2, 3, 4]
    writer.out["q"] = 5
    assert reader.out["q"].tolist() == [1, 2, 3, 4]
    assert reader.read()["q"].tolist() == [1, 2, 3, 4]
    writer.publish()
    assert (reader.read()["q"].tolist(), reader.out["q"].tolist()) == ([5] * 4, [1, 2, 3, 4])
    assert (reader.refresh(), reader.version, reader.retries, reader.slots) == (2, 2, 0, 8)
    assert 0 <= reader.age_ns < 60e9
    reader.close()


def test_poll_says_whether_and_refresh_which(writer, name):
    with mv.State.attach(name) as reader:
        assert (reader.poll(), reader.number, reader.refresh()) == (False, 0, 0)
        for number in range(1, 4):
            writer.out["frame"] = number
            writer.publish()
            assert (reader.poll(), reader.poll(), reader.number, reader.refresh()) == (True, False, number, number)
            assert reader.out["frame"] == number
        writer.out["frame"] = 99  # the writer's own is overwritten by what stands, which is nothing new
        assert (writer.poll(), writer.out["frame"], writer.refresh(), writer.number) == (False, 3, 3, 3)
    with pytest.raises(errors.ClosedError):
        reader.poll()


@pytest.mark.parametrize(
    "dtype", ["f8", "u1", "M8[ns]", ("f4", (3,)), "S13", [("a", "i1"), ("b", ">f8")], "V4096"], ids=str
)
def test_dtypes_come_back_whole(dtype):
    dtype = np.dtype(dtype)
    writer = mv.State.create(None, dtype)
    reader = writer.reader()
    raw = bytes(range(256)) * 16
    bytes_of = np.frombuffer(raw[: dtype.itemsize], dtype.base).reshape(dtype.shape)
    writer.out[...] = bytes_of.view(dtype.base) if dtype.shape else bytes_of[()]
    writer.publish()
    got = reader.read()
    assert (got.dtype, got.shape, got.tobytes()) == (dtype.base, dtype.shape, writer.out.tobytes())
    assert reader.refresh() == 1
    assert reader.out.tobytes() == writer.out.tobytes()
    numbers, records = reader.history()
    assert (numbers.tolist(), records.shape, records.tobytes()) == ([1], (1, *dtype.shape), writer.out.tobytes())
    writer.close()
    reader.close()


@pytest.mark.parametrize("dtype", ["V4097", "V0", "O", [("a", "O")], "T", "nonsense", None], ids=str)
def test_dtypes_that_do_not_fit(dtype):
    with pytest.raises(errors.DTypeError):
        mv.State.create(None, dtype)


@pytest.mark.parametrize("slots", [0, 1, 3, 8192, -8])
def test_slots_are_a_power_of_two(slots):
    with pytest.raises(errors.ArgumentError, match="power of two"):
        mv.State.create(None, "f8", slots=slots)


@given(values=st.lists(st.integers(-(2**63), 2**63 - 1), max_size=40))
def test_history_is_the_last_k(values):
    with mv.State.create(None, "i8", slots=8) as writer:
        for value in values:
            writer.out[...] = value
            writer.publish()
        numbers, records = writer.history()
        assert records.tolist() == values[-8:]
        assert numbers.tolist() == list(range(1, len(values) + 1))[-8:]


def test_read_into(writer, name):
    reader = writer.reader()
    target = np.zeros((), ATTITUDE)
    assert reader.read_into(target) == 0
    writer.out["frame"] = 9
    writer.publish()
    assert (reader.read_into(target), target["frame"].item()) == (1, 9)
    assert reader.out["frame"] == 0
    raw = bytearray(ATTITUDE.itemsize)
    reader.read_into(raw)
    assert raw == target.tobytes()
    for bad, error in [
        (np.zeros(3), errors.DTypeError),
        (bytearray(3), errors.ShapeError),
        (bytes(ATTITUDE.itemsize), errors.LayoutError),
        (3, errors.ArgumentError),
        (np.zeros(20)[::2], errors.LayoutError),
        (None, errors.ArgumentError),
    ]:
        with pytest.raises(error):
            reader.read_into(bad)
    reader.close()


def test_a_reader_does_not_write(writer, name):
    reader = mv.State.attach(name)
    with pytest.raises(errors.NotOwnerError, match=f"owner is process {os.getpid()}") as info:
        reader.publish()
    assert isinstance(info.value, PermissionError)
    with pytest.raises(ValueError, match="read-only"):
        reader.out["frame"] = 1
    with pytest.raises(ValueError, match="own its data"):
        writer.out.resize((), refcheck=False) if writer.out.ndim else writer.out.resize((5,), refcheck=False)
    reader.close()


def test_attach_checks_kind_and_dtype(writer, name):
    with pytest.raises(errors.SchemaMismatch, match="holds"):
        mv.State.attach(name, "f8")
    mv.State.attach(name, ATTITUDE).close()
    with (
        mv.share(np.zeros(3), name + "-array"),
        pytest.raises(errors.SchemaMismatch, match="expected state, it holds array"),
    ):
        mv.State.attach(name + "-array")
    found = mv.attach(name)
    assert type(found) is mv.State
    found.close()


def test_use_after_close(writer, name):
    reader = mv.State.attach(name)
    out = reader.out
    reader.close()
    reader.close()
    for use in (
        reader.refresh,
        reader.read,
        reader.history,
        reader.reader,
        reader.wait_newer,
        reader.writer_alive,
        reader.publish,
        lambda: reader.version,
        lambda: pickle.dumps(reader),
        lambda: reader.read_into(bytearray(80)),
        reader.__enter__,
    ):
        with pytest.raises(errors.ClosedError):
            use()
    assert out["frame"] == 0
    assert "closed" in repr(reader)


def test_state_is_not_constructed_by_hand():
    with pytest.raises(errors.ArgumentError):
        mv.State()


# -- waiting -----------------------------------------------------------------------------------------------------------


def wait_for_sleeper(state):
    """Return once a reader sleeps until the next publication."""
    offset = state.segment.facts["params"][3]
    wait_until(lambda: np.asarray(state.segment.view(offset, (1,), "u4"))[0] > 0)


def test_wait_newer_wakes(writer, name):
    reader = mv.State.attach(name)
    seen = []
    thread = threading.Thread(target=lambda: seen.append(reader.wait_newer(60)))
    thread.start()
    wait_for_sleeper(writer)
    writer.publish()
    thread.join(60)
    assert seen == [1]
    with pytest.raises(errors.WaitTimeout, match="newer than 1") as info:
        reader.wait_newer(0.01)
    assert isinstance(info.value, TimeoutError)
    writer.publish()
    assert reader.wait_newer(0) == 2
    reader.close()


@pytest.mark.parametrize("waits", [False, True])
def test_a_reader_maps_only_what_it_may_write_to_for_writing(writer, name, waits):
    """The data is mapped read-only; the page on which sleepers announce themselves, only when it is needed."""
    reader = mv.State.attach(name)
    if waits:
        with pytest.raises(errors.WaitTimeout):
            reader.wait_newer(0.001)
    with open("/proc/self/maps", encoding="utf-8") as file:
        mapped = [line.split()[:3] for line in file if naming.directory() in line]
    sizes = sorted(
        (rights, int(extent.split("-")[1], 16) - int(extent.split("-")[0], 16)) for extent, rights, _ in mapped
    )
    whole = writer.segment.mapping.nbytes
    assert sizes == [("r--s", whole), *[("rw-s", 4096)] * waits, ("rw-s", whole)]
    reader.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_waiting_without_the_right_to_write(name):
    """A reader of another user, who may only read, cannot announce itself: it looks again every millisecond."""
    with mv.State.create(name, "f8", mode=0o644) as writer:
        os.chmod(naming.directory(), 0o755)
        code = f"""
import os, sys
import mojoview as mv
mv.State
os.setgroups([]); os.setgid(65534); os.setuid(65534)
reader = mv.State.attach({name!r}, uid=0)
print("ready", flush=True)
print(reader.wait_newer(60))
"""
        process = start(code)
        time.sleep(0.05)
        writer.publish()
        assert process.communicate(timeout=60) == ("1\n", "")


def test_a_writer_that_closes_wakes_its_readers(name):
    writer = mv.State.create(name, "f8")
    reader = writer.reader()
    caught = []

    def wait():
        try:
            reader.wait_newer(60)
        except errors.OwnerGone as error:
            caught.append(str(error))

    thread = threading.Thread(target=wait)
    thread.start()
    wait_for_sleeper(writer)
    writer.close()
    thread.join(60)
    assert "has closed it" in caught[0]
    reader.close()


def test_closing_a_handle_while_it_waits(writer, name):
    reader = mv.State.attach(name)
    caught = []

    def wait():
        try:
            reader.wait_newer(60)
        except errors.ClosedError:
            caught.append(True)

    thread = threading.Thread(target=wait)
    thread.start()
    wait_for_sleeper(reader)
    reader.close()
    thread.join(60)
    assert caught == [True]


def test_ctrl_c_interrupts_a_wait(writer, name):
    code = f"import mojoview as mv\nr = mv.State.attach({name!r})\nprint('ready', flush=True)\nr.wait_newer()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        wait_for_sleeper(writer)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in err


# -- dead, stopped and forked writers ----------------------------------------------------------------------------------

WRITER = """
import os, sys, mojoview as mv
state = mv.State.create({name!r}, [("n", "u8"), ("copies", "u8", 11)])
n = 0
while True:
    n += 1
    state.out["n"] = n
    state.out["copies"] = n
    state.publish()
    if n == 100: print("ready", flush=True)
"""


def start(code: str) -> subprocess.Popen:
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    assert line == "ready\n", process.stderr.read()
    return process


def end(process: subprocess.Popen) -> None:
    process.kill()
    process.communicate(timeout=60)


def consistent(record) -> bool:
    return bool((record["copies"] == record["n"]).all())


def test_a_killed_writer_leaves_its_publication_and_is_replaced(name):
    for attempt in range(3):
        process = start(WRITER.format(name=name))
        reader = mv.State.attach(name)
        time.sleep(0.002 * attempt)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(60)
        number = reader.refresh()
        assert number >= 100
        assert consistent(reader.out)
        assert (reader.out["n"].item(), reader.retries, reader.writer_alive()) == (number, 0, False)
        with pytest.raises(errors.OwnerGone, match=f"process {process.pid}, is dead"):
            reader.wait_newer(60)
        with pytest.raises(errors.SegmentExists, match="which is dead"):
            mv.State.create(name, "f8")
        successor = mv.State.take_over(name)
        assert (successor.number, successor.out["n"].item()) == (number, number)
        successor.out["n"] = successor.out["copies"] = number + 1
        assert successor.publish() == number + 1
        assert (reader.wait_newer(60), reader.out["n"].item(), reader.segment.epoch) == (number + 1, number + 1, 1)
        with pytest.raises(errors.SegmentExists, match="is alive"):
            mv.State.take_over(name)
        successor.close()
        reader.close()
        end(process)


def test_a_stopped_writer_is_alive_and_its_value_ages(name):
    process = start(WRITER.format(name=name))
    try:
        reader = mv.State.attach(name)
        for _ in range(20):
            os.kill(process.pid, signal.SIGSTOP)
            while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
                time.sleep(0.001)
            first = reader.refresh()
            age = reader.age_ns
            assert consistent(reader.out)
            assert (reader.refresh(), reader.writer_alive()) == (first, True)
            assert reader.age_ns > age
            with pytest.raises(errors.WaitTimeout):
                reader.wait_newer(0.002)
            with pytest.raises(errors.SegmentExists):
                mv.State.take_over(name)
            os.kill(process.pid, signal.SIGCONT)
            assert reader.wait_newer(60) > first
        reader.close()
    finally:
        end(process)
        mv.cleanup(name)


def test_readers_in_other_processes_never_see_half_an_update(name):
    """The writer at full speed here, readers there; then the other way round."""
    code = """
import sys, mojoview as mv
reader = mv.State.attach({name!r})
print("ready", flush=True)
last = torn = 0
while True:
    n = reader.refresh()
    torn += not (reader.out["copies"] == n).all() or reader.out["n"] != n or n < last
    last = n
    if n >= 30000: break
print(torn)
"""
    with mv.State.create(name, [("n", "u8"), ("copies", "u8", 11)]) as state:
        state.out["n"] = state.out["copies"] = 1
        state.publish()
        readers = [start(code.format(name=name)) for _ in range(2)]
        for n in range(2, 30001):
            state.out["n"] = n
            state.out["copies"] = n
            state.publish()
        for reader in readers:
            out, err = reader.communicate(timeout=120)
            assert (out.strip(), err) == ("0", "")


def test_a_forked_child_reads_and_does_not_write(writer, name):
    writer.out["frame"] = 3
    writer.publish()
    read, write = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            writer.publish()
            answer = b"published"
        except errors.NotOwnerError as error:
            answer = (
                b"refused" if "forked" in str(error) and writer.refresh() == 1 and writer.out["frame"] == 3 else b"odd"
            )
        os.write(write, answer)
        os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(read, 20) == b"refused"
    os.close(read)
    os.close(write)
    assert writer.publish() == 2


def test_reads_across_the_32_bit_mark(name):
    with mv.State.create(name, "u8") as writer, mv.State.attach(name) as reader:
        mark = 2**32 - 2
        with open(naming.path_of(name), "r+b") as file:
            file.seek(4096)
            file.write(struct.pack("<Q", mark))
        for k in range(1, 5):
            writer.out[...] = mark + k
            assert writer.publish() == mark + k
            assert (reader.refresh(), reader.out.item(), reader.read().item()) == (mark + k, mark + k, mark + k)
        assert reader.history()[1].tolist() == [mark + k for k in range(1, 5)]


# -- threads -----------------------------------------------------------------------------------------------------------


def test_many_writer_threads_with_a_lock(name):
    with mv.State.create(name, [("n", "u8"), ("copies", "u8", 11)], lock=True) as state:
        reader = state.reader()

        def write():
            for _ in range(500):
                with state.lock:
                    with state.lock:  # it is reentrant
                        state.out["n"] += np.uint64(1)  # NumPy 1 makes a float of uint64 + 1
                    state.out["copies"] = state.out["n"]
                    state.publish()

        threads = [threading.Thread(target=write) for _ in range(4)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            if reader.refresh():
                assert consistent(reader.out)
        assert (reader.refresh(), reader.out["n"].item()) == (2000, 2000)
        reader.close()


def test_handles_are_collected(name):
    state = mv.State.create(None, "f8")
    state_in_cycle = [state]
    state_in_cycle.append(state_in_cycle)
    state.close()
    del state, state_in_cycle
    gc.collect()


def test_hostile_parameters_are_refused(name):
    """A header with a right checksum whose parts do not fit together."""
    writer = mv.State.create(name, "f8")
    path = naming.path_of(name)
    with open(path, "rb") as file:
        content = file.read()
    writer.close()
    for params in [
        (0, 128, 8, 4096),
        (8, 64, 8, 4096),
        (8, 128, 9, 4096),
        (2**40, 128, 8, 4096),
        (8, 128, 8, -4096),
        (8, 128, 8, 2**40),
        (3, 128, 8, 4096),
        (8, 128, 8, 100),
    ]:
        bad = bytearray(content)
        bad[400:432] = struct.pack("<4q", *params)
        recrc(bad)
        with open(path, "wb") as file:
            file.write(bad)
        os.chmod(path, 0o600)
        with pytest.raises(errors.CorruptHeader, match="parameters"):
            mv.State.attach(name)
    os.unlink(path)


def test_memory_is_a_view(writer):
    view = writer.memory()
    assert bytes(view[:8]) == b"MOJOVIEW"
    assert view.readonly


def test_nothing_is_lost_over_many_calls(name):
    with mv.State.create(name, "f8") as writer:
        for _ in range(200):
            reader = mv.State.attach(name)
            with pytest.raises(errors.SchemaMismatch):
                mv.State.attach(name, "f4")
            with pytest.raises(errors.WaitTimeout):
                reader.wait_newer(0)
            pickle.loads(pickle.dumps(reader)).close()
            reader.close()
        assert segments.attach_segment(name).others_attached()
        gc.collect()
        assert writer.publish() == 1
