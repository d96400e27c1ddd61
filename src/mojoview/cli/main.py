"""Entry point of `python -m mojoview`: the list of commands, and errors that are printed without a traceback."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from mojoview.memory.errors import MojoViewError

__all__ = ["COMMANDS", "main"]

# Each command is a module of this package with `add_arguments(parser)` and `run(arguments)`, which returns the status.
COMMANDS = {
    "doctor": "print versions, compiler, CPU features, build flags and the self-test of pandas",
    "demo": "view and compute on 336,776 real flights, checked against pandas (needs the demo extra)",
    "bench": "run the benchmarks beside other libraries (needs the bench extra)",
    "ring": "watch, record, replay, check and export telemetry rings",
    "shm": "list the shared memory of this machine and remove what dead processes left",
    "cache": "list, describe and remove compiled kernels on disk",
    "compile": "compile a Mojo file to a library for machines without a compiler",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status: 0 success, 1 a failed check, 2 bad usage, 130 Ctrl-C."""
    arguments = _parser().parse_args(argv)
    try:
        status: int = _module(arguments.command).run(arguments)
        sys.stdout.flush()
        return status
    except MojoViewError as error:
        print(f"mojoview {arguments.command}: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe: discard the rest
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        print(f"mojoview {arguments.command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"mojoview {arguments.command}: interrupted", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m mojoview", description="Zero-copy views of pandas and NumPy memory for native kernels."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, purpose in COMMANDS.items():
        _module(name).add_arguments(commands.add_parser(name, help=purpose))
    return parser


def _module(command: str) -> Any:
    return import_module(f"mojoview.cli.{command}")
