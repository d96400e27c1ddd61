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
from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any
from weakref import WeakSet

import numpy as np

from mojoview.kernels import Kernel
from mojoview.memory.errors import KernelError, KernelValueError, QueueFull

__all__ = ["Job", "KernelFuture", "Threads", "aio", "is_small", "submit"]

SMALL = 4096  # elements below which a kernel keeps the interpreter's lock: GIL_WORTH of kernels/_call
BRIEF = 1 << 16  # elements below which a built-in kernel takes less time than handing it over
CAPACITY = 1024  # calls that may wait
PATIENCE = 60.0  # seconds that submit() waits for room
FAREWELL = 1.0  # seconds that the end of the interpreter waits for calls that run
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


class Job:
    """A call that waits or runs. It holds kernel and arguments until it has ended."""

    __slots__ = ("__weakref__", "args", "kernel", "options")

    def __init__(self, kernel: Kernel, args: tuple[Any, ...], options: dict[str, Any]):
        self.kernel, self.args, self.options = kernel, args, options

    @abstractmethod
    def begin(self) -> bool:
        """False where it was cancelled."""

    @abstractmethod
    def end(self, value: Any, error: BaseException | None) -> None: ...

    def run(self) -> None:
        if not self.begin():
            return
        try:
            value = self.kernel(*self.args, **self.options)
        except BaseException as error:
            self.end(None, error)
        else:
            self.end(value, None)


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


