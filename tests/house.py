"""The rules of the house, each a function from a source tree to its violations."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

RANKS = {
    "memory": 0,
    "views": 1,
    "calls": 2,
    "sharing": 2,
    "compute": 3,
    "loading": 3,
    "fusion": 4,
    "safety": 4,
    "tracing": 4,
    "flow": 5,
    "frames": 6,
    "cuda": 6,
    "integrations": 6,
    "kernels": 7,
    "cli": 8,
    "__main__": 9,
}
FACADE = 7  # from this rank on a file may use the package as its users do
MAX_LINES = 600
MAX_COLUMNS = 120
MAX_FILES = 14  # of a folder: .py, .pyx, .h, .c and .mojo; `__init__`, .pxd and .pyi belong to them
CODE = {".py", ".pyi", ".pyx", ".pxd", ".h", ".c", ".mojo"}
SHIPPED = {".py", ".pyi", ".pxd", ".h", ".mojo", ".typed"}
BUILTIN_ERRORS = {
    name
    for name, value in vars(__import__("builtins")).items()
    if isinstance(value, type) and issubclass(value, Exception) and not issubclass(value, Warning)
}


def files(package: Path, *suffixes: str) -> Iterator[Path]:
    """Yield the sources of a folder, or those with one of the suffixes."""
    for path in sorted(package.rglob("*")):
        if path.suffix in (suffixes or CODE) and "__pycache__" not in path.parts:
            yield path


def imports(path: Path, *, types: bool = True) -> Iterator[tuple[int, str]]:
    """Yield (line, dotted name) of every import, cimport and C include, those inside functions included.

    `types=False` leaves out what stands under `if TYPE_CHECKING`. Includes are given as "mojoview.room.file.h".
    """
    text = path.read_text()
    if path.suffix in (".py", ".pyi"):
        yield from _imports_of_python(text, types)
        return
    if path.suffix in (".pyx", ".pxd"):
        yield from _imports_of_cython(text)
    for match in re.finditer(r"""(?m)^\s*(?:#\s*include\s*|cdef extern from\s+)"([\w./]+)\"""", text):
        yield text.count("\n", 0, match.start(1)) + 1, _header(path, match[1])


@lru_cache(maxsize=2048)
def _imports_of_python(text: str, types: bool) -> list[tuple[int, str]]:
    return list(_python_imports(ast.parse(text), types))


def _python_imports(tree: ast.AST, types: bool) -> Iterator[tuple[int, str]]:
    if isinstance(tree, ast.Import):
        yield from ((tree.lineno, alias.name) for alias in tree.names)
    elif isinstance(tree, ast.ImportFrom):
        module = "." * tree.level + (tree.module or "")
        yield from ((tree.lineno, f"{module}.{alias.name}") for alias in tree.names)
    elif isinstance(tree, ast.If) and not types and "TYPE_CHECKING" in ast.unparse(tree.test):
        for node in tree.orelse:
            yield from _python_imports(node, types)
    else:
        for node in ast.iter_child_nodes(tree):
            yield from _python_imports(node, types)


@lru_cache(maxsize=2048)
def _imports_of_cython(text: str) -> list[tuple[int, str]]:
    return list(_cython_imports(text))


def _cython_imports(text: str) -> Iterator[tuple[int, str]]:
    statement = r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+c?import[ \t]+(\([^)]*\)|[^\n#]+)|c?import[ \t]+([^\n#]+))"
    for match in re.finditer(statement, text, re.M):
        line = text.count("\n", 0, match.start()) + 1
        module, names, modules = match.groups()
        for name in re.sub(r"[()\s]+", " ", names or modules).split(","):
            if name.strip():
                yield line, f"{module + '.' if module else ''}{name.split()[0]}"


def _header(path: Path, name: str) -> str:
    """Return the dotted name of an included header: relative to the file, else to the package, else to `memory/`."""
    package = next(folder for folder in path.parents if (folder / "memory" / "abi.h").exists())
    for folder in (path.parent, package, package / "memory"):
        header = (folder / name).resolve()
        if header.is_relative_to(package.resolve()) and header.exists():
            return "mojoview." + header.relative_to(package.resolve()).as_posix().replace("/", ".")
    return name


def room_of(package: Path, path: Path) -> str:
    """Return the first folder below the package; a module of the package itself is its own room."""
    parts = path.relative_to(package).parts
    return parts[0] if len(parts) > 1 else path.stem


def ranks(package: Path) -> Iterator[str]:
    """Yield imports and includes from a higher or equal rank; the package's `__init__` may see all rooms.

    A type checker may see the class from above that an extension point returns.
    """
    points = package / "memory" / "extension_points.py"
    returned = set(re.findall(r"\w+", " ".join(re.findall(r"-> ([^\"]+)\"\)", points.read_text()))))
    for path in files(package, ".py", ".pyi", ".pyx", ".pxd", ".h", ".c"):
        room = room_of(package, path)
        if room == "__init__":
            continue
        runs = set() if path.suffix == ".pyi" else set(imports(path, types=False))
        for line, name in imports(path):
            parts = name.split(".")
            if (line, name) not in runs and parts[-1] in returned:
                continue
            where = f"{path.relative_to(package)}:{line}"
            if name.startswith("."):
                yield f"{where}: relative import {name}"
            if parts[0] != "mojoview" or len(parts) == 1:
                if parts == ["mojoview"] and RANKS[room] < FACADE:
                    yield f"{where}: imports the whole package"
                continue
            other = parts[1]
            if other == room or other.startswith("_build_config"):
                continue
            if other not in RANKS:
                if RANKS[room] < FACADE:
                    yield f"{where}: imports {name}, which is not a room"
            elif RANKS[other] >= RANKS[room]:
                yield f"{where}: {room}/ (rank {RANKS[room]}) imports {other}/ (rank {RANKS[other]})"


def no_circle_in_a_room(package: Path) -> Iterator[str]:
    """Yield the circles of imports inside each room, imports inside functions and C includes counted.

    A module, its .pxd and its .pyi are one node. A name that an `__init__` re-exports counts as an import of the module
    that defines it. Imports for type checkers are left out: they do not run.
    """
    nodes: dict[str, list[Path]] = {}
    for path in files(package):
        if path.suffix not in (".pyi", ".mojo"):
            suffix = path.suffix if path.suffix in (".h", ".c") else ""
            nodes.setdefault("mojoview." + dotted(package, path) + suffix, []).append(path)
    exported: dict[str, dict[str, str]] = {
        node: {name.rpartition(".")[2]: name for _, name in imports(paths[0]) if name.startswith("mojoview.")}
        for node, paths in nodes.items()
        if node.endswith(".__init__")
    }

    def target(name: str) -> str | None:
        module, parts = name, []
        while module:
            if module in nodes:
                return module
            init = f"{module}.__init__"
            if init in nodes:
                origin = exported[init].get(parts[-1]) if parts else None
                return target(origin) if origin and origin != name else init
            module, _, last = module.rpartition(".")
            parts.append(last)
        return None

    edges: dict[str, set[str]] = {}
    for node, paths in nodes.items():
        room = room_of(package, paths[0])
        found = {target(name) for path in paths for _, name in imports(path, types=False)}
        edges[node] = {
            other for other in found if other and other != node and room_of(package, nodes[other][0]) == room
        }
    for circle in _circles(edges):
        names = [nodes[node][0].relative_to(package).as_posix() for node in circle]
        yield f"{names[0].split('/')[0]}: " + " -> ".join([*names, names[0]])


def _circles(edges: dict[str, set[str]]) -> Iterator[list[str]]:
    """Yield one shortest circle of every strongly connected part of a graph."""
    reached = {node: _paths(edges, node) for node in edges}
    seen: set[str] = set()
    for start in sorted(edges):
        part = {node for node in reached[start] if start in reached[node]}
        if part and start not in seen:
            seen |= part
            yield min((reached[node][node] for node in sorted(part)), key=len)


def _paths(edges: dict[str, set[str]], start: str) -> dict[str, list[str]]:
    """Return for every node that can be reached a shortest path from `start`, its end left out."""
    paths: dict[str, list[str]] = {}
    level = [(start, [start])]
    while level:
        following = []
        for node, path in level:
            for other in sorted(edges[node]):
                if other not in paths:
                    paths[other] = path
                    following.append((other, [*path, other]))
        level = following
    return paths


def dotted(package: Path, path: Path) -> str:
    """Return the path below the package as a dotted name without suffix."""
    return ".".join(path.relative_to(package).with_suffix("").parts)


def unique_extension_names(package: Path) -> Iterator[str]:
    """Yield extension modules that share the last part of their name: meson builds one target a name."""
    names: dict[str, Path] = {}
    for path in files(package, ".pyx"):
        other = names.setdefault(path.stem, path)
        if other is not path:
            yield f"{path.relative_to(package)}: an extension module called {path.stem} is also in {other.parent.name}/"


def no_crowded_folder(package: Path) -> Iterator[str]:
    """Yield folders with more than MAX_FILES files of code."""
    for folder in sorted({path.parent for path in files(package)}):
        names = [
            path.name
            for path in folder.iterdir()
            if path.suffix in (".py", ".pyx", ".h", ".c", ".mojo") and path.stem != "__init__"
        ]
        if len(names) > MAX_FILES:
            listed = ", ".join(sorted(names))
            yield f"{folder.relative_to(package)}/: {len(names)} files, more than {MAX_FILES}: {listed}"


def no_wide_line(*roots: Path) -> Iterator[str]:
    """Yield lines of code with more than MAX_COLUMNS columns."""
    for root in roots:
        for path in files(root):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if len(line) > MAX_COLUMNS:
                    yield f"{path.relative_to(root)}:{number}: {len(line)} columns, more than {MAX_COLUMNS}"


def constants_of_c_are_not_repeated(package: Path) -> Iterator[str]:
    """Yield numbers beside a comment that names the C header or constant they copy: import the constant instead."""
    for path in files(package, ".py", ".pyx"):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if re.search(r"=\s*\(?[-\d][^#]*#.*(?:\w\.(?:h|pxd|c)\b|\bMV_[A-Z]|\bGIL_WORTH\b)", line):
                yield f"{path.relative_to(package)}:{number}: repeats a constant of C: {line.strip()}"


def one_caller_of_get_buffer(package: Path) -> Iterator[str]:
    """Yield files other than `memory/_lease.pyx` that acquire buffers."""
    for path in files(package):
        if path.relative_to(package).as_posix() != "memory/_lease.pyx" and re.search(
            r"\bPyObject_GetBuffer\b", code_of(path)
        ):
            yield f"{path.relative_to(package)}: PyObject_GetBuffer belongs in memory/_lease.pyx"


def code_of(path: Path) -> str:
    """Return the text without comments."""
    text = path.read_text()
    if path.suffix in (".h", ".c"):
        return re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)
    return re.sub(r"(?m)#[^\n]*", "", re.sub(r'""".*?"""', "", text, flags=re.S))


def one_home_of_numpys_c_api(package: Path) -> Iterator[str]:
    """Yield uses of NumPy's C-API outside the two headers that read the fields of arrays."""
    home = ("calls/native/ndarray.h", "calls/native/fast_path.h")
    use = r"\bcimport\s+numpy\b|from\s+numpy\s+cimport|<numpy/|\bPyArray_\w+\(|\bimport_array\b"
    for path in files(package, ".pyx", ".pxd", ".h", ".c"):
        if path.relative_to(package).as_posix() not in home and re.search(use, code_of(path)):
            yield f"{path.relative_to(package)}: NumPy's C-API belongs in calls/native/ndarray.h"


def pandas_only_in_frames(package: Path) -> Iterator[str]:
    """Yield imports of pandas outside `frames/` and the command line, which shows it at work."""
    for path in files(package, ".py", ".pyx", ".pxd"):
        if room_of(package, path) in ("frames", "cli"):
            continue
        for line, name in imports(path):
            if name.split(".")[0] == "pandas":
                yield f"{path.relative_to(package)}:{line}: imports pandas"


def a_stub_beside_every_extension(package: Path) -> Iterator[str]:
    """Yield extension modules with public names and without a .pyi, and empty .pyi files."""
    for path in files(package, ".pyx"):
        stub = path.with_suffix(".pyi")
        public = re.search(r"(?m)^(?:(?:def|cpdef|class|cdef class)\s+[A-Za-z]|[A-Za-z]\w*\s*=(?!=))", code_of(path))
        if public and not stub.exists():
            yield f"{path.relative_to(package)}: no .pyi beside it"
        if stub.exists() and not stub.read_text().strip():
            yield f"{stub.relative_to(package)}: an empty stub"


def sorted_public_names(package: Path) -> Iterator[str]:
    """Yield lists `__all__` that are not sorted (as ruff sorts: constants, classes, the rest) or repeat a name."""
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


def rooms_state_purpose_and_limits(package: Path) -> Iterator[str]:
    """Yield rooms whose `__init__` docstring does not say what the room is for and what it must not know."""
    for path in sorted(package.glob("*/__init__.py")):
        if path.parent.name in RANKS:
            text = ast.get_docstring(ast.parse(path.read_text())) or ""
            if len(text.splitlines()) < 3 or ("ust not" not in text and RANKS[path.parent.name] < FACADE):
                yield f"{path.relative_to(package)}: its docstring does not state purpose and limits"


def folders_name_their_files(package: Path) -> Iterator[str]:
    """Yield files that the docstring of their folder's `__init__` does not name (in backticks, by stem)."""
    for path in files(package, ".py", ".pyx", ".h", ".c"):
        init = path.parent / "__init__.py"
        if path.parent == package or path.stem == "__init__" or not init.exists():
            continue
        text = ast.get_docstring(ast.parse(init.read_text())) or ""
        if not re.search(rf"`(?:[\w/]+/)?_?{re.escape(path.stem.lstrip('_'))}(?:\.\w+)?`", text):
            yield f"{path.relative_to(package)}: not named in {init.relative_to(package)}"


def no_textual_include(package: Path) -> Iterator[str]:
    """Yield textual includes of Cython."""
    for path in sorted(package.rglob("*.pxi")):
        yield f"{path.relative_to(package)}: a .pxi file"
    for path in files(package, ".pyx", ".pxd"):
        if re.search(r"(?m)^\s*include\s+[\"']", path.read_text()):
            yield f"{path.relative_to(package)}: textual include; cimport instead"


def no_long_file(*roots: Path) -> Iterator[str]:
    """Yield files with more than MAX_LINES lines."""
    for root in roots:
        for path in files(root):
            lines = len(path.read_text().splitlines())
            if lines > MAX_LINES:
                yield f"{path.relative_to(root)}: {lines} lines, more than {MAX_LINES}; split it by concern"


def errors_live_in_the_tree(package: Path) -> Iterator[str]:
    """Yield exceptions that can leave a room and are not of the tree in `memory/errors.py`.

    Other exception classes extend one of the tree or are caught in their own room; a builtin that is raised is caught
    in the same file. `__getattr__` must raise AttributeError.
    """
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
    """Return the except clauses of a file."""
    return "\n".join(re.findall(r"(?m)^\s*except\s+([^\n]*):", path.read_text()))


def without_docstrings(path: Path) -> str:
    """Return the text with docstrings blanked and line numbers kept."""
    return re.sub(r'""".*?"""', lambda m: "\n" * m[0].count("\n"), path.read_text(), flags=re.S)


def no_traces_of_a_machine(*roots: Path) -> Iterator[str]:
    """Yield references to directories of one machine."""
    foreign = re.compile("|".join(re.escape("/" + name + "/") for name in ("work", "opt", "root")) + r"|[\"'(= ]/tmp/")
    for root in roots:
        for path in files(root, *CODE, ".md", ".toml", ".build", ".yml"):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if foreign.search(line):
                    yield f"{path.relative_to(root)}:{number}: {line.strip()[:80]}"


def all_files_installed(package: Path, installed: Path) -> Iterator[str]:
    """Yield what the package needs at run time, or others compile against, and is not installed byte for byte."""
    for path in files(package, *SHIPPED):
        there = installed / path.relative_to(package)
        if not there.exists():
            yield f"{path.relative_to(package)}: not installed"
        elif there.read_bytes() != path.read_bytes():
            yield f"{path.relative_to(package)}: installed in another version"
    for path in files(package, ".pyx"):
        if not list((installed / path.relative_to(package)).parent.glob(f"{path.stem}.*.so")):
            yield f"{path.relative_to(package)}: its extension is not installed"
