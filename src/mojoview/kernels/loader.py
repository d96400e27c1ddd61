"""`load`: from a .mojo file to callable kernels."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from numbers import Real
from pathlib import Path

from mojoview.kernels.build import Build
from mojoview.kernels.cache import LIBRARY, Cache, cache_directory
from mojoview.kernels.compiler import find_compiler
from mojoview.kernels.module import KernelModule
from mojoview.kernels.opening import open_library
from mojoview.memory.errors import ArgumentError, KernelCompileError, KernelError, MojoViewError

__all__ = ["load"]

ATTEMPTS = 3


def load(path: str | os.PathLike[str], *, flags: Sequence[str] = (), progress: Callable[[str], None] | None = None,
         timeout: float = 600.0) -> KernelModule:
    """load(path, *, flags=(), progress=None, timeout=600.0)

    Compiles a Mojo file and returns its kernels.

    Every function of the file with `@export` and `abi("C")` becomes a kernel that checks its arguments as the built-in
    ones do. Array arguments are written `In[DType.float64]`, `InOut[…]`, `Out[…]` (`from mojoview import In`), or as
    a bare `Pointer` to contiguous elements, whose number nobody checks. What was compiled is kept on disk under a key
    made of the content of the file and of all that it imports, the compiler, the flags and the CPU: only the first load
    of a content runs the compiler.

    Parameters
    ----------
    path : path-like
        A file whose name ends in .mojo.
    flags : sequence of str
        More arguments for `mojo build`, for example `["-D", "ASSERT=all"]` or `["-I", directory]`. The default is
        `--fp-mode contract=off`, with which results equal NumPy's bit by bit; `["--fp-mode", "contract=fast"]` fuses
        products and sums, which is faster. Code is made for the CPU of this machine.
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
        `path` is no readable .mojo file, one of `flags` is not for the caller to set, or an argument has a wrong type.

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
    if progress is not None and not callable(progress):
        raise ArgumentError(f"load(): progress: expected a callable, got {type(progress).__name__}")
    if isinstance(timeout, bool) or not isinstance(timeout, Real) or not timeout >= 0:
        raise ArgumentError(f"load(): timeout: expected a number of seconds from 0, got {timeout!r}")
    build = Build.of(path, flags, find_compiler())
    cache, key = _open_cache(), build.key()
    for _ in range(ATTEMPTS):
        if cache and (module := _cached(cache, key, build.file)) is not None:
            return module
        module = _compiled(cache, key, build, progress, timeout)
        # what was compiled is what the key stands for only if nobody has written to the files meanwhile
        before, key = key, build.key()
        if key == before:
            return module
    raise KernelCompileError(f"load(): {build.file.name} kept changing while it was compiled")


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


def _cached(cache: Cache, key: str, file: Path) -> KernelModule | None:
    """The module of a cache entry; None where there is none, or where it does not load here any more."""
    found = cache.get(key)
    if found is None:
        return None
    library, exports = found
    try:
        return KernelModule(file, library, open_library(library), exports)
    except OSError:
        return None  # it needs a library that has moved; building it again finds the new place


def _compiled(cache: Cache | None, key: str, build: Build, progress: Callable[[str], None] | None,
              timeout: float) -> KernelModule:
    with ExitStack() as stack:
        work = None
        if cache:
            try:
                stack.enter_context(cache.lock(key, timeout))
                if (module := _cached(cache, key, build.file)) is not None:  # somebody else compiled it while we waited
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
            return KernelModule(build.file, kept, open_library(kept or library), exports)
        except OSError as error:
            raise KernelError(f"load(): {build.file.name} was compiled, but does not load: {error}") from error
