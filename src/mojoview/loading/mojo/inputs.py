"""The source argument of `load` as files for the compiler: one file, a package, several files, or text."""

from __future__ import annotations

import atexit
import functools
import hashlib
import itertools
import os
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mojoview.loading.mojo.cache import SOURCES, Cache, cache_directory
from mojoview.loading.mojo.include_path import get_mojo_include
from mojoview.loading.mojo.source import outline_of
from mojoview.memory.errors import ArgumentError, MojoViewError

__all__ = ["ROOT", "Inputs"]

# Symbol and name of the root file, which makes the compiler put the exports of several files into one library.
ROOT = "mojoview_root"
MAX_NAME = 200  # bytes; file systems allow 255, and the compiler appends to the name


@dataclass(frozen=True, slots=True)
class Inputs:
    """The files of one compilation.

    Attributes
    ----------
    file : Path
        The file that the compiler reads.
    path : Path
        The file or package that the user named.
    name : str
        Name of the module.
    members : tuple of (Path, str)
        The files whose exports become kernels, and their dotted names within `package`; "" outside of a package.
    search : tuple of Path
        Directories in which imports are searched.
    package : Path or None
        The outermost package, if the compiler needs it.
    """

    file: Path
    path: Path
    name: str
    members: tuple[tuple[Path, str], ...]
    search: tuple[Path, ...]
    package: Path | None = None

    @classmethod
    def of(cls, path: Any, source: str | None, name: str | None) -> Inputs:
        """Check the arguments of `load`, and write source text to a file.

        Raises
        ------
        ArgumentError
        """
        if name is not None and not (isinstance(name, str) and name.isidentifier() and name != "mojoview"):
            raise ArgumentError(f"load(): name: expected an identifier other than 'mojoview', got {name!r}")
        if name is not None and len(os.fsencode(name)) > MAX_NAME:
            raise ArgumentError(f"load(): name: expected at most {MAX_NAME} bytes, got {len(os.fsencode(name))}")
        if (path is None) == (source is None):
            if path is None:
                raise ArgumentError("load(): path: expected a str or path-like, got NoneType")
            raise ArgumentError("load(): expected either a path or source=, got both")
        if source is not None:
            if not isinstance(source, str):
                raise ArgumentError(f"load(): source: expected a str, got {type(source).__name__}")
            file = materialise_source(source, name or "source")
            return cls(file, file, name or file.stem, ((file, ""),), (file.parent,))
        if isinstance(path, list | tuple):
            return cls.of_files([_file(part) for part in path], name)
        package = _path(path)
        try:
            is_package = package.is_dir() and (package / "__init__.mojo").is_file()
        except OSError as error:
            raise ArgumentError(f"load(): cannot read {package}: {error.strerror}") from error
        if is_package:
            return cls.of_package(package, name)
        file = _file(path)
        if (outermost := _package_of(file)) and _is_relative(file):
            return cls.of_member(file, outermost, name)
        return cls(file, file, name or file.stem, ((file, ""),), (file.parent,))

    @classmethod
    def of_member(cls, file: Path, package: Path, name: str | None) -> Inputs:
        """Return the inputs for a module with relative imports, which the compiler must find within its package."""
        dotted = ".".join(file.relative_to(package.parent).with_suffix("").parts)
        root = materialise_source(root_of([(file, dotted.removesuffix(".__init__"))]), ROOT)
        return cls(root, file, name or file.stem, ((file, dotted),), (package.parent, file.parent), package)

    @classmethod
    def of_package(cls, package: Path, name: str | None) -> Inputs:
        if not package.name.isidentifier() or package.name == "mojoview":
            raise ArgumentError(f"load(): the package directory {package.name!r} is not a name that Mojo can import")
        members = []
        for file in sorted(package.rglob("*.mojo"), key=lambda p: (p.name != "__init__.mojo", p)):
            inside = [d for d in file.parents if d == package or package in d.parents]
            if all((d / "__init__.mojo").is_file() for d in inside):
                parts = file.relative_to(package.parent).with_suffix("").parts
                members.append((file, ".".join(parts)))
        members.sort(key=lambda m: m[0] != package / "__init__.mojo")
        file = materialise_source(root_of([(f, dotted.removesuffix(".__init__")) for f, dotted in members]), ROOT)
        return cls(file, package, name or package.name, tuple(members), (package.parent,), package)

    @classmethod
    def of_files(cls, files: Sequence[Path], name: str | None) -> Inputs:
        if not files:
            raise ArgumentError("load(): path: expected at least one file, got none")
        stems = [file.stem for file in files]
        if doubled := sorted({s for s in stems if stems.count(s) > 1}):
            raise ArgumentError(f"load(): two files are called {doubled[0]}.mojo; files are imported by name")
        if bad := [s for s in stems if not s.isidentifier() or s in ("mojoview", "__init__", ROOT)]:
            raise ArgumentError(f"load(): {bad[0]}.mojo is not a name that Mojo can import")
        search = tuple(dict.fromkeys(file.parent for file in files))
        file = materialise_source(root_of([(f, f.stem) for f in files]), ROOT) if len(files) > 1 else files[0]
        return cls(file, files[0], name or files[0].stem, tuple((f, "") for f in files), search)

    def hidden_library(self) -> Path | None:
        """Return a file or directory that the compiler would find instead of mojoview's own Mojo package."""
        for place in self.search:
            for found in (place / name for name in ("mojoview", "mojoview.mojo", "mojoview.mojopkg")):
                if found.exists() and place != get_mojo_include():
                    return found
        return None


