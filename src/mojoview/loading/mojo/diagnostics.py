"""What the compiler said about a source file, as data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Diagnostic", "parse", "render"]


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One remark of the compiler.

    Attributes
    ----------
    severity : str
        "error", "warning" or "note" (a note explains the remark before it).
    message : str
    file : str
    line, column : int
        Both count from 1; the column counts characters. 0 where the compiler names no place.
    text : str
        The source line.
    """

    severity: str
    message: str
    file: str = ""
    line: int = 0
    column: int = 0
    text: str = ""

    def __str__(self) -> str:
        if not self.line:
            return f"{self.severity}: {self.message}"
        shown = f"{self.file}:{self.line}:{self.column}: {self.severity}: {self.message}"
        if not self.text.strip():
            return shown
        # the caret's line repeats the tabs, so that it stands under its character at any tab width
        indent = "".join("\t" if c == "\t" else " " for c in self.text[:self.column - 1])
        return f"{shown}\n{self.text.rstrip()}\n{indent}^"


def parse(output: str) -> list[Diagnostic]:
    """Reads `--diagnostic-format json`: one object a line, among lines that are something else."""
    found = []
    for line in output.split("\n"):
        if not line.startswith("{"):
            continue
        try:
            found.append(_diagnostic(json.loads(line)))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            continue  # not one of the compiler's remarks
    return found


def _diagnostic(said: Any) -> Diagnostic:
    severity, message, where = str(said["kind"]), str(said["message"]), said.get("diagnostic")
    if where is None:
        return Diagnostic(severity, message)
    text, place = str(where["text"]), where["location"]
    # the compiler counts bytes from 0
    column = len(text.encode()[:int(place["column"])].decode(errors="ignore")) + 1
    return Diagnostic(severity, message, str(where["file"]), int(place["line"]), column, text)


def render(diagnostics: Sequence[Diagnostic]) -> str:
    """The errors and their notes as the compiler shows them; warnings only where there is nothing else."""
    chosen, keep = [], False
    for diagnostic in diagnostics:
        if diagnostic.severity != "note":
            keep = diagnostic.severity == "error"
        if keep:
            chosen.append(diagnostic)
    return "\n".join(map(str, chosen or diagnostics))
