"""Results of commands, printed as text or as JSON from the same dictionary."""

from __future__ import annotations

import argparse
import datetime
import json as json_module
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["add_json_option", "date", "print_result", "table"]


def add_json_option(*parsers: argparse.ArgumentParser) -> None:
    """Add ``--json`` to commands that print one result."""
    for parser in parsers:
        parser.add_argument("--json", action="store_true", help="print the result as one JSON object")


def print_result(result: Mapping[str, Any], describe: Callable[[Mapping[str, Any]], str], *, json: bool) -> int:
    """Print a command's result; returns 0 if its `ok` entry is true, else 1."""
    text = json_module.dumps(result, indent=2, default=str) if json else describe(result)
    encoding = sys.stdout.encoding or "utf-8"  # file names may contain bytes that are not text
    print(text.encode(encoding, "backslashreplace").decode(encoding))
    return 0 if result["ok"] else 1


def table(rows: Sequence[Sequence[str]], *, figures: bool = False, indent: str = "  ") -> str:
    """Format rows as aligned columns, to the left; with `figures` all but the first to the right."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if figures and k else cell.ljust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append((indent + "  ".join(cells)).rstrip())
    return "\n".join(lines)


def date(seconds: float) -> str:
    """Return a time since 1970 as text; a damaged file may have one that no calendar has."""
    try:
        return datetime.datetime.fromtimestamp(seconds).isoformat(" ", "seconds")
    except (OSError, OverflowError, ValueError):
        return f"{seconds:.0f} s since 1970"
