"""`enable_hook`: Mojo files are imported as Python modules are (PEP 451: a finder on `sys.meta_path`, and a loader).

The finder stands before the one for ordinary modules, because that one takes a directory with an `__init__.mojo` for a
namespace package. It steps back for every name that Python has a module for, and for the files of Modular's own
importer, which are known by the `PyInit_…` that they export.
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

from mojoview.loading.mojo.load import load
from mojoview.loading.module import KernelModule
from mojoview.loading.mojo.source import outline
from mojoview.loading.mojo.import_cache import recall, remember
from mojoview.memory.errors import ArgumentError, KernelAttributeError, KernelImportError, MojoViewError
from mojoview.memory.check import seconds_of

__all__ = ["Hook", "KernelLoader", "enable_hook"]

INIT = "__init__.mojo"
MODULE = "__mojo__"  # the KernelModule of an imported module
_changing = Lock()


def enable_hook(*, flags: Sequence[str] = (), progress: Callable[[str], None] | None = None,
                timeout: float = 600.0) -> Hook:
    """enable_hook(*, flags=(), progress=None, timeout=600.0)

    Lets `import mykernels.stats` find `mykernels/stats.mojo`.

    Files ending in .mojo, and directories with an `__init__.mojo`, are looked for on `sys.path` and in the packages,
    Python's own included, that a dotted name leads to. A module of Python always comes first, wherever it lies, and so
    does what Modular's own importer is for (files that export `PyInit_…`). The kernels are attributes of the module,
    and its `__mojo__` is the `KernelModule`. A file without exports, such as most `__init__.mojo`, is not compiled.

    Parameters
    ----------
    flags, progress, timeout
        As for `load`, for every module that this hook imports. The directory in which the top-level name was found is
        given to the compiler with -I, so that `from mykernels.util import f` works in Mojo as well. In a package of
        Mojo, one with an `__init__.mojo`, so does `from .util import f`.

    Returns
    -------
    Hook
        `disable()` takes the hook away again; so does the end of a `with` block. Of several the latest is asked first.

    Raises
    ------
    ArgumentError
        An argument has a wrong type.

    Notes
    -----
    Importing raises `KernelImportError`, an ImportError, where the compiler refuses the file: `.file`, `.line` and
    `.column` say where, and the `KernelCompileError` is chained to it. `importlib.reload(module)` compiles again what
    has changed. A child process that does not come from `fork` enables its own hook. Thread safety: any thread.

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
    """Finds Mojo files for `import`; made by `enable_hook`.

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

        Takes the hook away; modules that were imported stay, but cannot be reloaded. May be called again.

        Notes
        -----
        Thread safety: any thread.
        """
        with _changing:
            sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not self]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.disable()

    def __repr__(self) -> str:
        return f"<mojoview import hook, {'enabled' if self.enabled else 'disabled'}>"

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None,
                  /) -> ModuleSpec | None:
        """The spec of a Mojo module; None for every name that is not ours."""
        file = _find(fullname.rpartition(".")[2], sys.path if path is None else path)
        if file is None or self._python_has(fullname, path, target):
            return None
        data = _bytes(file)
        if b"PyInit_" in data and _is_binding(data.decode("utf-8", "replace")):
            return None
        package = os.path.basename(file) == INIT
        loader = KernelLoader(fullname, file, b"@export" in data, self._flags, self._progress, self._timeout)
        return spec_from_file_location(fullname, file, loader=loader,
                                       submodule_search_locations=[os.path.dirname(file)] if package else None)

    def _python_has(self, name: str, path: Sequence[str] | None, target: ModuleType | None) -> bool:
        """Whether a finder after this one knows a module of that name; those before it were asked already. A namespace
        package is no module: any directory at all is one."""
        finders = list(sys.meta_path)
        here = next((k for k, finder in enumerate(finders) if finder is self), -1)
        for finder in finders[here + 1:]:
            # asking Modular's importer would compile the file
            if isinstance(finder, Hook) or type(finder).__module__.endswith("mojo.importer"):
                continue
            spec = finder.find_spec(name, path, target) if hasattr(finder, "find_spec") else None
            if spec is not None and spec.loader is not None and not isinstance(spec.loader, NamespaceLoader):
                return True
        return False


