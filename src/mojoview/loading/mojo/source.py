"""Reader of Mojo source text: exports, imports, and the files that a file depends on."""

from __future__ import annotations

import functools
import hashlib
import posixpath
import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mojoview.loading.module import SourceIndex

__all__ = [
    "Export",
    "Outline",
    "collect_files",
    "content",
    "files",
    "index_sources",
    "outline",
    "outline_of",
    "uses",
]

# Unterminated strings end with their line or with the text: the compiler rejects them, and the scan stays linear.
TOKEN = re.compile(
    r"""(?P<skip>\#[^\n]*|[ \t\r\f]+|\\\r?\n)"""
    r"""|(?P<string>(?:\b[A-Za-z]{1,2})?(?:"""
    r'''"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*(?:"""|\\?\Z)'''
    r"""|'''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*(?:'''|\\?\Z)"""
    r"""|"(?:\\.|[^"\\\n])*(?:"|(?=\n)|\\?\Z)|'(?:\\.|[^'\\\n])*(?:'|(?=\n)|\\?\Z)))"""
    r"""|(?P<name>`[^`\n]+`|[^\W\d]\w*)|(?P<newline>\n)|(?P<other>.)""",
    re.S,
)

ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{2}|[nrt0\\'\"]|\n|.)", re.S)
STATUS = re.compile(r"(?:\w+\.)?Status\((?:((?:\w+\.)?E_USER)\+)?(\d{1,3})\)")
E_USER = 64  # first status code of a kernel's own; mojoview/status.mojo
ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "0": "\0", "\\": "\\", "'": "'", '"': '"', "\n": ""}


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    text: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Export:
    """One `@export` of a source file.

    Attributes
    ----------
    symbol, function : str
    line : int
    nested : bool
        Defined inside a struct or another function.
    abi_c : bool
    arguments : dict of str to str
        Types of the arguments as written, by name.
    result : str
        The result type as written; "" if there is none.
    lines : dict of str to int
        The line of each argument.
    defined : int
        The line of its `def`.
    """

    symbol: str
    function: str
    line: int
    nested: bool
    abi_c: bool
    arguments: dict[str, str]
    result: str
    lines: dict[str, int] = field(default_factory=dict)
    defined: int = 0


@dataclass(slots=True)
class Outline:
    """Exports, imports and aliases of a source file.

    Attributes
    ----------
    exports : list of Export
    modules : list of str
        Imported modules, with leading dots if relative.
    names : dict of str to str
        Name that an import binds: the dotted path that it refers to.
    stars : list of str
        Modules of `from module import *`.
    aliases : dict of str to str
        `comptime` names of the module: the dotted name of the value, without its parameters.
    statuses : dict of str to (int, str)
        `comptime` names with a value such as `Status(E_USER + 1)` or `Status(65)`: code and docstring.
    functions : dict of str to int
        Functions of the module: the number of overloads.
    """

    exports: list[Export] = field(default_factory=list)
    modules: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    aliases: dict[str, str] = field(default_factory=dict)
    statuses: dict[str, tuple[int, str]] = field(default_factory=dict)
    functions: dict[str, int] = field(default_factory=dict)


def outline(text: str) -> Outline:
    """Read exports and imports, ignoring comments and strings; never raises."""
    return _Reader(list(_tokens(text))).read()


def outline_of(file: Path) -> Outline:
    """Return the outline of a file; cached by content."""
    return _outline(file.read_bytes())


@functools.lru_cache(128)
def _outline(source: bytes) -> Outline:
    return outline(source.decode("utf-8", "replace"))


def uses(file: Path, names: Container[str]) -> list[tuple[int, str]]:
    """Return (line, name) for every use of one of the names outside of comments and strings."""
    tokens = _tokens(file.read_bytes().decode("utf-8", "replace"))
    return list(dict.fromkeys((t.line, t.text) for t in tokens if t.kind == "name" and t.text in names))


def _tokens(text: str) -> Iterator[Token]:
    line, column = 1, 0
    for match in TOKEN.finditer(text):
        value = match[0]
        if match.lastgroup != "skip":
            yield Token(str(match.lastgroup), value, line, column)
        if "\n" in value:
            line += value.count("\n")
            column = 0
        else:
            column += len(value)


def _string(token: str) -> str | None:
    """Return the value of a string literal; None for unsupported prefixes and escapes."""
    prefix = re.match(r"[A-Za-z]*", token)[0]  # type: ignore[index]
    body = token[len(prefix) :]
    quotes = body[:3] if body[:3] in ('"""', "'''") else body[:1]
    if prefix.lower() not in ("", "r") or len(body) < 2 * len(quotes) or not body.endswith(quotes):
        return None
    inner = body[len(quotes) : -len(quotes)]
    if prefix or "\\" not in inner:
        return inner
    parts = [m[1] for m in ESCAPE.finditer(inner)]
    if any(p[0] != "x" and p not in ESCAPES for p in parts) or "x" in parts:
        return None
    return ESCAPE.sub(lambda m: ESCAPES[m[1]] if m[1] in ESCAPES else chr(int(m[1][1:], 16)), inner)


