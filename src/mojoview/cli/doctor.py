"""`python -m mojoview doctor`: print the facts for a bug report, and check that pandas behaves as expected."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import sys
from collections.abc import Mapping
from typing import Any

import mojoview
from mojoview.cli.report import add_json_option, print_result, table

__all__ = ["add_arguments", "describe", "examine", "run"]

PACKAGES = ("numpy", "pandas", "pyarrow", "polars", "mojo-compiler", "cuda-bindings", "Cython")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the result and return the exit status."""
    return print_result(examine(), describe, json=arguments.json)


def examine() -> dict[str, Any]:
    """Return versions, compiler, CPU and build facts, and the self-test of pandas' internals.

    Returns
    -------
    dict
        `ok` is false if the self-test fails: mojoview then uses only public calls of pandas, and is slower.
    """
    from mojoview.frames import self_test
    from mojoview.loading.mojo import compiler

    found = compiler.find_compiler(required=False)
    pandas_test = self_test()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "ok": pandas_test["ok"],
        "mojoview": mojoview.__version__,
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in PACKAGES},
        "compiler": None if found is None else {"path": str(found.path), "version": found.version},
        "cpu": {"name": _cpu_name(), "cores": cores, "features": _cpu_features()},
        "pandas": pandas_test,
        "build": mojoview.build_config(),
    }


def describe(result: Mapping[str, Any]) -> str:
    compiler, cpu = result["compiler"], result["cpu"]
    rows = [("mojoview", result["mojoview"]), ("Python", f"{result['python']} on {result['platform']}")]
    rows += [(name, version or "not installed") for name, version in result["packages"].items()]
    rows.append(
        (
            "Mojo compiler",
            f"{compiler['version']} at {compiler['path']}"
            if compiler
            else "not installed: pip install 'mojoview[mojo]'",
        )
    )
    features = " ".join(cpu["features"]) or "no vector extensions"
    rows.append(("CPU", f"{cpu['name']}, {cpu['cores']} usable cores, {features}"))
    facts = {name: value for name, value in result["pandas"].items() if name != "ok"}
    rows += [(f"pandas: {name.replace('_', ' ')}", str(value)) for name, value in facts.items()]
    rows += [(f"build: {name.replace('_', ' ')}", str(value)) for name, value in result["build"].items()]
    verdict = (
        "pandas internals: as expected"
        if result["ok"]
        else "pandas' internals are not as expected: mojoview uses only public calls"
    )
    return f"{table(rows, indent='')}\n{verdict}"


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cpu_lines() -> dict[str, str]:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            pairs = (line.split(":", 1) for line in file if ":" in line)
            return {key.strip(): value.strip() for key, value in pairs}
    except OSError:
        return {}


def _cpu_name() -> str:
    return _cpu_lines().get("model name") or platform.processor() or platform.machine()


def _cpu_features() -> list[str]:
    """Return the vector extensions that the built-in and Mojo kernels use."""
    flags = set((_cpu_lines().get("flags") or _cpu_lines().get("Features") or "").split())
    return [name for name in ("sse4_2", "avx2", "fma", "avx512f", "avx512bw", "asimd", "sve") if name in flags]
