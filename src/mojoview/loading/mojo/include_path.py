"""Where the Mojo library for kernel authors is."""

from __future__ import annotations

from pathlib import Path

__all__ = ["get_mojo_include"]


def get_mojo_include() -> Path:
    """The directory to give the Mojo compiler with -I, so that `from mojoview import In, Out` finds our library.

    `load` does so itself.

    Returns
    -------
    Path
        Holds the Mojo package `mojoview`.

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
