"""The first phases of translation of C: comments, line splices, and directives by the compiler's own preprocessor."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass

from mojoview.memory.errors import DeclarationError

__all__ = ["Source", "place", "preprocess"]

MAX_LENGTH = 1 << 20  # characters of a text
MAX_PREPROCESSED = 1 << 25  # with everything that it includes
TIMEOUT_S = 60
LITERAL = r"""(?P<literal>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
# Without \Z, each unclosed /* would scan the rest of the text.
COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|(?P<open>\Z))|" + LITERAL, re.S)
SPLICE = re.compile(r"\\[ \t\r\f\v]*(?:\n|\Z)|\?\?[=/'()!<>-]")  # and trigraphs, one of which is a backslash
DIRECTIVE = re.compile(LITERAL + r"|(?P<directive>#|%:)")
MARKER = re.compile(r'#(?:line)? (\d+) "(?:[^"\\]|\\.)*"((?: \d)*)\s*')
PRAGMA = re.compile(r"\s*#\s*pragma\b(.*)", re.S)


@dataclass(frozen=True, slots=True)
class Source:
    """Text without comments and directives.

    Attributes
    ----------
    text : str
    lines : tuple of int
        For each line of the text, its number in the source; negative if it is of an included file.
    pragmas : tuple of str
        Contents of the #pragma lines that the preprocessor leaves.
    """

    text: str
    lines: tuple[int, ...]
    pragmas: tuple[str, ...] = ()


def preprocess(text: str, directory: str | None = None) -> Source:
    """Return a text as a C compiler reads it after its preprocessor.

    A text without directives and continued lines needs no compiler. For any other one, the compiler that CC names, or
    `cc`, `gcc` or `clang`, runs its preprocessor in `directory`.

    Raises
    ------
    DeclarationError
        There is no compiler, or its preprocessor refuses the text.
    """
    if len(text) > MAX_LENGTH:
        raise DeclarationError(f"a text of declarations has at most {MAX_LENGTH} characters, got {len(text)}")
    if "\0" in text:
        raise DeclarationError("a text of declarations cannot contain a zero character")
    found = SPLICE.search(text)
    plain = "" if found else _without_comments(text)
    if not found:
        found = next((match for match in DIRECTIVE.finditer(plain) if match["directive"]), None)
    if not found:
        return Source(plain, tuple(range(1, plain.count("\n") + 2)))
    line, _ = place(text, found.start())
    return _by_compiler(text, directory, line)


def place(text: str, at: int) -> tuple[int, int]:
    """Return line and column of a position, from 1."""
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def _without_comments(text: str) -> str:
    """Replace comments by blanks, which keeps lines and columns."""

    def blanked(match: re.Match[str]) -> str:
        if match["open"] is not None:
            line, column = place(text, match.start())
            raise DeclarationError(f"line {line}, column {column}: a comment is not closed", line=line, column=column)
        return match["literal"] or _blank(match[0])

    return COMMENT.sub(blanked, text)


def _compiler() -> list[str] | None:
    if named := shlex.split(os.environ.get("CC", "")):
        return named if shutil.which(named[0]) else None
    return next(([path] for name in ("cc", "gcc", "clang") if (path := shutil.which(name))), None)


def _by_compiler(text: str, directory: str | None, line: int) -> Source:
    compiler = _compiler()
    if compiler is None:
        raise DeclarationError(
            f"line {line}: a line that is continued, or a directive of the preprocessor, may change what is declared; "
            "reading it needs a C compiler (CC, cc, gcc or clang), and none was found: write the declarations out",
            line=line,
        )
    command = [*compiler, "-E", "-x", "c", "-"]
    try:
        done = subprocess.run(
            command,
            input=text.encode("utf-8", "surrogatepass"),
            capture_output=True,
            cwd=directory,
            env={**os.environ, "LC_ALL": "C"},
            timeout=TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DeclarationError(f"line {line}: the preprocessor {shlex.join(command)} failed: {error}") from error
    if done.returncode:
        message = done.stderr.decode("utf-8", "replace").strip()
        at = re.search(r"<stdin>:(\d+)", message)
        raise DeclarationError(
            f"the preprocessor {shlex.join(command)} refuses the text: {message[:2000]}",
            line=int(at[1]) if at else line,
        )
    if len(done.stdout) > MAX_PREPROCESSED:
        raise DeclarationError(f"with what it includes, the text has more than {MAX_PREPROCESSED} characters")
    return _without_markers(done.stdout.decode("utf-8", "replace"))


def _without_markers(text: str) -> Source:
    """Replace the preprocessor's line markers and pragmas by blanks."""
    lines, numbers, pragmas, depth, number = list[str](), list[int](), list[str](), 0, 1
    for line in text.split("\n"):
        if marker := MARKER.fullmatch(line):
            flags = marker[2].split()
            depth += ("1" in flags) - ("2" in flags)
            lines.append("")
            numbers.append(number)
            number = int(marker[1])
            continue
        if pragma := PRAGMA.fullmatch(line):
            pragmas.append(pragma[1])
            line = ""
        lines.append(line)
        numbers.append(-number if depth else number)
        number += 1
    return Source("\n".join(lines), tuple(numbers), tuple(pragmas))
