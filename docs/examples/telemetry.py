"""A spacecraft's telemetry bus, in three processes.

One writes 50,000 frames a second on three channels, one monitors them live, and one records them, is killed and
restarted. Afterwards the recording is analysed in pandas.

    python telemetry.py [SECONDS]
"""

import multiprocessing
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from mojoview import Ring
from mojoview.memory.errors import SegmentNotFound

# A channel is a frame type with its own record and rate; a tick is a millisecond.
CHANNELS = {
    "attitude": (16, np.dtype([("t", "f8"), ("q", "f8", (4,)), ("rate", "f8", (3,))]), 40),
    "power": (17, np.dtype([("t", "f8"), ("volts", "f4"), ("amps", "f4")]), 8),
    "thermal": (18, np.dtype([("t", "f8"), ("kelvin", "f4", (6,))]), 2),
}


def attach(name: str, **options) -> Ring:
    for _ in range(5000):
        try:
            return Ring.attach(name, **options)
        except SegmentNotFound:
            time.sleep(0.001)
    raise TimeoutError(f"the bus {name!r} did not appear")


def fly(name: str, seconds: float) -> None:
    """Run the bus: compute samples in advance, then send them tick by tick, each frame in a write of its own."""
    rng = np.random.default_rng(1)
    flight = [frames_of_a_tick(tick / 1000, rng) for tick in range(int(seconds * 1000))]
    with Ring.create(name, 1 << 24, "broadcast", crc=True) as ring:
        ring.wait_for_reader(10)
        begin, sent, late = time.perf_counter(), 0, 0.0
        for tick, messages in enumerate(flight):
            ahead = begin + tick / 1000 - time.perf_counter()
            if ahead > 0:
                time.sleep(ahead)
            late = max(late, -ahead)
            for kind, message in messages:
                ring.write(message, type=kind)
            sent += len(messages)
        elapsed = time.perf_counter() - begin
        print(
            f"bus       {sent} frames in {elapsed:.2f} s = {sent / elapsed:,.0f} a second; "
            f"latest tick {late * 1e3:.1f} ms behind",
            flush=True,
        )


def frames_of_a_tick(t: float, rng: np.random.Generator) -> list[tuple[int, bytes]]:
    messages = []
    for kind, dtype, count in CHANNELS.values():
        rows = np.zeros(count, dtype)
        rows["t"] = t + np.arange(count) / count / 1000
        if kind == 16:
            half = 0.01 * rows["t"][:, None]
            rows["q"] = np.concatenate([np.cos(half), np.sin(half), 0 * half, 0 * half], axis=1)
            rows["rate"] = rng.normal(0, 1e-4, (count, 3))
        elif kind == 17:
            rows["volts"], rows["amps"] = 28 + rng.normal(0, 0.05, count), 3 + np.sin(t)
        else:
            rows["kelvin"] = 290 + rng.normal(0, 0.2, (count, 6))
        messages += [(kind, row.tobytes()) for row in rows]
    return messages


def watch(name: str) -> None:
    """Run the monitor: measure the age of each batch when it arrives, and count missed frames."""
    ages, frames = [], 0
    with attach(name) as ring:
        while not ring.ended:
            batch = ring.read(4096, 0.5)
            if batch:
                ages.append((time.monotonic_ns() - int(batch.headers["timestamp_ns"][-1])) / 1000)
                frames += len(batch)
        p50, p99 = np.percentile(ages, [50, 99])
        print(
            f"monitor   {frames} frames in {len(ages)} batches, missed {ring.lost}; "
            f"latency p50 {p50:.0f} us, p99 {p99:.0f} us",
            flush=True,
        )


def record(name: str, path: str) -> None:
    """Run the recorder; after a restart continue with the frame after the last recorded one."""
    file = Path(path)
    with (
        attach(name) as bus,
        Ring.attach(file) if file.exists() else Ring.create(file, 1 << 27, "recorder", crc=True) as recording,
    ):
        following = recording.resume()
        if recording.stats()["written"]:
            bus.seek(following)
        while not bus.ended:
            for frame in bus.read(4096, 0.5):
                recording.append(frame)
        print(
            f"recorder  process {os.getpid()} ended with the bus; missed {bus.lost} frames since its restart",
            flush=True,
        )


def analyse(path: str) -> dict[str, pd.DataFrame]:
    parts: dict[int, list[bytes]] = {}
    with Ring.attach(path, broken="skip") as recording:
        frames = 0
        while batch := recording.read(4096, 0):
            for frame in batch:
                parts.setdefault(frame.type, []).append(bytes(frame))
            frames += len(batch)
        print(f"recording {frames} frames, {recording.lost} missing, {recording.breaks} broken")
    tables = {}
    for channel, (kind, dtype, rate) in CHANNELS.items():
        records = np.frombuffer(b"".join(parts.get(kind, [])), dtype)
        table = pd.DataFrame({field: records[field] for field in dtype.names if records[field].ndim == 1})
        tables[channel] = table.assign(
            **{
                f"{field}_{k}": records[field][:, k]
                for field in dtype.names
                if records[field].ndim == 2
                for k in range(records[field].shape[1])
            }
        )
        print(f"{channel:9s} {len(table)} samples at {rate} kHz, gaps over 1 ms: {(table['t'].diff() > 0.0011).sum()}")
    return tables


def main(seconds: float = 6) -> dict[str, pd.DataFrame]:
    context = multiprocessing.get_context("spawn")
    name = f"telemetry-{os.getpid()}"
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "flight.ring")
        bus = context.Process(target=fly, args=(name, seconds))
        monitor = context.Process(target=watch, args=(name,))
        recorder = context.Process(target=record, args=(name, path))
        for process in (bus, monitor, recorder):
            process.start()
        while not os.path.exists(path):
            time.sleep(0.01)
        time.sleep(seconds / 3)
        os.kill(recorder.pid, signal.SIGKILL)
        recorder.join()
        print(f"recorder  process {recorder.pid} was killed", flush=True)
        again = context.Process(target=record, args=(name, path))
        again.start()
        for process in (bus, monitor, again):
            process.join()
        tables = analyse(path)
    print(tables["power"][["volts", "amps"]].describe().loc[["mean", "std", "min", "max"]].round(3).to_string())
    return tables


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 6)
