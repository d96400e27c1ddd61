from __future__ import annotations

from typing import Any, final

from mojoview.sharing.segment._header import (
    ARRAY as ARRAY,
)
from mojoview.sharing.segment._header import (
    FAULTS as FAULTS,
)
from mojoview.sharing.segment._header import (
    FILE as FILE,
)
from mojoview.sharing.segment._header import (
    FORTRAN as FORTRAN,
)
from mojoview.sharing.segment._header import (
    FRAME as FRAME,
)
from mojoview.sharing.segment._header import (
    HAS_LOCKS as HAS_LOCKS,
)
from mojoview.sharing.segment._header import (
    HEADER_BYTES as HEADER_BYTES,
)
from mojoview.sharing.segment._header import (
    KINDS as KINDS,
)
from mojoview.sharing.segment._header import (
    NAME_BYTES as NAME_BYTES,
)
from mojoview.sharing.segment._header import (
    RING_BROADCAST as RING_BROADCAST,
)
from mojoview.sharing.segment._header import (
    RING_MPSC as RING_MPSC,
)
from mojoview.sharing.segment._header import (
    RING_SPSC as RING_SPSC,
)
from mojoview.sharing.segment._header import (
    SEAL_FUTURE as SEAL_FUTURE,
)
from mojoview.sharing.segment._header import (
    SEAL_NOW as SEAL_NOW,
)
from mojoview.sharing.segment._header import (
    SEAL_SIZE as SEAL_SIZE,
)
from mojoview.sharing.segment._header import (
    SEALED as SEALED,
)
from mojoview.sharing.segment._header import (
    SNAPSHOT as SNAPSHOT,
)
from mojoview.sharing.segment._header import (
    STATE as STATE,
)
from mojoview.sharing.segment._header import (
    TEXT_BYTES as TEXT_BYTES,
)
from mojoview.sharing.segment._header import (
    VERSION as VERSION,
)
from mojoview.sharing.segment._header import (
    inspect as inspect,
)
from mojoview.sharing.segment._header import (
    open_plain as open_plain,
)
from mojoview.sharing.segment._header import (
    owner_alive as owner_alive,
)
from mojoview.sharing.segment._header import (
    seal_size as seal_size,
)
from mojoview.sharing.segment._header import (
    sealable_memory as sealable_memory,
)
from mojoview.sharing.segment._header import (
    size_is_sealed as size_is_sealed,
)
from mojoview.sharing.segment._header import (
    this_boot as this_boot,
)
from mojoview.views import View

@final
class Mapping:
    writable: bool
    @property
    def nbytes(self) -> int: ...

@final
class Segment:
    mapping: Mapping | None
    name: str
    path: str | None
    uuid: bytes
    facts: dict[str, Any]
    @property
    def anonymous(self) -> bool: ...
    @property
    def closed(self) -> bool: ...
    @property
    def owned(self) -> bool: ...
    @property
    def writer_closed(self) -> bool: ...
    @property
    def epoch(self) -> int: ...
    @property
    def owner_pid(self) -> int: ...
    def owner_alive(self) -> bool: ...
    def fileno(self) -> int: ...
    def others_attached(self) -> bool: ...
    def view(
        self, offset: int, shape: tuple[int, ...], dtype: Any, *, writable: bool = False, fortran: bool = False
    ) -> View: ...
    def reopen(self, *, writable: bool = False) -> Segment: ...
    def prefault(self, offset: int, nbytes: int) -> None: ...
    def allocate(self, start: int, end: int) -> None: ...
    def commit(self) -> None: ...
    def seal(self, contents: int) -> None: ...
    def take_ownership(self) -> bool: ...
    def release_ownership(self) -> None: ...
    def renew(
        self,
        payload_bytes: int,
        flags: int,
        dtype_text: bytes,
        itemsize: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        schema_hash: int,
        uuid: bytes,
    ) -> bool: ...
    def recommit(self) -> None: ...
    def disown(self) -> None: ...
    def close(self) -> None: ...

def create(
    kind: int,
    payload_bytes: int,
    *,
    name: str,
    path: str | None,
    directory: str,
    mode: int,
    payload_off: int,
    reserve: int,
    flags: int,
    dtype_text: bytes,
    tag: bytes,
    itemsize: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    params: tuple[int, ...],
    schema_hash: int,
    uuid: bytes,
) -> Segment: ...
def claim_owner_lock(fd: int) -> int | None: ...
def adopt_fd(
    fd: int, name: str, path: str | None, facts: dict[str, Any], writable: bool, own: bool = False
) -> Segment: ...

@final
class ByteLock:
    def release(self) -> None: ...

def lock_byte(segment: Segment, byte: int) -> ByteLock | None: ...
def byte_locked(segment: Segment, byte: int) -> bool: ...
