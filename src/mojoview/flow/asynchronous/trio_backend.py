"""Asynchronous calls under trio, whose loop has its own words for waking a task."""

from __future__ import annotations

import sys
from typing import Any

from mojoview.flow.asynchronous._executor import Job, is_small
from mojoview.flow.asynchronous.futures import THREADS
from mojoview.calls import Kernel
from mojoview.memory.errors import KernelError

__all__ = ["call"]


class _TrioJob(Job):
    __slots__ = ("answer", "dropped", "task", "token", "trio", "waits")

    def __init__(self, kernel: Kernel, args: tuple[Any, ...], options: dict[str, Any], trio: Any):
        super().__init__(kernel, args, options)
        self.trio, self.dropped, self.waits = trio, False, True
        self.token, self.task = trio.lowlevel.current_trio_token(), trio.lowlevel.current_task()
        self.answer: tuple[Any, BaseException | None] = (None, None)

    def begin(self) -> bool:
        return not self.dropped

    def end(self, value: Any, error: BaseException | None) -> None:
        self.answer = (value, error)
        try:
            self.token.run_sync_soon(self.wake)
        except self.trio.RunFinishedError:  # nobody waits any more
            self.waits = False

    def wake(self) -> None:
        if self.waits:
            self.waits = False
            self.trio.lowlevel.reschedule(self.task)

    def cancelled(self, _: Any) -> Any:
        self.dropped, self.waits = True, False
        return self.trio.lowlevel.Abort.SUCCEEDED


async def call(kernel: Kernel, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """The call, for a trio task."""
    trio: Any = sys.modules.get("trio")
    try:
        job = _TrioJob(kernel, args, options, trio) if trio is not None else None
    except RuntimeError:
        job = None
    if job is None:
        raise KernelError(f"{kernel.name}.aio(): neither asyncio nor trio runs here")
    if is_small(kernel, args, options):
        await trio.lowlevel.checkpoint()
        return kernel(*args, **options)
    while True:
        room = trio.Event()

        def wake(room: Any = room) -> None:
            job.token.run_sync_soon(room.set)

        if THREADS.offer(job, wake):
            break
        try:
            await room.wait()
        except BaseException:
            THREADS.withdraw(wake)
            raise
    await trio.lowlevel.wait_task_rescheduled(job.cancelled)
    value, error = job.answer
    if error is not None:
        raise error
    return value
