"""mojoview: the memory of NumPy arrays and pandas DataFrames, shared with native code without copying it."""

from mojoview._build_config import CONFIG as _CONFIG
from mojoview._build_config import VERSION as __version__
from mojoview.sharing import SegmentInfo, cleanup, segments, unlink
from mojoview.views import View, from_ptr, view

__all__ = [
    "SegmentInfo",
    "View",
    "__version__",
    "build_config",
    "cleanup",
    "from_ptr",
    "segments",
    "unlink",
    "view",
]


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
