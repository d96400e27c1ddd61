"""`enable_hook`: import Mojo files as Python modules (PEP 451: a finder on `sys.meta_path`, and a loader).

The finder precedes the one for ordinary modules, which would take a directory with an `__init__.mojo` for a namespace
package. It ignores every name for which Python has a module, and the files of Modular's own importer, which export
`PyInit_…`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.abc import FileLoader, InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec, NamespaceLoader, PathFinder
from importlib.readers import FileReader
from importlib.util import spec_from_file_location
from pathlib import Path
from threading import Lock
from types import ModuleType, TracebackType
from typing import Any, Self, cast

from mojoview.loading.module import KernelModule
from mojoview.loading.mojo.import_cache import lookup, store
from mojoview.loading.mojo.loader import load
from mojoview.loading.mojo.source import outline
from mojoview.memory.check import seconds_of
from mojoview.memory.errors import ArgumentError, KernelAttributeError, KernelImportError, MojoViewError

__all__ = ["Hook", "KernelLoader", "enable_hook"]

INIT = "__init__.mojo"
MODULE = "__mojo__"  # attribute of an imported module: its KernelModule
_changing = Lock()


def enable_hook(
    *, flags: Sequence[str] = (), progress: Callable[[str], None] | None = None, timeout: float = 600.0
) -> Hook:
    """enable_hook(*, flags=(), progress=None, timeout=600.0)

    Let `import mykernels.stats` find `mykernels/stats.mojo`.

    Files ending in .mojo, and directories with an `__init__.mojo`, are searched on `sys.path` and in the packages of a
    dotted name, those of Python included. A Python module always takes precedence, wherever it is, and so do files for
    Modular's own importer (which export `PyInit_…`). The kernels are attributes of the module; its `__mojo__` is the
    `KernelModule`. A file without exports, such as most `__init__.mojo`, is not compiled.

    Parameters
    ----------
    flags, progress, timeout
        As for `load`, for every module that this hook imports. The compiler gets the directory of the top-level name
        with -I, so that `from mykernels.util import f` works in Mojo as well; in a Mojo package (one with an
        `__init__.mojo`), so does `from .util import f`.

    Returns
    -------
    Hook
        `disable()`, or the end of a `with` block, removes it. The latest of several hooks is asked first.

    Raises
    ------
    ArgumentError
        An argument has the wrong type.

    Notes
    -----
    If the compiler rejects a file, its import raises `KernelImportError`, an ImportError with `.file`, `.line` and
    `.column`, chained to the `KernelCompileError`. `importlib.reload(module)` compiles a changed file again. Child
    processes that are not forked must enable their own hook. Thread safety: any thread.

    Examples
    --------
    >>> from mojoview import enable_hook
    >>> with enable_hook() as hook:
    ...     hook.enabled
    True
    >>> hook.enabled
    False
    """
    if isinstance(flags, str) or not isinstance(flags, Sequence) or not all(isinstance(flag, str) for flag in flags):
        raise ArgumentError(f"enable_hook(): flags: expected a sequence of strings, got {flags!r}")
    if progress is not None and not callable(progress):
        raise ArgumentError(f"enable_hook(): progress: expected a callable, got {type(progress).__name__}")
    hook = Hook(tuple(flags), progress, seconds_of(timeout, "enable_hook()"))
    with _changing:
        finders = sys.meta_path
        places = (k for k, finder in enumerate(finders) if finder is PathFinder or isinstance(finder, Hook))
        finders.insert(next(places, len(finders)), hook)
    return hook


class Hook(MetaPathFinder):
    """Finder of Mojo files for `import`; made by `enable_hook`.

    Attributes
    ----------
    enabled : bool

    Notes
    -----
    Thread safety: any thread.
    """

    def __init__(self, flags: tuple[str, ...], progress: Callable[[str], None] | None, timeout: float):
        self._flags, self._progress, self._timeout = flags, progress, timeout

    @property
    def enabled(self) -> bool:
        return any(finder is self for finder in sys.meta_path)

    def disable(self) -> None:
        """disable()

        Remove the hook; imported modules remain, but cannot be reloaded. May be called again.

        Notes
        -----
        Thread safety: any thread.
        """
        with _changing:
            sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not self]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.disable()

    def __repr__(self) -> str:
        return f"<mojoview import hook, {'enabled' if self.enabled else 'disabled'}>"

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        """Return the spec of a Mojo module; None for any other name."""
        file = _find(fullname.rpartition(".")[2], sys.path if path is None else path)
        if file is None or self._python_has(fullname, path, target):
            return None
        data = _bytes(file)
        if b"PyInit_" in data and _is_binding(data.decode("utf-8", "replace")):
            return None
        package = os.path.basename(file) == INIT
        loader = KernelLoader(fullname, file, b"@export" in data, self._flags, self._progress, self._timeout)
        return spec_from_file_location(
            fullname, file, loader=loader, submodule_search_locations=[os.path.dirname(file)] if package else None
        )

    def _python_has(self, name: str, path: Sequence[str] | None, target: ModuleType | None) -> bool:
        """Return whether a finder after this one has the module; import has already asked those before it.

        Namespace packages are ignored: any directory is one.
        """
        finders = list(sys.meta_path)
        here = next((k for k, finder in enumerate(finders) if finder is self), -1)
        for finder in finders[here + 1 :]:
            # Modular's importer would compile the file.
            if isinstance(finder, Hook) or type(finder).__module__.endswith("mojo.importer"):
                continue
            spec = finder.find_spec(name, path, target) if hasattr(finder, "find_spec") else None
            if spec is not None and spec.loader is not None and not isinstance(spec.loader, NamespaceLoader):
                return True
        return False


def _find(name: str, path: Iterable[object]) -> str | None:
    """Return the first package or file of that name; entries that are not directories are skipped."""
    if os.sep in name or not name:
        return None
    for entry in path:
        if isinstance(entry, str):
            stem = os.path.join(entry, name)
            for file in (os.path.join(stem, INIT), f"{stem}.mojo"):
                if os.path.isfile(file):  # false for relative paths if the current directory has been removed
                    return file if os.path.isabs(file) else os.path.abspath(file)
    return None


def _public_names(kernels: Any) -> list[str]:
    """Return the names of all kernels and families."""
    return [*kernels, *getattr(kernels, "families", ())]


def _bytes(file: str) -> bytes:
    try:
        with open(file, "rb", buffering=0) as opened:
            return opened.read()
    except OSError:
        return b"@export"  # the compilation reports the error


def _is_binding(text: str) -> bool:
    """Return whether the text is a module for Modular's own importer."""
    return any(export.symbol.startswith("PyInit_") for export in outline(text).exports)


