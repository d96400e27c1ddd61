from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, final

from typing_extensions import disjoint_base

from mojoview.calls import Kernel

SMALL: int
BRIEF: int
FAREWELL: float
CORES: int

def is_small(kernel: Kernel, args: tuple[Any, ...], options: dict[str, Any]) -> bool: ...

@disjoint_base
class Job:
    kernel: Kernel
    args: tuple[Any, ...]
    options: dict[str, Any]
    def __init__(self, kernel: Kernel, args: tuple[Any, ...], options: dict[str, Any]) -> None: ...
    def begin(self) -> bool: ...
    def end(self, value: Any, error: BaseException | None) -> Mailbox | None: ...
    def cancel(self) -> None: ...
    def abandon(self) -> None: ...
    def run(self) -> Mailbox | None: ...

@final
class Mailbox:
    turn: float
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None: ...
    def post(self, future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None: ...
    def deliver(self) -> None: ...

@final
class LoopJob(Job):
    dropped: bool
    def __init__(
        self,
        kernel: Kernel,
        args: tuple[Any, ...],
        options: dict[str, Any],
        mailbox: Mailbox,
        future: asyncio.Future[Any],
    ) -> None: ...

@final
class Threads:
    most: int
    capacity: int
    def __new__(cls, most: int, capacity: int) -> Threads: ...
    @property
    def waiting(self) -> int: ...
    def offer(self, job: Job, when_room: Callable[[], object] | None = None) -> bool: ...
    def withdraw(self, when_room: Callable[[], object]) -> None: ...
    def wait_and_offer(self, job: Job, patience: float) -> None: ...
    def close(self, farewell: float = ...) -> None: ...
    def in_child(self) -> None: ...
