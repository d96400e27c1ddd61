"""Call a function when a module has been imported, without importing it."""

from __future__ import annotations

import sys
import threading
from importlib.util import find_spec
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:  # importing importlib.abc takes longer than the rest of this room
    from collections.abc import Callable, Sequence
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec
    from types import ModuleType

__all__ = ["ImportWatch", "call_when_imported"]


class ImportWatch:
    """A finder of `sys.meta_path` that answers for one module, with what the other finders find.

    The loader that it returns runs the module as the other finder's loader does, then calls the function and removes
    the finder. The module keeps the other loader, so resources, reloads and frozen programs work as without the watch.
    """

    def __init__(self, module: str, function: Callable[[], object]) -> None:
        self.module, self.function = module, function
        self._asking = threading.local()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of the other finders, with a loader that calls the function; None for other modules."""
        if name != self.module or getattr(self._asking, "now", False):
            return None
        self._asking.now = True
        try:
            spec = find_spec(name)
        finally:
            self._asking.now = False
        if spec is not None and spec.loader is not None:
            spec.loader = cast("Loader", _CallingLoader(spec.loader, self))  # a loader by its methods
        return spec


class _CallingLoader:
    """Runs a module with its own loader, then calls the function of the watch."""

    def __init__(self, loader: Loader, watch: ImportWatch) -> None:
        self._loader, self._watch = loader, watch

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Return what the own loader makes."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module. If it fails, the watch stays for the next import."""
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        if self._watch in sys.meta_path:
            sys.meta_path.remove(self._watch)
        self._watch.function()


def call_when_imported(module: str, function: Callable[[], object]) -> None:
    """Call a function now if a module is imported, otherwise when it has been.

    Parameters
    ----------
    module : str
        A top-level module.
    function : callable
        Called without arguments, in the thread that imports the module. Its exceptions leave the import statement.

    Notes
    -----
    A finder of another package that comes first in `sys.meta_path` and answers for the module without asking the other
    finders prevents the call.

    Thread safety: any thread.

    Examples
    --------
    >>> from mojoview.memory.when_imported import call_when_imported
    >>> call_when_imported("sys", lambda: print("imported"))
    imported
    """
    if module in sys.modules:
        function()
    elif not any(isinstance(finder, ImportWatch) and finder.module == module for finder in sys.meta_path):
        sys.meta_path.insert(0, ImportWatch(module, function))
