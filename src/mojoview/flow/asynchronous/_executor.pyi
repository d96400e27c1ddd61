from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, final

from typing_extensions import disjoint_base

from mojoview.calls import Kernel

INLINE_MAX: int
INLINE_MAX_BUILTIN: int
SHUTDOWN_GRACE_S: float
MAX_WAITING: int
CORES: int
EXECUTOR: CallExecutor

def runs_inline(kernel: Kernel, args: tuple[Any, ...], options: dict[str, Any]) -> bool: ...

@disjoint_base
class Job:
    kernel: Kernel
    args: tuple[Any, ...]
    options: dict[str, Any]
    def __init__(self, kernel: Kernel, args: tuple[Any, ...], options: dict[str, Any]) -> None: ...
    def begin(self) -> bool: ...
    def end(self, value: Any, error: BaseException | None) -> CompletionQueue | None: ...
    def cancel(self) -> None: ...
    def fail_after_fork(self) -> None: ...
    def run(self) -> CompletionQueue | None: ...

@final
class CompletionQueue:
    last_yield: float
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None: ...
    def complete(self, future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None: ...
    def deliver(self) -> None: ...

@final
class LoopJob(Job):
    dropped: bool
    def __init__(
        self,
        kernel: Kernel,
        args: tuple[Any, ...],
        options: dict[str, Any],
        completions: CompletionQueue,
        future: asyncio.Future[Any],
    ) -> None: ...

@final
class CallExecutor:
    max_threads: int
    capacity: int
    def __new__(cls, max_threads: int, capacity: int) -> CallExecutor: ...
    @property
    def waiting(self) -> int: ...
    def try_put(self, job: Job, when_room: Callable[[], object] | None = None) -> bool: ...
    def cancel_wait(self, when_room: Callable[[], object]) -> None: ...
    def put(self, job: Job, timeout: float) -> None: ...
    def close(self, grace: float = ...) -> None: ...
    def after_fork_in_child(self) -> None: ...

def max_threads() -> int: ...
