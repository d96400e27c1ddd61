"""`python -m mojoview ring`: show rings, record them, replay, check, export and plot recordings."""

from __future__ import annotations

import argparse
import itertools
import os
import pathlib
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from mojoview.cli.report import print_result, table
from mojoview.memory.errors import ArgumentError, BrokenFrame, SegmentError
from mojoview.sharing.ring.ring import Ring

__all__ = ["add_arguments", "run"]


def add_arguments(ring: argparse.ArgumentParser) -> None:
    """Add the arguments of the actions of `ring`."""
    actions = ring.add_subparsers(dest="action", required=True, metavar="ACTION")

    def action(name: str, help: str, *, output: str | None = None) -> argparse.ArgumentParser:
        command = actions.add_parser(name, help=help)
        command.add_argument("ring", help="a ring's name or a recording's file")
        if output is not None:
            command.add_argument("output", help=output)
        command.add_argument("--owner", type=int, help="user id of a recording of another user")
        command.add_argument("--json", action="store_true", help="print the result as JSON")
        return command

    top = action("top", "rates, occupancy and latency, live")
    top.add_argument("--interval", type=float, default=1.0, help="seconds between samples")
    top.add_argument("--count", type=int, help="number of samples; no limit if absent")
    tail = action("tail", "print frames as they arrive")
    tail.add_argument("-n", "--count", type=int, help="number of frames; no limit if absent")
    tail.add_argument("--oldest", action="store_true", help="start with the oldest available frame")
    record = action(
        "record",
        "copy a ring into a recording; continues where an earlier run stopped",
        output="the recording's file",
    )
    record.add_argument("--capacity", type=int, default=1 << 26, help="bytes of a new recording, a power of two")
    record.add_argument("--seconds", type=float, help="end after this time")
    replay = action("replay", "write a recording into a new ring, at its own pace", output="name of the ring")
    replay.add_argument("--speed", type=float, default=1.0, help="1 = as recorded, 0 = as fast as possible")
    action(
        "check",
        "validate every frame of a recording, or of a ring without consuming; exit status 1 if one is broken",
    )
    action("export", "a recording as Parquet or CSV", output="*.parquet or *.csv")
    action(
        "histogram",
        "plot the times between a recording's frames (needs the plot extra)",
        output="*.png, *.svg or *.pdf",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run one action and return the exit status."""
    actions = {
        "top": top,
        "tail": tail,
        "record": record,
        "replay": replay,
        "check": check,
        "export": export,
        "histogram": histogram,
    }
    result = actions[arguments.action](arguments)
    return 0 if result is None else print_result(result, describe, json=arguments.json)


def describe(result: Mapping[str, Any]) -> str:
    return table([(name.replace("_", " "), str(value)) for name, value in result.items() if name != "ok"], indent="")


def attach(name: str, **options: Any) -> Ring:
    """Attach as an observer: nothing is consumed from a lossless ring."""
    path = pathlib.Path(name)
    return Ring.attach(
        path.absolute() if path.is_file() else name,
        observe=True,
        broken=options.pop("broken", "skip"),
        wait_for_peer=True,
        **options,
    )


def frames_of(ring: Ring, seconds: float | None = None, follow: bool = True) -> Iterator[Any]:
    """Yield frames until the ring ends; without `follow`, only those available now."""
    deadline = None if seconds is None else time.monotonic() + seconds
    while True:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        batch = ring.read(1024, (0.2 if left is None else min(0.2, left)) if follow else 0)
        yield from batch
        if not batch and (ring.ended or not follow or left == 0.0):
            return


def top(arguments: argparse.Namespace) -> None:
    with attach(arguments.ring, owner=arguments.owner, start="newest") as ring:
        rounds = itertools.count() if arguments.count is None else range(arguments.count)
        samples = (sample for _, sample in zip(rounds, measure(ring, arguments.interval), strict=False))
        if arguments.json:
            for sample in samples:
                print_result({"ok": True, **sample}, describe, json=True)
            return
        if not _has_rich():
            for sample in samples:
                print(describe(sample), end="\n\n", flush=True)
            return
        from rich.live import Live
        from rich.table import Table

        with Live(refresh_per_second=4) as screen:
            for sample in samples:
                page = Table(title=f"ring {arguments.ring} ({ring.mode})", show_header=False)
                for label, value in sample.items():
                    page.add_row(label.replace("_", " "), str(value))
                screen.update(page, refresh=True)


def measure(ring: Ring, interval: float) -> Iterator[dict[str, Any]]:
    """Yield rates per interval, and the age of frames when this process read them."""
    before, then = ring.stats(), time.monotonic()
    while True:
        ages: list[int] = []
        end = then + interval
        while (left := end - time.monotonic()) > 0:
            batch = ring.read(4096, left)
            if batch:
                now = time.monotonic_ns()
                ages.append(now - int(batch.headers["timestamp_ns"][-1]))
            elif ring.ended:
                return
        after, now_s = ring.stats(), time.monotonic()
        elapsed = now_s - then
        latency = np.percentile(ages, [50, 99]) / 1000 if ages else None
        yield {
            "frames_per_s": round((after["written"] - before["written"]) / elapsed),
            "mb_per_s": round((after["bytes"] - before["bytes"]) / elapsed / 1e6, 2),
            "used": f"{after['used'] / after['capacity']:.0%}",
            "age_p50_us": "-" if latency is None else round(latency[0], 1),
            "age_p99_us": "-" if latency is None else round(latency[1], 1),
            **{
                name: after[name]
                for name in ("written", "dropped", "broken", "crc_errors", "unblocked", "producer", "consumer")
            },
            "missed_by_this_view": ring.lost,
        }
        before, then = after, now_s


def tail(arguments: argparse.Namespace) -> None:
    with attach(arguments.ring, owner=arguments.owner, start="oldest" if arguments.oldest else "newest") as ring:
        for frame in itertools.islice(frames_of(ring), arguments.count):
            fields = {"seq": frame.seq, "timestamp_ns": frame.timestamp_ns, "type": frame.type, "nbytes": frame.nbytes}
            shown = np.frombuffer(frame, ring.dtype).tolist() if ring.dtype is not None else bytes(frame)[:32].hex(" ")
            if arguments.json:
                print_result({"ok": True, **fields, "data": shown}, describe, json=True)
            else:
                print(
                    *(f"{value:>{width}}" for value, width in zip(fields.values(), (12, 18, 4, 8), strict=True)),
                    shown,
                    flush=True,
                )


def check(arguments: argparse.Namespace) -> dict[str, Any]:
    with attach(arguments.ring, owner=arguments.owner, start="oldest") as ring:
        frames = payload = 0
        first = last = None
        for frame in frames_of(ring, follow=False):
            frames += 1
            payload += frame.nbytes
            first = frame.seq if first is None else first
            last = frame.seq
        broken: list[BrokenFrame] = list(ring.broken)
        return {
            "ok": not ring.breaks,
            "frames": frames,
            "bytes": payload,
            "first": first,
            "last": last,
            "missing": ring.lost,
            "broken": ring.breaks,
            "first_break": str(broken[0]) if broken else None,
            "incomplete": ring.abandoned,
        }


def record(arguments: argparse.Namespace) -> dict[str, Any]:
    """Record with the source's numbers and times: missed frames are gaps, also while no recorder ran."""
    target = pathlib.Path(arguments.output).absolute()
    with (
        attach(arguments.ring, owner=arguments.owner, start="newest") as source,
        open_recording(target, source, arguments.capacity) as recording,
    ):
        following = recording.resume()
        if recording.stats()["written"] and source.mode != "mpsc":
            source.seek(following)
        written = 0
        try:
            for frame in frames_of(source, arguments.seconds):
                recording.append(frame)
                written += 1
        except KeyboardInterrupt:
            recording.flush()
        return {"ok": True, "recording": str(target), "frames": written, "missed": source.lost, "broken": source.breaks}


def open_recording(path: pathlib.Path, source: Ring, capacity: int) -> Ring:
    if path.exists():
        ring = Ring.attach(path)
        if ring.dtype != source.dtype:
            ring.close()
            raise ArgumentError(f"record: {path} holds records of {ring.dtype}, the ring {source.dtype}")
        return ring
    return Ring.create(path, capacity, "recorder", dtype=source.dtype, crc=True)


def replay(arguments: argparse.Namespace) -> dict[str, Any]:
    if not arguments.speed >= 0:
        raise ArgumentError(f"replay: --speed {arguments.speed}: expected 0 or more")
    with (
        attach(arguments.ring, owner=arguments.owner, start="oldest") as source,
        Ring.create(arguments.output, source.capacity, "broadcast", dtype=source.dtype, crc=True) as target,
    ):
        target.wait_for_reader(5.0)
        begin = first = None
        frames = 0
        for frame in frames_of(source, follow=False):
            if begin is None or first is None:
                begin, first = time.monotonic_ns(), frame.timestamp_ns
            if arguments.speed:
                due = begin + (frame.timestamp_ns - first) / arguments.speed
                if (ahead := due - time.monotonic_ns()) > 0:
                    time.sleep(ahead / 1e9)
            target.write(frame, type=frame.type)
            frames += 1
        seconds = 0.0 if begin is None else (time.monotonic_ns() - begin) / 1e9
        return {
            "ok": True,
            "ring": arguments.output,
            "frames": frames,
            "seconds": round(seconds, 3),
            "broken": source.breaks,
        }


def export(arguments: argparse.Namespace) -> dict[str, Any]:
    from mojoview.frames.shared.records import write_table

    with attach(arguments.ring, owner=arguments.owner, start="oldest") as ring:
        rows = write_table(arguments.output, ring.dtype, frames_of(ring, follow=False))
        return {"ok": True, "output": arguments.output, "rows": rows, "broken": ring.breaks}


def histogram(arguments: argparse.Namespace) -> dict[str, Any]:
    """Plot times between frames; frames with one timestamp were written together and count once."""
    from mojoview.cli.plots import plot_histogram

    with attach(arguments.ring, owner=arguments.owner, start="oldest") as ring:
        stamps = np.unique(np.fromiter((frame.timestamp_ns for frame in frames_of(ring, follow=False)), "u8"))
    if len(stamps) < 2:
        raise SegmentError(f"histogram: {arguments.ring} has fewer than two timestamps")
    gaps = np.diff(stamps) / 1000
    plot_histogram(arguments.output, gaps, "time between frames, microseconds", os.path.basename(arguments.ring))
    p50, p99, most = np.percentile(gaps, [50, 99, 100])
    return {
        "ok": True,
        "output": arguments.output,
        "frames": len(stamps),
        "p50_us": round(p50, 2),
        "p99_us": round(p99, 2),
        "max_us": round(most, 2),
    }


def _has_rich() -> bool:
    if not sys.stdout.isatty():
        return False
    try:
        import rich  # noqa: F401
    except ImportError:
        return False
    return True