class KernelLoader(InspectLoader):
    """Loader that fills a module with the kernels of a Mojo file.

    Attributes
    ----------
    name, path : str
        Name of the module and path of its file.

    Notes
    -----
    Thread safety: the import system calls it for one module in one thread at a time.
    """

    def __init__(
        self,
        name: str,
        path: str,
        compiled: bool,
        flags: tuple[str, ...],
        progress: Callable[[str], None] | None,
        timeout: float,
    ):
        self.name, self.path = name, path
        self._compiled, self._flags, self._progress, self._timeout = compiled, flags, progress, timeout

    def exec_module(self, module: ModuleType) -> None:
        """Compile the file unless it is in the cache; after an error the module is unchanged."""
        kernels: Any = {}
        if self._compiled:
            try:
                kernels = self._load([*self._flags, *self._root()])
            except ImportError:  # no compiler
                raise
            except MojoViewError as error:
                raise KernelImportError(
                    f"cannot import {self.name}: {error}",
                    name=self.name,
                    path=self.path,
                    diagnostics=getattr(error, "diagnostics", ()),
                ) from error
        names, old = vars(module), vars(module).get(MODULE, {})
        # Kernels must not replace attributes of the import system such as __spec__.
        fresh = {name: kernels[name] for name in _public_names(kernels) if not (name[:2] == name[-2:] == "__")}
        gone = [name for name in _public_names(old) if name not in fresh and names.get(name) is old[name]]
        names[MODULE] = kernels
        names["__doc__"] = kernels.__doc__ if self._compiled else None
        names["__all__"] = [name for name in fresh if not name.startswith("_")]
        names["__getattr__"] = self._missing(kernels)
        names.update(fresh)  # replaces the old kernels one by one: other threads always find each name
        for name in gone:
            del names[name]

    def _load(self, flags: list[str]) -> KernelModule:
        kernels = lookup(self.path, flags)
        if kernels is None:
            kernels = load(self.path, flags=flags, progress=self._progress, timeout=self._timeout)
            store(self.path, flags, kernels)
        return kernels

    def _root(self) -> list[str]:
        """Return -I and the directory of the top-level package, unless it is that of the file."""
        directory = os.path.dirname(self.path)
        parents = self.name.split(".") if self.is_package(self.name) else self.name.split(".")[:-1]
        for part in reversed(parents):
            directory, name = os.path.split(directory)
            if name != part:  # a package with its own __path__
                return []
        return ["-I", directory] if parents else []

    def _missing(self, kernels: Any) -> Callable[[str], object]:
        def __getattr__(name: str) -> object:
            if name in getattr(kernels, "refused", ()):
                return kernels[name]  # raises with the reason
            raise KernelAttributeError(f"module {self.name!r} has no kernel {name!r}")

        return __getattr__

    def is_package(self, fullname: str, /) -> bool:
        return os.path.basename(self.path) == INIT

    def get_filename(self, fullname: str, /) -> str:
        return self.path

    def get_source(self, fullname: str, /) -> str:
        """Return the Mojo text, for tracebacks and `inspect`."""
        try:
            return Path(self.path).read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise KernelImportError(
                f"cannot read {self.path}: {error.strerror}", name=self.name, path=self.path
            ) from error

    def get_code(self, fullname: str, /) -> None:
        """Return None: the module has machine code only, like an extension module."""
        return None

    def get_resource_reader(self, fullname: str, /) -> FileReader:
        return FileReader(cast(FileLoader, self))  # it uses only the path
