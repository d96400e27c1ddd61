"""Memory between threads and processes: segments, State, Snapshot and shared arrays.

Must not know kernels or pandas. `_segment` is shared memory with a header, `lifecycle` makes and finds it, `naming`
keeps the
names; the lock-free algorithms are plain C headers (`latch.h`, `pins.h`), each a page with its C test.
"""

from mojoview.sharing.naming import SegmentInfo, cleanup, segments, unlink

__all__ = ["SegmentInfo", "cleanup", "segments", "unlink"]
