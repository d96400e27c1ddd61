"""Measure calls side by side: in turns in one process, so that load and clock speed affect all of them alike."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

__all__ = ["QUICK", "Table", "compare"]

# A quick run checks that everything works; its figures mean nothing.
QUICK = bool(os.environ.get("MOJOVIEW_BENCH_QUICK"))


@dataclass
class Table:
    """Seconds a call, for every peer and round, with ratios to the first peer."""

    title: str
    rounds: dict[str, list[float]] = field(default_factory=dict)
    #: least ratio of each peer's time to the first one's
    targets: dict[str, float] = field(default_factory=dict)

    @property
    def base(self) -> str:
        return next(iter(self.rounds))

    def best(self, name: str) -> float:
        return min(self.rounds[name])

    def ratio(self, name: str) -> tuple[float, float]:
        """Return the ratio of the time of `name` to the first peer's: by minima, and the median over the rounds."""
        first = self.rounds[self.base]
        return self.best(name) / self.best(self.base), median(
            t / f for t, f in zip(self.rounds[name], first, strict=True)
        )

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "peer": name,
                "min_s": self.best(name),
                "median_s": median(times),
                "ratio_min": self.ratio(name)[0],
                "ratio_median": self.ratio(name)[1],
                "target": self.targets.get(name),
                "reached": None if name not in self.targets else max(self.ratio(name)) >= self.targets[name],
            }
            for name, times in self.rounds.items()
        ]

    def record(self, benchmark: Any) -> None:
        """Add the figures to the report of pytest-benchmark."""
        benchmark.extra_info.update(title=self.title, peers=self.rows())

    def __str__(self) -> str:
        wide = max(map(len, self.rounds))
        lines = [self.title, f"  {'':{wide}}  {'min':>10}  {'median':>10}  {'x min':>6}  {'x median':>8}"]
        for row in self.rows():
            lines.append(
                f"  {row['peer']:{wide}}  {_time(row['min_s'])}  {_time(row['median_s'])}"
                f"  {row['ratio_min']:6.2f}  {row['ratio_median']:8.2f}"
                + ("" if row["target"] is None else f"  {'reached' if row['reached'] else 'MISSED'}: {row['target']:g}")
            )
        return "\n".join(lines)


def _time(seconds: float) -> str:
    unit, scale = ("ns", 1e9) if seconds < 1e-6 else ("µs", 1e6) if seconds < 1e-3 else ("ms", 1e3)
    return f"{seconds * scale:7.2f} {unit}"


def _timer(call: Callable[[], Any], number: int) -> Callable[[], float]:
    """Return a function that measures seconds a call, over `number` calls, unrolled by ten to hide the loop."""
    if number < 10:

        def once() -> float:
            start = time.perf_counter()
            for _ in range(number):
                call()
            return (time.perf_counter() - start) / number

        return once
    names = {f"_{k}": value for k, value in enumerate(getattr(call, "args", ()))} | {
        "_call": getattr(call, "func", call),
        "_now": time.perf_counter,
    }
    source = f"_call({', '.join(k for k in names if k[1:].isdigit())})"
    scope: dict[str, Any] = names
    exec(
        f"def timed():\n start = _now()\n for _ in range({number // 10}):\n  "
        + "; ".join([source] * 10)
        + f"\n return (_now() - start) / {number // 10 * 10}",
        scope,
    )
    timed: Callable[[], float] = scope["timed"]
    return timed


def _turns(call: Callable[[], Any]) -> int:
    """Return how many calls take about a millisecond."""
    call()
    start = time.perf_counter()
    call()
    return max(1, min(1000, int(1e-3 / max(1e-9, time.perf_counter() - start))))


def compare(
    title: str,
    peers: dict[str, Callable[[], Any]],
    *,
    rounds: int = 30,
    number: int | None = None,
    targets: dict[str, float] | None = None,
) -> Table:
    """Call the peers in turn, `rounds` times, `number` calls a turn, by default for about a millisecond.

    `targets` has the wanted least ratio of a peer's time to the first one's, by minima or medians. For calls of
    nanoseconds pass `functools.partial(function, *args)`: its function is then called directly.
    """
    if QUICK:
        rounds, number = 2, 1
    timers = {name: _timer(call, number or _turns(call)) for name, call in peers.items()}
    for timer in timers.values():
        timer()  # compilers, caches, pools
    table = Table(title, {name: [] for name in timers}, targets or {})
    for _ in range(rounds):
        for name, timer in timers.items():
            table.rounds[name].append(timer())
    print(f"\n{table}")
    return table
