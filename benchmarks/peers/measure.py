"""Throughput and latency of transports between a child process and this one."""

from __future__ import annotations

import importlib.util
import itertools
import math
import os
import resource
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

from mojoview import Ring
from peers.compare import QUICK, Table
from peers.transport import BATCH, Transport, context

WARM = 200  # round trips before any is timed


def turns(title: str, kinds: list[type[Transport]], rounds: int, measure, targets: dict[str, float]) -> Table:
    """Measure seconds a message, the kinds in turn, so that load affects all of them alike; name missing packages."""
    installed = [kind for kind in kinds if kind.needs is None or importlib.util.find_spec(kind.needs)]
    absent = [kind.name for kind in kinds if kind not in installed]
    if absent:
        title += f" (not installed: {', '.join(absent)})"
    names = [kind.name for kind in installed]
    table = Table(title, {name: [] for name in names}, {n: t for n, t in targets.items() if n in names})
    for _ in range(1 if QUICK else rounds):
        for kind in installed:
            table.rounds[kind.name].append(measure(kind))
    mute = [name for name, times in table.rounds.items() if math.inf in times]
    for name in mute:  # without a figure it must not seem to meet a target
        del table.rounds[name]
        table.targets.pop(name, None)
    if mute:
        table.title += f" (no message arrived: {', '.join(mute)})"
    return table


def throughput(kind: type[Transport], size: int, count: int) -> float:
    """Return seconds a message, from the first received to the last."""
    transport = kind(size)
    transport.open()
    ready, done = context.Event(), context.Event()
    warm = max(kind.step, min(count // 10, BATCH))
    count = max(count // kind.step, 1) * kind.step

    def child():
        send = transport.sender()
        ready.wait(20)
        send(warm)
        send(count)
        done.wait(60)  # some peers drop what they have not delivered when the sender ends

    process = context.Process(target=child)
    process.start()
    receive = transport.receiver()
    ready.set()
    receive(warm)
    begin = time.perf_counter()
    got, last = receive(count) or (count, time.perf_counter())
    done.set()
    end(process)
    transport.close()
    return (last - begin) / got if got else math.inf  # no message in five seconds


def end(process) -> None:
    """Wait for the child to end; kill it if it hangs in its transport."""
    process.join(20)
    if process.is_alive():
        process.kill()
        process.join()


def latency(kind: type[Transport], rounds: int) -> float:
    """Return half a round trip, median, in seconds: one call to send, one to receive, each side on its own core."""
    there, back = kind(64), kind(64)
    there.open(), back.open()
    cores = sorted(os.sched_getaffinity(0))

    def child():
        os.sched_setaffinity(0, cores[-1:])
        post, fetch, message, buffer = back.poster(), there.fetcher(), back.message, bytearray(64)
        for _ in itertools.repeat(None, rounds + WARM):
            if fetch(buffer) is None:
                return
            post(message)

    process = context.Process(target=child)
    process.start()
    os.sched_setaffinity(0, cores[:1])
    fetch = back.fetcher()
    time.sleep(0.3)
    post, message, buffer = there.poster(), there.message, bytearray(64)
    time.sleep(0.1)
    times, now = np.full(rounds + WARM, math.inf), time.perf_counter_ns
    for k in range(rounds + WARM):
        begin = now()
        post(message)
        if fetch(buffer) is None:
            break
        times[k] = now() - begin
    os.sched_setaffinity(0, cores)
    end(process)
    there.close(), back.close()
    return float(np.median(times[WARM:])) / 2e9


def bare_c() -> float | None:
    """Return the latency of the same ring in C, in seconds; None without a compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    here = Path(__file__).parents[1]
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "pingpong"
        subprocess.run(
            [
                compiler,
                "-std=gnu11",
                "-D_GNU_SOURCE",
                "-O2",
                f"-I{here.parent / 'src/mojoview'}",
                str(here / "ring_pingpong.c"),
                "-o",
                str(program),
                "-pthread",
            ],
            check=True,
        )
        return int(subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout) / 1e9


def idle_cpu(seconds: float) -> float:
    """Return the share of a core that a blocked reader uses."""
    with Ring.create() as ring:
        before = resource.getrusage(resource.RUSAGE_SELF)
        ring.read(1, seconds)
        after = resource.getrusage(resource.RUSAGE_SELF)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / seconds
