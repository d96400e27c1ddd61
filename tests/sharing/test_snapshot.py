"""Snapshot: publication in place, pins, policies, growth, and what dead readers and writers leave."""

import gc
import os
import pickle
import signal
import struct
import subprocess
import sys
import threading

import numpy as np
import pytest
from support.headers import recrc
from support.waiting import wait_until

import mojoview as mv
from mojoview.memory import errors
from mojoview.sharing.segment import naming

SHAPE = (50, 40)


@pytest.fixture
def writer(name):
    with mv.Snapshot.create(name, SHAPE, "f8") as snapshot:
        yield snapshot


def publish(writer, value, **how):
    return writer.publish(np.full(writer.shape, value, writer.dtype), **how)


def first(view) -> float:
    return float(view[0, 0])


def test_publish_and_read(writer, name):
    reader = mv.Snapshot.attach(name, "f8", SHAPE)
    assert (reader.read(), reader.version, reader.slots) == (None, 0, 3)
    assert publish(writer, 1) == 1
    view = reader.read()
    assert (view.shape, view.dtype, view.readonly, first(view)) == (SHAPE, np.dtype("f8"), True, 1.0)
    assert (view.owner.version, view.owner.nbytes, view.owner.time_ns > 0) == (1, 50 * 40 * 8, True)
    assert reader.read().ptr == view.ptr  # nothing newer: the same memory, one pin
    reader.close()
    assert (first(view), view[1:].shape) == (1.0, (49, 40))


def test_producing_in_place_makes_no_copy(writer, name):
    reader = mv.Snapshot.attach(name)
    with writer.write() as slot:
        assert (slot.shape, slot.dtype, slot.flags.writeable, slot.flags.c_contiguous) == (
            SHAPE,
            np.dtype("f8"),
            True,
            True,
        )
        np.multiply(2.0, np.arange(2000.0).reshape(SHAPE), out=slot)
        address = slot.ctypes.data
        assert reader.read() is None
    with pytest.raises(ValueError, match="read-only"):
        slot[0, 0] = 9
    here = writer.read()
    assert here.ptr == address
    assert np.array_equal(np.asarray(reader.read()), 2 * np.arange(2000.0).reshape(SHAPE))
    reader.close()


def spoil(block) -> None:
    with block as slot:
        slot[:] = 7
        raise RuntimeError("mine")


def test_a_block_that_raises_publishes_nothing(writer):
    publish(writer, 1)
    block = writer.write()
    with pytest.raises(RuntimeError, match="mine"):
        spoil(block)
    assert (writer.version, first(writer.read()), publish(writer, 2), first(writer.read())) == (1, 1.0, 2, 2.0)


def test_views_stay_whole_however_often_the_writer_publishes(writer, name):
    reader = mv.Snapshot.attach(name)
    publish(writer, 1)
    view = reader.read()
    for value in range(2, 20):
        publish(writer, value)
    assert (np.asarray(view) == 1).all()
    array = np.asarray(view)[::2]
    del view
    for value in range(20, 40):
        publish(writer, value)
    assert (array == 1).all()  # what was made from the view holds the pin
    reader.close()


def test_policies_when_every_slot_is_pinned(writer, name):
    reader = mv.Snapshot.attach(name)
    held = []
    for value in (1, 2, 3):
        publish(writer, value)
        held.append(reader.read())
    with pytest.raises(errors.Busy, match="3 slots") as info:
        publish(writer, 4)
    assert isinstance(info.value, BlockingIOError)
    with pytest.raises(errors.WaitTimeout):
        publish(writer, 4, busy="wait", timeout=0.01)
    assert (publish(writer, 4, busy="grow"), writer.slots) == (4, 4)
    assert [first(view) for view in held] == [1, 2, 3]
    held.append(reader.read())
    assert publish(writer, 5, busy="grow") == 5
    assert [first(view) for view in [*held, reader.read()]] == [1, 2, 3, 4, 5]
    with pytest.raises(errors.ArgumentError, match="busy='later'"):
        publish(writer, 6, busy="later")
    held.clear()
    gc.collect()
    assert (publish(writer, 6), writer.slots) == (6, 5)
    reader.close()


