"""`python -m mojoview bench`: run the benchmarks, which are installed beside the package, and print the ratios."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mojoview
from mojoview.cli.report import add_json_option, print_result, table
from mojoview.memory.errors import MojoViewError

__all__ = ["add_arguments", "describe", "run", "run_benchmarks"]

NEEDED = (
    "pytest",
    "pytest_benchmark",
    "polars",
    "numba",
    "bottleneck",
    "pyarrow",
    "Cython",
    "zmq",
    *(("faster_fifo", "iceoryx2") if sys.platform == "linux" else ()),
)


class BenchmarksMissing(MojoViewError, ImportError):
    """A library that the benchmarks compare with is not installed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("pattern", nargs="?", default="", help="run only benchmarks whose name contains this")
    parser.add_argument("--quick", action="store_true", help="run few rounds, to check results but not speed")
    add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the result and return the exit status."""
    result = run_benchmarks(arguments.pattern, quick=arguments.quick, quiet=arguments.json)
    return print_result(result, describe, json=arguments.json)


def run_benchmarks(pattern: str = "", *, quick: bool = False, quiet: bool = False) -> dict[str, Any]:
    """Run the benchmarks whose names contain `pattern`, all libraries in turns in one process.

    Parameters
    ----------
    pattern : str
        As pytest's ``-k``; all by default.
    quick : bool
        Run a few rounds only, to check results but not speed.
    quiet : bool
        Do not print the tables as they are made.

    Returns
    -------
    dict
        `ok` is true if every benchmark ran with correct results; `benchmarks` holds the measurements, `missed` the
        ratios below their target. A missed target alone is not a failure, since timings are noisy.

    Raises
    ------
    BenchmarksMissing
        The `bench` extra is not installed.
    """
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise BenchmarksMissing(f"not installed: {', '.join(missing)}; pip install 'mojoview[bench]'")
    package = Path(mojoview.__file__).parent
    places = package / "benchmarks", package.parents[1] / "benchmarks"  # installed, editable
    folder = next(path for path in places if path.is_dir())
    with tempfile.TemporaryDirectory(prefix="mojoview-bench-") as work:
        report = Path(work) / "report.json"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-s",
            "-c",
            str(folder / "pytest.ini"),
            str(folder),
            f"--benchmark-json={report}",
            "--benchmark-columns=min,median,rounds",
            f"--rootdir={folder}",
        ]
        command += ["-k", pattern] if pattern else []
        command += ["--benchmark-min-rounds=1", "--benchmark-max-time=0.001"] if quick else []
        environment = os.environ | ({"MOJOVIEW_BENCH_QUICK": "1"} if quick else {}) | {"PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            command,
            env=environment,
            stdout=subprocess.PIPE if quiet else None,
            stderr=subprocess.STDOUT if quiet else None,
            text=True,
            check=False,
        )
        found = json.loads(report.read_text())["benchmarks"] if report.exists() and report.stat().st_size else []
    results = [
        {"name": one["extra_info"]["title"], "peers": one["extra_info"]["peers"]}
        for one in found
        if "title" in one["extra_info"]
    ]
    missed = [
        f"{one['name']}: {peer['peer']} {max(peer['ratio_min'], peer['ratio_median']):.2f}, target {peer['target']:.2f}"
        for one in results
        for peer in one["peers"]
        if peer["reached"] is False
    ]
    return {
        "ok": done.returncode == 0 and bool(results),
        "quick": quick,
        "benchmarks": results,
        "missed": missed,
        "output": (done.stdout or "")[-4000:] if done.returncode else "",
    }


def describe(result: Mapping[str, Any]) -> str:
    rows = [("benchmark", "beside", "takes × ours (minima)", "(medians)", "target")]
    for one in result["benchmarks"]:
        for peer in one["peers"][1:]:
            reached = "reached" if peer["reached"] else "MISSED"
            target = "" if peer["target"] is None else f"≥ {peer['target']:.2f} {reached}"
            rows.append((one["name"], peer["peer"], f"{peer['ratio_min']:.2f}", f"{peer['ratio_median']:.2f}", target))
    notes = [] if not result["quick"] else ["a quick run: the timings are meaningless"]
    notes += [] if result["ok"] else ["a benchmark failed", result["output"]]
    return "\n".join([table(rows, figures=True, indent=""), *notes])
