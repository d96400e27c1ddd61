"""`Kernel.aio`: asynchronous calls awaited on asyncio and the loops that implement its interface."""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from typing import Any
from weakref import WeakKeyDictionary

from mojoview.calls import Kernel
from mojoview.flow.asynchronous import _executor, trio_backend
from mojoview.flow.asynchronous._executor import CompletionQueue, LoopJob, runs_inline
from mojoview.memory.errors import KernelError

__all__ = ["aio"]

YIELD_INTERVAL_S = 0.001  # that inline calls may take before other tasks of the loop run

_QUEUES: WeakKeyDictionary[asyncio.AbstractEventLoop, CompletionQueue] = WeakKeyDictionary()
_RECENT = threading.local()  # the loop that ran last in this thread, and its queue


def _queue_for(loop: asyncio.AbstractEventLoop) -> CompletionQueue:
    if getattr(_RECENT, "loop", None) is not loop:
        completions = _QUEUES.get(loop)
        if completions is None:
            try:
                completions = _QUEUES[loop] = CompletionQueue(loop)
            except (NotImplementedError, OSError) as error:  # the loop watches no files, or too many are open
                raise KernelError(f"aio(): results cannot be delivered to this event loop: {error!r}") from error
        _RECENT.loop, _RECENT.completions = loop, completions
    found: CompletionQueue = _RECENT.completions
    return found


async def aio(kernel: Kernel, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Make a call for a task of the running event loop, of asyncio or trio. See `Kernel.aio`."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return await trio_backend.submit(kernel, args, options)
    completions = _queue_for(loop)
    if runs_inline(kernel, args, options):
        now = time.perf_counter()
        if now - completions.last_yield > YIELD_INTERVAL_S:
            await asyncio.sleep(0)
            completions.last_yield = time.perf_counter()
        return kernel(*args, **options)
    future = loop.create_future()
    job = LoopJob(kernel, args, options, completions, future)
    executor = _executor.EXECUTOR
    while not executor.try_put(job):
        room = loop.create_future()
        wake = functools.partial(completions.complete, room, None, None)
        if executor.try_put(job, wake):
            break
        try:
            await room
        except BaseException:
            executor.cancel_wait(wake)
            raise
    try:
        return await future
    except asyncio.CancelledError:
        job.dropped = True
        raise
