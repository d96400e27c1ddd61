"""`python -m mojoview shm list | info | gc`: the shared memory of this machine."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from typing import Any

import mojoview
from mojoview.cli.report import add_json_option, date, print_result, table
from mojoview.memory.errors import SegmentNotFound
from mojoview.sharing.segment.describe import details

__all__ = [
    "add_arguments",
    "collect",
    "describe_collected",
    "describe_info",
    "describe_listing",
    "info",
    "listing",
    "run",
]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command's actions."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    list_ = actions.add_parser("list", help="list every segment of this machine that this user may see")
    info_ = actions.add_parser("info", help="print the header of one segment")
    info_.add_argument("name")
    gc = actions.add_parser("gc", help="remove the names whose owners are dead, and only those")
    add_json_option(list_, info_, gc)


def run(arguments: argparse.Namespace) -> int:
    """Run one action and return the exit status."""
    if arguments.action == "list":
        return print_result(listing(), describe_listing, json=arguments.json)
    if arguments.action == "info":
        return print_result(info(arguments.name), describe_info, json=arguments.json)
    return print_result(collect(), describe_collected, json=arguments.json)


def listing() -> dict[str, Any]:
    """Return every named segment, its owner, and whether the owner is running."""
    found = mojoview.segments()
    rows = [
        {
            "name": entry.name,
            "kind": entry.kind,
            "state": entry.state,
            "bytes": entry.nbytes,
            "owner": entry.owner_pid,
            "uid": entry.uid,
            "mode": oct(entry.mode),
            "created": date(entry.created_ns / 1e9) if entry.created_ns else "",
        }
        for entry in found
    ]
    return {"ok": True, "segments": rows, "total_bytes": sum(entry.nbytes for entry in found)}


def describe_listing(result: Mapping[str, Any]) -> str:
    if not result["segments"]:
        return "no segments"
    columns = ("name", "kind", "state", "bytes", "owner", "uid", "mode", "created")
    rows = [columns, *(tuple(str(row[column]) for column in columns) for row in result["segments"])]
    dead = sum(row["state"] == "dead" for row in result["segments"])
    hint = f"; the owners of {dead} are dead: `python -m mojoview shm gc` removes them" if dead else ""
    return f"{table(rows, indent='')}\n{len(result['segments'])} segments, {result['total_bytes']} bytes{hint}"


def info(name: str) -> dict[str, Any]:
    """Return the header of one segment, and what is wrong with it."""
    entry = next((entry for entry in mojoview.segments() if entry.name == name and entry.path is not None), None)
    if entry is None:
        raise SegmentNotFound(2, f"segment {name!r}: there is none")
    return {
        "ok": entry.state in ("live", "dead"),
        "name": name,
        "path": entry.path,
        "state": entry.state,
        **details(name),
    }


def describe_info(result: Mapping[str, Any]) -> str:
    return table([(key, str(value)) for key, value in result.items() if key != "ok"], indent="")


def collect() -> dict[str, Any]:
    """Remove what dead processes of this user left behind, and list the damaged files that stay."""
    removed = mojoview.cleanup()
    damaged = [
        {"name": entry.name, "state": entry.state}
        for entry in mojoview.segments()
        if entry.state not in ("live", "dead") and entry.uid == os.geteuid()
    ]
    return {"ok": True, "removed": removed, "damaged": damaged}


def describe_collected(result: Mapping[str, Any]) -> str:
    lines = [f"removed {name}" for name in result["removed"]]
    lines += [f"damaged ({each['state']}), not changed: {each['name']}" for each in result["damaged"]]
    return "\n".join(lines) or "nothing to remove"
