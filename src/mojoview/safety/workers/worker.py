"""The worker process: waits for calls, runs their kernels on shared memory, says what came of it.

It imports neither pandas nor the package's top level. It answers one request at a time and dies with its parent, at
once and whatever its kernel does: the system kills it when the other end of its leash, a pipe, is closed.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import resource
import select
import signal
import socket
import struct
import sys
from typing import Any

import numpy as np

from mojoview.safety.workers import _crash
from mojoview.safety.workers._channel import LONG, Post
from mojoview.safety.workers.kernel_reference import Passport, Reported, open_kernel
from mojoview.calls import Kernel
from mojoview.calls._prepared import invoke_bound
from mojoview.memory.errors import KernelError, KernelMemoryError, MojoViewError
from mojoview.sharing.segment import segments
from mojoview.sharing.segment._segment import Segment

__all__ = ["main"]

PRINTS = 16 << 20  # bytes that a kernel may print in one call
LENGTH = struct.Struct("<Q")
DESCRIPTOR = socket.CMSG_LEN(4)


def receive(connection: socket.socket) -> tuple[Any, list[int]]:
    """The next message, and the descriptor that may come with its first byte; EOFError where the peer is gone."""
    data, extras, _, _ = connection.recvmsg(4096, DESCRIPTOR)
    while len(data) < LENGTH.size or len(data) < LENGTH.size + LENGTH.unpack_from(data)[0]:
        more = connection.recv(1 << 20)
        if not more:
            raise EOFError
        data += more
    message = pickle.loads(memoryview(data)[LENGTH.size :])
    return message, [int.from_bytes(raw, sys.byteorder) for _, _, raw in extras]


def send(connection: socket.socket, message: Any, fd: int = -1) -> None:
    """Sends a message, and a descriptor with its first byte."""
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    data = LENGTH.pack(len(data)) + data
    sent = socket.send_fds(connection, [data], [fd]) if fd >= 0 else 0
    connection.sendall(data[sent:])


class Desk:
    """What a worker knows: its memory, the kernels that it has opened, the arrays of recent calls."""

    def __init__(self, post: Post) -> None:
        self.post = post
        self.segment: Segment | None = None
        self.memory: np.ndarray[Any, Any] = np.empty(0, np.uint8)
        self.kernels: dict[int, Kernel] = {}
        self.routes: dict[int, _Route] = {}
        self.pages: tuple[tuple[int, int, bool], ...] = ()
        self.name = "worker"  # of the kernel that was called last

    def map(self, fd: int) -> None:
        """New memory from here on."""
        self.routes.clear()
        self.pages = ()
        self.memory = np.empty(0, np.uint8)
        if self.segment is not None:
            self.segment.close()
        try:
            self.segment = segments.adopt_segment(fd, None, None, writable=True)
        finally:
            os.close(fd)
        self.memory = np.asarray(self.segment.view(0, (int(self.segment.facts["segment_bytes"]),), "u1", writable=True))
        self.post.tell_arena(self.memory.ctypes.data)

    def guard(self, pages: tuple[tuple[int, int, bool], ...]) -> None:
        """Closes all pages but the header's and those of the call's arrays; opens all where there are no guards."""
        if pages == self.pages:
            return
        first = self.memory.ctypes.data
        head = -(-4096 // resource.getpagesize()) * resource.getpagesize()
        rest = (self.memory.nbytes - head) // resource.getpagesize() * resource.getpagesize()
        _crash.protect(first + head, rest, _crash.NOTHING if pages else _crash.WRITE)
        for start, nbytes, writes in pages:
            _crash.protect(first + start, nbytes, _crash.WRITE if writes else _crash.READ)
        self.pages = pages

    def _array(self, start: int, shape: tuple[int, ...], dtype: str, fortran: bool, writes: bool, mask: int) -> Any:
        array = np.ndarray(shape, dtype, self.memory.data, start, order="F" if fortran else "C")
        array.flags.writeable = writes
        if mask < 0:
            return array
        missing = np.ndarray(shape, np.bool_, self.memory.data, mask, order="F" if fortran else "C")
        missing.flags.writeable = False
        return np.ma.MaskedArray(array, missing)

    def learn(
        self, number: int, key: int, passport: Passport | None, places: Any, count: int, prepared: bool, pages: Any
    ) -> None:
        """What calls of one kernel on arrays of the same shapes have in common, under the number of their route."""
        if passport is not None:
            self.name = passport.name
            self.kernels[key] = open_kernel(passport)
        kernel = self.kernels[key]
        arrays = [(place[0], self._array(*place[1:])) for place in places]
        self.routes[number] = _Route(kernel, count, arrays, prepared, pages)

    def call(self, number: int, scalars: list[Any], options: dict[str, Any] | None = None) -> Any:
        """A call whose route is known; without scalars where it has none."""
        route = self.routes[number]
        values = route.values
        if scalars:
            values = scalars
            for at, array in route.arrays:
                values[at] = array
        if route.pages or self.pages:
            self.guard(route.pages)
        self.name = route.kernel.name
        self.post.begin()
        if route.prepared:
            return invoke_bound(route.kernel, tuple(values), options or {})
        return route.kernel(*values, **options) if options else route.kernel(*values)

    def call_anew(
        self, number: int, details: tuple[Any, ...], scalars: list[Any], options: dict[str, Any], limit: int | None
    ) -> Any:
        """A call in full; the next one like it needs no more than its number."""
        self.learn(number, *details)
        if limit is None:
            return self.call(number, scalars, options)
        with _Limit(limit):
            return self.call(number, scalars, options)


class _Route:
    """A kernel, and the arrays that it is called with."""

    __slots__ = ("arrays", "kernel", "pages", "prepared", "values")

    def __init__(self, kernel: Kernel, count: int, arrays: list[tuple[int, Any]], prepared: bool, pages: Any):
        self.kernel, self.arrays, self.prepared, self.pages = kernel, arrays, prepared, pages
        self.values = list[Any]([None] * count)
        for at, array in arrays:
            self.values[at] = array


class _Limit:
    """Bytes that may be allocated beyond what the process has, for the time of one call."""

    def __init__(self, nbytes: int):
        self.nbytes = nbytes

    def __enter__(self) -> None:
        with open("/proc/self/statm", "rb") as file:
            sizes = [int(number) * resource.getpagesize() for number in file.read().split()]
        _soft(resource.RLIMIT_AS, sizes[0] + self.nbytes)
        _soft(resource.RLIMIT_DATA, sizes[5] + self.nbytes)

    def __exit__(self, *exc: object) -> None:
        _soft(resource.RLIMIT_AS, resource.RLIM_INFINITY)
        _soft(resource.RLIMIT_DATA, resource.RLIM_INFINITY)


def _soft(what: int, limit: int) -> None:
    hard = resource.getrlimit(what)[1]
    resource.setrlimit(what, (hard if limit == resource.RLIM_INFINITY else limit, hard))


def reply_of(error: BaseException, name: str) -> MojoViewError:
    """An exception that can be carried and is of the tree."""
    if isinstance(error, MemoryError) and not isinstance(error, MojoViewError):
        error = KernelMemoryError(f"{name}(): {error}", kernel=name)
    if isinstance(error, MojoViewError):
        try:
            pickle.loads(pickle.dumps(error))
        except Exception as reason:
            return KernelError(f"{name}(): {error} (it cannot be carried as it is: {reason})", kernel=name)
        return error
    return KernelError(f"{name}(): {type(error).__name__}: {error}", kernel=name)


def hold_leash(leash: int) -> None:
    """The system kills this process as soon as nobody has the other end of the pipe any more."""
    fcntl.fcntl(leash, fcntl.F_SETOWN, os.getpid())
    if hasattr(fcntl, "F_SETSIG"):
        fcntl.fcntl(leash, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(leash, fcntl.F_SETFL, fcntl.fcntl(leash, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([leash], [], [], 0)[0]:  # it was closed before the system watched it
        os._exit(0)


def main(channel: int, leash: int, record: int) -> None:
    """Serves until the parent is gone. The arguments are inherited descriptors."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    hold_leash(leash)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (PRINTS, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    _crash.watch(record)
    connection = socket.socket(fileno=channel)
    post = Post(record, channel, True)
    desk = Desk(post)
    send(connection, ("ready", os.getpid()))
    while True:
        try:
            number = post.receive(None)
            message, fds = receive(connection) if number == LONG else ((), [])
        except (EOFError, ConnectionError):
            return
        reply: Any
        try:
            if fds:
                desk.map(fds[0])
            value = desk.call_anew(*message) if message else desk.call(number, post.values())
            if post.send(0, (value,)):
                continue
            reply = (True, value)
        except Reported as report:
            reply = (False, Reported(*report.args))
        except BaseException as error:
            reply = (False, reply_of(error, desk.name))
        post.send(LONG)
        send(connection, reply)
