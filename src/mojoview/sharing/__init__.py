"""Memory shared between threads and processes: State, Snapshot, Ring, shared arrays.

In reading order: `segment/` (shared memory with a header), `state/`, `snapshot/`, `ring/`, `arrays.py` (`share()`,
`attach()`), `pool.py` (reused memory), `crc32c.h` with `crc32c_step.h` and `crc32c_fold.h` (checksums). The lock-free
algorithms are C headers that do not use Python: `state/latch.h`, `snapshot/slots.h`, and those of `ring/`. C programs
in tests/native run them. Must not know kernels or pandas.
"""

from mojoview.sharing.arrays import SharedArray, attach, share
from mojoview.sharing.pool import Pool
from mojoview.sharing.segment import transfer as _transfer  # noqa: F401  (makes segments picklable)
from mojoview.sharing.segment.naming import SegmentInfo, cleanup, segments, unlink
from mojoview.sharing.snapshot._snapshot import Snapshot
from mojoview.sharing.state._state import State

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
