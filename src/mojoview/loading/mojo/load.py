"""`load`: from a .mojo file to callable kernels."""

from __future__ import annotations

import ctypes
import os
import tempfile
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from mojoview.loading.mojo.build import Build
from mojoview.loading.mojo.cache import LIBRARY, Cache, cache_directory
from mojoview.loading.mojo.compiler import find_compiler
from mojoview.loading.mojo.exports import Exports
from mojoview.loading.module import KernelModule, Places
from mojoview.loading.dlopen import open_library
from mojoview.memory.errors import ArgumentError, KernelCompileError, KernelError, MojoViewError
from mojoview.memory.check import seconds_of

__all__ = ["load"]

ATTEMPTS = 3
Path_ = str | os.PathLike[str]


def load(path: Path_ | Sequence[Path_] | None = None, *, source: str | None = None, name: str | None = None,
         flags: Sequence[str] = (), debug: bool = False, progress: Callable[[str], None] | None = None,
         timeout: float = 600.0) -> KernelModule:
    """load(path=None, *, source=None, name=None, flags=(), debug=False, progress=None, timeout=600.0)

    Compiles Mojo source and returns its kernels.

    Every function of the source with `@export` and `abi("C")` becomes a kernel that checks its arguments as the
    built-in ones do. Array arguments are written `In[DType.float64]`, `InOut[…]`, `Out[…]` (`from mojoview import In`),
    or as a bare `Pointer` to contiguous elements, whose number nobody checks. `Out` arrays that no required argument
    follows may be left out: they are made (zeros, in the shape of the first array of as many dimensions) and returned.
    Numbers written `mut total: Float64` need not be passed and are returned. A list or tuple of numbers that fit the
    dtype is copied into an array for an `In` argument. Where several things come back (the function's own result, then
    outputs and numbers in their order), they are a tuple.

    What was compiled is kept on disk under a key made of the content of the file and of all that it imports, the
    compiler, the flags and the CPU: only the first load of a content runs the compiler.

    Parameters
    ----------
    path : path-like, or sequence of path-like
        A file whose name ends in .mojo; the directory of a package, which holds an `__init__.mojo`, for the exports of
        all its modules; or several files, which may import each other by name. Several files become one library; no two
        of them may export the same name.
    source : str, optional
        The source itself, instead of a path. Its lines are counted from the first character on. It is kept in a file
        beside the cache, where error messages, tracebacks and debuggers find it; what it imports is looked for with -I.
    name : str, optional
        Name of the module; by default that of the file or package, and "source".
    flags : sequence of str
        More arguments for `mojo build`, for example `["-D", "ASSERT=all"]` or `["-I", directory]`. The default is
        `--fp-mode contract=off`, with which results equal NumPy's bit by bit; `["--fp-mode", "contract=fast"]` fuses
        products and sums, which is faster. Code is made for the CPU of this machine.
    debug : bool
        Compile without the optimiser and with debug symbols, so that debuggers show the lines and variables of the
        source.
    progress : callable, optional
        Called with one line of text, about once a second, while the compiler runs (2 to 10 seconds on an idle machine).
    timeout : float
        Seconds that the compiler may take, and that another process may take which compiles the same content.

    Returns
    -------
    KernelModule
        Owned by the caller. The machine code stays in the process for its life.

    Raises
    ------
    KernelCompileError
        The compiler refuses the file; `.diagnostics` holds file, line and column.
    CompileTimeoutError
        `timeout` has passed; the compiler was killed.
    CompilerNotFound
        There is no compiler.
    CacheError
        Other users could write to the cache.
    ArgumentError
        `path` is no readable .mojo file or package, two files export the same name, one of `flags` is not for the
        caller to set, or an argument has a wrong type.

    Notes
    -----
    The cache is the directory MOJOVIEW_CACHE_DIR, else `mojoview` under XDG_CACHE_HOME or ~/.cache. It takes at most
    MOJOVIEW_CACHE_LIMIT bytes (`300M`; by default 1 GiB), apart from what running processes have loaded. Where it
    cannot be written (read-only, full), the file is compiled for this process alone, with a RuntimeWarning. Thread
    safety: may be called from several threads and processes at once; one of them compiles.

    Examples
    --------
    >>> import mojoview as mv
    >>> module = mv.load("saxpy.mojo")  # doctest: +SKIP
    >>> module.saxpy(2.0, x, y)  # doctest: +SKIP
    """
    if type(debug) is not bool:
        raise ArgumentError(f"load(): debug: expected a bool, got {type(debug).__name__}")
    if progress is not None and not callable(progress):
        raise ArgumentError(f"load(): progress: expected a callable, got {type(progress).__name__}")
    timeout = seconds_of(timeout, "load()")
    build = Build.of(path, flags, find_compiler(), source=source, name=name, debug=debug)
    cache, key = _open_cache(), build.key()
    for _ in range(ATTEMPTS):
        if cache and (module := _cached(cache, key, build)) is not None:
            return module
        module = _compiled(cache, key, build, progress, timeout)
        # what was compiled is what the key stands for only if nobody has written to the files meanwhile
        before, key = key, build.key()
        if key == before:
            return module
    raise KernelCompileError(f"load(): {build.inputs.path.name} kept changing while it was compiled")


def _open_cache() -> Cache | None:
    root = cache_directory()
    try:
        return Cache.open(root)
    except OSError as error:
        _unusable(root, error)
        return None


def _unusable(root: Path, error: OSError) -> None:
    """Warns that nothing can be kept; what is not the disk's fault is raised again."""
    if isinstance(error, MojoViewError):
        raise error
    warnings.warn(f"load(): the kernel cache {root} cannot be written ({error.strerror}): kernels are compiled for this"
                  " process alone; set MOJOVIEW_CACHE_DIR to a directory that can be", RuntimeWarning, stacklevel=4)


def _cached(cache: Cache, key: str, build: Build) -> KernelModule | None:
    """The module of a cache entry; None where there is none, or where it does not load here any more."""
    found = cache.get(key)
    if found is None:
        return None
    library, exports = found
    try:
        return _module(build, library, open_library(library), exports)
    except OSError:
        return None  # it needs a library that has moved; building it again finds the new place


def _module(build: Build, library: Path | None, handle: ctypes.CDLL, exports: Exports) -> KernelModule:
    places = Places.of(build.sources())
    return KernelModule(build.inputs.path, library, handle, exports, name=build.inputs.name, places=places)


def _compiled(cache: Cache | None, key: str, build: Build, progress: Callable[[str], None] | None,
              timeout: float) -> KernelModule:
    with ExitStack() as stack:
        work = None
        if cache:
            try:
                stack.enter_context(cache.lock(key, timeout))
                if (module := _cached(cache, key, build)) is not None:  # somebody else compiled it while we waited
                    return module
                work = stack.enter_context(cache.scratch(key))
            except OSError as error:
                _unusable(cache.root, error)
        if work is None:
            cache, work = None, Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mojoview-")))
        library = work / LIBRARY
        exports = build.run(library, progress, timeout)
        kept = None
        if cache:
            try:
                kept = cache.put(key, library, exports)
            except OSError as error:
                _unusable(cache.root, error)
        try:
            # a library without a place in the cache stays mapped after its file is gone
            return _module(build, kept, open_library(kept or library), exports)
        except OSError as error:
            raise KernelError(f"load(): {build.inputs.path.name} was compiled, but does not load: {error}") from error
