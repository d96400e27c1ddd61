"""Rules for what people read: docstrings, wording, and pages that agree with the source tree."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

from house import CODE, files

RELATIVES = {"Of", "How", "What", "When", "Where", "Whether", "Which", "Who", "Whoever", "Whose", "Why"}
# Third-person forms end in "s" and gerunds in "ing"; these imperatives do too.
IMPERATIVES = {
    "Access", "Address", "Alias", "Assess", "Bring", "Bypass", "Compress", "Cross", "Dismiss", "Express", "Focus",
    "Guess", "Miss", "Pass", "Ping", "Press", "Process", "Ring", "String", "Suppress",
}  # fmt: skip
# Decorators, keyword and docstring of a class or function in Cython.
CYTHON_BLOCK = r"""
    ^((?:[ \t]*@[^\n]+\n)*)[ \t]*(cdef[ ]class|class|cpdef|cdef|def)\b
    (?:[^"\n]|"[^"\n]*"|\n(?=[ \t]{5,}))*?:[ \t]*(?:\#[^\n]*)?\n
    \s*r?\"\"\"(.*?)\"\"\"
"""
# Wording that the field does not use, each with what to write.
WORDING = {
    r"\b(?:is|are) no (?!\s|longer|more|less|fewer|greater|better|worse|other|different|such)": "is not a",
    r"\b(?:let|lets|letting) go\b|\blet_go\b|\bgive back\b|\bgiven back\b|\bgives back\b": "release",
    r"\b(?:some|no)body\b": "a caller, another thread, none",
    r"\banew\b": "again, new",
    r"\bfor ever\b": "indefinitely",
    r"\bin vain\b": "without effect",
    r"\bin words\b": "as text",
    r"\b(?:goodbye|farewell)\b": "release",
    r"\bcrew\b": "worker pool",
    r"\bpassport": "kernel reference",
    r"\bletters?\b": "message",
    r"\bautops": "crash report",
    r"\bleash": "parent pipe",
    r"\bjanitor": "cleanup",
    r"\bmeanwhile\b": "concurrently",
    r"\b(?:is|are|was|were|be|been) told\b": "is given, is notified",
    r"\bjudge[sd]?\b": "check",
    r"\bhears?\b": "receive",
    r"\b(?:is|are) had from\b": "comes from",
}  # fmt: skip
ANY_WORDING = re.compile("|".join(WORDING).replace(" ", r"\s+"), re.I)


def imperative_docstrings(package: Path) -> Iterator[str]:
    """Yield docstrings whose first word is a relative, or for functions an article, a gerund or a third-person verb."""
    for path in files(package, ".py", ".pyx", ".pxd"):
        for line, kind, text in docstrings(path):
            first = re.match(r"[\w'-]*", text.lstrip())[0]
            wrong = first in RELATIVES
            if kind == "def":
                wrong = wrong or first in ("The", "A", "An", "This", "Its", "Our", "One")
                wrong = wrong or (bool(re.fullmatch(r"[A-Z][a-z]+(?:s|ing)", first)) and first not in IMPERATIVES)
            if wrong:
                yield f"{path.relative_to(package)}:{line}: a docstring begins with {text.split(chr(10))[0][:60]!r}"


def docstrings(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield (line, kind, text) of every docstring; kind is "module", "class", "property" or "def"."""
    source = path.read_text()
    if path.suffix == ".py":
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node)
                if text:
                    yield getattr(node, "lineno", 1), _kind(node), text
        return
    if match := re.match(r'(?:\s*#[^\n]*\n)*\s*"""(.*?)"""', source, re.S):
        yield 1, "module", match[1]
    for match in re.finditer(CYTHON_BLOCK, source, re.S | re.X | re.M):
        decorators, keyword, text = match.groups()
        kind = (
            "class" if "class" in keyword else "property" if re.search(r"@\w*property|\.getter", decorators) else "def"
        )
        yield source.count("\n", 0, match.start(3)) + 1, kind, text


def _kind(node: ast.AST) -> str:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        names = {ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list}
        return "property" if any("property" in name for name in names) else "def"
    return "class" if isinstance(node, ast.ClassDef) else "module"


def plain_wording(*roots: Path) -> Iterator[str]:
    """Yield phrases of WORDING in code, comments and pages."""
    for root in roots:
        for path in files(root, *CODE, ".md"):
            text = path.read_text()
            # A line break inside a phrase may carry the marks of a comment.
            flat = re.sub(r"\n[ \t]*(?:#|\*(?!/)|//)?[ \t]*", lambda m: "\n" + " " * (len(m[0]) - 1), text)
            for match in ANY_WORDING.finditer(flat):
                if flat[: match.start()].rstrip().lower().endswith("there"):
                    continue  # "there is no compiler" is right
                phrase = " ".join(match[0].split())
                instead = next(value for pattern, value in WORDING.items() if re.match(pattern, phrase + " ", re.I))
                line = text.count("\n", 0, match.start()) + 1
                yield f"{path.relative_to(root)}:{line}: {phrase!r}: write {instead!r}"


def plain_test_names(tests: Path) -> Iterator[str]:
    """Yield names of tests with more than 60 letters, or with the number of a case."""
    for path in files(tests, ".py"):
        for match in re.finditer(r"(?m)^\s*def (test_\w+)", path.read_text()):
            if len(match[1]) > 60 or re.search(r"_case_[a-z]?\d", match[1]):
                yield f"{path.relative_to(tests)}: {match[1]}: not the short name of a behaviour"


def names_used(names: list[str], text: str) -> Iterator[str]:
    """Yield names that the code of a test does not use, as an attribute or alone; strings and imports do not count."""
    used = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute):
            used.add(node.attr)
        elif isinstance(node, ast.Name):
            used.add(node.id)
    for name in names:
        if name not in used:
            yield f"{name}: not used"


def public_names_documented(names: list[str], page: Path) -> Iterator[str]:
    """Yield public names that are neither on the page nor of a module that the page includes whole."""
    text = page.read_text()
    modules = re.findall(r"automodule:: ([\w.]+)", text)
    text += " ".join(" ".join(importlib.import_module(module).__all__) for module in modules)
    for name in names:
        if not name.startswith("_") and not re.search(rf"\b{re.escape(name)}\b", text):
            yield f"{name}: not in {page.name}"


def page_names_what_exists(page: Path, package: Path) -> Iterator[str]:
    """Yield files that the page names and that do not exist, and `function()` names that no file of their line has."""
    names: dict[str, list[Path]] = {}
    for path in files(package):
        for name in (path.name, path.relative_to(package).as_posix()):
            names.setdefault(name, []).append(path)
    root = package.parents[1]
    for number, line in enumerate(page.read_text().splitlines(), 1):
        named = re.findall(r"`([\w./-]+\.(?:py|pyx|pxd|h|c|mojo))`", line)
        for name in named:
            if name not in names and not (root / name).exists():
                yield f"{page.name}:{number}: there is no {name}"
        text = "\n".join(path.read_text() for name in named for path in names.get(name, []))
        for function in re.findall(r"`(?:\w+\.)*(\w+)\(\)`", line):
            if text and not re.search(rf"\b{function}\b", text):
                yield f"{page.name}:{number}: there is no {function}() in {', '.join(named)}"


def page_lists_every_file(page: Path, package: Path) -> Iterator[str]:
    """Yield files that the section of their folder does not name, and names in a section that are not files.

    A section begins with a heading that is the folder's path in backticks. It has at most ten lines.
    """
    sections: dict[str, list[str]] = {}
    folder = ""
    for line in page.read_text().splitlines():
        if line.startswith("#"):
            match = re.match(r"#+ `([\w/]+)/`", line)
            folder = match[1] if match else ""
        elif folder and line.strip():
            sections.setdefault(folder, []).append(line)
    there: dict[str, set[str]] = {}
    for path in files(package):
        if path.parent != package and path.stem != "__init__" and not _belongs_to_another(path):
            there.setdefault(path.parent.relative_to(package).as_posix(), set()).add(path.name)
    for folder, names in sorted(there.items()):
        text = "\n".join(sections.get(folder, ()))
        for name in sorted(names):
            if f"`{name}`" not in text:
                yield f"{folder}/{name}: not in the section of its folder on {page.name}"
    for folder, lines in sections.items():
        for name in re.findall(r"`([\w.-]+\.(?:py|pyx|pxd|h|c|mojo))`", "\n".join(lines)):
            if not (package / folder / name).exists():
                yield f"{page.name}: {folder}/ has no file {name}"
        if len(lines) > 10:
            yield f"{page.name}: the section of {folder}/ has {len(lines)} lines, more than 10"


def _belongs_to_another(path: Path) -> bool:
    """Return whether a .pxd or .pyi only declares what another file of its name defines."""
    return path.suffix in (".pxd", ".pyi") and any(
        path.with_suffix(suffix).exists() for suffix in (".py", ".pyx", ".h", ".c") if suffix != path.suffix
    )
