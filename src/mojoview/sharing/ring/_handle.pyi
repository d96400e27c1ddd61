from typing import Any

from typing_extensions import disjoint_base

from mojoview.sharing.segment._segment import Segment

MODES: dict[str, int]
WAITS: dict[str, int]
FULL: dict[str, int]
CONTROL_BYTES: int
SPIN_NS: int
LOCK_BYTE_PRODUCER: int

def whole(value: Any, what: str, least: int = 0, most: int = ...) -> int: ...
def deadline_of(timeout: float | None) -> int: ...
def format_ring(segment: Segment, offset: int, start: int, seq: int, ticks: bool) -> bool: ...

@disjoint_base
class RingBase:
    segment: Segment
    dtype: Any
    _arm: Any
    @property
    def ended(self) -> bool: ...
    @property
    def closed(self) -> bool: ...
    @property
    def capacity(self) -> int: ...
    @property
    def max_frame(self) -> int: ...
    @property
    def _mode(self) -> int: ...
    @property
    def _copies(self) -> bool: ...
    @property
    def _writable(self) -> bool: ...
    @property
    def _observes(self) -> bool: ...
    def _open(
        self,
        segment: Segment,
        offset: int,
        nbytes: int,
        capacity: int,
        mode: int,
        crc: bool,
        dtype: Any,
        wait: int,
        full: int,
        observer: bool,
        wait_for_peer: bool,
        strict: bool,
        spin_ns: int,
        start: str | int,
    ) -> None: ...
    def _leave(self) -> None: ...
    def _sit(self) -> None: ...
    def _has_reader(self) -> bool: ...
    def _numbers(self) -> dict[str, int]: ...
