"""The worker process: serves calls from its parent by running kernels on shared memory.

It answers one request at a time. When the parent exits, the system kills it, even during a kernel: see
`die_with_parent`.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import resource
import select
import signal
import socket
import sys
from typing import Any

import numpy as np

from mojoview.calls import Kernel
from mojoview.calls._kernel import invoke_bound
from mojoview.memory.errors import KernelError, KernelMemoryError, MojoViewError
from mojoview.safety.kernel_reference import KernelReference, KernelStatus, open_kernel
from mojoview.safety.workers import _channel
from mojoview.safety.workers._channel import OUT_OF_LINE, Channel
from mojoview.safety.workers.arena import START as ARENA_START
from mojoview.safety.workers.reply import LENGTH, encode_reply
from mojoview.sharing.segment import segments
from mojoview.sharing.segment._segment import Segment

__all__ = ["main", "receive", "send"]

MAX_OUTPUT_BYTES = 16 << 20  # that a kernel may print in one call
ANCILLARY_BYTES = socket.CMSG_LEN(4)


def receive(connection: socket.socket) -> tuple[Any, list[int]]:
    """Return the parent's next payload and the descriptors sent with its first byte; EOFError if it has exited."""
    data, extras, _, _ = connection.recvmsg(4096, ANCILLARY_BYTES)
    while len(data) < LENGTH.size or len(data) < LENGTH.size + LENGTH.unpack_from(data)[0]:
        more = connection.recv(1 << 20)
        if not more:
            raise EOFError
        data += more
    payload = pickle.loads(memoryview(data)[LENGTH.size :])
    return payload, [int.from_bytes(raw, sys.byteorder) for _, _, raw in extras]


def send(connection: socket.socket, payload: Any, fd: int = -1) -> None:
    """Send a payload, and a descriptor with its first byte."""
    data = pickle.dumps(payload, pickle.HIGHEST_PROTOCOL)
    data = LENGTH.pack(len(data)) + data
    sent = socket.send_fds(connection, [data], [fd]) if fd >= 0 else 0
    connection.sendall(data[sent:])


class WorkerState:
    """State of a worker between calls: its memory, the kernels that it has opened, the plans of recent calls."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.segment: Segment | None = None
        self.memory: np.ndarray[Any, Any] = np.empty(0, np.uint8)
        self.kernels: dict[int, Kernel] = {}
        self.plans: dict[int, CallPlan] = {}
        self.pages: tuple[tuple[int, int, bool], ...] = ()
        self.descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.name = "worker"  # of the kernel that was called last

    def map_arena(self, fd: int) -> None:
        """Replace the shared memory. Plans refer to the former one and are dropped."""
        self.plans.clear()
        self.pages = ()
        self.memory = np.empty(0, np.uint8)
        if self.segment is not None:
            self.segment.close()
        try:
            self.segment = segments.adopt_segment(fd, None, None, writable=True)
        finally:
            os.close(fd)
        self.memory = np.asarray(self.segment.view(0, (int(self.segment.facts["segment_bytes"]),), "u1", writable=True))
        self.channel.set_arena(self.memory.ctypes.data)

    def is_fit(self) -> bool:
        """Return whether the last kernel left what the next call needs: the arrays' memory and the limits."""
        mapped = self.memory.nbytes == 0 or _channel.is_mapped(self.memory.ctypes.data, self.memory.nbytes)
        return mapped and resource.getrlimit(resource.RLIMIT_NOFILE) == self.descriptors

    def guard(self, pages: tuple[tuple[int, int, bool], ...]) -> None:
        """Make all pages but the header's and those of the call's arrays inaccessible; without guards, none."""
        if pages == self.pages:
            return
        first = self.memory.ctypes.data
        nbytes = (self.memory.nbytes - ARENA_START) // resource.getpagesize() * resource.getpagesize()
        _channel.protect_pages(first + ARENA_START, nbytes, _channel.NO_ACCESS if pages else _channel.READ_WRITE)
        for start, length, writes in pages:
            _channel.protect_pages(first + start, length, _channel.READ_WRITE if writes else _channel.READ)
        self.pages = pages

    def _array(self, start: int, shape: tuple[int, ...], dtype: str, fortran: bool, writes: bool, mask: int) -> Any:
        array = np.ndarray(shape, dtype, self.memory.data, start, order="F" if fortran else "C")
        array.flags.writeable = writes
        if mask < 0:
            return array
        missing = np.ndarray(shape, np.bool_, self.memory.data, mask, order="F" if fortran else "C")
        missing.flags.writeable = False
        return np.ma.MaskedArray(array, missing)

    def register_plan(
        self,
        number: int,
        key: int,
        reference: KernelReference | None,
        arrays: Any,
        count: int,
        prepared: bool,
        pages: Any,
    ) -> None:
        """Keep under a number what calls of one kernel on arrays of the same shapes have in common."""
        if reference is not None:
            self.name = reference.name
            self.kernels[key] = open_kernel(reference)
        kernel = self.kernels[key]
        placed = [(array[0], self._array(*array[1:])) for array in arrays]
        self.plans[number] = CallPlan(kernel, count, placed, prepared, pages)

    def call(self, number: int, scalars: list[Any], options: dict[str, Any] | None = None) -> Any:
        """Make the call of a registered plan. `scalars` is empty if all arguments are arrays."""
        plan = self.plans[number]
        values = plan.values
        if scalars:
            values = scalars
            for index, array in plan.arrays:
                values[index] = array
        if plan.pages or self.pages:
            self.guard(plan.pages)
        self.name = plan.kernel.name
        self.channel.start_call()
        if plan.prepared:
            return invoke_bound(plan.kernel, tuple(values), options or {})
        return plan.kernel(*values, **options) if options else plan.kernel(*values)

    def call_new_plan(
        self, number: int, details: tuple[Any, ...], scalars: list[Any], options: dict[str, Any], limit: int | None
    ) -> Any:
        """Register a plan and make its call. The next call like it sends the number and the scalars alone."""
        self.register_plan(number, *details)
        if limit is None:
            return self.call(number, scalars, options)
        with _MemoryLimit(limit):
            return self.call(number, scalars, options)


