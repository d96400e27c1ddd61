"""An attitude estimator, two controllers and a logger, each a process of its own, share one State.

Quaternion, angular velocity and times are one publication: a controller never computes with the quaternion of one
instant and the rates of another. Each process checks that on every record it reads, and the run ends with what they
found.

    python docs/examples/attitude.py [seconds]
"""

import multiprocessing
import sys
import time

import numpy as np

import mojoview as mv
from mojoview.memory.errors import OwnerGone

ATTITUDE = np.dtype(
    [
        ("t_sample_ns", "i8"),
        ("t_recv_ns", "i8"),
        ("q", "f8", 4),
        ("w", "f8", 3),
        ("status", "u4"),
        ("frame", "u4"),
    ]
)


def estimator(writer: mv.State, seconds: float) -> None:
    """Rotates about a fixed axis; every field follows from the frame's number, which is what the others check."""
    end = time.monotonic() + seconds
    record, frame = writer.out, 0
    while time.monotonic() < end:
        frame = (frame + 1) % 2**32
        half = frame * 1e-4
        record["t_sample_ns"] = record["t_recv_ns"] = frame * 1000
        record["q"] = np.cos(half), 0.0, 0.0, np.sin(half)
        record["w"] = 0.0, 0.0, half
        record["frame"] = record["status"] = frame
        writer.publish()


def consistent(record: np.ndarray) -> bool:
    """Whether all fields are of one publication, and the quaternion is a rotation."""
    frame, half = int(record["frame"]), int(record["frame"]) * 1e-4
    return (
        int(record["status"]) == frame
        and int(record["t_sample_ns"]) == int(record["t_recv_ns"]) == frame * 1000
        and record["w"][2] == half
        and record["q"][0] == np.cos(half)
        and abs(float(record["q"] @ record["q"]) - 1.0) < 1e-12
    )


def controller(reader: mv.State, gain: float, start, report) -> None:
    """Takes the newest attitude whenever its own loop comes round, and computes a torque."""
    reads = wrong = last = 0
    start.wait(60)
    while reader.writer_alive():
        number = reader.refresh()
        if number:
            torque = -gain * reader.out["q"][1:] - 0.1 * gain * reader.out["w"]
            wrong += not consistent(reader.out) or number < last or not np.isfinite(torque).all()
            reads, last = reads + 1, number
    report.put((f"controller, gain {gain}", reads, wrong))


def logger(reader: mv.State, start, report) -> None:
    """Sleeps until something new comes; sees as much of it as it can keep up with."""
    reads = wrong = 0
    start.wait(60)
    try:
        while True:
            reader.wait_newer(timeout=10)
            wrong += not consistent(reader.out)
            reads += 1
    except OwnerGone:
        report.put(("logger", reads, wrong))


def main(seconds: float = 1.0) -> int:
    context = multiprocessing.get_context("spawn")
    report, start = context.Queue(), context.Barrier(4)
    with mv.State.create(None, ATTITUDE) as state:
        workers = [
            context.Process(target=controller, args=(state, 1.0, start, report)),
            context.Process(target=controller, args=(state, 5.0, start, report)),
            context.Process(target=logger, args=(state, start, report)),
        ]
        for worker in workers:
            worker.start()
        start.wait(60)  # everybody is there
        estimator(state, seconds)
        published = state.number
    results = [report.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join()
    print(f"{published} publications of {ATTITUDE.itemsize} bytes")
    for name, reads, wrong in sorted(results):
        print(f"{name}: {reads} reads, {wrong} inconsistent")
    return sum(wrong for _, _, wrong in results) + any(reads == 0 for _, reads, _ in results)


if __name__ == "__main__":
    sys.exit(main(*map(float, sys.argv[1:])))
