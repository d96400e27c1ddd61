"""What it costs to share memory, beside the ways Python has.

MOJOVIEW_BENCH_GIGABYTES is the size of the large arrays, 1 by default.
"""

from __future__ import annotations

import contextlib
import importlib.util
import mmap
import os
import subprocess
import sys
import threading
import time
from multiprocessing import shared_memory
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from peers import QUICK, Table, compare

import mojoview as mv
from mojoview.sharing.segment import naming

ATTITUDE = np.dtype(
    [("t_sample_ns", "i8"), ("t_recv_ns", "i8"), ("q", "f8", 4), ("w", "f8", 3), ("status", "u4"), ("frame", "u4")]
)
GIGABYTES = float(os.environ.get("MOJOVIEW_BENCH_GIGABYTES", "0.02" if QUICK else "1"))


def empty():
    pass


def written_out(title, calls, space, targets):
    """As `compare()`, of calls as a program writes them: the interpreter has ways of its own for `owner.method()`."""
    table, number, runs = Table(title, {name: [] for name in calls}, targets), 10 if QUICK else 10_000, {}
    for name, call in calls.items():
        scope = {"now": time.perf_counter, **space}
        exec(
            f"def run({', '.join(f'{word}={word}' for word in space)}):\n begin = now()\n"
            f" for _ in range({number // 10}):\n  {'; '.join([call] * 10)}\n return (now() - begin) / {number}",
            scope,
        )
        runs[name] = scope["run"]
    for _ in range(2 if QUICK else 100):
        for name, run in runs.items():
            table.rounds[name].append(run())
    print(f"\n{table}")
    return table


@pytest.fixture
def calls():
    """What the rows below call. A writer's `out` may have been written to, so that its own refresh() always copies."""
    lock, array, target = threading.Lock(), np.zeros((), ATTITUDE), np.zeros((), ATTITUDE)

    def lock_and_copy():
        with lock:
            return array.copy()

    with (
        mv.State.create(None, ATTITUDE) as still,
        mv.State.create(None, ATTITUDE) as writer,
        still.reader() as idle,
        writer.reader() as reader,
    ):
        still.out["status"] = writer.out["status"] = 7
        still.publish(), writer.publish()
        assert (idle.refresh(), idle.out["status"], reader.poll(), reader.out["status"]) == (1, 7, True, 7)
        assert (idle.poll(), reader.read_into(target), target["status"], writer.refresh()) == (False, 1, 7, 1)
        yield {
            "idle": idle,
            "reader": reader,
            "writer": writer,
            "target": target,
            "lock_and_copy": lock_and_copy,
            "empty": empty,
        }


PEERS = {"an empty Python function": "empty()", "Lock + ndarray.copy()": "lock_and_copy()"}
TARGETS = {"an empty Python function": 1 / 0.7, "Lock + ndarray.copy()": 10}


def test_state_read(calls, benchmark):
    rows = {"State.refresh()": "idle.refresh()", "State.poll()": "idle.poll()", **PEERS}
    table = written_out("a State with nothing new, read from Python", rows, calls, TARGETS)
    table.record(benchmark)
    benchmark(calls["idle"].refresh)


def test_state_read_that_copies(calls, benchmark):
    rows = {
        "State.poll()": "writer.poll()",
        "State.refresh(), the number as before": "writer.refresh()",
        "State.publish()": "writer.publish()",
        "publish(), then poll()": "writer.publish(); reader.poll()",
        "publish(), then refresh(): another number": "writer.publish(); reader.refresh()",
        "State.read_into(array)": "reader.read_into(target)",
        "State.read()": "reader.read()",
        **PEERS,
    }
    table = written_out("a State of 80 bytes that are copied, read from Python", rows, calls, TARGETS)
    table.record(benchmark)
    benchmark(calls["writer"].refresh)


