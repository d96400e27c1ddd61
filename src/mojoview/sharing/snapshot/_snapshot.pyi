from __future__ import annotations

from types import TracebackType
from typing import Any, Literal, final

import numpy as np

from mojoview.sharing.segment._publication import Publication
from mojoview.sharing.segment._segment import Segment
from mojoview.views import View

DATA_ALIGN: int

@final
class Row: ...

@final
class Pin:
    time_ns: int
    nbytes: int
    @property
    def version(self) -> int: ...

@final
class Writing:
    def __enter__(self) -> np.ndarray[Any, Any]: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

@final
class Snapshot(Publication):
    shape: tuple[int, ...]
    def __init__(self) -> None: ...
    @staticmethod
    def create(
        name: str | None,
        shape: int | tuple[int, ...],
        dtype: Any,
        slots: int = 3,
        *,
        max_slots: int | None = None,
        readers: int = 64,
        prefault: bool = False,
        reclaim: bool = False,
        mode: int = 0o600,
    ) -> Snapshot: ...
    @staticmethod
    def attach(
        name: str,
        dtype: Any = None,
        shape: tuple[int, ...] | None = None,
        *,
        timeout: float = 1.0,
        uid: int | None = None,
    ) -> Snapshot: ...
    @staticmethod
    def take_over(name: str) -> Snapshot: ...
    @staticmethod
    def _of(segment: Segment) -> Snapshot: ...
    def write(self, *, busy: Literal["skip", "wait", "grow"] = "skip", timeout: float | None = None) -> Writing: ...
    def publish(
        self, array: Any, *, busy: Literal["skip", "wait", "grow"] = "skip", timeout: float | None = None
    ) -> int: ...
    def read(self) -> View | None: ...
    def wait_newer(self, timeout: float | None = None, *, after: int | None = None) -> int: ...
    @property
    def slots(self) -> int: ...
    @property
    def nbytes(self) -> int: ...

def create(
    kind: int,
    name: str | None,
    shape: int | tuple[int, ...],
    dtype: Any,
    slots: int,
    max_slots: int | None,
    readers: int,
    prefault: bool,
    reclaim: bool,
    mode: int,
    tag: bytes = b"",
) -> Snapshot: ...
