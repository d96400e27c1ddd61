"""The crew: warm worker processes that are lent to calls, a few at most, replaced when they die."""

from __future__ import annotations

import atexit
import os
import threading
import time

from mojoview.safety.workers.worker_process import WorkerProcess
from mojoview.memory.errors import KernelError, KernelTimeout, KernelValueError

__all__ = ["CREW", "Crew"]


def most_workers() -> int:
    """The environment's word, or the CPUs that the process may run on; 2 at least."""
    setting = os.environ.get("MOJOVIEW_WORKERS", "")
    if setting:
        if not setting.isdecimal() or int(setting) < 1:
            raise KernelValueError(f"environment variable MOJOVIEW_WORKERS: expected an int from 1, got {setting!r}")
        return int(setting)
    return max(2, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


class Crew:
    """Lends workers, one to a call.

    Notes
    -----
    Thread safety: any thread. In a forked child it begins anew, with workers of the child's own.
    """

    def __init__(self) -> None:
        self._renew()

    def _renew(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)  # for who waits; others take the lock itself, which is cheaper
        self._waiting = 0
        self._birth = threading.Lock()  # no fork while a process is being started
        self._idle: list[WorkerProcess] = []
        self._all: set[WorkerProcess] = set()
        self._promised = 0
        self._closed = False

    @property
    def pids(self) -> list[int]:
        """The processes that live."""
        return sorted(worker.pid for worker in list(self._all))

    def take(self, deadline: float | None, name: str) -> WorkerProcess:
        """A warm worker, for the call of that name; it goes to `give_back()`, or to `discard()` after any exception."""
        with self._lock:
            while not self._idle and len(self._all) + self._promised >= most_workers():
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
            self._promised += 1
        return self._hire()

    def _hire(self) -> WorkerProcess:
        worker = None
        try:
            with self._birth:
                worker = WorkerProcess()
        finally:
            with self._changed:
                self._promised -= 1
                if worker is not None:
                    self._all.add(worker)
                self._changed.notify()
        try:
            worker.greet()
        except BaseException:
            self.discard(worker)
            raise
        return worker

    def give_back(self, worker: WorkerProcess) -> None:
        """The call has left it in order."""
        worker.trim()
        with self._lock:
            if worker in self._all:
                self._idle.append(worker)
                if self._waiting:
                    self._changed.notify()

    def discard(self, worker: WorkerProcess) -> None:
        """Ends a worker that is lent; it does not come back."""
        with self._changed:
            known = worker in self._all
            self._all.discard(worker)
            self._changed.notify()
        if known:
            worker.end()

    def close(self) -> None:
        """Ends all workers, and the calls that they run; the next call starts new ones."""
        with self._changed:
            idle, self._idle = self._idle, []
            self._all.difference_update(idle)
            busy = list(self._all)
        for worker in idle:
            worker.end()
        for worker in busy:  # its caller sees that it is gone, and lets go of it
            worker.process.kill()

    def shut(self) -> None:
        """At the end of the interpreter."""
        self._closed = True
        self.close()

    def before_fork(self) -> None:
        self._birth.acquire()

    def after_fork(self) -> None:
        self._birth.release()

    def in_child(self) -> None:
        """The workers are the parent's: only its handles are closed, so that they still end with the parent."""
        workers = self._all
        self._renew()
        for worker in workers:
            worker.forget()


CREW = Crew()
atexit.register(CREW.shut)
os.register_at_fork(before=CREW.before_fork, after_in_parent=CREW.after_fork, after_in_child=CREW.in_child)
