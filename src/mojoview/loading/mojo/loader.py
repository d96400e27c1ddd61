"""`load`: compile Mojo source, or find it in the cache, and return its kernels."""

from __future__ import annotations

import ctypes
import os
import tempfile
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from mojoview.loading.exports import Exports
from mojoview.loading.module import KernelModule
from mojoview.loading.mojo.cache import LIBRARY, Cache, cache_directory
from mojoview.loading.mojo.compilation import Build
from mojoview.loading.mojo.compiler import find_compiler, open_with_runtime
from mojoview.loading.mojo.source import index_sources
from mojoview.memory.check import seconds_of
from mojoview.memory.errors import ArgumentError, KernelCompileError, KernelError, MojoViewError

__all__ = ["load"]

ATTEMPTS = 3
Path_ = str | os.PathLike[str]


def load(
    path: Path_ | Sequence[Path_] | None = None,
    *,
    source: str | None = None,
    name: str | None = None,
    flags: Sequence[str] = (),
    debug: bool = False,
    progress: Callable[[str], None] | None = None,
    timeout: float = 600.0,
) -> KernelModule:
    """load(path=None, *, source=None, name=None, flags=(), debug=False, progress=None, timeout=600.0)

    Compile Mojo source and return its kernels.

    Every function of the source with `@export` and `abi("C")` becomes a kernel that checks its arguments as the
    built-in kernels do. Array arguments are written `In[DType.float64]`, `InOut[…]`, `Out[…]` (`from mojoview import
    In`), or as a bare `Pointer` to contiguous elements, whose number is not checked. `Out` arrays may be left out
    unless a required argument follows: they are allocated (zeros, in the shape of the first array with as many
    dimensions) and returned. Numbers written `mut total: Float64` need not be passed and are returned. A list or tuple
    of numbers that fit the dtype is copied into an array for an `In` argument. Several results (that of the function,
    then outputs and numbers in their order) are returned as a tuple.

    Compiled kernels are stored on disk. The key covers the content of the file and of everything that it imports, the
    compiler, the flags and the CPU, so that only the first load of a content runs the compiler.

    Parameters
    ----------
    path : path-like, or sequence of path-like
        A file whose name ends in .mojo; the directory of a package, which holds an `__init__.mojo`, for the exports of
        all its modules; or several files, which may import each other by name. Several files become one library; no two
        of them may export the same name.
    source : str, optional
        Source text instead of a path; line 1 starts at its first character. It is written to a file beside the cache,
        where error messages, tracebacks and debuggers find it; its imports are searched in the directories of -I.
    name : str, optional
        Name of the module; by default that of the file or package, or "source".
    flags : sequence of str
        More arguments for `mojo build`, for example `["-D", "ASSERT=all"]` or `["-I", directory]`. The default is
        `--fp-mode contract=off`, with which results equal NumPy's bit by bit; `["--fp-mode", "contract=fast"]` fuses
        products and sums, which is faster. The code is for the CPU of this machine.
    debug : bool
        Compile without optimisation and with debug symbols, so that debuggers show lines and variables of the source.
    progress : callable, optional
        Called with one line of text, about once a second, while the compiler runs (2 to 10 seconds on an idle machine).
    timeout : float
        Seconds that the compiler may take, and that this call waits for another process compiling the same content.

    Returns
    -------
    KernelModule
        Owned by the caller. The machine code stays loaded for the life of the process.

    Raises
    ------
    KernelCompileError
        The compiler rejects the file; `.diagnostics` holds file, line and column.
    CompileTimeoutError
        `timeout` expired; the compiler was killed.
    CompilerNotFound
        There is no compiler.
    CacheError
        Other users could write to the cache.
    ArgumentError
        `path` is not a readable .mojo file or package, two files export the same name, one of `flags` is set by
        `load` itself, or an argument has the wrong type.

    Notes
    -----
    The cache is the directory MOJOVIEW_CACHE_DIR, else `mojoview` under XDG_CACHE_HOME or ~/.cache. It holds at most
    MOJOVIEW_CACHE_LIMIT bytes (`300M`; by default 1 GiB), not counting libraries that running processes have loaded. If
    it cannot be written (read-only, full), the file is compiled for this process only, with a RuntimeWarning. Thread
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
        # The library belongs to the key only if the files did not change while they were compiled.
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
    """Warn that the cache cannot be written; raise errors that have another cause."""
    if isinstance(error, MojoViewError):
        raise error
    warnings.warn(
        f"load(): the kernel cache {root} cannot be written ({error.strerror}): kernels are compiled for this"
        " process only; set MOJOVIEW_CACHE_DIR to a directory that can be",
        RuntimeWarning,
        stacklevel=4,
    )


def _cached(cache: Cache, key: str, build: Build) -> KernelModule | None:
    """Return the module of a cache entry; None if there is none, or if it cannot be loaded any more."""
    found = cache.get(key)
    if found is None:
        return None
    library, exports = found
    try:
        return _module(build, library, open_with_runtime(library), exports)
    except OSError:
        return None  # a library that it needs has moved; a new build finds it


def _module(build: Build, library: Path | None, handle: ctypes.CDLL, exports: Exports) -> KernelModule:
    index = index_sources(build.sources())
    return KernelModule(build.inputs.path, library, handle, exports, name=build.inputs.name, index=index)


def _compiled(
    cache: Cache | None, key: str, build: Build, progress: Callable[[str], None] | None, timeout: float
) -> KernelModule:
    with ExitStack() as stack:
        work = None
        if cache:
            try:
                stack.enter_context(cache.lock(key, timeout))
                if (module := _cached(cache, key, build)) is not None:  # compiled by another process
                    return module
                work = stack.enter_context(cache.scratch(key))
            except OSError as error:
                _unusable(cache.root, error)
        if work is None:
            cache, work = None, Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mojoview-")))
        library = work / LIBRARY
        exports = build.run(library, progress, timeout)
        stored = None
        if cache:
            try:
                stored = cache.put(key, library, exports)
            except OSError as error:
                _unusable(cache.root, error)
        try:
            # A library outside of the cache stays mapped after its file has been removed.
            return _module(build, stored, open_with_runtime(stored or library), exports)
        except OSError as error:
            raise KernelError(
                f"load(): {build.inputs.path.name} was compiled, but cannot be loaded: {error}"
            ) from error
