"""The parent's handle on one worker process: start, calls, termination, and the report of a crash."""

from __future__ import annotations

import fcntl
import importlib.resources
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from typing import Any

from mojoview.memory.errors import KernelError
from mojoview.safety.workers._channel import CHANNEL_BYTES, OUT_OF_LINE, Channel
from mojoview.safety.workers.arena import Arena
from mojoview.safety.workers.crash_report import CrashReport, parse_report
from mojoview.safety.workers.worker import receive, send

__all__ = ["WorkerProcess"]

START_TIMEOUT_S = 60.0
MAX_OUTPUT_CHARACTERS = 4000  # of what a kernel printed that errors keep
MAX_IDLE_BYTES = 1 << 28  # of shared memory that an idle worker keeps


class WorkerProcess:
    """A worker process, used by one thread at a time.

    Raises
    ------
    KernelError
        It cannot be started.
    """

    def __init__(self) -> None:
        self.arena: Arena | None = None
        self.kernels = set[int]()  # keys of the kernels that it has opened
        self.plans: dict[Any, Any] = {}  # by kernel and shapes
        self.new_arena = False  # whether it has yet to map the arena
        self.connection, theirs = socket.socketpair()
        parent_pipe, self.parent_pipe = os.pipe()
        memory = _anonymous_file("mojoview-channel", CHANNEL_BYTES)
        self.log = _anonymous_file("mojoview-output", 0)
        fcntl.fcntl(self.log, fcntl.F_SETFL, os.O_APPEND)
        self.channel = Channel(memory, self.connection.fileno(), False)
        try:
            self.process = _start(theirs.fileno(), parent_pipe, memory, self.log)
        except OSError as error:
            self._close()
            raise KernelError(f"a worker process cannot be started: {error}") from error
        finally:
            theirs.close()
            os.close(parent_pipe)
            os.close(memory)

    def wait_ready(self) -> None:
        """Wait until the worker can serve calls."""
        try:
            self.connection.settimeout(START_TIMEOUT_S)
            receive(self.connection)
            self.connection.settimeout(None)
        except (EOFError, OSError) as error:
            self.wait_exit()
            output = self.output()
            raise KernelError(f"a worker process did not start: {error or 'it exited'}\n{output}") from None

    @property
    def pid(self) -> int:
        return self.process.pid

    def require_arena(self, nbytes: int) -> Arena:
        """Return the shared memory, replaced by a larger one if it is too small."""
        if self.arena is None or self.arena.nbytes < nbytes:
            larger = Arena(nbytes)
            self.release_arena()
            self.arena, self.new_arena = larger, True
        return self.arena

    def release_arena(self) -> None:
        """Release the shared memory, and the plans that refer to it."""
        if self.arena is not None:
            self.plans.clear()
            self.arena.close()
            self.arena = None

    def shrink(self) -> None:
        """Release shared memory that is too large to keep for a next call."""
        if self.arena is not None and self.arena.nbytes > MAX_IDLE_BYTES:
            self.release_arena()

    def send_request(self, timeout: float | None, payload: Any) -> None:
        """Send a call with a new plan. TimeoutError, or ConnectionError if the worker has exited."""
        self.connection.settimeout(timeout)
        fd = self.arena.segment.fileno() if self.new_arena and self.arena else -1
        self.channel.send(OUT_OF_LINE)
        send(self.connection, payload, fd)

    def receive_reply(self, timeout: float | None) -> tuple[bool, Any]:
        """Return whether the call succeeded, and its result or exception.

        Raises TimeoutError, and EOFError or ConnectionError if the worker has exited.
        """
        if self.channel.receive(timeout) != OUT_OF_LINE:
            (value,) = self.channel.values()
            return True, value
        self.connection.settimeout(timeout)
        (done, value), _ = receive(self.connection)
        return bool(done), value

    def crash_report(self) -> CrashReport:
        return parse_report(self.channel.crash_record())

    def output(self) -> str:
        """Return what it has printed since the last call of this method."""
        size = os.lseek(self.log, 0, os.SEEK_END)  # cheaper than fstat(); the worker appends, wherever this points
        if size == 0:
            return ""
        start = max(0, size - MAX_OUTPUT_CHARACTERS)
        text = os.pread(self.log, MAX_OUTPUT_CHARACTERS, start).decode("utf-8", "replace")
        os.ftruncate(self.log, 0)
        return text

    def abort_and_report(self) -> CrashReport:
        """Kill a worker that does not answer, by a signal whose handler records the stack."""
        self.process.send_signal(signal.SIGABRT)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(0.5)
        self.kill()
        return self.crash_report()

    def kill(self) -> int:
        """Kill the worker and return its exit status."""
        self.process.kill()
        return self.process.wait()

    def wait_exit(self) -> int:
        """Return the exit status of a worker that has closed its end of the connection."""
        with suppress(subprocess.TimeoutExpired):
            return self.process.wait(2.0)
        return self.kill()

    def close(self) -> None:
        """Kill the worker and release everything that belongs to it."""
        self.kill()
        self._close()

    def detach_after_fork(self) -> None:
        """Release the handles in a forked child. The worker belongs to the parent."""
        self.process.returncode = 0  # not a child of this process: it cannot be waited for
        self._close()

    def _close(self) -> None:
        self.connection.close()
        os.close(self.parent_pipe)
        os.close(self.log)
        del self.channel
        self.release_arena()


def _anonymous_file(name: str, nbytes: int) -> int:
    fd = os.memfd_create(name)
    os.ftruncate(fd, nbytes)
    return fd


def _start(connection: int, parent_pipe: int, memory: int, log: int) -> subprocess.Popen[bytes]:
    if not sys.executable:
        raise KernelError("a worker process cannot be started: sys.executable is empty, so the interpreter is unknown")
    room = importlib.resources.files("mojoview.safety.workers")
    environment = dict(os.environ)
    shim = room / "mojoview_malloc_shim.so"
    if shim.is_file() and not set(str(shim)) & set(" :"):  # these separate the names in LD_PRELOAD
        environment["LD_PRELOAD"] = ":".join(filter(None, (environment.get("LD_PRELOAD"), str(shim))))
    descriptors = (connection, parent_pipe, memory)
    path = [entry for entry in sys.path if isinstance(entry, str)]
    options = ["-P", "-X", "mojoview-worker"]
    return subprocess.Popen(
        [sys.executable, *options, str(room / "worker_main.py"), *map(str, descriptors), *path],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        pass_fds=descriptors,
        env=environment,
        process_group=0,  # so that Ctrl-C at the terminal reaches the parent alone
    )
