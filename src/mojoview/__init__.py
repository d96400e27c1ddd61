"""mojoview: the memory of NumPy arrays and pandas DataFrames, shared with native code without copying it.

`import mojoview` registers the accessors `DataFrame.mojo`, `Series.mojo` and `Index.mojo`: at once if pandas is
imported, otherwise when it is. pandas, the compiler and all else that is heavy is imported when it is first used.

In a worker process of `safe_call`, which runs with `-X mojoview-worker`, no accessors are registered.
"""

import sys as _sys
import typing as _typing

from mojoview import kernels
from mojoview._build_config import CONFIG as _CONFIG
from mojoview._build_config import VERSION as __version__
from mojoview.calls.signature import Param, Signature
from mojoview.memory.errors import (
    BorrowError,
    CompilerNotFound,
    DTypeError,
    KernelCompileError,
    KernelCrashed,
    KernelError,
    KernelMemoryError,
    KernelTimeout,
    LayoutError,
    MaskError,
    MojoSafetyError,
    MojoViewError,
    OverlapError,
    ReadOnlyError,
    ReleasedError,
    ShapeError,
    StaleError,
    ZeroCopyError,
)
from mojoview.views import PointerTable, View, borrow_check, from_ptr, map_file, view

if _typing.TYPE_CHECKING:
    from mojoview.calls._overloads import KernelFamily
    from mojoview.calls.errors import ErrorTable
    from mojoview.frames.shared.shared_frame import SharedFrame
    from mojoview.loading.c.library import load_library
    from mojoview.loading.c.pointers import from_function
    from mojoview.loading.members import python_attribute, python_callable
    from mojoview.loading.module import KernelModule
    from mojoview.loading.mojo.decorator import native
    from mojoview.loading.mojo.hook import enable_hook
    from mojoview.loading.mojo.include_path import get_mojo_include
    from mojoview.loading.mojo.loader import load
    from mojoview.safety import safe_call
    from mojoview.sharing import (
        Pool,
        SegmentInfo,
        SharedArray,
        Snapshot,
        State,
        attach,
        cleanup,
        segments,
        share,
        unlink,
    )
    from mojoview.sharing.ring.ring import Ring

__all__ = [
    "BorrowError",
    "CompilerNotFound",
    "DTypeError",
    "ErrorTable",
    "KernelCompileError",
    "KernelCrashed",
    "KernelError",
    "KernelFamily",
    "KernelMemoryError",
    "KernelModule",
    "KernelTimeout",
    "LayoutError",
    "MaskError",
    "MojoSafetyError",
    "MojoViewError",
    "OverlapError",
    "Param",
    "PointerTable",
    "Pool",
    "ReadOnlyError",
    "ReleasedError",
    "Ring",
    "SegmentInfo",
    "ShapeError",
    "SharedArray",
    "SharedFrame",
    "Signature",
    "Snapshot",
    "StaleError",
    "State",
    "View",
    "ZeroCopyError",
    "__version__",
    "attach",
    "borrow_check",
    "build_config",
    "cleanup",
    "enable_hook",
    "from_function",
    "from_ptr",
    "get_include",
    "get_mojo_include",
    "kernels",
    "load",
    "load_library",
    "map_file",
    "native",
    "python_attribute",
    "python_callable",
    "safe_call",
    "segments",
    "share",
    "unlink",
    "view",
]

# Imported when first used: their modules import the compiler's machinery.
_LATER = {
    "ErrorTable": "mojoview.calls.errors",
    "KernelFamily": "mojoview.calls._overloads",
    "KernelModule": "mojoview.loading.module",
    "enable_hook": "mojoview.loading.mojo.hook",
    "get_mojo_include": "mojoview.loading.mojo.include_path",
    "native": "mojoview.loading.mojo.decorator",
    "load": "mojoview.loading.mojo.loader",
    "python_attribute": "mojoview.loading.members",
    "python_callable": "mojoview.loading.members",
    "from_function": "mojoview.loading.c.pointers",
    "load_library": "mojoview.loading.c.library",
    "Ring": "mojoview.sharing.ring.ring",
    "SharedFrame": "mojoview.frames.shared.shared_frame",
    "safe_call": "mojoview.safety",
} | dict.fromkeys(
    ("Pool", "SegmentInfo", "SharedArray", "Snapshot", "State", "attach", "cleanup", "segments", "share", "unlink"),
    "mojoview.sharing",
)


