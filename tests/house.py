"""The rules of the house, each a function from a source tree to its violations."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

RANKS = {
    "memory": 0,
    "views": 1,
    "sharing": 2,
    "kernels": 2,
    "compute": 3,
    "flow": 3,
    "frames": 4,
    "cuda": 4,
    "cli": 5,
    "__main__": 6,
}
LONGEST = 600
CODE = {".py", ".pyi", ".pyx", ".pxd", ".h", ".c", ".mojo"}
SHIPPED = {".py", ".pyi", ".pxd", ".h", ".mojo", ".typed"}
BUILTIN_ERRORS = {
    name
    for name, value in vars(__import__("builtins")).items()
    if isinstance(value, type) and issubclass(value, Exception) and not issubclass(value, Warning)
}


def files(package: Path, *suffixes: str) -> Iterator[Path]:
    """The package's sources, or those with one of the suffixes."""
    for path in sorted(package.rglob("*")):
        if path.suffix in (suffixes or CODE) and "__pycache__" not in path.parts:
            yield path


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """(line, full dotted name) of every import and cimport, those inside functions included."""
    text = path.read_text()
    if path.suffix in (".py", ".pyi"):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                yield from ((node.lineno, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield from (
                    (node.lineno, "." * node.level + f"{node.module or ''}.{alias.name}") for alias in node.names
                )
        return
    for match in re.finditer(
        r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+c?import[ \t]+(\([^)]*\)|[^\n#]+)|c?import[ \t]+([^\n#]+))", text, re.M
    ):
        line = text.count("\n", 0, match.start()) + 1
        module, names, modules = match.groups()
        for name in re.sub(r"[()\s]+", " ", names or modules).split(","):
            if name.strip():
                yield line, f"{module + '.' if module else ''}{name.split()[0]}"


def room_of(package: Path, path: Path) -> str:
    """The first folder below the package; a module of the package itself is its own room."""
    parts = path.relative_to(package).parts
    return parts[0] if len(parts) > 1 else path.stem


def ranks(package: Path) -> Iterator[str]:
    """A module imports only from a lower rank or from its own room; the package's `__init__` may see all of them."""
    for path in files(package, ".py", ".pyi", ".pyx", ".pxd"):
        room = room_of(package, path)
        if room == "__init__":
            continue
        for line, name in imports(path):
            parts = name.split(".")
            where = f"{path.relative_to(package)}:{line}"
            if name.startswith("."):
                yield f"{where}: relative import {name}"
            if parts[0] != "mojoview" or len(parts) == 1:
                if parts == ["mojoview"] and RANKS[room] < RANKS["cli"]:
                    yield f"{where}: imports the whole package"
                continue
            other = parts[1]
            if other == room or other.startswith("_build_config"):
                continue
            if other not in RANKS:
                if RANKS[room] < RANKS["cli"]:
                    yield f"{where}: imports {name}, which is no room"
            elif RANKS[other] >= RANKS[room]:
                yield f"{where}: {room}/ (rank {RANKS[room]}) imports {other}/ (rank {RANKS[other]})"


def one_caller_of_get_buffer(package: Path) -> Iterator[str]:
    """Only `memory/_lease.pyx` acquires buffers."""
    for path in files(package):
        if path.relative_to(package).as_posix() != "memory/_lease.pyx" and re.search(
            r"\bPyObject_GetBuffer\b", code_of(path)
        ):
            yield f"{path.relative_to(package)}: PyObject_GetBuffer belongs in memory/_lease.pyx"


def code_of(path: Path) -> str:
    """The text without comments."""
    text = path.read_text()
    if path.suffix in (".h", ".c"):
        return re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)
    return re.sub(r"(?m)#[^\n]*", "", re.sub(r'""".*?"""', "", text, flags=re.S))


def one_home_of_numpys_c_api(package: Path) -> Iterator[str]:
    """NumPy's C-API is used in the two headers that read the fields of arrays, and nowhere else."""
    home = ("calls/ndarray.h", "calls/fast_path.h")
    use = r"\bcimport\s+numpy\b|from\s+numpy\s+cimport|<numpy/|\bPyArray_\w+\(|\bimport_array\b"
    for path in files(package, ".pyx", ".pxd", ".h", ".c"):
        if path.relative_to(package).as_posix() not in home and re.search(use, code_of(path)):
            yield f"{path.relative_to(package)}: NumPy's C-API belongs in calls/ndarray.h"


def pandas_only_in_frames(package: Path) -> Iterator[str]:
    """`frames/` is the only room that imports pandas; the command line, which shows it at work, may."""
    for path in files(package, ".py", ".pyx", ".pxd"):
        if room_of(package, path) in ("frames", "cli"):
            continue
        for line, name in imports(path):
            if name.split(".")[0] == "pandas":
                yield f"{path.relative_to(package)}:{line}: imports pandas"


def a_stub_beside_every_extension(package: Path) -> Iterator[str]:
    for path in files(package, ".pyx"):
        if not path.with_suffix(".pyi").exists():
            yield f"{path.relative_to(package)}: no .pyi beside it"


def sorted_public_names(package: Path) -> Iterator[str]:
    """`__all__` is a sorted list of literal names (as ruff sorts: constants, classes, the rest), each only once."""
    for path in files(package, ".py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Assign) and any(
                isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets
            ):
                if not isinstance(node.value, ast.List | ast.Tuple):
                    continue  # computed from other lists: their own order counts
                names = [item.value for item in node.value.elts if isinstance(item, ast.Constant)]
                kinds = [(0 if n.isupper() else 1 if n[:1].isupper() else 2, n) for n in names]
                if names != [name for _, name in sorted(set(kinds))]:
                    yield f"{path.relative_to(package)}:{node.lineno}: __all__ is not sorted"


def rooms_say_what_they_are_for(package: Path) -> Iterator[str]:
    """Each room's `__init__` begins with a docstring that says what it is for and what it must not know."""
    for path in sorted(package.glob("*/__init__.py")):
        if path.parent.name in RANKS:
            words = ast.get_docstring(ast.parse(path.read_text())) or ""
            if len(words.splitlines()) < 3 or ("ust not" not in words and RANKS[path.parent.name] < RANKS["cli"]):
                yield f"{path.relative_to(package)}: its docstring does not say what it is for and must not know"


def no_textual_include(package: Path) -> Iterator[str]:
    for path in sorted(package.rglob("*.pxi")):
        yield f"{path.relative_to(package)}: a .pxi file"
    for path in files(package, ".pyx", ".pxd"):
        if re.search(r"(?m)^\s*include\s+[\"']", path.read_text()):
            yield f"{path.relative_to(package)}: textual include; cimport instead"


def no_long_file(*roots: Path) -> Iterator[str]:
    for root in roots:
        for path in files(root):
            lines = len(path.read_text().splitlines())
            if lines > LONGEST:
                yield f"{path.relative_to(root)}: {lines} lines, more than {LONGEST}; it holds a second concern"


def errors_live_in_the_tree(package: Path) -> Iterator[str]:
    """What leaves a room is of the tree in `memory/errors.py`: other exception classes extend one of it or are caught
    in their own room, and a builtin that is raised is caught in the same file. `__getattr__` owes an AttributeError."""
    errors = {
        node.name
        for node in ast.parse((package / "memory" / "errors.py").read_text()).body
        if isinstance(node, ast.ClassDef)
    }
    caught: dict[str, str] = {}
    for path in files(package, ".py", ".pyx"):
        caught[room_of(package, path)] = caught.get(room_of(package, path), "") + excepts(path) + "\n"
    for path in files(package, ".py", ".pyx"):
        relative, text = path.relative_to(package).as_posix(), without_docstrings(path)
        if relative == "memory/errors.py":
            continue
        for match in re.finditer(r"(?m)^\s*class\s+(\w+)\(([^)]*(?:Error|Exception)\b[^)]*)\)", text):
            bases = set(re.findall(r"\w+", match[2]))
            if not bases & errors and not re.search(rf"\b{match[1]}\b", caught[room_of(package, path)]):
                yield f"{relative}: exception class {match[1]} is not of the tree"
        for match in re.finditer(r"(?m)^[ \t]*raise\s+(\w+)\b", text):
            allowed = (
                "def __getattr__" in text
                if match[1] == "AttributeError"
                else re.search(rf"\b{match[1]}\b", excepts(path))
            )
            if match[1] in BUILTIN_ERRORS and not allowed:
                line = text.count("\n", 0, match.start(1)) + 1
                yield f"{relative}:{line}: raises {match[1]}, which is not of the tree"


def excepts(path: Path) -> str:
    """The except clauses of a file."""
    return "\n".join(re.findall(r"(?m)^\s*except\s+([^\n]*):", path.read_text()))


def without_docstrings(path: Path) -> str:
    """The text with docstrings blanked and line numbers kept."""
    return re.sub(r'""".*?"""', lambda m: "\n" * m[0].count("\n"), path.read_text(), flags=re.S)


def no_traces_of_a_machine(*roots: Path) -> Iterator[str]:
    """Nothing refers to directories of one machine."""
    foreign = re.compile(
        "|".join(re.escape("/" + name + "/") for name in ("work", "opt", "root")) + r"|[\"'(= ]/tmp/"
    )
    for root in roots:
        for path in files(root, *CODE, ".md", ".toml", ".build", ".yml"):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if foreign.search(line):
                    yield f"{path.relative_to(root)}:{number}: {line.strip()[:80]}"


def all_files_installed(package: Path, installed: Path) -> Iterator[str]:
    """Whatever the package needs at run time, or others compile against, is in the installed package, byte for byte."""
    for path in files(package, *SHIPPED):
        there = installed / path.relative_to(package)
        if not there.exists():
            yield f"{path.relative_to(package)}: not installed"
        elif there.read_bytes() != path.read_bytes():
            yield f"{path.relative_to(package)}: installed in another version"
    for path in files(package, ".pyx"):
        if not list((installed / path.relative_to(package)).parent.glob(f"{path.stem}.*.so")):
            yield f"{path.relative_to(package)}: its extension is not installed"


def public_names_documented(names: list[str], page: Path) -> Iterator[str]:
    """Every public name stands on the page, or belongs to a module that the page takes in whole."""
    text = page.read_text()
    modules = re.findall(r"automodule:: ([\w.]+)", text)
    text += " ".join(" ".join(importlib.import_module(module).__all__) for module in modules)
    for name in names:
        if not name.startswith("_") and not re.search(rf"\b{re.escape(name)}\b", text):
            yield f"{name}: not in {page.name}"


def page_names_what_exists(page: Path, package: Path) -> Iterator[str]:
    """Every source file that the page names is there; `function()` beside files is in one of them."""
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