def test_growth_ends_at_its_limit(name):
    with mv.Snapshot.create(name, 4, "i4", 2, max_slots=3) as writer:
        held = []
        for value in range(3):
            publish(writer, value, busy="grow")
            held.append(writer.read())
        with pytest.raises(errors.Busy, match="3 slots"):
            publish(writer, 9, busy="grow")
        assert [int(view[0]) for view in held] == [0, 1, 2]
        del held


def wait_for_sleeper(snapshot, writer=False):
    """Return once a reader sleeps until the next publication, or the writer until the next unpin."""
    offset = snapshot.segment.facts["params"][3] + (20 if writer else 16)
    wait_until(lambda: np.asarray(snapshot.segment.view(offset, (1,), "u4"))[0] > 0)


def test_an_unpin_wakes_a_waiting_writer(writer, name):
    reader = mv.Snapshot.attach(name)
    held = []
    for value in (1, 2, 3):
        publish(writer, value)
        held.append(reader.read())
    done = []
    thread = threading.Thread(target=lambda: done.append(publish(writer, 4, busy="wait", timeout=60)))
    thread.start()
    wait_for_sleeper(writer, writer=True)
    assert done == []
    held.pop(0)
    thread.join(60)
    assert done == [4]
    del held
    reader.close()


def test_wait_newer(writer, name):
    reader = mv.Snapshot.attach(name)
    with pytest.raises(errors.WaitTimeout):
        reader.wait_newer(0.01)
    seen = []
    thread = threading.Thread(target=lambda: seen.append(reader.wait_newer(60)))
    thread.start()
    wait_for_sleeper(writer)
    publish(writer, 1)
    thread.join(60)
    assert seen == [1]
    assert reader.wait_newer(0) == 1  # it was not read yet
    reader.read()
    with pytest.raises(errors.WaitTimeout):
        reader.wait_newer(0.01)
    assert reader.wait_newer(0, after=0) == 1
    writer.close()
    with pytest.raises(errors.OwnerGone, match="has closed"):
        reader.wait_newer(60)
    reader.close()


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((), "f8"),
        (0, "f8"),
        ((5, 0, 3), "i2"),
        (3, "M8[ns]"),
        (7, [("a", "i1"), ("b", "f8", 2)]),
        ((2, 3), ("f4", (4,))),
        (1_000_000, "u1"),
        ((1,) * 8, ">i4"),
    ],
    ids=str,
)
def test_shapes_and_dtypes(shape, dtype):
    dtype = np.dtype(dtype)
    with mv.Snapshot.create(None, shape, dtype) as writer, writer.write() as slot:
        expected = np.zeros(shape, dtype)
        assert (slot.shape, slot.dtype) == (expected.shape, expected.dtype)
        slot[...] = expected
        writing = writer
        with pytest.raises(errors.ArgumentError, match="not finished"):
            writing.write().__enter__()
    with mv.Snapshot.create(None, shape, dtype) as writer:
        writer.publish(np.zeros(shape, dtype))
        reader = pickle.loads(pickle.dumps(writer))
        view = reader.read()
        assert (view.shape, view.dtype) == (expected.shape, expected.dtype)
        assert np.asarray(view).tobytes() == expected.tobytes()
        assert view.ptr % 4096 == 0 or view.size == 0
        reader.close()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (((3, -1), "f8"), errors.ShapeError),
        (((1,) * 9, "f8"), errors.ShapeError),
        ((2**62, "f8"), errors.ShapeError),
        ((3, "O"), errors.DTypeError),
        ((3, "f8", 1), errors.ArgumentError),
        ((3, "f8", 65), errors.ArgumentError),
        ((2**40, "f8"), errors.ShmFullError),
        (((1.5,), "f8"), errors.ShapeError),
    ],
)
def test_what_cannot_be_created(name, arguments, error):
    with pytest.raises(error):
        mv.Snapshot.create(name, *arguments)
    assert not os.path.exists(naming.path_of(name))


