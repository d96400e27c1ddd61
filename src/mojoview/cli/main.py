"""Arguments of `python -m mojoview`, and the errors that are shown without a traceback."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from mojoview.cli.report import print_result
from mojoview.memory.errors import MojoViewError

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status: 0 success, 1 a failed check, 2 bad usage, 130 Ctrl-C."""
    arguments = _parser().parse_args(argv)
    try:
        status = _run(arguments)
        sys.stdout.flush()
        return status
    except MojoViewError as error:
        print(f"mojoview {arguments.command}: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # who reads has gone, as `head` does; what is left to write goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        print(f"mojoview {arguments.command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"mojoview {arguments.command}: interrupted", file=sys.stderr)
        return 130


def _run(arguments: argparse.Namespace) -> int:
    if arguments.command == "doctor":
        from mojoview.cli import doctor

        return print_result(doctor.examine(), doctor.describe, json=arguments.json)
    if arguments.command == "demo":
        from mojoview.cli import demo

        result = demo.run(quiet=arguments.json, use_mojo=not arguments.builtin)
        return print_result(result, demo.describe, json=arguments.json)
    if arguments.command == "ring":
        from mojoview.cli import ring

        return ring.run(arguments)
    if arguments.command == "cache":
        from mojoview.cli import cache

        if arguments.action == "list":
            return print_result(cache.listing(), cache.describe_listing, json=arguments.json)
        if arguments.action == "info":
            return print_result(cache.info(arguments.key), cache.describe_info, json=arguments.json)
        return print_result(cache.clear(arguments.key), cache.describe_cleared, json=arguments.json)
    if arguments.command == "compile":
        from mojoview.cli import compile

        return print_result(compile.compile_file(arguments), compile.describe, json=arguments.json)
    if arguments.command == "shm":
        from mojoview.cli import shm

        if arguments.action == "list":
            return print_result(shm.listing(), shm.describe_listing, json=arguments.json)
        if arguments.action == "info":
            return print_result(shm.info(arguments.name), shm.describe_info, json=arguments.json)
        return print_result(shm.collect(), shm.describe_collected, json=arguments.json)
    from mojoview.cli import bench

    result = bench.run(arguments.pattern, quick=arguments.quick, quiet=arguments.json)
    return print_result(result, bench.describe, json=arguments.json)


def _parser() -> argparse.ArgumentParser:
    from mojoview.cli.compile import add_arguments as add_compile_arguments
    from mojoview.cli.ring import add_arguments as add_ring_arguments

    parser = argparse.ArgumentParser(
        prog="python -m mojoview", description="Zero-copy views of pandas and NumPy memory for native kernels."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    doctor = commands.add_parser("doctor", help="versions, compiler, CPU features, pandas self-test, build flags")
    demo = commands.add_parser("demo", help="the main job on 336,776 real flights (needs the demo extra)")
    demo.add_argument(
        "--builtin", action="store_true", help="do not compile the Mojo kernel even where a compiler is installed"
    )
    bench = commands.add_parser("bench", help="the benchmark suite beside its peers (needs the bench extra)")
    bench.add_argument("pattern", nargs="?", default="", help="only benchmarks whose name contains this")
    bench.add_argument("--quick", action="store_true", help="few rounds: shows that it runs, not how fast")
    ring = commands.add_parser("ring", help="telemetry rings: top, tail, record, replay, check, export, histogram")
    add_ring_arguments(ring)
    shm = commands.add_parser("shm", help="shared memory: what there is, whose it is, what dead processes left")
    actions = shm.add_subparsers(dest="action", required=True, metavar="ACTION")
    shm_list = actions.add_parser("list", help="every segment of this machine that this user may see")
    shm_info = actions.add_parser("info", help="the header of one segment")
    shm_info.add_argument("name")
    shm_gc = actions.add_parser("gc", help="remove the names whose owners are dead, and only those")
    cache = commands.add_parser("cache", help="compiled kernels on disk: what there is, and making room")
    actions = cache.add_subparsers(dest="action", required=True, metavar="ACTION")
    cache_list = actions.add_parser("list", help="every entry, the most recently used first")
    cache_info = actions.add_parser("info", help="where the cache is, its size and limit; or one entry")
    cache_clear = actions.add_parser("clear", help="remove all entries, or one")
    for command in (cache_info, cache_clear):
        command.add_argument("key", nargs="?", help="the beginning of an entry's key")
    compile_ = commands.add_parser("compile", help="a Mojo file as a library for machines without a compiler")
    add_compile_arguments(compile_)
    for command in (doctor, demo, bench, shm_list, shm_info, shm_gc, cache_list, cache_info, cache_clear, compile_):
        command.add_argument("--json", action="store_true", help="print the result as one JSON object")
    return parser
