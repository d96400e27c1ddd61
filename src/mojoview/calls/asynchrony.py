"""How asynchronous calls are made: a room above says so, since threads and event loops are its business."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mojoview.memory.errors import KernelError

__all__ = ["calls", "make_asynchronous"]

_provider: Callable[[], Any] | None = None


def make_asynchronous(provider: Callable[[], Any]) -> None:
    """`provider()` gives what has `submit` and `aio`, both of (kernel, args, options); the last provider counts."""
    global _provider
    _provider = provider


def calls() -> Any:
    """What was registered."""
    if _provider is None:
        raise KernelError("asynchronous calls: import mojoview first, which says how they are made")
    return _provider()