class _Mailbox:
    """Results on their way to one event loop: however many come, the loop is woken once until it has looked."""

    def __init__(self, loop: asyncio.AbstractEventLoop):
        self.loop = loop
        self.results: deque[tuple[asyncio.Future[Any], Any, BaseException | None]] = deque()
        self.woken = False

    def post(self, future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
        self.results.append((future, value, error))
        if not self.woken:  # set before the loop is woken, cleared before it looks: nothing is left lying
            self.woken = True
            try:
                self.loop.call_soon_threadsafe(self.deliver)
            except RuntimeError:  # the loop was closed: nobody waits any more
                self.results.clear()

    def deliver(self) -> None:
        self.woken = False
        while self.results:
            future, value, error = self.results.popleft()
            if future.done():  # cancelled meanwhile
                continue
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(value)


class _LoopJob(Job):
    __slots__ = ("dropped", "future", "mailbox", "running")

    def __init__(self, kernel: Kernel, args: tuple[Any, ...], options: dict[str, Any], mailbox: Any, future: Any):
        super().__init__(kernel, args, options)
        self.mailbox, self.future, self.dropped, self.running = mailbox, future, False, False

    def begin(self) -> bool:
        self.running = not self.dropped
        return self.running

    def end(self, value: Any, error: BaseException | None) -> None:
        self.mailbox.post(self.future, value, error)


class Threads:
    """The queue and its threads.

    Parameters
    ----------
    most : int
        Threads; they are started when there is work for them.
    capacity : int
        Jobs that may wait.

    Notes
    -----
    Thread safety: any thread. In a forked child it begins anew; what waited or ran at the fork fails there.
    """

    def __init__(self, most: int, capacity: int = CAPACITY):
        self.most, self.capacity = most, capacity
        self._renew()

    def _renew(self) -> None:
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._waiting = 0  # jobs in the queue
        self._idle = 0
        self._threads: list[threading.Thread] = []
        self._room: deque[Callable[[], object]] = deque()  # who waits for room, in turn
        self._jobs: WeakSet[_FutureJob] = WeakSet()
        self._closed = False

    @property
    def waiting(self) -> int:
        """Calls in the queue."""
        return self._waiting

    def offer(self, job: Job, when_room: Callable[[], object] | None = None) -> bool:
        """Queues a job; False where there is no room: then `when_room` is called as soon as there is."""
        with self._lock:
            if self._closed:
                raise KernelError(f"{job.kernel.name}(): the interpreter is shutting down: no more asynchronous calls")
            if self._waiting >= self.capacity:
                if when_room is not None:
                    self._room.append(when_room)
                return False
            self._waiting += 1
            if self._waiting > self._idle and len(self._threads) < self.most:
                self._start(job)
        self._queue.put(job)
        return True

    def _start(self, job: Job) -> None:
        """One thread more, with the lock held. Not getting it is an error only where there is none."""
        thread = threading.Thread(target=self._work, name=f"mojoview-{len(self._threads)}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            if not self._threads:
                self._waiting -= 1
                raise KernelError(
                    f"{job.kernel.name}(): no thread for asynchronous calls can be started: {error}"
                ) from error
        else:
            self._threads.append(thread)

    def withdraw(self, when_room: Callable[[], object]) -> None:
        """Somebody waits for room no longer; if the word has been given already, it goes to the next."""
        woken = None
        with self._lock:
            if when_room in self._room:
                self._room.remove(when_room)
            elif self._room and self._waiting < self.capacity:
                woken = self._room.popleft()
        if woken is not None:
            woken()

    def _work(self) -> None:
        queue, lock = self._queue, self._lock
        while True:
            with lock:
                self._idle += 1
            job = queue.get()
            with lock:
                self._idle -= 1
                self._waiting -= job is not None
                woken = self._room.popleft() if self._room else None
            if woken is not None:
                woken()
            if job is None or self._closed:
                return
            job.run()
            del job, woken  # neither job nor arrays are held while the thread waits

    def wait_and_offer(self, job: Job, patience: float) -> None:
        """Queues a job, waiting for room; QueueFull where there is none in time."""
        if isinstance(job, _FutureJob):
            self._jobs.add(job)
        deadline = time.monotonic() + patience
        while True:
            room = threading.Event()
            if self.offer(job, room.set):
                return
            try:
                there_is = room.wait(max(0.0, deadline - time.monotonic()))
            except BaseException:
                self.withdraw(room.set)
                raise
            if not there_is:
                self.withdraw(room.set)
                raise QueueFull(
                    f"{job.kernel.name}(): {self.capacity} asynchronous calls wait, and none has begun for {patience} s"
                )

    def close(self, farewell: float = FAREWELL) -> None:
        """Cancels what waits, and waits `farewell` seconds at most for what runs."""
        with self._lock:
            self._closed = True
            threads, self._threads = self._threads, []
        for job in list(self._jobs):
            job.future.cancel()
        for _ in threads:
            self._queue.put(None)
        deadline = time.monotonic() + farewell
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def in_child(self) -> None:
        """After a fork: the threads are the parent's."""
        jobs = list(self._jobs)
        self._renew()
        for job in jobs:
            job.future._condition = threading.Condition()  # another thread may have held it
            if not job.future.done():
                job.future.set_exception(
                    KernelError(
                        f"{job.kernel.name}(): the process was forked while the call waited or ran; the parent has it"
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
    return max(2, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


THREADS = Threads(_most_threads())
atexit.register(THREADS.close)
os.register_at_fork(after_in_child=THREADS.in_child)
_MAILBOX = threading.local()


def is_small(kernel: Kernel, args: tuple[Any, ...], options: dict[str, Any]) -> bool:
    """Whether nothing is gained on another thread."""
    most = BRIEF if getattr(kernel, "owner", SMALL) is None else SMALL  # a family is of a library
    if options.get("threads") is not None:
        return False
    for value in (*args, *options.values()) if options else args:
        if type(value) is np.ndarray:
            if value.size >= most:
                return False
        elif value is not None and type(value) not in (float, int, bool, str):
            return False
    return True


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
        from mojoview.flow.trio_loop import call

        return await call(kernel, args, options)
    mailbox = getattr(_MAILBOX, "mailbox", None)
    if mailbox is None or mailbox.loop is not loop:
        mailbox = _MAILBOX.mailbox = _Mailbox(loop)
        _MAILBOX.turn = 0.0
    if is_small(kernel, args, options):
        now = time.perf_counter()
        if now - _MAILBOX.turn > TURN:
            await asyncio.sleep(0)  # the others' turn
            _MAILBOX.turn = time.perf_counter()
        return kernel(*args, **options)
    future = loop.create_future()
    job = _LoopJob(kernel, args, options, mailbox, future)
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
