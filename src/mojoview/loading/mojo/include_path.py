"""`get_mojo_include`: directory of the Mojo package for kernel authors."""

from __future__ import annotations

from pathlib import Path

__all__ = ["get_mojo_include"]


def get_mojo_include() -> Path:
    """Return the directory for the compiler's -I, with which `from mojoview import In, Out` finds our Mojo package.

    `load` passes it by itself.

    Returns
    -------
    Path
        Contains the Mojo package `mojoview`.

    Notes
    -----
    Thread safety: may be called from any thread.

    Examples
    --------
    >>> import mojoview as mv
    >>> sorted(p.name for p in mv.get_mojo_include().iterdir())
    ['mojoview']
    """
    return Path(__file__).absolute().parent / "include"
