"""The pool of warm worker processes. Each call checks one out; a worker that exits is replaced."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections import deque

from mojoview.memory.errors import KernelError, KernelTimeout, KernelValueError
from mojoview.safety.workers.worker_process import WorkerProcess

__all__ = ["POOL", "WorkerPool", "max_workers"]


def max_workers() -> int:
    """Return MOJOVIEW_WORKERS, or the number of CPUs that the process may run on; 2 at least."""
    setting = os.environ.get("MOJOVIEW_WORKERS", "")
    if setting:
        if not setting.isdecimal() or int(setting) < 1:
            raise KernelValueError(
                f"environment variable MOJOVIEW_WORKERS: expected an integer of at least 1, got {setting!r}"
            )
        return int(setting)
    return max(2, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


class _Waiter:
    """A call that waits for a worker, or for the permission to start one."""

    __slots__ = ("granted", "ready", "worker")

    def __init__(self) -> None:
        self.ready = threading.Event()
        self.granted = False
        self.worker: WorkerProcess | None = None  # None when granted: it may start one


class WorkerPool:
    """Workers, one per call. Calls that wait are served in the order in which they came.

    Notes
    -----
    Thread safety: any thread. In a forked child the pool starts empty.
    """

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[_Waiter] = deque()
        self._fork_lock = threading.Lock()  # held while a process is being started
        self._idle: list[WorkerProcess] = []
        self._all: set[WorkerProcess] = set()
        self._starting = 0
        self._closed = False

    @property
    def pids(self) -> list[int]:
        """Process IDs of the workers."""
        return sorted(worker.pid for worker in list(self._all))

    def acquire(self, deadline: float | None, name: str) -> tuple[WorkerProcess, float | None]:
        """Return a warm worker for the call of that name, and the call's deadline.

        The time that it takes to start a worker does not count: the deadline moves by it. Follow the call by
        `release()`, or by `discard()` on any error.
        """
        with self._lock:
            if self._closed:
                raise KernelError(f"safe_call({name}): the interpreter is shutting down")
            if self._idle and not self._waiting:
                return self._idle.pop(), deadline
            waiter = _Waiter()
            self._waiting.append(waiter)
            self._serve()
        worker = waiter.worker if waiter.granted else self._wait(waiter, deadline, name)
        if worker is not None:
            return worker, deadline
        begin = time.monotonic()
        worker = self._start_worker(name)
        return worker, None if deadline is None else deadline + (time.monotonic() - begin)

    def _serve(self) -> None:
        """Give idle workers, and permissions to start one, to those who have waited longest. Holds the lock."""
        while self._waiting and (self._idle or len(self._all) + self._starting < max_workers()):
            waiter = self._waiting.popleft()
            if self._idle:
                waiter.worker = self._idle.pop()
            else:
                self._starting += 1
            waiter.granted = True
            waiter.ready.set()

    def _wait(self, waiter: _Waiter, deadline: float | None, name: str) -> WorkerProcess | None:
        """Return the worker that the call is given; None if it may start one."""
        try:
            waiter.ready.wait(None if deadline is None else max(0.0, deadline - time.monotonic()))
        except BaseException:  # Ctrl-C
            self._give_up(waiter)
            raise
        if not waiter.granted and not self._give_up(waiter):
            raise KernelTimeout(f"safe_call({name}): no worker process became free in time", kernel=name)
        return waiter.worker

    def _give_up(self, waiter: _Waiter) -> bool:
        """Leave the queue; return whether the call had been served after all (on Ctrl-C its turn goes to the next)."""
        with self._lock:
            if not waiter.granted:
                self._waiting.remove(waiter)
                return False
            if sys.exc_info()[0] is not None:
                if waiter.worker is not None:
                    self._idle.append(waiter.worker)
                else:
                    self._starting -= 1
                self._serve()
            return True

    def _start_worker(self, name: str) -> WorkerProcess:
        worker = None
        try:
            if self._closed:
                raise KernelError(f"safe_call({name}): the interpreter is shutting down")
            with self._fork_lock:
                worker = WorkerProcess()
        finally:
            with self._lock:
                self._starting -= 1
                if worker is not None:
                    self._all.add(worker)
                self._serve()
        try:
            worker.wait_ready()
        except BaseException:
            self.discard(worker)
            raise
        return worker

    def release(self, worker: WorkerProcess) -> None:
        """Return a worker to the pool."""
        worker.shrink()
        with self._lock:
            if worker in self._all:
                self._idle.append(worker)
                if self._waiting:
                    self._serve()

    def discard(self, worker: WorkerProcess) -> None:
        """Kill a worker that was acquired instead of returning it."""
        with self._lock:
            known = worker in self._all
            self._all.discard(worker)
            self._serve()
        if known:
            worker.close()

    def close(self) -> None:
        """Kill all workers and the calls that they run. The next call starts a new one."""
        with self._lock:
            idle, self._idle = self._idle, []
            self._all.difference_update(idle)
            busy = list(self._all)
            self._serve()
        for worker in idle:
            worker.close()
        for worker in busy:  # its caller notices, and discards it
            worker.process.kill()

    def shutdown(self) -> None:
        """Kill all workers and accept no more calls."""
        self._closed = True
        self.close()

    def before_fork(self) -> None:
        self._fork_lock.acquire()

    def after_fork_in_parent(self) -> None:
        self._fork_lock.release()

    def after_fork_in_child(self) -> None:
        """Forget the workers, which belong to the parent, and close their handles, so that they still end with it."""
        workers = self._all
        self._reset()
        for worker in workers:
            worker.detach_after_fork()


POOL = WorkerPool()
atexit.register(POOL.shutdown)
os.register_at_fork(
    before=POOL.before_fork, after_in_parent=POOL.after_fork_in_parent, after_in_child=POOL.after_fork_in_child
)
