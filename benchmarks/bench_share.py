"""What it costs to share memory, beside the ways Python has. Run: python benchmarks/bench_share.py [pattern]

Peers take turns in one process, many short rounds each; the smallest time of each counts, and the ratio is what to
quote.
"""

import argparse
import os
import subprocess
import sys
import threading
import time
from multiprocessing import shared_memory

import numpy as np
import pandas as pd

import mojoview as mv

ATTITUDE = np.dtype(
    [("t_sample_ns", "i8"), ("t_recv_ns", "i8"), ("q", "f8", 4), ("w", "f8", 3), ("status", "u4"), ("frame", "u4")]
)


def rounds(calls, seconds=1.5, number=None):
    """Smallest seconds a call of each, the calls taking turns; the smallest cost of an empty loop taken off."""
    best = dict.fromkeys(calls, float("inf"))
    counts = {}
    for name, call in calls.items():
        begin = time.perf_counter()
        call()
        counts[name] = number or max(1, min(20_000, int(0.002 / max(time.perf_counter() - begin, 1e-7))))
    loops = {name: loop(call) for name, call in calls.items()}
    nothing = min(loop(None)(10_000) for _ in range(50)) / 10_000
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, run in loops.items():
            best[name] = min(best[name], run(counts[name]) / counts[name])
    return {name: value - nothing for name, value in best.items()}


def loop(call):
    """A function that makes `n` calls as a program would write them: `owner.method()`, not through a bound method."""
    bound = hasattr(call, "__self__")
    body = "pass" if call is None else f"owner.{call.__name__}()" if bound else "owner()"
    space = {"clock": time.perf_counter, "owner": call.__self__ if bound else call}
    exec(
        f"def run(n, owner=owner):\n"
        f"    span = range(n)\n"
        f"    begin = clock()\n"
        f"    for _ in span: {body}\n"
        f"    return clock() - begin",
        space,
    )
    return space["run"]


def show(question, times, target=None):
    names = list(times)
    print(f"\n{question}")
    for name in names:
        print(f"  {name:<58} {times[name] * 1e9:>16,.1f} ns   {times[name] / times[names[0]]:>10.2f}×")
    if target:
        first, second, wanted, least = target
        ratio = times[second] / times[first] if least else times[first] / times[second]
        met = ratio >= wanted if least else ratio <= wanted
        print(f"  {'met   ' if met else 'MISSED'}: {ratio:.2f}, {'at least' if least else 'at most'} {wanted}")


def state_read(_):
    writer = mv.State.create(None, ATTITUDE)
    reader, moving = writer.reader(), writer.reader()
    writer.publish()
    lock, array = threading.Lock(), np.zeros((), ATTITUDE)
    target = np.zeros((), ATTITUDE)

    def empty():
        pass

    def lock_and_copy():
        with lock:
            return array.copy()

    def publish_and_refresh():
        writer.publish()
        moving.refresh()

    times = rounds(
        {
            "State.refresh(), nothing new": reader.refresh,
            "an empty Python function": empty,
            "Lock + ndarray.copy()": lock_and_copy,
            "State.publish()": writer.publish,
            "publish() and refresh() of something new": publish_and_refresh,
            "State.read_into(array)": lambda: reader.read_into(target),
        }
    )
    show(
        "a State of 80 bytes, read from Python",
        times,
        ("State.refresh(), nothing new", "an empty Python function", 0.7, False),
    )
    show("  beside a lock", times, ("State.refresh(), nothing new", "Lock + ndarray.copy()", 0.1, False))
    new = times["publish() and refresh() of something new"] - times["State.publish()"]
    print(f"  a refresh that copies: about {new * 1e9:,.0f} ns (the difference of two lines above)")
    for state in (reader, moving, writer):
        state.close()


def state_beside_a_writer(_):
    """A writer thread at full speed; readers in this thread take turns with each other, each beside its own writer."""

    def reads_per_second(write, read, seconds=0.4):
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
        rate = count / (time.perf_counter() - begin)
        stop.set()
        thread.join()
        return rate

    writer = mv.State.create(None, ATTITUDE)
    reader = writer.reader()

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

    best = {"State.refresh()": 0.0, "swap of an immutable tuple": 0.0, "Lock + ndarray.copy()": 0.0}
    for _ in range(5):
        for name, pair in {
            "State.refresh()": (writer.publish, reader.refresh),
            "swap of an immutable tuple": (swap, take),
            "Lock + ndarray.copy()": (put_locked, take_locked),
        }.items():
            best[name] = max(best[name], reads_per_second(*pair))
    print("\nreads a second beside a writer thread at full speed")
    for name, rate in best.items():
        print(f"  {name:<40} {rate:>14,.0f}")
    ratio = best["State.refresh()"] / best["swap of an immutable tuple"]
    print(
        f"  {'met   ' if ratio >= 1.3 else 'MISSED'}: {ratio:.2f} times the tuple's, at least 1.3; "
        f"{reader.retries} retries"
    )
    reader.close()
    writer.close()


