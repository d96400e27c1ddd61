"""`python -m mojoview cache list | info | clear`: compiled kernels on disk."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from mojoview.cli.report import add_json_option, date, print_result, table
from mojoview.loading.mojo.cache import (
    IMPORTS,
    LIBRARY,
    SOURCES,
    Cache,
    Entry,
    cache_directory,
    cache_limit,
    loaded_files,
)
from mojoview.memory.errors import KernelAttributeError

__all__ = ["add_arguments", "clear", "describe_cleared", "describe_info", "describe_listing", "info", "listing", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command's actions."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    list_ = actions.add_parser("list", help="list every entry, the most recently used first")
    info_ = actions.add_parser("info", help="print the directory of the cache, its size and limit; or one entry")
    clear_ = actions.add_parser("clear", help="remove all entries, or one")
    for parser_ in (info_, clear_):
        parser_.add_argument("key", nargs="?", help="the beginning of an entry's key")
    add_json_option(list_, info_, clear_)


def run(arguments: argparse.Namespace) -> int:
    """Run one action and return the exit status."""
    if arguments.action == "list":
        return print_result(listing(), describe_listing, json=arguments.json)
    if arguments.action == "info":
        return print_result(info(arguments.key), describe_info, json=arguments.json)
    return print_result(clear(arguments.key), describe_cleared, json=arguments.json)


def listing() -> dict[str, Any]:
    """Return every entry, the most recently used first."""
    root = cache_directory()
    store = Cache.open(root) if root.is_dir() else None
    rows = [_row(store, entry) for entry in reversed(store.entries())] if store else []
    return {
        "ok": True,
        "directory": str(root),
        "entries": rows,
        "total_bytes": sum(row["bytes"] for row in rows),
        "beside": _beside(store),
    }


def _beside(store: Cache | None) -> dict[str, dict[str, int]]:
    """Return number and bytes of the import records and of the source texts."""
    found = {name: list[Entry]() for name in (IMPORTS, SOURCES)}
    found.update({place.root.name: place.entries() for place in (store.siblings() if store else ())})
    return {
        name: {"number": len(entries), "bytes": sum(entry.bytes for entry in entries)}
        for name, entries in found.items()
    }


def _format_beside(beside: Mapping[str, Mapping[str, int]]) -> str:
    return ", ".join(f"{kind['number']} {name} ({kind['bytes']} bytes)" for name, kind in beside.items())


def _row(store: Cache, entry: Entry) -> dict[str, Any]:
    exports = store.peek(entry.key)
    return {
        "key": entry.key,
        "kernels": sorted(exports.kernels) if exports else None,
        "bytes": entry.bytes,
        "used": date(entry.used),
    }


def describe_listing(result: Mapping[str, Any]) -> str:
    if not result["entries"]:
        return f"no compiled kernels in {result['directory']}"
    rows = [("key", "bytes", "used", "kernels")]
    for entry in result["entries"]:
        kernels = "damaged: will be built again" if entry["kernels"] is None else ", ".join(entry["kernels"])
        rows.append((entry["key"], str(entry["bytes"]), entry["used"], kernels))
    total = f"{len(rows) - 1} entries, {result['total_bytes']} bytes in {result['directory']}"
    return f"{table(rows, indent='')}\n{total}; beside it {_format_beside(result['beside'])}"


def info(key: str | None) -> dict[str, Any]:
    """Return facts about the cache, or about the entry whose key begins with `key`."""
    root, limit = cache_directory(), cache_limit()
    store = Cache.open(root) if root.is_dir() else None
    entries = store.entries() if store else []
    if key is not None:
        found = [entry for entry in entries if entry.key.startswith(key)] if key else []
        if len(found) != 1 or store is None:
            raise KernelAttributeError(f"cache {root}: {len(found) or 'no'} keys of entries begin with {key!r}")
        exports = store.peek(found[0].key)
        library = root / found[0].key / LIBRARY
        signatures = [str(signature) for signature in exports.kernels.values()] if exports else []
        return {
            "ok": exports is not None,
            **_row(store, found[0]),
            "library": str(library),
            "loaded": str(library) in loaded_files(),
            "signatures": signatures,
            "refused": dict(exports.refused) if exports else {},
        }
    beside = _beside(store)
    return {
        "ok": True,
        "directory": str(root),
        "exists": store is not None,
        "entries": len(entries),
        "bytes": sum(entry.bytes for entry in entries) + sum(kind["bytes"] for kind in beside.values()),
        "limit": limit,
        "beside": beside,
        "in_progress_or_left_behind": len(store.leftovers()) if store else 0,
    }


def describe_info(result: Mapping[str, Any]) -> str:
    rows = []
    for name, value in result.items():
        parts = [f"{k}: {v}" for k, v in value.items()] if isinstance(value, dict) else value
        parts = parts if isinstance(parts, list) else [parts]
        rows += [(name if k == 0 else "", str(part)) for k, part in enumerate(parts) if name != "ok"]
    return table(rows, indent="")


def clear(key: str | None) -> dict[str, Any]:
    """Remove all entries, import records, source texts and files of killed processes, or the entries named by `key`.

    Processes that have loaded an entry keep its code. Entries that are being compiled are kept, and then all source
    texts as well.
    """
    root = cache_directory()
    store = Cache.open(root) if root.is_dir() else None
    there = store.entries() if store else []
    entries = [entry for entry in there if key is None or (key and entry.key.startswith(key))]
    if key is not None and not entries:
        raise KernelAttributeError(f"cache {root}: no entry has a key that begins with {key!r}")
    removed = [entry for entry in entries if store and store.remove(entry.key)]
    beside = 0
    if store and key is None:
        store.sweep()
        busy = bool(store.leftovers())
        for place in store.siblings():
            if place.root.name == IMPORTS or not busy:
                beside += sum(place.remove(entry.key) for entry in place.entries())
                place.sweep()
    gone = {entry.key for entry in removed}
    return {
        "ok": True,
        "directory": str(root),
        "removed": sorted(gone),
        "bytes": sum(entry.bytes for entry in removed),
        "kept": sorted(entry.key for entry in entries if entry.key not in gone),
        "removed_beside": beside,
    }


def describe_cleared(result: Mapping[str, Any]) -> str:
    kept = f"; {len(result['kept'])} are being compiled and were kept" if result["kept"] else ""
    beside = f", and {result['removed_beside']} files beside it" if result["removed_beside"] else ""
    entries = f"{len(result['removed'])} entries, {result['bytes']} bytes"
    return f"removed {entries}, from {result['directory']}{beside}{kept}"
