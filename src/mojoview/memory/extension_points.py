"""Extension points: the calls from a lower room, or a lower file of a room, into a higher one.

Each point is declared here, once. The lower room calls ``resolve(POINT)(...)``; `mojoview/__init__.py` registers the
functions as "module:function", and their modules are imported at the first call. There is one inversion without a
function: pandas objects are recognised by their accessor (see `ACCESSOR`).
"""

from __future__ import annotations

import functools
from importlib import import_module
from typing import Any, NamedTuple

from mojoview.memory.errors import KernelError

__all__ = [
    "ACCESSOR",
    "ARROW_ARRAY",
    "ARROW_DEVICE_ARRAY",
    "ARROW_SCHEMA",
    "ATTACH_FRAME",
    "AWAIT_CALL",
    "CANARY",
    "COLUMN_ARRAY",
    "CUDA_INTERFACE",
    "RECORDS_TO_TABLE",
    "SHARE_TABLE",
    "SUBMIT_CALL",
    "TABLE_TO_RECORDS",
    "TO_SERIES",
    "ExtensionPoint",
    "load_target",
    "register",
    "resolve",
]


class ExtensionPoint(NamedTuple):
    """A function that a lower room calls and a higher room provides."""

    name: str
    caller: str
    signature: str


#: Name of the accessor attribute. A type whose attribute of this name has ``of_mojoview = True`` holds pandas data:
#: views/, calls/ and safety/ open it with ``obj.mojo.view(copy=..., na=...)``. `frames/registration.py` sets it.
ACCESSOR = "mojo"

# views/ -> its own folders
ARROW_SCHEMA = ExtensionPoint("Arrow schema of a view", "views/_view", "(view) -> capsule")
ARROW_ARRAY = ExtensionPoint("Arrow array of a view", "views/_view", "(view, requested_schema) -> (capsule, capsule)")
ARROW_DEVICE_ARRAY = ExtensionPoint(
    "Arrow device array of a view", "views/_view", "(view, requested_schema, options) -> (capsule, capsule)"
)
CUDA_INTERFACE = ExtensionPoint("__cuda_array_interface__ of a view", "views/_view", "(view, stream) -> dict")

# views/ -> frames/
TO_SERIES = ExtensionPoint("to_series()", "views", "(view, *, index, name) -> pandas.Series")

# frames/ -> its own folders
COLUMN_ARRAY = ExtensionPoint("Arrow array of a column", "frames/column_view", "(column) -> (capsule, capsule)")

# calls/ -> flow/, safety/
SUBMIT_CALL = ExtensionPoint("submit()", "calls", "(kernel, args, options) -> KernelFuture")
AWAIT_CALL = ExtensionPoint("aio()", "calls", "(kernel, args, options) -> awaitable")
CANARY = ExtensionPoint("canary()", "calls", "(kernel, reference, **options) -> Canary or the kernel")

# sharing/ -> frames/
ATTACH_FRAME = ExtensionPoint("attach() of a shared frame", "sharing/arrays", "(segment) -> SharedFrame")
SHARE_TABLE = ExtensionPoint("share() of a table", "sharing/arrays", "(view, name, *, reclaim, mode) -> SharedFrame")
RECORDS_TO_TABLE = ExtensionPoint("to_pandas() of ring records", "sharing/ring", "(records) -> pandas.DataFrame")
TABLE_TO_RECORDS = ExtensionPoint("write() of a DataFrame", "sharing/ring", "(frame, dtype) -> numpy.ndarray")

_targets: dict[ExtensionPoint, str] = {}


def register(point: ExtensionPoint, target: str) -> None:
    """Provide a point with the function at "module:function"; the last registration counts."""
    _targets[point] = target
    resolve.cache_clear()


@functools.cache
def resolve(point: ExtensionPoint) -> Any:
    """Return the function of a point, and import its module on the first call.

    Raises
    ------
    KernelError
        No function is registered.

    Notes
    -----
    Thread safety: any thread.

    Examples
    --------
    >>> import mojoview
    >>> from mojoview.memory.extension_points import TO_SERIES, resolve
    >>> resolve(TO_SERIES).__name__
    'to_series'
    """
    if point not in _targets:
        raise KernelError(f"{point.name}: no function is registered for this extension point; import mojoview first")
    return load_target(_targets[point])


@functools.cache
def load_target(target: str) -> Any:
    """Return the object at "module:function" or "module:class.method", imported on the first call."""
    module, _, path = target.partition(":")
    found: Any = import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found