@pytest.mark.parametrize(
    ("array", "error"),
    [(np.zeros((50, 41)), errors.ShapeError), (np.zeros(SHAPE, "c16"), TypeError), (np.zeros(SHAPE, "U3"), TypeError)],
)
def test_what_cannot_be_published(writer, array, error):
    with pytest.raises(error):
        writer.publish(array)
    assert (writer.version, publish(writer, 1)) == (0, 1)


def test_arrays_that_convert_without_loss_are_published(writer):
    writer.publish(np.ones(SHAPE, "i2"))
    assert first(writer.read()) == 1.0


def test_readers_do_not_write(writer, name):
    reader = mv.Snapshot.attach(name)
    for use in (lambda: publish(reader, 1), lambda: reader.write().__enter__()):
        with pytest.raises(errors.NotOwnerError):
            use()
    publish(writer, 1)
    with pytest.raises(errors.ReadOnlyError):
        reader.read()[0, 0] = 3
    reader.close()
    for use in (reader.read, reader.wait_newer, reader.reader, lambda: reader.version, lambda: publish(reader, 1)):
        with pytest.raises(errors.ClosedError):
            use()


def test_the_rows_for_readers_can_run_out(name):
    with mv.Snapshot.create(name, 4, "i4", slots=8, readers=2) as writer:
        reader = mv.Snapshot.attach(name)
        held = []
        for value in range(2):
            publish(writer, value)
            held += [reader.read() for _ in range(50)]  # of one publication: one row
        publish(writer, 2)
        with pytest.raises(errors.Busy, match="all 2 rows"):
            reader.read()
        del held[:50]
        assert int(reader.read()[0]) == 2
        del held
        reader.close()


# -- processes ---------------------------------------------------------------------------------------------------------


def start(code: str) -> subprocess.Popen:
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    assert line == "ready\n", process.stderr.read()
    return process


def test_a_killed_reader_holds_up_nobody(writer, name):
    publish(writer, 1)
    readers = []
    for value in (2, 3, 4):  # each pins another publication
        readers.append(
            start(
                f"import mojoview as mv, time\nr = mv.Snapshot.attach({name!r})\nv = r.read()\n"
                "print('ready', flush=True)\n"
                "time.sleep(60)"
            )
        )
        if value < 4:
            publish(writer, value)
    with pytest.raises(errors.Busy):
        publish(writer, 4)
    readers[0].kill()
    readers[0].communicate()
    assert publish(writer, 4) == 4
    with pytest.raises(errors.Busy):
        publish(writer, 5)
    for process in readers[1:]:
        process.kill()
        process.communicate()
    assert [publish(writer, value) for value in (5, 6, 7)] == [5, 6, 7]


def test_a_killed_writer_leaves_the_last_publication(name):
    code = f"""
import os, mojoview as mv
s = mv.Snapshot.create({name!r}, (50, 40), "f8")
s.publish(__import__("numpy").full((50, 40), 1.0))
with s.write() as slot:
    slot[:25] = 99
    print("ready", flush=True)
    os.kill(os.getpid(), 9)
"""
    process = start(code)
    process.wait(60)
    process.communicate()
    reader = mv.Snapshot.attach(name)
    assert ((np.asarray(reader.read()) == 1).all(), reader.writer_alive()) == (True, False)
    with pytest.raises(errors.OwnerGone, match="is dead"):
        reader.wait_newer(60)
    successor = mv.Snapshot.take_over(name)
    assert [publish(successor, value) for value in (2, 3, 4)] == [2, 3, 4]
    assert (reader.wait_newer(60), first(reader.read())) == (4, 4.0)
    successor.close()
    reader.close()


def test_readers_in_other_processes_see_whole_publications(writer, name):
    code = f"""
import mojoview as mv, numpy as np
reader = mv.Snapshot.attach({name!r})
print("ready", flush=True)
torn = last = 0
while last < 2000:
    reader.wait_newer(60)
    view = reader.read()
    array = np.asarray(view)
    version = view.owner.version
    torn += (array != version).any() or version < last
    last = version
print(torn)
"""
    readers = [start(code) for _ in range(2)]
    for version in range(1, 2001):
        with writer.write(busy="wait", timeout=60) as slot:
            slot[:] = version
    for process in readers:
        out, err = process.communicate(timeout=120)
        assert (out.strip(), err) == ("0", "")