def seconds_a_read(write, read, seconds):
    """Beside a thread that writes at full speed."""
    stop = threading.Event()

    def writing():
        while not stop.is_set():
            for _ in range(100):
                write()

    thread = threading.Thread(target=writing)
    thread.start()
    count, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        for _ in range(1000):
            read()
        count += 1000
    spent = time.perf_counter() - begin
    stop.set()
    thread.join()
    return spent / count


def test_state_beside_a_writer(benchmark):
    class Box:
        value = (0, 0, (0.0,) * 4, (0.0,) * 3, 0, 0)

    def swap():
        Box.value = (1, 2, (1.0, 2.0, 3.0, 4.0), (1.0, 2.0, 3.0), 1, 2)

    def take():
        return Box.value

    lock, array, source = threading.Lock(), np.zeros((), ATTITUDE), np.zeros((), ATTITUDE)

    def put_locked():
        with lock:
            array[...] = source

    def take_locked():
        with lock:
            return array.copy()

    with mv.State.create(None, ATTITUDE) as writer, writer.reader() as reader:
        pairs = {
            "State.refresh()": (writer.publish, reader.refresh),
            "swap of an immutable tuple": (swap, take),
            "Lock + ndarray.copy()": (put_locked, take_locked),
        }
        targets = {"swap of an immutable tuple": 1.3}
        table = Table("a read beside a writer thread at full speed", {name: [] for name in pairs}, targets)
        for _ in range(1 if QUICK else 8):
            for name, pair in pairs.items():
                table.rounds[name].append(seconds_a_read(*pair, 0.05 if QUICK else 0.4))
        table.title += f"; {reader.retries} retries in {reader.number} publications"
        print(f"\n{table}")
        table.record(benchmark)
        benchmark(reader.refresh)


@pytest.fixture(scope="module")
def blocks():
    """The same array shared both ways."""
    array = np.ones(int(GIGABYTES * (1 << 27)))
    block = shared_memory.SharedMemory(create=True, size=array.nbytes)
    np.ndarray(array.shape, array.dtype, block.buf)[:] = array
    with mv.share(array, f"bench-{os.getpid()}") as shared:
        yield array, shared, block
    block.close()
    if Path(f"/dev/shm/{block.name}").exists():  # the tracker of a process that only attached may have removed it
        block.unlink()


OURS, THEIRS, RAY = "mojoview.attach(name).read()[-1]", "SharedMemory(name), ndarray, [-1]", "ray.get(reference)[-1]"


def first_time(imports, body):
    """Seconds that `body` takes in a process of its own, once `imports` have run; it leaves 1.0 in `value`."""
    clock = "time.perf_counter()"
    code = f"import time, numpy as np\n{imports}\nbegin = {clock}\n{body}\nspent = {clock} - begin\n"
    # The tracker would remove the block when this process ends.
    code += "if 's' in globals(): resource_tracker.unregister(s._name, 'shared_memory')\nprint(value, spent)"
    command = [sys.executable, "-W", "ignore", "-c", code]
    value, spent = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert value == "1.0"
    return float(spent)


@contextlib.contextmanager
def ray_worker(array):
    """A call: seconds of the first get in a new worker process. None where ray is not installed, or time is short."""
    if QUICK or importlib.util.find_spec("ray") is None:
        yield None
        return
    import ray

    class Reader:
        def first(self, references):
            begin = time.perf_counter()
            value = float(ray.get(references[0])[-1])
            assert value == 1.0
            return time.perf_counter() - begin

    ray.init(log_to_driver=False, include_dashboard=False, num_cpus=1, object_store_memory=array.nbytes * 2)
    try:
        reference = ray.put(array)

        def measure():
            worker = ray.remote(Reader).remote()
            spent = ray.get(worker.first.remote([reference]))
            ray.kill(worker)
            return spent

        yield measure
    finally:
        ray.shutdown()


