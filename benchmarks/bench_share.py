"""What it costs to share memory, beside the ways Python has.

MOJOVIEW_BENCH_GIGABYTES is the size of the large arrays, 1 by default.
"""

from __future__ import annotations

import importlib.util
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


def test_state_read(benchmark):
    with mv.State.create(None, ATTITUDE) as writer:
        reader, other = writer.reader(), mv.State.create(None, ATTITUDE)
        again = other.reader()
        lock, array, target = threading.Lock(), np.zeros((), ATTITUDE), np.zeros((), ATTITUDE)
        writer.out["status"] = 7
        writer.publish()

        def lock_and_copy():
            with lock:
                return array.copy()

        other.publish()
        assert again.refresh() == 1
        assert reader.refresh() == 1
        assert reader.out["status"] == 7
        assert reader.read_into(target) == 1
        assert target == reader.out
        space = {
            "reader": reader,
            "other": other,
            "again": again,
            "target": target,
            "empty": empty,
            "lock_and_copy": lock_and_copy,
        }
        table = written_out(
            "a State of 80 bytes, read from Python",
            {
                "State.refresh(), nothing new": "reader.refresh()",
                "State.read_into(array)": "reader.read_into(target)",
                "State.read()": "reader.read()",
                "publish(), then refresh() of something new": "other.publish(); again.refresh()",
                "publish()": "other.publish()",
                "an empty Python function": "empty()",
                "Lock + ndarray.copy()": "lock_and_copy()",
            },
            space,
            {"an empty Python function": 1 / 0.7, "Lock + ndarray.copy()": 10},
        )
        table.record(benchmark)
        benchmark(reader.refresh)
        for state in (again, other, reader):
            state.close()


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


OURS, THEIRS = "mojoview.attach(name).read()[-1]", "SharedMemory(name), ndarray, [-1]"


def test_attach_first_time(blocks, benchmark):
    """In a process that has never attached before, as each new worker is."""
    array, shared, block = blocks
    body = {
        OURS: f"h = mv.attach({shared.name!r}); value = float(h.read()[-1])",
        THEIRS: (
            f"s = shared_memory.SharedMemory({block.name!r})\nvalue = float(np.ndarray({array.shape}, 'f8', s.buf)[-1])"
        ),
    }
    table = Table(f"attaching {GIGABYTES:g} GB, first time in a process", {name: [] for name in body}, {THEIRS: 5})
    for _ in range(1 if QUICK else 7):
        for name, text in body.items():
            code = (
                f"import time, numpy as np, mojoview as mv, mojoview.sharing\n"
                f"from multiprocessing import shared_memory\n"
                f"begin = time.perf_counter()\n{text}\nprint(value, time.perf_counter() - begin)\n"
                f"from multiprocessing import resource_tracker\n"  # which would remove the block when this process ends
                f"if 's' in globals(): resource_tracker.unregister(s._name, 'shared_memory')\n"
            )
            command = [sys.executable, "-W", "ignore", "-c", code]
            said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
            assert said[0] == "1.0"
            table.rounds[name].append(float(said[1]))
    print(f"\n{table}")
    table.record(benchmark)
    benchmark(mv.attach, shared.name)


def test_attach_again(blocks, benchmark):
    array, shared, block = blocks

    def attach():
        return float(mv.attach(shared.name).read()[-1])

    def attach_block():
        other = shared_memory.SharedMemory(block.name)
        value = float(np.ndarray(array.shape, array.dtype, other.buf)[-1])
        other.close()
        return value

    assert attach() == attach_block() == 1.0
    title, calls, targets = f"attaching {GIGABYTES:g} GB again and again", {OURS: attach, THEIRS: attach_block}, {}
    ray = None
    if importlib.util.find_spec("ray") is None:
        title += " (not installed: ray)"
    elif not QUICK:  # its start takes longer than everything else here
        import ray

        ray.init(log_to_driver=False, include_dashboard=False)
        reference = ray.put(array)
        calls["ray.get(reference)[-1]"] = lambda: float(ray.get(reference)[-1])
        targets = {"ray.get(reference)[-1]": 20}
    try:
        table = compare(title, calls, rounds=60, number=20, targets=targets)
    finally:
        if ray is not None:
            ray.shutdown()
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
