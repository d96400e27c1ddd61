"""Asynchronous calls: a bounded queue, a few threads of its own, results for futures and event loops.

A call on little data runs at once, in the thread that asks for it: a kernel keeps the interpreter's lock below 4096
elements, so that on another thread it would stop the program for the same time, and the hand-over on top. Built-in
kernels, whose time their size tells, run at once as long as they take less than a hand-over does.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import os
import threading
import time
from concurrent.futures import Future
from typing import Any
from weakref import WeakKeyDictionary

from mojoview.flow.asynchronous._executor import BRIEF, CORES, SMALL, Job, LoopJob, Mailbox, Threads, is_small
from mojoview.calls import Kernel
from mojoview.memory.errors import KernelError, KernelValueError

__all__ = ["BRIEF", "SMALL", "KernelFuture", "aio", "submit"]

CAPACITY = 1024  # calls that may wait
PATIENCE = 60.0  # seconds that submit() waits for room
TURN = 0.001  # seconds that small calls may take from an event loop before others have their turn


class KernelFuture(Future[Any]):
    """A `concurrent.futures.Future` of a kernel's call.

    Attributes
    ----------
    state : {"PENDING", "RUNNING", "COMPLETED", "FAILED", "CANCELLED"}

    Notes
    -----
    `cancel()` takes a call that waits out of the queue; one that runs cannot be stopped, and `cancel()` is False.
    Thread safety: any thread.
    """

    @property
    def state(self) -> str:
        if self.cancelled():
            return "CANCELLED"
        if self.done():
            return "COMPLETED" if self.exception() is None else "FAILED"
        return "RUNNING" if self.running() else "PENDING"


class _FutureJob(Job):
    __slots__ = ("future",)

    def __init__(self, kernel: Kernel, args: tuple[Any, ...], options: dict[str, Any]):
        super().__init__(kernel, args, options)
        self.future = KernelFuture()

    def begin(self) -> bool:
        return self.future.set_running_or_notify_cancel()

    def end(self, value: Any, error: BaseException | None) -> None:
        if error is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(value)

    def cancel(self) -> None:
        self.future.cancel()

    def abandon(self) -> None:
        self.future._condition = threading.Condition()  # another thread may have held it
        if not self.future.done():
            self.future.set_exception(
                KernelError(
                    f"{self.kernel.name}(): the process was forked while the call waited or ran; the parent has it"
                )
            )


def _most_threads() -> int:
    setting = os.environ.get("MOJOVIEW_CALL_THREADS", "")
    if setting:
        if not setting.isdecimal() or int(setting) < 1:
            raise KernelValueError(
                f"environment variable MOJOVIEW_CALL_THREADS: expected an int from 1, got {setting!r}"
            )
        return int(setting)
    return max(2, CORES)


THREADS = Threads(_most_threads(), CAPACITY)
atexit.register(THREADS.close)
os.register_at_fork(after_in_child=THREADS.in_child)
_MAILBOXES: WeakKeyDictionary[asyncio.AbstractEventLoop, Mailbox] = WeakKeyDictionary()
_RECENT = threading.local()  # the loop that ran last in this thread, and its mailbox


def _mailbox_for(loop: asyncio.AbstractEventLoop) -> Mailbox:
    if getattr(_RECENT, "loop", None) is not loop:
        mailbox = _MAILBOXES.get(loop)
        if mailbox is None:
            try:
                mailbox = _MAILBOXES[loop] = Mailbox(loop)
            except (NotImplementedError, OSError) as error:  # it watches no files, or there are too many
                raise KernelError(f"aio(): results cannot come to this event loop: {error!r}") from error
        _RECENT.loop, _RECENT.mailbox = loop, mailbox
    found: Mailbox = _RECENT.mailbox
    return found


def submit(kernel: Kernel, args: tuple[Any, ...], options: dict[str, Any]) -> KernelFuture:
    """See `Kernel.submit`."""
    job = _FutureJob(kernel, args, options)
    if is_small(kernel, args, options):
        job.run()
    else:
        THREADS.wait_and_offer(job, PATIENCE)
    return job.future


async def aio(kernel: Kernel, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """See `Kernel.aio`."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:  # another library's loop, then
        from mojoview.flow.asynchronous.trio_backend import call

        return await call(kernel, args, options)
    mailbox = _mailbox_for(loop)
    if is_small(kernel, args, options):
        now = time.perf_counter()
        if now - mailbox.turn > TURN:
            await asyncio.sleep(0)  # the others' turn
            mailbox.turn = time.perf_counter()
        return kernel(*args, **options)
    future = loop.create_future()
    job = LoopJob(kernel, args, options, mailbox, future)
    while not THREADS.offer(job):
        room = loop.create_future()
        wake = functools.partial(mailbox.post, room, None, None)
        if THREADS.offer(job, wake):
            break
        try:
            await room
        except BaseException:
            THREADS.withdraw(wake)
            raise
    try:
        return await future
    except asyncio.CancelledError:
        job.dropped = True
        raise
