"""The long run of the lock-free cores: a torn-read detector and kills at every named point.

Compiles the C tests of the package, then runs them with as many reads and kills as asked for; the tests of the suite
are the same with fewer. Afterwards processes read a shared DataFrame while another publishes at full speed. Run it as
`python benchmarks/stress.py`. Ends with status 1 at the first torn read, step back or lost publication.
"""

import argparse
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

import mojoview

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "mojoview"
LATCH = ["before_mark", "after_mark", "mid_payload", "after_payload", "before_latest", "after_latest"]
SLOTS = ["after_mark", "mid_payload", "before_mark", "before_map", "after_map"]
# bytes, slots, readers, mode, pauses, share of the reads
READS = [
    (80, 8, 2, "threads", 0, 0.45),
    (80, 8, 2, "processes", 0, 0.35),
    (8, 2, 2, "threads", 0, 0.1),
    (1021, 8, 2, "processes", 1, 0.02),
    (4096, 8, 2, "threads", 0, 0.01),
    (37, 8, 2, "stopped", 0, 0.07),
]


def build(place, name):
    program = place / name
    command = [
        "gcc",
        "-std=gnu11",
        "-O2",
        f"-I{PACKAGE}",
        str(ROOT / "tests" / "native" / f"{name}.c"),
        "-o",
        str(program),
        "-pthread",
    ]
    subprocess.run(command, check=True)
    return program


def run(program, *arguments, prefix=()):
    begin = time.perf_counter()
    done = subprocess.run([*prefix, program, *map(str, arguments)], capture_output=True, text=True)
    said = f"{' '.join(map(str, arguments)):<48} {done.stdout.strip()} {done.stderr.strip()}"
    print(f"{time.perf_counter() - begin:8.1f} s  {said}", flush=True)
    if done.returncode:
        sys.exit(1)
    return {name: int(value) for name, value in re.findall(r"(\w+) (\d+)", done.stdout)}


def publish_frames(name, ready, done):
    """Publish frames until the readers have finished; every value of a frame is its number."""
    number = 0
    with pd.DataFrame({"a": [0.0] * 64, "b": [0] * 64}).mojo.share(name) as shared:
        ready.set()
        while not done.is_set():
            number += 1
            shared.publish(pd.DataFrame({"a": np.full(64, float(number)), "b": np.full(64, number)}))
    print(f"{'':10}  published {number:,} frames", flush=True)


def read_frames(name, count):
    """Read `count` times; end with status 1 at a frame of two publications or an older one than before."""
    seen = 0
    with mojoview.attach(name) as reader:
        for _ in range(count):
            frame = reader.read()
            a, b = frame["a"].to_numpy(), frame["b"].to_numpy()
            number = int(b[0])
            if not ((a == number).all() and (b == number).all() and number >= seen):
                sys.exit(f"torn or older: {a} {b} after {seen}")
            seen = number


def stress_frames(count, readers=2):
    """Let processes read a SharedFrame `count` times in all under a writer at full speed."""
    context = multiprocessing.get_context("spawn")
    name, ready, done = f"stress-{os.getpid()}", context.Event(), context.Event()
    writer = context.Process(target=publish_frames, args=(name, ready, done))
    writer.start()
    if not ready.wait(60):
        sys.exit("the writer of frames did not start")
    begin = time.perf_counter()
    processes = [context.Process(target=read_frames, args=(name, -(-count // readers))) for _ in range(readers)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    done.set()
    writer.join()
    print(f"{time.perf_counter() - begin:8.1f} s  {readers} processes read {count:,} shared frames", flush=True)
    if any(process.exitcode for process in (*processes, writer)):
        sys.exit(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reads", type=float, default=1e9)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--frames", type=float, default=1e6)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        latch, slots = build(Path(place), "latch_test"), build(Path(place), "slots_test")
        reads = kills = worst = 0
        for size, slot_count, readers, mode, pause, share in READS:
            reads += run(latch, "stress", size, slot_count, int(options.reads * share), readers, mode, pause)["reads"]
        if shutil.which("taskset"):
            reads += run(
                latch, "stress", 80, 8, int(options.reads * 0.001), 2, "processes", 1, prefix=("taskset", "-c", "0")
            )["reads"]
        run(slots, "stress", 3, 2, int(options.reads * 0.0005), "processes")
        each = -(-options.kills // (len(LATCH) + len(SLOTS)))
        for program, points in (
            (latch, [f"latch.{point}" for point in LATCH]),
            (slots, [f"slots.{point}" for point in SLOTS]),
        ):
            for point in points:
                done = run(program, "kill", point, each, *([96] if program == latch else []))
                kills, worst = kills + done["kills"], max(worst, done["takeover"])
        stress_frames(int(options.frames))
        print(
            f"{reads:,} reads of records, {int(options.frames):,} of frames, 0 torn, 0 backwards; "
            f"{kills} kills, slowest takeover {worst} ns"
        )


if __name__ == "__main__":
    main()
