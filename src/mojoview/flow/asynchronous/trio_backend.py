"""Asynchronous calls awaited on trio."""

from __future__ import annotations

import sys
from typing import Any

from mojoview.calls import Kernel
from mojoview.flow.asynchronous import _executor
from mojoview.flow.asynchronous._executor import Job, runs_inline
from mojoview.memory.errors import KernelError

__all__ = ["submit"]


class _TrioJob(Job):
    __slots__ = ("dropped", "outcome", "task", "token", "trio", "waits")

    def __init__(self, kernel: Kernel, args: tuple[Any, ...], options: dict[str, Any], trio: Any):
        super().__init__(kernel, args, options)
        self.trio, self.dropped, self.waits = trio, False, True
        self.token, self.task = trio.lowlevel.current_trio_token(), trio.lowlevel.current_task()
        self.outcome: tuple[Any, BaseException | None] = (None, None)

    def begin(self) -> bool:
        return not self.dropped

    def end(self, value: Any, error: BaseException | None) -> None:
        self.outcome = (value, error)
        try:
            self.token.run_sync_soon(self.wake)
        except self.trio.RunFinishedError:
            self.waits = False

    def wake(self) -> None:
        if self.waits:
            self.waits = False
            self.trio.lowlevel.reschedule(self.task)

    def abort(self, _: Any) -> Any:
        """Drop the result. trio calls it when the task is cancelled."""
        self.dropped, self.waits = True, False
        return self.trio.lowlevel.Abort.SUCCEEDED


async def submit(kernel: Kernel, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Make a call for the current trio task."""
    trio: Any = sys.modules.get("trio")
    try:
        job = _TrioJob(kernel, args, options, trio) if trio is not None else None
    except RuntimeError:
        job = None
    if job is None:
        raise KernelError(f"{kernel.name}.aio(): expected a running event loop of asyncio or trio, found none")
    if runs_inline(kernel, args, options):
        await trio.lowlevel.checkpoint()
        return kernel(*args, **options)
    executor = _executor.EXECUTOR
    while True:
        room = trio.Event()

        def wake(room: Any = room) -> None:
            job.token.run_sync_soon(room.set)

        if executor.try_put(job, wake):
            break
        try:
            await room.wait()
        except BaseException:
            executor.cancel_wait(wake)
            raise
    await trio.lowlevel.wait_task_rescheduled(job.abort)
    value, error = job.outcome
    if error is not None:
        raise error
    return value
