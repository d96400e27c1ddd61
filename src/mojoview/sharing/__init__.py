"""Memory shared between threads and processes: State, Snapshot, Ring, shared arrays.

In reading order: `segment/` (shared memory with a header), `state/`, `snapshot/`, `ring/`, `arrays.py` (`share()`,
`attach()`), `incoming.py` (dtype and mask of what is copied), `memory_pool.py` (reused memory), `crc32c.h` with
`crc32c_step.h` and `crc32c_fold.h` (checksums). The lock-free algorithms are C headers that do not use Python:
`state/latch.h`, `snapshot/slots.h`, and those of `ring/`. C programs in tests/native run them. Must not know kernels
or pandas.

Counters:

* number: position of a publication in a State or Snapshot, from 1; 0 means that nothing was published.
* version: number of the newest publication of a Snapshot or shared frame, or of the one that a pin holds.
* generation: of a shared frame, the number of changes of its schema. The words of that name in the headers of
  descriptors and segments are reserved.
* epoch: of a segment, the number of takeovers; of a ring's producer slot, the number of its owners, modulo 1024.
* seq: sequence number of a ring's frame, per producer.
"""

from mojoview.sharing.arrays import SharedArray, attach, share
from mojoview.sharing.memory_pool import Pool
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
