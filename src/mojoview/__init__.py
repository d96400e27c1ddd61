"""mojoview: the memory of NumPy arrays and pandas DataFrames, shared with native code without copying it."""

import importlib as _importlib
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from mojoview._build_config import CONFIG as _CONFIG
from mojoview._build_config import VERSION as __version__
from mojoview.frames import register as _register
from mojoview.views import View, from_ptr, view

if _TYPE_CHECKING:
    from mojoview.kernels.include import get_mojo_include
    from mojoview.kernels.loader import load
    from mojoview.kernels.module import KernelModule

__all__ = ["KernelModule", "View", "__version__", "build_config", "from_ptr", "get_mojo_include", "load", "view"]

# Imported when first used: the compiler's driver has no place in `import mojoview`.
_LAZY = {"KernelModule": "kernels.module", "get_mojo_include": "kernels.include", "load": "kernels.loader"}


def __getattr__(name: str) -> _Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'mojoview' has no attribute {name!r}")
    value = globals()[name] = getattr(_importlib.import_module(f"mojoview.{_LAZY[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})


def build_config() -> dict[str, object]:
    """Compiler, flags and host of this build; printed by `python -m mojoview doctor` and asked for in bug reports.

    Returns
    -------
    dict
        Owned by the caller.

    Examples
    --------
    >>> import mojoview as mv
    >>> sorted(mv.build_config())[:2]
    ['asserts', 'build_type']
    """
    return dict(_CONFIG)


_register()
