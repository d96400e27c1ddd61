"""`python -m mojoview compile FILE -o OUT`: compile a Mojo file to a library for machines without a compiler."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mojoview.cli.report import add_json_option, print_result, table

__all__ = ["add_arguments", "compile_file", "describe", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("file", help="a .mojo file, or a package: a directory with an __init__.mojo")
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="OUT",
        help="the library to write; OUT.json beside it holds the signatures",
    )
    parser.add_argument(
        "--target-cpu",
        metavar="CPU",
        help="the least CPU it has to run on, for example x86-64-v3,"
        " neoverse-n1 or native; by default the least of the architecture",
    )
    parser.add_argument(
        "--target-triple", metavar="TRIPLE", help="for example aarch64-unknown-linux-gnu; by default this machine's"
    )
    parser.add_argument("--cc", help="the C compiler that links; by default CC, cc or ARCHITECTURE-linux-gnu-gcc")
    parser.add_argument(
        "--flag",
        action="append",
        default=[],
        dest="flags",
        metavar="FLAG",
        help="one more argument for `mojo build`, as in --flag=-I --flag=DIRECTORY; may be repeated",
    )
    parser.add_argument("--depfile", help="where to write what the library depends on, for make, ninja and meson")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds that each compiler may take (600)")
    add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the result and return the exit status."""
    return print_result(compile_file(arguments), describe, json=arguments.json)


def compile_file(arguments: argparse.Namespace) -> dict[str, Any]:
    """Compile; print progress if standard error is a terminal."""
    from mojoview.loading.description import description_path
    from mojoview.loading.mojo.aot import compile_library

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    exports, target = compile_library(
        arguments.file,
        arguments.output,
        target_triple=arguments.target_triple,
        target_cpu=arguments.target_cpu,
        cc=arguments.cc,
        flags=arguments.flags,
        depfile=arguments.depfile,
        timeout=arguments.timeout,
        progress=say if sys.stderr.isatty() and not arguments.json else None,
    )
    library = Path(arguments.output).absolute()
    return {
        "ok": True,
        "library": str(library),
        "signatures": str(description_path(library)),
        "triple": target.triple,
        "cpu": target.cpu,
        "kernels": {name: str(signature) for name, signature in exports.kernels.items()},
        "refused": dict(exports.refused),
    }


def describe(result: Mapping[str, Any]) -> str:
    rows = [
        ("library", result["library"]),
        ("signatures", result["signatures"]),
        ("for", f"{result['triple']}, {result['cpu']}"),
    ]
    rows += [("kernel", text) for text in result["kernels"].values()]
    rows += [("refused", f"{name}: {why}") for name, why in result["refused"].items()]
    return table(rows, indent="")