def _path(path: Any) -> Path:
    try:
        file = Path(os.fsdecode(path)).absolute()
        os.fsencode(file)
    except TypeError:
        raise ArgumentError(f"load(): path: expected a str or path-like, got {type(path).__name__}") from None
    except UnicodeError:
        raise ArgumentError(f"load(): path: expected the name of a file, got {path!r}") from None
    if "\0" in str(file):
        raise ArgumentError(f"load(): path: expected no NUL character, got {str(file)!r}")
    return file


def _file(path: Any) -> Path:
    file = _path(path)
    if file.suffix != ".mojo":
        raise ArgumentError(
            "load(): expected a package (a directory with an __init__.mojo) or a file whose name"
            f" ends in .mojo, got {file.name!r}"
        )
    try:
        special = file.exists() and not file.is_file() and not file.is_dir()
    except OSError as error:
        raise ArgumentError(f"load(): cannot read {file}: {error.strerror}") from error
    if special:  # reading from a pipe or a device may block
        raise ArgumentError(f"load(): expected a regular file, got {file}")
    return file


def _package_of(file: Path) -> Path | None:
    """Return the outermost Mojo package that contains a file."""
    inside = list(itertools.takewhile(lambda d: (d / "__init__.mojo").is_file(), file.parents))
    parts = [*(d.name for d in inside), file.stem]
    return inside[-1] if inside and all(map(str.isidentifier, parts)) and parts[-2] != "mojoview" else None


def _is_relative(file: Path) -> bool:
    try:
        return any(module.startswith(".") for module in outline_of(file).modules)
    except OSError:
        return False  # the compilation reports why it cannot be read


def root_of(members: Sequence[tuple[Path, str]]) -> str:
    """Return a Mojo file that refers to every export of the members; the compiler omits unused functions."""
    imports, uses, seen = list[str](), list[str](), dict[str, Path]()
    for file, module in members:
        try:
            found = outline_of(file)
        except OSError as error:
            raise ArgumentError(f"load(): cannot read {file}: {error.strerror}") from error
        for export in found.exports:
            if other := seen.get(export.symbol):
                raise ArgumentError(f"load(): {other.name} and {file.name} both export {export.symbol!r}; rename one")
            seen[export.symbol] = file
            # Exports that are skipped here are refused by `examine`, with the reason.
            if export.abi_c and not export.nested and found.functions.get(export.function) == 1:
                imports.append(f"from {module} import `{export.function}` as e{len(uses)}\n")
                uses.append(f"    comptime u{len(uses)} = e{len(uses)}\n")
    return f'{"".join(imports)}\n@export("{ROOT}")\ndef {ROOT}() abi("C"):\n{"".join(uses)}    pass\n'


def materialise_source(text: str, name: str) -> Path:
    """Write source text to a file whose path depends only on text and name, and return the path.

    Compilers, debuggers and tracebacks read it there.
    """
    data = text.encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(data).hexdigest()[:16]
    try:
        root = Cache.open(cache_directory().with_name(SOURCES)).root
        return _write(root / digest, name, data)
    except OSError as error:
        if isinstance(error, MojoViewError):
            raise
        return _write(_process_directory() / digest, name, data)  # `load` warns that the cache cannot be used


@functools.cache
def _process_directory() -> Path:
    """Return a temporary directory that is removed when the process exits."""
    place = tempfile.mkdtemp(prefix="mojoview-")
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return Path(place)


def _write(folder: Path, name: str, data: bytes) -> Path:
    folder.mkdir(mode=0o700, exist_ok=True)
    file = folder / f"{name}.mojo"
    if not file.is_file() or file.read_bytes() != data:
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as fresh:
            fresh.write(data)
        os.replace(fresh.name, file)
    with suppress(OSError):
        os.utime(folder)  # the cache removes what was used the longest ago
    return file
