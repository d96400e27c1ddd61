"""Loading a compiled file that has no run path: Mojo's runtime library, where a kernel needs it, is loaded first."""

from __future__ import annotations

import ctypes
import importlib.metadata
from contextlib import suppress
from pathlib import Path

from mojoview.loading.mojo.compiler import PACKAGE, find_compiler
from mojoview.loading.elf import read_elf
from mojoview.memory.errors import CompilerNotFound

__all__ = ["open_library"]


def open_library(path: Path) -> ctypes.CDLL:
    """Loads a shared object.

    What it needs is looked for as the system does. Where that fails, the libraries of this environment's compiler are
    loaded first: a name that is already loaded is not searched for again.

    Raises
    ------
    OSError
        It needs a library that is not here.
    """
    with suppress(OSError):
        return ctypes.CDLL(str(path))
    with suppress(OSError, CompilerNotFound):  # whether something is missing shows below
        for runtime in map(_runtime_directory().joinpath, read_elf(path).needed):
            if runtime.is_file():
                ctypes.CDLL(str(runtime))
    return ctypes.CDLL(str(path))


def _runtime_directory() -> Path:
    """Where the libraries of the compiler are: beside its programs, or where its package has put them."""
    compiler = find_compiler()
    if compiler.found == "package":
        for file in importlib.metadata.files(PACKAGE) or ():
            if file.name == "libKGENCompilerRTShared.so":
                return Path(str(file.locate())).parent
    return compiler.path.resolve().parent.parent / "lib"
