"""Kernels from source text."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from mojoview.kernels.loader import load
from mojoview.kernels.module import KernelModule

__all__ = ["load_text"]


def load_text(text: str, *, name: str = "cell", flags: Sequence[str] = (),
              progress: Callable[[str], None] | None = None, timeout: float = 600.0) -> KernelModule:
    """load_text(text, *, name="cell", flags=(), progress=None, timeout=600.0)

    `load` for Mojo source that stands in no file.

    Parameters
    ----------
    text : str
    name : str
        What messages call the file, without .mojo. A part of what the kernel cache goes by.
    flags, progress, timeout
        As for `load`.

    Returns
    -------
    KernelModule
        Owned by the caller.

    Raises
    ------
    KernelError, ArgumentError
        As `load` does.

    Notes
    -----
    Thread safety: any thread.
    """
    # the compiler reads files only; the directory is empty but for this one, so that nothing beside it is imported
    with tempfile.TemporaryDirectory(prefix="mojoview-") as directory:
        file = Path(directory, f"{name}.mojo")
        file.write_text(text, encoding="utf-8")
        return load(file, flags=flags, progress=progress, timeout=timeout)