class CallPlan:
    """A kernel, and the arrays in shared memory that it is called with."""

    __slots__ = ("arrays", "kernel", "pages", "prepared", "values")

    def __init__(self, kernel: Kernel, count: int, arrays: list[tuple[int, Any]], prepared: bool, pages: Any):
        self.kernel, self.arrays, self.prepared, self.pages = kernel, arrays, prepared, pages
        self.values = list[Any]([None] * count)
        for index, array in arrays:
            self.values[index] = array


class _MemoryLimit:
    """Limit on the bytes that one call may allocate beyond what the process has."""

    def __init__(self, nbytes: int):
        self.nbytes = nbytes

    def __enter__(self) -> None:
        with open("/proc/self/statm", "rb") as file:
            sizes = [int(number) * resource.getpagesize() for number in file.read().split()]
        _set_soft_limit(resource.RLIMIT_AS, sizes[0] + self.nbytes)
        _set_soft_limit(resource.RLIMIT_DATA, sizes[5] + self.nbytes)

    def __exit__(self, *exc: object) -> None:
        _set_soft_limit(resource.RLIMIT_AS, resource.RLIM_INFINITY)
        _set_soft_limit(resource.RLIMIT_DATA, resource.RLIM_INFINITY)


def _set_soft_limit(what: int, limit: int) -> None:
    hard = resource.getrlimit(what)[1]
    resource.setrlimit(what, (hard if limit == resource.RLIM_INFINITY else limit, hard))


def reply_to(done: bool, value: Any, name: str) -> bytes:
    """Return a call's result or exception as a reply; an exception outside mojoview's tree becomes a KernelError."""
    if isinstance(value, MemoryError) and not isinstance(value, MojoViewError):
        value = KernelMemoryError(f"{name}(): {value}", kernel=name)
    elif not done and not isinstance(value, MojoViewError | KernelStatus):
        value = KernelError(f"{name}(): {type(value).__name__}: {value}", kernel=name)
    try:
        return encode_reply(done, value)
    except (TypeError, ValueError) as reason:
        return encode_reply(False, KernelError(f"{name}(): {str(value)[:10_000]} ({reason})", kernel=name))


def die_with_parent(parent_pipe: int) -> None:
    """Have the system kill this process as soon as the other end of the pipe, which the parent holds, is closed."""
    fcntl.fcntl(parent_pipe, fcntl.F_SETOWN, os.getpid())
    if hasattr(fcntl, "F_SETSIG"):
        fcntl.fcntl(parent_pipe, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(parent_pipe, fcntl.F_SETFL, fcntl.fcntl(parent_pipe, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([parent_pipe], [], [], 0)[0]:  # it was closed before the system watched it
        os._exit(0)


def main(connection_fd: int, parent_pipe: int, channel_fd: int) -> None:
    """Serve calls until the parent exits. The arguments are inherited descriptors."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    die_with_parent(parent_pipe)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_OUTPUT_BYTES, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    _channel.install_crash_handler(channel_fd)
    connection = socket.socket(fileno=connection_fd)
    channel = Channel(channel_fd, connection_fd, True)
    state = WorkerState(channel)
    connection.sendall(encode_reply(True, "ready"))
    while True:
        try:
            tag = channel.receive(None)
            payload, fds = receive(connection) if tag == OUT_OF_LINE else ((), [])
        except (EOFError, ConnectionError):
            return
        try:
            if fds:
                state.map_arena(fds[0])
            value = state.call_new_plan(*payload) if payload else state.call(tag, channel.values())
            if channel.send(0, (value,)):
                if not state.is_fit():  # after the reply, which does not wait for this
                    os._exit(0)
                continue
            reply = reply_to(True, value, state.name)
        except KernelStatus as status:
            reply = reply_to(False, status, state.name)
        except BaseException as error:
            reply = reply_to(False, error, state.name)
        channel.send(OUT_OF_LINE)
        connection.sendall(reply)
        if not state.is_fit():
            os._exit(0)