def _find(name: str, path: Iterable[object]) -> str | None:
    """The first package or file of that name; what is no directory (zip files, objects that are no str) has none."""
    if os.sep in name or not name:
        return None
    for entry in path:
        if isinstance(entry, str):
            stem = os.path.join(entry, name)
            for file in (os.path.join(stem, INIT), f"{stem}.mojo"):
                if os.path.isfile(file):  # never true of a relative path in a directory that is gone
                    return file if os.path.isabs(file) else os.path.abspath(file)
    return None


def _offered(kernels: Any) -> list[str]:
    """The names of all kernels, and of those that are one for several dtypes."""
    return [*kernels, *getattr(kernels, "families", ())]


def _bytes(file: str) -> bytes:
    try:
        with open(file, "rb", buffering=0) as opened:
            return opened.read()
    except OSError:
        return b"@export"  # compiling the file then says what is wrong with it


def _is_binding(text: str) -> bool:
    """Whether the text is a module for Modular's own importer."""
    return any(export.symbol.startswith("PyInit_") for export in outline(text).exports)


class KernelLoader(InspectLoader):
    """Fills modules with the kernels of a Mojo file.

    Attributes
    ----------
    name, path : str
        Of the module and its file.

    Notes
    -----
    Thread safety: the import system calls it for one module in one thread at a time.
    """

    def __init__(self, name: str, path: str, compiled: bool, flags: tuple[str, ...],
                 progress: Callable[[str], None] | None, timeout: float):
        self.name, self.path = name, path
        self._compiled, self._flags, self._progress, self._timeout = compiled, flags, progress, timeout

    def exec_module(self, module: ModuleType) -> None:
        """Compiles the file where that is not done yet; after a failure the module is what it was."""
        kernels: Any = {}
        if self._compiled:
            try:
                kernels = self._load([*self._flags, *self._root()])
            except ImportError:  # no compiler
                raise
            except MojoViewError as error:
                raise KernelImportError(f"cannot import {self.name}: {error}", name=self.name, path=self.path,
                                        diagnostics=getattr(error, "diagnostics", ())) from error
        names, old = vars(module), vars(module).get(MODULE, {})
        # what the import system and Python keep under such names is not for a kernel to replace
        fresh = {name: kernels[name] for name in _offered(kernels) if not (name[:2] == name[-2:] == "__")}
        gone = [name for name in _offered(old) if name not in fresh and names.get(name) is old[name]]
        names[MODULE] = kernels
        names["__doc__"] = kernels.__doc__ if self._compiled else None
        names["__all__"] = [name for name in fresh if not name.startswith("_")]
        names["__getattr__"] = self._missing(kernels)
        names.update(fresh)  # in place of the old ones: threads that call kernels meanwhile find each name
        for name in gone:
            del names[name]

    def _load(self, flags: list[str]) -> KernelModule:
        kernels = recall(self.path, flags)
        if kernels is None:
            kernels = load(self.path, flags=flags, progress=self._progress, timeout=self._timeout)
            remember(self.path, flags, kernels)
        return kernels

    def _root(self) -> list[str]:
        """-I and the directory that holds the top-level package, where the file's own is another one."""
        directory = os.path.dirname(self.path)
        parents = self.name.split(".") if self.is_package(self.name) else self.name.split(".")[:-1]
        for part in reversed(parents):
            directory, name = os.path.split(directory)
            if name != part:  # a package with a __path__ of its own
                return []
        return ["-I", directory] if parents else []

    def _missing(self, kernels: Any) -> Callable[[str], object]:
        def __getattr__(name: str) -> object:
            if name in getattr(kernels, "refused", ()):
                return kernels[name]  # raises, and says why the export is no kernel
            raise KernelAttributeError(f"module {self.name!r} has no kernel {name!r}")

        return __getattr__

    def is_package(self, fullname: str, /) -> bool:
        return os.path.basename(self.path) == INIT

    def get_filename(self, fullname: str, /) -> str:
        return self.path

    def get_source(self, fullname: str, /) -> str:
        """The Mojo text, for tracebacks and `inspect`."""
        try:
            return Path(self.path).read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise KernelImportError(f"cannot read {self.path}: {error.strerror}", name=self.name,
                                    path=self.path) from error

    def get_code(self, fullname: str, /) -> None:
        """None: what runs is machine code, as in an extension module."""
        return None

    def get_resource_reader(self, fullname: str, /) -> FileReader:
        return FileReader(cast(FileLoader, self))  # which wants the path alone
