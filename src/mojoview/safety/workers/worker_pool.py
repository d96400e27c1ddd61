"""The pool of warm worker processes. Each call checks one out; a worker that exits is replaced."""

from __future__ import annotations

import atexit
import os
import threading
import time

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


class WorkerPool:
    """Workers, one per call.

    Notes
    -----
    Thread safety: any thread. In a forked child the pool starts empty.
    """

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)  # for those who wait; the lock alone is cheaper to take
        self._waiting = 0
        self._fork_lock = threading.Lock()  # held while a process is being started
        self._idle: list[WorkerProcess] = []
        self._all: set[WorkerProcess] = set()
        self._starting = 0
        self._closed = False

    @property
    def pids(self) -> list[int]:
        """Process IDs of the workers."""
        return sorted(worker.pid for worker in list(self._all))

    def acquire(self, deadline: float | None, name: str) -> WorkerProcess:
        """Return a warm worker for the call of that name. Follow it by `release()`, or by `discard()` on any error."""
        with self._lock:
            while not self._idle and len(self._all) + self._starting >= max_workers():
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise KernelTimeout(f"safe_call({name}): no worker process became free in time", kernel=name)
                self._waiting += 1
                try:
                    self._changed.wait(left)
                finally:
                    self._waiting -= 1
            if self._closed:
                raise KernelError(f"safe_call({name}): the interpreter is shutting down")
            if self._idle:
                return self._idle.pop()
            self._starting += 1
        return self._start_worker()

    def _start_worker(self) -> WorkerProcess:
        worker = None
        try:
            with self._fork_lock:
                worker = WorkerProcess()
        finally:
            with self._changed:
                self._starting -= 1
                if worker is not None:
                    self._all.add(worker)
                self._changed.notify()
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
                    self._changed.notify()

    def discard(self, worker: WorkerProcess) -> None:
        """Kill a worker that was acquired instead of returning it."""
        with self._changed:
            known = worker in self._all
            self._all.discard(worker)
            self._changed.notify()
        if known:
            worker.close()

    def close(self) -> None:
        """Kill all workers and the calls that they run. The next call starts a new one."""
        with self._changed:
            idle, self._idle = self._idle, []
            self._all.difference_update(idle)
            busy = list(self._all)
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
