"""`Kernel.submit`: asynchronous calls whose results are futures.

Built-in kernels run inline if their estimated cost is below that of a thread hand-over, and all kernels if they keep
the GIL: on another thread such a call would stop the program for as long, with the hand-over on top.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

from mojoview.calls import Kernel
from mojoview.flow.asynchronous import _executor
from mojoview.flow.asynchronous._executor import Job, runs_inline
from mojoview.memory.errors import KernelError

__all__ = ["KernelFuture", "submit"]

QUEUE_TIMEOUT_S = 60.0  # that submit() waits for space in the queue


class KernelFuture(Future[Any]):
    """A `concurrent.futures.Future` of a kernel's call.

    Attributes
    ----------
    state : {"PENDING", "RUNNING", "COMPLETED", "FAILED", "CANCELLED"}

    Notes
    -----
    `cancel()` removes a waiting call from the queue. A running call cannot be stopped, and `cancel()` returns False.
    Thread safety: any thread.
    """

    @property
    def state(self) -> str:
        if self.cancelled():
            return "CANCELLED"
        if self.done():
            return "COMPLETED" if self.exception() is None else "FAILED"
        return "RUNNING" if self.running() else "PENDING"


class FutureJob(Job):
    """A call whose result goes to a KernelFuture."""

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

    def fail_after_fork(self) -> None:
        self.future._condition = threading.Condition()  # another thread may have held it at the fork
        if not self.future.done():
            self.future.set_exception(
                KernelError(
                    f"{self.kernel.name}(): the process was forked while the call waited or ran; "
                    "its result goes to the parent"
                )
            )


def submit(kernel: Kernel, args: tuple[Any, ...], options: dict[str, Any]) -> KernelFuture:
    """Start a call on another thread, or make it at once if it is small. See `Kernel.submit`."""
    job = FutureJob(kernel, args, options)
    if runs_inline(kernel, args, options):
        job.run()
    else:
        _executor.EXECUTOR.put(job, QUEUE_TIMEOUT_S)
    return job.future
