"""Messages of the Mojo compiler: parsing and formatting."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Diagnostic", "parse", "render"]


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One message of the compiler.

    Attributes
    ----------
    severity : str
        "error", "warning" or "note" (a note explains the message before it).
    message : str
    file : str
    line, column : int
        Both count from 1; the column counts characters. 0 if the message has no location.
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
        # Tabs are repeated in the caret's line, which then fits any tab width.
        indent = "".join("\t" if c == "\t" else " " for c in self.text[: self.column - 1])
        return f"{shown}\n{self.text.rstrip()}\n{indent}^"


def parse(output: str) -> list[Diagnostic]:
    """Parse the output of `--diagnostic-format json`: one object per line, among other lines."""
    found = []
    for line in output.split("\n"):
        if not line.startswith("{"):
            continue
        try:
            found.append(_diagnostic(json.loads(line)))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            continue  # not a message of the compiler
    return found


def _diagnostic(data: Any) -> Diagnostic:
    severity, message, where = str(data["kind"]), str(data["message"]), data.get("diagnostic")
    if where is None:
        return Diagnostic(severity, message)
    text, place = str(where["text"]), where["location"]
    # The compiler counts bytes from 0.
    column = len(text.encode()[: int(place["column"])].decode(errors="ignore")) + 1
    return Diagnostic(severity, message, str(where["file"]), int(place["line"]), column, text)


def render(diagnostics: Sequence[Diagnostic]) -> str:
    """Return errors and their notes as the compiler prints them; warnings only if there is no error."""
    chosen, keep = [], False
    for diagnostic in diagnostics:
        if diagnostic.severity != "note":
            keep = diagnostic.severity == "error"
        if keep:
            chosen.append(diagnostic)
    return "\n".join(map(str, chosen or diagnostics))
