from typing import Any, final

from mojoview.sharing.segment._segment import Segment

MODES: dict[str, int]
WAITS: dict[str, int]
CONTROL_BYTES: int
SPIN_NS: int
CLAIM_AT: int

def deadline_of(timeout: float | None) -> int: ...
def format_ring(segment: Segment, offset: int, start: int, seq: int, ticks: bool) -> bool: ...

@final
class RingMemory: ...

@final
class Region: ...

@final
class EventNotifier:
    def stop(self) -> None: ...

@final
class Handle:
    segment: Segment
    dtype: Any
    def open(
        self,
        segment: Segment,
        offset: int,
        nbytes: int,
        capacity: int,
        mode: int,
        crc: bool,
        dtype: Any,
        *,
        wait: int,
        spin_ns: int,
        observer: bool,
        wait_for_peer: bool,
    ) -> None: ...
    @property
    def has_reader(self) -> bool: ...
    def counters(self) -> dict[str, int]: ...