class _Reader:
    """Recursive-descent reader; methods take the index of a token and return that of the next one to read."""

    def __init__(self, tokens: Sequence[Token]):
        self.tokens = tokens
        self.found = Outline()

    def read(self) -> Outline:
        i, starts = 0, True
        while i < len(self.tokens):
            i = self.statement(i) if starts else self.other(i)
            starts = self.tokens[i - 1].kind == "newline" or self.tokens[i - 1].text == ";"
        return self.found

    def statement(self, i: int) -> int:
        token = self.tokens[i]
        if token.text == "@" and self.text(i + 1) == "export":
            return self.export(i)
        if token.text in ("from", "import"):
            return self.imports(i)
        if token.text == "comptime" and token.column == 0:
            return self.alias(i)
        return self.other(i)

    def other(self, i: int) -> int:
        if self.tokens[i].text == "def" and self.tokens[i].column == 0:
            self.count(i + 1)
        return i + 1

    def text(self, i: int) -> str:
        return self.tokens[i].text if i < len(self.tokens) else ""

    def closing(self, i: int) -> int:
        """Return the index after the bracket that closes the one at i."""
        depth = 0
        while i < len(self.tokens):
            if self.tokens[i].kind == "other":
                depth += (self.text(i) in "([{") - (self.text(i) in ")]}")
                if depth <= 0:
                    return i + 1
            i += 1
        return i

    def skip(self, i: int) -> int:
        return self.closing(i) if self.text(i) in ("(", "[", "{") else i + 1

    def count(self, i: int) -> None:
        name = self.text(i).strip("`")
        self.found.functions[name] = self.found.functions.get(name, 0) + 1

    def export(self, i: int) -> int:
        at = self.tokens[i]
        symbol, i = self.symbol(i + 2)
        while i < len(self.tokens) and self.text(i) not in ("def", "struct"):
            i = self.skip(i)
        if self.text(i) != "def" or i + 1 >= len(self.tokens):
            return i
        function, defined = self.text(i + 1).strip("`"), self.tokens[i].line
        if at.column == 0:
            self.count(i + 1)
        i += 2
        if self.text(i) == "[":
            i = self.closing(i)
        begin, i = i, self.closing(i)
        written = list(self.arguments(begin + 1, i - 1))
        arguments, lines = {name: type_ for name, type_, _ in written}, {name: line for name, _, line in written}
        abi_c, result, i = self.effects(i)
        if symbol is not None:
            self.found.exports.append(
                Export(symbol or function, function, at.line, at.column > 0, abi_c, arguments, result, lines, defined)
            )
        return i

    def symbol(self, i: int) -> tuple[str | None, int]:
        """Return the name in `@export("name")`, "" without one, None if it is not a string literal."""
        if self.text(i) != "(":
            return "", i
        stop = self.closing(i)
        inside = [token for token in self.tokens[i + 1 : stop - 1] if token.kind != "newline"]
        names = [_string(token.text) if token.kind == "string" else None for token in inside]
        return None if None in names else "".join(filter(None, names)), stop

    def effects(self, i: int) -> tuple[bool, str, int]:
        """Return whether `abi("C")` is between the arguments and the colon, and the result type as written."""
        abi_c, result = False, None
        while i < len(self.tokens) and self.text(i) != ":":
            if self.text(i) == "abi" and self.text(i + 1) == "(":
                inside = [t for t in self.tokens[i + 2 : self.closing(i + 1) - 1] if t.kind != "newline"]
                abi_c = len(inside) == 1 and _string(inside[0].text) == "C"
            if self.text(i) == ">" and self.text(i - 1) == "-":
                result = i + 1
            i = self.skip(i)
        return abi_c, self.plain(result, i) if result else "", i

    def arguments(self, i: int, stop: int) -> Iterator[tuple[str, str, int]]:
        name, begin = "", 0
        while i <= stop:
            if i == stop or self.text(i) in (",", "="):
                if begin:
                    yield name, self.plain(begin, i), self.tokens[begin - 1].line
                while i < stop and self.text(i) != ",":  # the default
                    i = self.skip(i)
                begin = 0
            elif self.text(i) == ":" and not begin:
                name, begin = self.text(i - 1).strip("`"), i + 1
            i = self.skip(i)

    def plain(self, begin: int, end: int) -> str:
        return "".join(t.text for t in self.tokens[begin:end] if t.kind != "newline")

    def alias(self, i: int) -> int:
        name = self.text(i + 1)
        while i < len(self.tokens) and self.text(i) != "=" and self.tokens[i].kind != "newline":
            i = self.skip(i)
        begin = i = min(i + 1, len(self.tokens))
        self.status(name, begin)
        while self.text(i + 1) == ".":
            i += 2
        value = self.plain(begin, i + 1)
        self.found.aliases[name] = value if self.text(i + 1) in ("", "\n", "[") else f"{value}.?"  # an expression
        return begin

    def status(self, name: str, begin: int) -> None:
        end = begin
        while end < len(self.tokens) and self.tokens[end].kind != "newline" and end < begin + 12:
            end += 1
        if match := STATUS.fullmatch(self.plain(begin, end)):
            while end < len(self.tokens) and self.tokens[end].kind == "newline":
                end += 1
            doc = self.tokens[end] if end < len(self.tokens) else None
            text = _string(doc.text) if doc and doc.kind == "string" and doc.column == 0 else None
            code = int(match[2]) + (E_USER if match[1] else 0)
            self.found.statuses[name] = code, " ".join((text or "").split())

    def imports(self, i: int) -> int:
        begin = i
        while i < len(self.tokens) and self.tokens[i].kind != "newline" and self.text(i) != ";":
            i = self.skip(i)
        tokens = [t.text for t in self.tokens[begin:i] if t.kind != "newline"]
        if tokens[0] == "import":
            self.import_modules(tokens[1:])
        elif "import" in tokens:
            middle = tokens.index("import")
            self.import_names("".join(tokens[1:middle]), tokens[middle + 1 :])
        return i

    def import_modules(self, tokens: Sequence[str]) -> None:
        for module, name in _named("".join(_spaced(tokens))):
            self.found.modules.append(module)
            root = module.split(".")[0]
            self.found.names[name or root] = module if name else root

    def import_names(self, module: str, tokens: Sequence[str]) -> None:
        self.found.modules.append(module)
        for item, name in _named("".join(_spaced([w for w in tokens if w not in "()"]))):
            if item == "*":
                self.found.stars.append(module)
                continue
            if not module.strip("."):
                self.found.modules.append(module + item)  # from . import x
            self.found.names[name or item] = f"{module}.{item}"


