"""The parent's handle on one worker process: start, calls, termination, and the report of a crash."""

from __future__ import annotations

import fcntl
import importlib.resources
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any

from mojoview.memory.errors import KernelError, WaitTimeout
from mojoview.safety.workers._channel import CHANNEL_BYTES, OUT_OF_LINE, Channel
from mojoview.safety.workers.arena import Arena
from mojoview.safety.workers.crash_report import CrashReport, parse_report
from mojoview.safety.workers.reply import LENGTH, MAX_REPLY_BYTES, MalformedReply, decode_reply
from mojoview.safety.workers.worker import send

__all__ = ["WorkerProcess"]

HELLO_TIMEOUT_S = 5.0  # until the interpreter runs the worker's program
START_TIMEOUT_S = 60.0  # until that has imported the package
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
        self.pidfd = -1
        command = _command()
        ours, theirs = (end.detach() for end in socket.socketpair())
        theirs, parent_pipe, self.parent_pipe = map(_above_standard, (theirs, *os.pipe()))
        self.connection = socket.socket(fileno=_above_standard(ours))
        memory = _above_standard(_anonymous_file("mojoview-channel", CHANNEL_BYTES))
        self.log = _above_standard(_anonymous_file("mojoview-output", 0))
        fcntl.fcntl(self.log, fcntl.F_SETFL, os.O_APPEND)
        self.channel = Channel(memory, self.connection.fileno(), False)
        try:
            self.process = _start(command, (theirs, parent_pipe, memory), self.log)
        except OSError as error:
            self._close()
            raise KernelError(f"a worker process cannot be started: {error}") from error
        finally:
            for fd in (theirs, parent_pipe, memory):
                os.close(fd)
        if hasattr(os, "pidfd_open"):
            with suppress(OSError):  # the system is too old for it: the end of the connection shows the death
                self.pidfd = _above_standard(os.pidfd_open(self.process.pid))
                self.channel.watch(self.pidfd)

    def wait_ready(self) -> None:
        """Wait until the worker can serve calls."""
        try:
            if self._receive(1, time.monotonic() + HELLO_TIMEOUT_S) != b"\n":  # the first statement of its program
                raise EOFError("it is not Python, or not that of this process")
            decode_reply(self._receive_payload(time.monotonic() + START_TIMEOUT_S))
        except (EOFError, OSError, MalformedReply) as error:
            self.kill()
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

    def send_request(self, deadline: float | None, payload: Any) -> None:
        """Send a call with a new plan. TimeoutError, or ConnectionError if the worker has exited."""
        left = remaining(deadline)
        self.connection.settimeout(None if left is None else max(left, 1e-6))  # 0 would mean not to wait at all
        fd = self.arena.segment.fileno() if self.new_arena and self.arena else -1
        self.channel.send(OUT_OF_LINE)
        send(self.connection, payload, fd)
        self.connection.settimeout(None)

    def receive_reply(self, deadline: float | None) -> tuple[bool, Any]:
        """Return whether the call succeeded, and its result or exception.

        Raises TimeoutError, and EOFError or ConnectionError if the worker has exited or its reply is malformed.
        """
        if self.channel.receive(remaining(deadline)) != OUT_OF_LINE:
            (value,) = self.channel.values()
            return True, value
        return decode_reply(self._receive_payload(deadline))

    def _receive_payload(self, deadline: float | None) -> bytes:
        (length,) = LENGTH.unpack(self._receive(LENGTH.size, deadline))
        if length > MAX_REPLY_BYTES:
            raise MalformedReply(f"a worker process announced a reply of {length} bytes")
        return self._receive(length, deadline)

    def _receive(self, nbytes: int, deadline: float | None) -> bytes:
        """Return bytes from the connection. Watches the process too: a child of it may keep its end open."""
        data, watched = bytearray(), select.poll()
        watched.register(self.connection, select.POLLIN)
        if self.pidfd >= 0:
            watched.register(self.pidfd, select.POLLIN)
        while len(data) < nbytes:
            left = remaining(deadline)
            ready = dict(watched.poll(None if left is None else 1000 * left))
            if self.connection.fileno() in ready:
                more = self.connection.recv(min(nbytes - len(data), 1 << 20))
                if not more:
                    raise EOFError("it exited")
                data += more
            elif ready:
                raise EOFError("it exited")
            elif deadline is not None and time.monotonic() >= deadline:
                raise WaitTimeout("it did not answer in time")
        return bytes(data)

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

    def wait_exit(self) -> int | None:
        """Return the exit status of a worker whose connection ended; kill it and return None if it is alive."""
        with suppress(subprocess.TimeoutExpired):
            return self.process.wait(2.0 if self.pidfd < 0 or select.select([self.pidfd], [], [], 1.0)[0] else 0)
        self.kill()
        return None

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
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1
        del self.channel
        self.release_arena()


def _anonymous_file(name: str, nbytes: int) -> int:
    fd = os.memfd_create(name)
    os.ftruncate(fd, nbytes)
    return fd


def remaining(deadline: float | None) -> float | None:
    """Return the seconds until a deadline of `time.monotonic()`, at least 0; None without a deadline."""
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def _above_standard(fd: int) -> int:
    """Return the descriptor under a number of at least 3: in a program without them, 0 to 2 are not for other files."""
    if fd > 2:
        return fd
    copy = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(fd)
    return copy


def _command() -> list[str]:
    """Return the interpreter of this process with its options.

    Raises
    ------
    KernelError
        The program is frozen, or embeds Python, and no interpreter of its version is beside it. Its own executable is
        never started: it would run the program again.
    """
    if getattr(sys, "frozen", False):
        raise KernelError(
            "a worker process cannot be started: this program is frozen, so there is no Python interpreter to run it; "
            "call the kernel without isolate=, timeout= and memory_limit="
        )
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    beside = [os.path.join(prefix, "bin", version) for prefix in (sys.prefix, sys.base_prefix)]
    for executable in (sys.executable, *beside):
        if executable and re.match(r"python|pypy", os.path.basename(executable)) and os.access(executable, os.X_OK):
            break
    else:
        raise KernelError(
            f"a worker process cannot be started: {sys.executable or 'sys.executable'!r} is not a Python interpreter, "
            f"and there is none at {' or '.join(beside)}"
        )
    flags = sys.flags
    options = ["-P", *(["-E"] if flags.ignore_environment else []), *(["-s"] if flags.no_user_site else [])]
    return [executable, *options, "-X", f"utf8={flags.utf8_mode}", "-X", "mojoview-worker"]


def _start(command: list[str], descriptors: tuple[int, int, int], log: int) -> subprocess.Popen[bytes]:
    room = importlib.resources.files("mojoview.safety.workers")
    environment = dict(os.environ)
    shim = room / "mojoview_malloc_shim.so"
    if shim.is_file() and not set(str(shim)) & set(" :"):  # these separate the names in LD_PRELOAD
        environment["LD_PRELOAD"] = ":".join(filter(None, (environment.get("LD_PRELOAD"), str(shim))))
    # not the current directory, which an interactive program has in its path
    path = [entry for entry in sys.path if isinstance(entry, str) and os.path.isabs(entry)]
    return subprocess.Popen(
        [*command, str(room / "worker_main.py"), *map(str, descriptors), *path],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        pass_fds=descriptors,
        env=environment,
        process_group=0,  # so that Ctrl-C at the terminal reaches the parent alone
    )
