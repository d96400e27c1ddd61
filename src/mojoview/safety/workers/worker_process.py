"""One worker process as its parent sees it: started clean, spoken to through a socket, ended, read after its death."""

from __future__ import annotations

import fcntl
import importlib.resources
import mmap
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from typing import Any

from mojoview.safety.workers._channel import LONG, POST_BYTES, Post
from mojoview.safety.workers.arena import Arena
from mojoview.safety.workers.crash_report import RECORD_BYTES, Autopsy, read_record
from mojoview.safety.workers.worker import receive, send
from mojoview.memory.errors import KernelError

__all__ = ["WorkerProcess"]

START = 60.0  # seconds that a worker may take to come up
TAIL = 4000  # characters of what it printed that errors keep
KEPT = 1 << 28  # bytes of shared memory that an idle worker keeps
# The package without its top level, which imports pandas; paths come from the parent, which may have changed its own.
BOOT = """
import json, sys, types
setting = json.loads(sys.argv[1])
sys.path[:] = setting["path"]
sys.modules["mojoview"] = package = types.ModuleType("mojoview")
package.__path__ = setting["package"]
from mojoview.safety.workers.worker import main
main(*setting["fds"])
"""


class WorkerProcess:
    """A worker; one thread speaks to it at a time.

    Raises
    ------
    KernelError
        It does not come up.
    """

    def __init__(self) -> None:
        self.arena: Arena | None = None
        self.kernels = set[int]()  # those that it has opened, by the keys of their passports
        self.routes: dict[Any, Any] = {}  # by kernel and shapes
        self.new_arena = False  # whether the worker may not have mapped it
        self.channel, theirs = socket.socketpair()
        leash, self.leash = os.pipe()
        record = _memory("mojoview-post", POST_BYTES)
        self.log = _memory("mojoview-output", 0)
        fcntl.fcntl(self.log, fcntl.F_SETFL, os.O_APPEND)
        self.post = Post(record, self.channel.fileno(), False)
        self.record = mmap.mmap(record, RECORD_BYTES)
        try:
            self.process = _start(theirs.fileno(), leash, record, self.log)
        except OSError as error:
            self._let_go()
            raise KernelError(f"a worker process cannot be started: {error}") from error
        finally:
            theirs.close()
            os.close(leash)
            os.close(record)

    def greet(self) -> None:
        """Waits until it is up."""
        try:
            self.channel.settimeout(START)
            receive(self.channel)
            self.channel.settimeout(None)
        except (EOFError, OSError) as error:
            self.reap()
            output = self.output()
            raise KernelError(f"a worker process did not come up: {error or 'it ended'}\n{output}") from None

    @property
    def pid(self) -> int:
        return self.process.pid

    def require_arena(self, nbytes: int) -> Arena:
        """The shared memory, made larger where it is too small."""
        if self.arena is None or self.arena.nbytes < nbytes:
            larger = Arena(nbytes)
            self.drop_arena()
            self.arena, self.new_arena = larger, True
        return self.arena

    def drop_arena(self) -> None:
        if self.arena is not None:
            self.forget_routes()
            self.arena.close()
            self.arena = None

    def trim(self) -> None:
        """Gives back what is too much to keep for a next call."""
        if self.arena is not None and self.arena.nbytes > KEPT:
            self.drop_arena()

    def forget_routes(self) -> None:
        """The worker is told of all arrays anew."""
        self.routes.clear()

    def ask(self, timeout: float | None, message: Any) -> None:
        """Sends a call in full, within `timeout`; TimeoutError, or ConnectionError where the worker is gone."""
        self.channel.settimeout(timeout)
        fd = self.arena.segment.fileno() if self.new_arena and self.arena else -1
        self.post.send(LONG)
        send(self.channel, message, fd)

    def answer(self, timeout: float | None) -> tuple[bool, Any]:
        """The reply; TimeoutError where there is none in time, EOFError or ConnectionError where the worker is gone."""
        if self.post.receive(timeout) != LONG:
            (value,) = self.post.values()
            return True, value
        self.channel.settimeout(timeout)
        (done, value), _ = receive(self.channel)
        return bool(done), value

    def autopsy(self) -> Autopsy:
        return read_record(self.record)

    def output(self) -> str:
        """What it has printed since it was asked last."""
        size = os.lseek(self.log, 0, os.SEEK_END)  # cheaper than fstat(); the worker appends wherever this points
        if size == 0:
            return ""
        text = os.pread(self.log, TAIL, max(0, size - TAIL)).decode("utf-8", "replace")
        os.ftruncate(self.log, 0)
        return text

    def stop_and_look(self) -> Autopsy:
        """Ends a worker that does not answer, by a signal that lets it write down where it is."""
        self.process.send_signal(signal.SIGABRT)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(0.5)
        self.kill()
        return self.autopsy()

    def kill(self) -> int:
        """Ends it now; its exit status."""
        self.process.kill()
        return self.process.wait()

    def reap(self) -> int:
        """The exit status of a worker that has closed its side."""
        with suppress(subprocess.TimeoutExpired):
            return self.process.wait(2.0)
        return self.kill()

    def end(self) -> None:
        """Ends it and gives everything back."""
        self.kill()
        self._let_go()

    def forget(self) -> None:
        """In a forked child: the worker is the parent's."""
        self.process.returncode = 0  # nobody here may wait for it
        self._let_go()

    def _let_go(self) -> None:
        self.channel.close()
        os.close(self.leash)
        os.close(self.log)
        self.record.close()
        del self.post
        self.drop_arena()


def _memory(name: str, nbytes: int) -> int:
    fd = os.memfd_create(name)
    os.ftruncate(fd, nbytes)
    return fd


def _start(channel: int, leash: int, record: int, log: int) -> subprocess.Popen[bytes]:
    import json

    import mojoview.safety as room

    if not sys.executable:
        raise KernelError("a worker process cannot be started: sys.executable does not say which Python this is")
    package = [os.path.dirname(path) for path in room.__path__]
    setting = json.dumps({"path": sys.path, "package": package, "fds": [channel, leash, record]})
    environment = dict(os.environ)
    shim = importlib.resources.files("mojoview.safety.workers") / "mojoview_malloc_shim.so"
    if shim.is_file() and not set(str(shim)) & set(" :"):  # these separate the names in LD_PRELOAD
        environment["LD_PRELOAD"] = ":".join(filter(None, (environment.get("LD_PRELOAD"), str(shim))))
    return subprocess.Popen(
        [sys.executable, "-c", BOOT, setting],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        pass_fds=(channel, leash, record),
        env=environment,
        process_group=0,  # Ctrl-C at the terminal is for the program
    )
