"""The long run of the lock-free cores: a torn-read detector and kills at every named point.

Compiles the C tests of the package, then runs them with as many reads and kills as asked for; the tests of the suite
are the same with fewer. Run it as `python benchmarks/stress.py`. Ends with status 1 at the first torn read, step back
or lost publication.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import mojoview

ROOT = Path(__file__).parents[1]
SHARING = Path(mojoview.__file__).parent / "sharing"
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
        f"-I{SHARING}",
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reads", type=float, default=1e9)
    parser.add_argument("--kills", type=int, default=1000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        latch, slots = build(Path(place), "latch_test"), build(Path(place), "slots_test")
        reads = kills = worst = 0
        for size, slots, readers, mode, pause, share in READS:
            reads += run(latch, "stress", size, slots, int(options.reads * share), readers, mode, pause)["reads"]
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
        print(f"{reads:,} reads, 0 torn, 0 backwards; {kills} kills, slowest takeover {worst} ns")


if __name__ == "__main__":
    main()
