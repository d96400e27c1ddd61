from typing import Any

FAULTS: tuple[str, ...]
KINDS: dict[int, str]
STATE: int
SNAPSHOT: int
RING_SPSC: int
RING_MPSC: int
RING_BROADCAST: int
ARRAY: int
FRAME: int
SEALED: int
FILE: int
FORTRAN: int
HEADER_BYTES: int
TEXT_BYTES: int
NAME_BYTES: int
VERSION: tuple[int, int]
HAS_LOCKS: bool
SEAL_SIZE: int
SEAL_FUTURE: int
SEAL_NOW: int

def open_plain(path: str, uid: int) -> int: ...
def inspect(fd: int) -> tuple[str, dict[str, Any]]: ...
def owner_alive(fd: int, facts: dict[str, Any]) -> bool: ...
def this_boot() -> bytes: ...
def sealable_memory(directory: str) -> int: ...
def seal_size(fd: int) -> None: ...
def size_is_sealed(fd: int) -> bool: ...