def _spaced(tokens: Sequence[str]) -> Iterator[str]:
    return (f" {w} " if w == "as" else w for w in tokens)


def _named(items: str) -> Iterator[tuple[str, str]]:
    """Yield ("a.b", "c") for every `a.b as c` of a comma-separated list."""
    for item in items.split(","):
        path, _, name = item.partition(" as ")
        if path:
            yield path.strip(), name.strip().strip("`")


def content(path: Path, search: Sequence[Path]) -> list[tuple[str, str]]:
    """Return names and hashes of a file and of everything that it imports, directly or not.

    Parameters
    ----------
    path : Path
    search : sequence of Path
        The directories given to the compiler with -I; the directory of each file is searched as well.

    Returns
    -------
    list of (str, str)
        Sorted, and independent of the path. Modules that are not found are the compiler's own.
    """
    seen: dict[Path, tuple[str, str]] = {}
    collect_files(path, path.name, search, seen)
    return sorted(seen.values())


def files(path: Path, search: Sequence[Path]) -> list[Path]:
    """Return the source files that `content` covers, the file itself first."""
    seen: dict[Path, tuple[str, str]] = {}
    collect_files(path, path.name, search, seen)
    return [file for file in seen if file.suffix == ".mojo"]


def index_sources(sources: Sequence[Path]) -> SourceIndex:
    """Return source locations of the exports and the statuses that the files declare."""
    exports, statuses = dict[str, tuple[Path, int]](), dict[str, tuple[int, str]]()
    for file in sources:
        try:
            found = outline_of(file)
        except OSError:
            continue  # removed since it was compiled; errors of its kernels have no line then
        for export in found.exports:
            exports.setdefault(export.symbol, (file, export.defined))
        for name, declared in found.statuses.items():
            statuses.setdefault(name, declared)
    return SourceIndex(exports, statuses)


def collect_files(file: Path, name: str, search: Sequence[Path], seen: dict[Path, tuple[str, str]]) -> None:
    """Add a file and everything that it imports to `seen`: path: (name, hash)."""
    if file in seen:
        return
    data = file.read_bytes()
    seen[file] = (name, hashlib.sha256(data).hexdigest())
    if file.suffix == ".mojo":
        for module in _outline(data).modules:
            for part, known in _imported_files(module, file, name, search):
                collect_files(part, known, search, seen)


def _imported_files(module: str, file: Path, name: str, search: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    """Yield (path, name) of the files that an import in `file` may read.

    All directories are searched, not only the first that has the module: a file that appears there later changes the
    meaning of the import.
    """
    dots = len(module) - len(module.lstrip("."))
    root = module[dots:].split(".")[0]
    if not root:
        return
    for directory in list(file.parents)[dots - 1 : dots] if dots else dict.fromkeys((file.parent, *search)):
        for part in _module_files(directory / root):
            known = part.relative_to(directory).as_posix()
            if dots:
                known = posixpath.normpath(posixpath.join(posixpath.dirname(name), "../" * (dots - 1), known))
            yield part, known


def _module_files(stem: Path) -> list[Path]:
    """Return the files that a module name may refer to; all files of a package, since any of them may matter."""
    endings = (stem.with_name(stem.name + ending) for ending in (".mojo", ".mojopkg", ".mojoc"))
    return [p for p in endings if p.is_file()] + sorted(p for p in stem.rglob("*.mojo") if p.is_file())
