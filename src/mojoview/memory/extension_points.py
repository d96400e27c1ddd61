"""What rooms above do for rooms below: told here as "module:function", so that nobody imports upward."""

from __future__ import annotations

import functools
from importlib import import_module
from typing import Any

__all__ = ["ATTACHERS", "CONVERTERS", "target_of"]

#: Kind of segment -> what makes the handle that `mojoview.attach()` returns; takes the segment.
ATTACHERS: dict[str, str] = {}
#: Name of a method that every view has -> what does its work; takes the view.
CONVERTERS: dict[str, str] = {}


@functools.cache
def target_of(told: str) -> Any:
    """What stands at "module:function" or "module:class.method"; imported only now."""
    module, _, path = told.partition(":")
    target: Any = import_module(module)
    for part in path.split("."):
        target = getattr(target, part)
    return target
