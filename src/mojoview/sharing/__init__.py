"""Memory between threads and processes: segments, State, Snapshot and shared arrays.

Must not know kernels or pandas. `_segment` is shared memory with a header, `lifecycle` makes and finds it, `naming`
keeps the names; the lock-free algorithms are plain C headers (`latch.h`, `slots.h`), each a page with its C test.
"""

from mojoview.sharing.snapshot._snapshot import Snapshot
from mojoview.sharing.state._state import State
from mojoview.sharing.arrays import SharedArray, attach, share
from mojoview.sharing.segment.naming import SegmentInfo, cleanup, segments, unlink
from mojoview.sharing.pool import Pool

__all__ = [
    "Pool",
    "SegmentInfo",
    "SharedArray",
    "Snapshot",
    "State",
    "attach",
    "cleanup",
    "segments",
    "share",
    "unlink",
]