def build_config() -> dict[str, object]:
    """Return compiler, flags and host of this build, as `python -m mojoview doctor` prints them.

    Returns
    -------
    dict
        Owned by the caller.

    Notes
    -----
    Thread safety: may be called from any thread.

    Examples
    --------
    >>> import mojoview as mv
    >>> sorted(mv.build_config())[:2]
    ['asserts', 'build_type']
    """
    return dict(_CONFIG)


def get_include() -> str:
    """Return the directory to give C compilers with -I: it holds `abi.h`, which the public `.pxd` includes.

    Returns
    -------
    str

    Notes
    -----
    Thread safety: may be called from any thread.

    Examples
    --------
    >>> import mojoview as mv, os
    >>> os.path.exists(os.path.join(mv.get_include(), "abi.h"))
    True
    """
    import os

    from mojoview import memory

    return os.path.dirname(os.path.abspath(memory.__file__))


def load_ipython_extension(shell: _typing.Any) -> None:
    """Add the magics `%%mojo` and `%mojo_time` to an IPython shell or notebook; `%load_ext mojoview` calls this.

    Parameters
    ----------
    shell : IPython.core.interactiveshell.InteractiveShell

    Notes
    -----
    Thread safety: the thread of the shell.
    """
    from mojoview.loading.mojo.notebook import Magics

    Magics(shell).register()


def __getattr__(name: str) -> object:
    if name in _LATER:
        from importlib import import_module

        value = getattr(import_module(_LATER[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'mojoview' has no attribute {name!r}")


def __dir__() -> list[str]:
    import types

    attributes = globals().items()
    dunders = {name for name, _ in attributes if name.startswith("__")}
    submodules = {
        name for name, value in attributes if not name.startswith("_") and isinstance(value, types.ModuleType)
    }
    return sorted(dunders | submodules | set(__all__))


def _fill_extension_points() -> None:
    """Name every function that a lower room calls in a higher one; declared in `memory/extension_points.py`."""
    from mojoview.memory import extension_points as points

    points.register(points.ARROW_SCHEMA, "mojoview.views.arrow._to_arrow:export_schema")
    points.register(points.ARROW_ARRAY, "mojoview.views.arrow._to_arrow:export_view")
    points.register(points.ARROW_DEVICE_ARRAY, "mojoview.views.arrow._to_arrow:export_device_view")
    points.register(points.CUDA_INTERFACE, "mojoview.views.interfaces.cuda_interface:interface_of")
    points.register(points.TO_SERIES, "mojoview.frames.exports.to_pandas:to_series")
    points.register(points.SUBMIT_CALL, "mojoview.flow.asynchronous.futures:submit")
    points.register(points.AWAIT_CALL, "mojoview.flow.asynchronous.asyncio_backend:aio")
    points.register(points.CANARY, "mojoview.safety.canary:watch")
    points.register(points.COLUMN_ARRAY, "mojoview.frames.exports.to_arrow:export_column")
    points.register(points.SHARE_TABLE, "mojoview.frames.shared.shared_frame:share_table")
    points.register(points.ATTACH_FRAME, "mojoview.frames.shared.shared_frame:attach_frame")
    points.register(points.RECORDS_TO_TABLE, "mojoview.frames.shared.records:frame_of_records")
    points.register(points.TABLE_TO_RECORDS, "mojoview.frames.shared.records:records_of_frame")


_fill_extension_points()
if "mojoview-worker" not in _sys._xoptions:
    from mojoview.memory.extension_points import load_target as _load_target
    from mojoview.memory.when_imported import call_when_imported as _call_when_imported

    _call_when_imported("pandas", lambda: _load_target("mojoview.frames.registration:register")())
