"""Results as text or as JSON, from one dict."""

from __future__ import annotations

import json as json_module
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["print_result", "table"]


def print_result(result: Mapping[str, Any], describe: Callable[[Mapping[str, Any]], str], *, json: bool) -> int:
    """Print the result of a command; return 0 if its `ok` entry is true, else 1."""
    text = json_module.dumps(result, indent=2, default=str) if json else describe(result)
    encoding = sys.stdout.encoding or "utf-8"  # a name of a file may be no text at all
    print(text.encode(encoding, "backslashreplace").decode(encoding))
    return 0 if result["ok"] else 1


def table(rows: Sequence[Sequence[str]], *, figures: bool = False, indent: str = "  ") -> str:
    """Return rows as text columns, left-aligned; with `figures`, all but the first right-aligned."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if figures and k else cell.ljust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append((indent + "  ".join(cells)).rstrip())
    return "\n".join(lines)