def test_attach_first_time(blocks, benchmark):
    """In a process that has never attached before, as each new worker is. Imports do not count, on any side."""
    array, shared, block = blocks
    tracker = "from multiprocessing import resource_tracker, shared_memory"
    theirs = f"s = shared_memory.SharedMemory({block.name!r})\n"
    theirs += f"value = float(np.ndarray({array.shape}, 'f8', s.buf)[-1])"
    ours = f"h = mv.attach({shared.name!r})\nvalue = float(h.read()[-1])"
    ways = {
        OURS: ("import mojoview as mv, mojoview.sharing", ours),
        THEIRS: (tracker, theirs),
        f"{THEIRS}, tracker running": (f"{tracker}\nresource_tracker.ensure_running()", theirs),
    }
    title = f"attaching {GIGABYTES:g} GB, first time in a process"
    table = Table(title, {name: [] for name in ways}, {THEIRS: 5, RAY: 20})
    with ray_worker(array) as ray_seconds:
        if ray_seconds is None:
            table.title += " (not measured: ray)"
        else:
            table.rounds[RAY] = []
        for _ in range(1 if QUICK else 7):
            for name, way in ways.items():
                table.rounds[name].append(first_time(*way))
            if ray_seconds is not None:
                table.rounds[RAY].append(ray_seconds())
    print(f"\n{table}")
    table.record(benchmark)
    benchmark(mv.attach, shared.name)


def test_attach_again(blocks, benchmark):
    """With nothing left of the time before; the last row is what the system takes, without a look at a header."""
    array, shared, block = blocks
    path, last = naming.path_of(shared.name), shared.segment.facts["payload_off"] + array.nbytes - 8

    def attach():
        return float(mv.attach(shared.name).read()[-1])

    def attach_block():
        other = shared_memory.SharedMemory(block.name)
        value = float(np.ndarray(array.shape, array.dtype, other.buf)[-1])
        other.close()
        return value

    def bare():
        fd = os.open(path, os.O_RDONLY)
        with mmap.mmap(fd, 0, prot=mmap.PROT_READ) as memory:
            value = float(np.frombuffer(memory[last : last + 8])[0])
        os.close(fd)
        return value

    assert attach() == attach_block() == bare() == 1.0
    calls = {OURS: attach, THEIRS: attach_block, "open, mmap, 8 bytes, munmap, close": bare}
    table = compare(f"attaching {GIGABYTES:g} GB again and again", calls, rounds=60, number=20)
    table.record(benchmark)
    benchmark(attach)


def test_publish_array(benchmark):
    array = np.ones(int(GIGABYTES * (1 << 27)))
    target = np.empty_like(array)
    with mv.Snapshot.create(None, array.shape, array.dtype, prefault=True) as writer, writer.reader() as reader:

        def in_place():
            with writer.write():
                pass

        for _ in range(4):  # every slot warm
            writer.publish(array)
            np.copyto(target, array)
        assert np.asarray(reader.read())[-1] == 1.0
        table = compare(
            f"publishing {GIGABYTES:g} GB into a warm slot",
            {
                "Snapshot.publish(array)": lambda: writer.publish(array),
                "np.copyto into warm memory": lambda: np.copyto(target, array),
                "Snapshot.write(), produced in place": in_place,
            },
            rounds=15,
            number=1,
            targets={"np.copyto into warm memory": 0.8},
        )
        table.record(benchmark)
        benchmark(in_place)


@pytest.mark.parametrize("rows", [1_000, int(GIGABYTES * 6_700_000)])
def test_read_frame(rows, benchmark):
    arrays = {f"c{k}": np.ones(rows) for k in range(20)}
    frame = pd.DataFrame(arrays, copy=False)
    with frame.mojo.share(f"bench-frame-{os.getpid()}") as shared:
        name = shared.name

        def ours():
            return mv.attach(name).read()

        pd.testing.assert_frame_equal(ours(), frame)
        table = compare(
            f"a DataFrame of 20 columns and {rows:,} rows",
            {
                "attach(name).read()": ours,
                "DataFrame(existing arrays, copy=False)": lambda: pd.DataFrame(arrays, copy=False),
            },
            rounds=60,
            targets={"DataFrame(existing arrays, copy=False)": 0.5},
        )
        table.record(benchmark)
        benchmark(ours)
