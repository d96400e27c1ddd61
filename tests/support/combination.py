"""Names of the combinations that a test loops over, added to the failures inside it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["combination"]


@contextmanager
def combination(*names: object) -> Iterator[None]:
    """Add the names to an exception raised inside the block."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"combination: {', '.join(map(str, names))}")
        raise