def attach_array(gigabytes):
    """In a process that has never attached before, as each new worker is, and again and again in one process."""
    array = np.ones(int(gigabytes * (1 << 27)))
    block = shared_memory.SharedMemory(create=True, size=array.nbytes)
    np.ndarray(array.shape, array.dtype, block.buf)[:] = array
    shared = mv.share(array, f"bench-{os.getpid()}")
    ours, theirs = "mojoview.attach(name).read()[-1]", "SharedMemory(name), ndarray, [-1]"
    body = {
        ours: f"h = mv.attach({shared.name!r}); value = float(h.read()[-1])",
        theirs: (
            f"s = shared_memory.SharedMemory({block.name!r})\nvalue = float(np.ndarray({array.shape}, 'f8', s.buf)[-1])"
        ),
    }
    first = dict.fromkeys(body, float("inf"))
    for _ in range(5):
        for name, text in body.items():
            code = (
                f"import time, numpy as np, mojoview as mv, mojoview.sharing\n"
                f"from multiprocessing import shared_memory\n"
                f"begin = time.perf_counter()\n{text}\nprint(time.perf_counter() - begin)\n"
                f"from multiprocessing import resource_tracker\n"  # which would remove the block when this process ends
                f"if 's' in globals(): resource_tracker.unregister(s._name, 'shared_memory')\n"
            )
            done = subprocess.run(
                [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True
            )
            first[name] = min(first[name], float(done.stdout))
    show(
        f"attaching an array of {gigabytes} GB and looking at its last element, first time in a process",
        first,
        (ours, theirs, 5, True),
    )

    def attach():
        return float(mv.attach(shared.name).read()[-1])

    def attach_block():
        other = shared_memory.SharedMemory(block.name)
        value = float(np.ndarray(array.shape, array.dtype, other.buf)[-1])
        other.close()
        return value

    times = rounds({ours: attach, theirs: attach_block}, number=5) | ray_get(array)
    show("  again and again in one process", times)
    if "ray.get(reference)[-1]" in times:
        show("  beside Ray", times, (ours, "ray.get(reference)[-1]", 20, True))
    shared.close()
    if os.path.exists(f"/dev/shm/{block.name}"):  # the tracker of a process that only attached may have removed it
        block.unlink()
    block.close()


def ray_get(array):
    try:
        import ray
    except ImportError:
        print("  (ray is not installed: its row is left out)")
        return {}
    ray.init(log_to_driver=False, include_dashboard=False)
    try:
        reference = ray.put(array)
        return rounds({"ray.get(reference)[-1]": lambda: float(ray.get(reference)[-1])}, number=5)
    finally:
        ray.shutdown()


def publish_array(gigabytes):
    array = np.ones(int(gigabytes * (1 << 27)))
    target = np.empty_like(array)
    writer = mv.Snapshot.create(None, array.shape, array.dtype, prefault=True)

    def in_place():
        with writer.write():
            pass

    def copy():
        np.copyto(target, array)

    for _ in range(4):
        writer.publish(array)
        copy()
    times = rounds(
        {
            "np.copyto into warm memory": copy,
            "Snapshot.publish(array) into a warm slot": lambda: writer.publish(array),
            "Snapshot.write(): produced in place": in_place,
        },
        seconds=8,
        number=1,
    )
    show(f"publishing {gigabytes} GB", times)
    bandwidth = times["np.copyto into warm memory"] / times["Snapshot.publish(array) into a warm slot"]
    print(f"  {'met   ' if bandwidth >= 0.8 else 'MISSED'}: {bandwidth:.2f} of the copy's bandwidth, at least 0.8")
    writer.close()


def read_frame(gigabytes):
    for rows in (1_000, int(gigabytes * 6_700_000)):
        arrays = {f"c{k}": np.ones(rows) for k in range(20)}
        shared = pd.DataFrame(arrays, copy=False).mojo.share(f"bench-frame-{os.getpid()}")

        def ours(name=shared.name):
            return mv.attach(name).read()

        def build(arrays=arrays):
            return pd.DataFrame(arrays, copy=False)

        times = rounds({"attach(name).read()": ours, "DataFrame(existing arrays, copy=False)": build})
        show(
            f"a DataFrame of 20 columns and {rows:,} rows",
            times,
            ("attach(name).read()", "DataFrame(existing arrays, copy=False)", 2.0, False),
        )
        shared.close()


BENCHMARKS = (state_read, state_beside_a_writer, attach_array, publish_array, read_frame)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pattern", nargs="?", default="")
    parser.add_argument("--gigabytes", type=float, default=1.0)
    options = parser.parse_args()
    for benchmark in BENCHMARKS:
        if options.pattern in benchmark.__name__:
            benchmark(options.gigabytes)


if __name__ == "__main__":
    main()