def test_a_fork_keeps_the_pins_of_both(writer, name):
    """A view that existed at the fork stays whole in the child after the parent let go; reaped after both."""
    publish(writer, 1)
    view = writer.read()
    go, going = os.pipe()
    answer, answering = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            os.read(go, 1)
            whole = (np.asarray(view) == 1).all()
            try:
                publish(writer, 9)
                refused = False
            except errors.NotOwnerError:
                refused = True
            newer = first(writer.read())
            os.write(answering, repr((bool(whole), refused, newer)).encode())
        finally:
            os._exit(0)
    view.release()
    for value in range(2, 8):
        publish(writer, value)
    os.write(going, b"x")
    assert os.read(answer, 100) == b"(True, True, 7.0)"
    os.waitpid(pid, 0)
    for descriptor in (go, going, answer, answering):
        os.close(descriptor)
    assert [publish(writer, value) for value in range(8, 12)] == [8, 9, 10, 11]


def test_ctrl_c_interrupts_a_waiting_writer(name):
    code = f"""
import mojoview as mv
s = mv.Snapshot.create({name!r}, 4, "i8", 2)
held = []
for k in range(2):
    s.publish([k] * 4)
    held.append(s.read())
print("ready", flush=True)
s.publish([9] * 4, busy="wait")
"""
    process = start(code)
    with mv.Snapshot.attach(name) as reader:
        wait_for_sleeper(reader, writer=True)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in err


def test_hostile_words_lead_nowhere(name):
    """Parameters that do not fit under a right checksum, and a map word that names a slot beyond the end."""
    writer = mv.Snapshot.create(name, 8, "i8")
    publish(writer, 1)
    path = naming.path_of(name)
    reader = mv.Snapshot.attach(name)
    with open(path, "r+b") as file:
        file.seek(4096)
        file.write(struct.pack("<Q", 7 << 8 | 200))
    with pytest.raises(errors.CorruptHeader):
        reader.read()
    reader.close()
    with open(path, "rb") as file:
        content = file.read(1 << 17)
    size = os.path.getsize(path)
    good = struct.unpack("<6q", content[400:448])
    writer.close()
    for where, value in [
        (0, 1),
        (0, 99),
        (1, 2**40),
        (2, 0),
        (2, 10**6),
        (3, 100),
        (3, -4096),
        (4, 2**50),
        (4, 4096),
        (5, 0),
        (5, 2**50),
        (5, -4096),
    ]:
        bad = bytearray(content)
        bad[400:448] = struct.pack("<6q", *[value if k == where else number for k, number in enumerate(good)])
        recrc(bad)
        with open(path, "wb") as file:
            file.write(bad)
            file.truncate(size)
        os.chmod(path, 0o600)
        with pytest.raises(errors.CorruptHeader):
            mv.Snapshot.attach(name)
    os.unlink(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a file system")
def test_growing_on_a_full_file_system(tmp_path, monkeypatch):
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)], capture_output=True
    ).returncode:
        pytest.skip("this machine does not let tests mount a tmpfs")
    before = naming.directory()
    monkeypatch.setenv("MOJOVIEW_SHM_DIR", str(tmp_path))
    try:
        writer = mv.Snapshot.create("growing", 1 << 18, "u1", 2)
        held = []
        for value in range(2):
            publish(writer, value)
            held.append(writer.read())
        while True:
            try:
                publish(writer, len(held), busy="grow")
            except errors.ShmFullError:
                break
            held.append(writer.read())
        assert len(held) < 9
        assert [int(view[0]) for view in held] == list(range(len(held)))
        del held
        writer.close()
        del writer
        gc.collect()
    finally:
        monkeypatch.setenv("MOJOVIEW_SHM_DIR", before)
        subprocess.run(["umount", str(tmp_path)], check=True)
