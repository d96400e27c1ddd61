"""Ways between two processes: the ring, and what Python has or installs. Each sends from a child to this process."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import itertools
import math
import multiprocessing
import os
import resource
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import ClassVar

import numpy as np
from peers import QUICK, Table

from mojoview import Ring

context = multiprocessing.get_context("fork")
BATCH = 1000
WARM = 200  # round trips before any is timed
SILENCE = 0.5  # seconds after which a peer that drops is taken to have no more


class Transport:
    """One way: `open()` before the fork, then `poster()` in the child and `fetcher()` here.

    `poster()` gives a function that sends one message, `fetcher()` one that copies the next into a buffer; `sender()`
    and `receiver()` give functions of n messages.
    """

    name = ""
    needs: str | None = None
    step = 1  # messages a call

    def __init__(self, size: int):
        self.size = size
        self.message = bytes(size)

    def open(self) -> None: ...
    def poster(self): ...
    def fetcher(self): ...
    def close(self) -> None: ...

    def sender(self):
        post, message = self.poster(), self.message

        def send(n):
            for _ in itertools.repeat(None, n):
                post(message)

        return send

    def receiver(self):
        fetch, buffer = self.fetcher(), bytearray(self.size)

        def receive(n):
            for _ in itertools.repeat(None, n):
                fetch(buffer)

        return receive


class RingOne(Transport):
    name = "ring"
    options: ClassVar[dict] = {}

    def open(self):
        capacity = max(1 << 20, 1 << (4 * self.size - 1).bit_length())
        self.ring = Ring.create(capacity=capacity, **{"wait": "hybrid", **self.options})

    def poster(self):
        self.ring = Ring.attach(self.ring, wait=self.options.get("wait", "hybrid"))
        return self.ring.write

    def fetcher(self):
        return self.ring.read_into

    def close(self):
        assert self.ring.lost == 0
        self.ring.close()


class RingChecked(RingOne):
    name = "ring, crc"
    options: ClassVar[dict] = {"crc": True}


class RingFutex(RingOne):
    name = "ring, blocking"
    options: ClassVar[dict] = {"wait": "futex"}


class RingSpin(RingOne):
    name = "ring, polling"
    options: ClassVar[dict] = {"wait": "spin"}


class RingIterate(RingOne):
    name = "ring, for frame"

    def receiver(self):
        ring = self.ring

        def receive(n):
            for frame in ring:
                n -= 1
                if n == 0:
                    frame.seq  # noqa: B018
                    return

        return receive


class RingView(RingOne):
    name = "ring, view out"

    def receiver(self):
        ring = self.ring

        def receive(n):
            while n:
                with ring.read(min(n, 16)) as batch:
                    for frame in batch:
                        with memoryview(frame) as shown:
                            shown[0], shown[-1]
                    n -= len(batch)

        return receive


class RingMany(RingOne):
    name = "ring, batches"
    step = BATCH

    def sender(self):
        ring, rows = Ring.attach(self.ring), np.zeros((BATCH, self.size), "u1")

        def send(n):
            for _ in range(n // BATCH):
                ring.write_many(rows)

        return send

    def receiver(self):
        ring, rows = self.ring, np.empty((BATCH, self.size), "u1")

        def receive(n):
            while n > 0:
                n -= ring.read_many(rows[:n])

        return receive


class Sockets(Transport):
    def poster(self):
        return self.pair[0].sendall

    def fetcher(self):
        receive, size = self.pair[1].recv_into, self.size
        return lambda buffer: receive(buffer, size, socket.MSG_WAITALL)

    def close(self):
        for end in self.pair:
            end.close()


class UnixSocket(Sockets):
    name = "Unix socket"

    def open(self):
        self.pair = socket.socketpair()


class Tcp(Sockets):
    name = "TCP"

    def open(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            first = socket.create_connection(server.getsockname())
            second, _ = server.accept()
        self.pair = (first, second)
        for end in self.pair:
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class Pipe(Transport):
    name = "Pipe"

    def open(self):
        self.out, self.into = context.Pipe(False)

    def poster(self):
        return self.into.send_bytes

    def fetcher(self):
        return self.out.recv_bytes_into

    def close(self):
        self.out.close(), self.into.close()


class Queue(Transport):
    name = "Queue"

    def open(self):
        self.queue = context.Queue()

    def poster(self):
        return self.queue.put

    def receiver(self):
        return lambda n: [self.queue.get() for _ in range(n)] and None

    def close(self):
        self.queue.close()


class Zmq(Transport):
    name = "pyzmq"
    needs = "zmq"

    def open(self):
        self.folder = tempfile.mkdtemp()
        self.address = f"ipc://{self.folder}/z"

    def poster(self):
        import zmq

        self.context = zmq.Context()
        self.push = self.context.socket(zmq.PUSH)
        self.push.connect(self.address)
        return self.push.send

    def receiver(self):
        import zmq

        self.context = zmq.Context()
        self.pull = self.context.socket(zmq.PULL)
        self.pull.bind(self.address)
        return lambda n: [self.pull.recv() for _ in range(n)] and None

    def close(self):
        self.pull.close()
        self.context.term()
        shutil.rmtree(self.folder)


class FasterFifo(Transport):
    name = "faster-fifo"
    needs = "faster_fifo"

    def open(self):
        import faster_fifo

        def same(data):
            return bytes(data)

        self.queue = faster_fifo.Queue(max_size_bytes=max(1 << 20, 8 * self.size), loads=same, dumps=same)

    def poster(self):
        return functools.partial(self.queue.put, timeout=20)

    def receiver(self):
        return lambda n: [self.queue.get(timeout=20) for _ in range(n)] and None


class FasterFifoMany(FasterFifo):
    name = "faster-fifo, many"
    step = BATCH

    def sender(self):
        rows = [self.message] * BATCH

        def send(n):
            for _ in range(n // BATCH):
                self.queue.put_many(rows, timeout=20)

        return send

    def receiver(self):
        def receive(n):
            while n > 0:
                n -= len(self.queue.get_many(timeout=20, max_messages_to_get=min(n, BATCH)))

        return receive


class Iceoryx(Transport):
    name = "iceoryx2"
    needs = "iceoryx2"

    def service(self):
        import iceoryx2 as iox

        iox.set_log_level(iox.LogLevel.Error)
        self.node = iox.NodeBuilder.new().create(iox.ServiceType.Ipc)
        builder = self.node.service_builder(iox.ServiceName.new(self.title)).publish_subscribe(
            iox.Slice[ctypes.c_uint8]
        )
        return builder.enable_safe_overflow(False).subscriber_max_buffer_size(64).history_size(0).open_or_create()

    def open(self):
        self.title = f"mojoview-bench-{os.getpid()}-{time.monotonic_ns()}"

    def poster(self):
        import iceoryx2 as iox

        self.topic = self.service()
        builder = self.topic.publisher_builder().initial_max_slice_len(self.size)
        publisher = builder.backpressure_strategy(iox.BackpressureStrategy.RetryUntilDelivered).create()
        source, size = ctypes.create_string_buffer(self.message, self.size), self.size

        def post(message):
            sample = publisher.loan_slice_uninit(size)
            ctypes.memmove(sample.payload_ptr, source, size)
            sample.assume_init().send()

        return post

    def fetcher(self):
        self.topic = self.service()
        receive = self.topic.subscriber_builder().create().receive

        def fetch(buffer):
            """The first and the last byte, in place; None where nothing came in time."""
            sample, last = receive(), None
            while sample is None:
                now = time.perf_counter()
                last = last or now
                if now - last > SILENCE * (1 if self.came else 10):
                    return None
                sample = receive()
            shown = sample.payload().as_memory_view().cast("B")
            shown[0], shown[-1]
            sample.delete()
            self.came = True
            return self.size

        self.came = False
        return fetch

    def receiver(self):
        fetch = self.fetcher()

        def receive(n):
            """It drops what its subscriber does not take in time: what came counts, until none came for a while."""
            for got in range(n):
                if fetch(None) is None:
                    return got, time.perf_counter() - SILENCE
            return n, time.perf_counter()

        return receive


def turns(title: str, kinds: list[type[Transport]], rounds: int, measure, targets: dict[str, float]) -> Table:
    """Seconds a message, the kinds in turn, so that the machine's moods meet all alike; names what is not there."""
    there = [kind for kind in kinds if kind.needs is None or importlib.util.find_spec(kind.needs)]
    absent = [kind.name for kind in kinds if kind not in there]
    if absent:
        title += f" (not installed: {', '.join(absent)})"
    names = [kind.name for kind in there]
    table = Table(title, {name: [] for name in names}, {n: t for n, t in targets.items() if n in names})
    for _ in range(1 if QUICK else rounds):
        for kind in there:
            table.rounds[kind.name].append(measure(kind))
    mute = [name for name, times in table.rounds.items() if math.inf in times]
    for name in mute:  # no figure, so no target that it could seem to meet
        del table.rounds[name]
        table.targets.pop(name, None)
    if mute:
        table.title += f" (nothing came through: {', '.join(mute)})"
    return table


def throughput(kind: type[Transport], size: int, count: int) -> float:
    """Seconds a message, from the first received to the last."""
    transport = kind(size)
    transport.open()
    ready, done = context.Event(), context.Event()
    warm = max(kind.step, min(count // 10, BATCH))
    count = max(count // kind.step, 1) * kind.step

    def child():
        send = transport.sender()
        ready.wait(20)
        send(warm)
        send(count)
        done.wait(60)  # what some peers have not handed over goes with its sender

    process = context.Process(target=child)
    process.start()
    receive = transport.receiver()
    ready.set()
    receive(warm)
    begin = time.perf_counter()
    got, end = receive(count) or (count, time.perf_counter())
    done.set()
    leave(process)
    transport.close()
    return (end - begin) / got if got else math.inf  # nothing came in five seconds


def leave(process) -> None:
    """The child's end; one that hangs in its transport is ended."""
    process.join(20)
    if process.is_alive():
        process.kill()
        process.join()


def latency(kind: type[Transport], rounds: int) -> float:
    """Half a round trip, median, in seconds; one call to send, one to take, each side on a core of its own."""
    there, back = kind(64), kind(64)
    there.open(), back.open()
    cores = sorted(os.sched_getaffinity(0))

    def child():
        os.sched_setaffinity(0, cores[-1:])
        post, fetch, message, buffer = back.poster(), there.fetcher(), back.message, bytearray(64)
        for _ in itertools.repeat(None, rounds + WARM):
            if fetch(buffer) is None:
                return
            post(message)

    process = context.Process(target=child)
    process.start()
    os.sched_setaffinity(0, cores[:1])
    fetch = back.fetcher()
    time.sleep(0.3)
    post, message, buffer = there.poster(), there.message, bytearray(64)
    time.sleep(0.1)
    times, now = np.full(rounds + WARM, math.inf), time.perf_counter_ns
    for k in range(rounds + WARM):
        begin = now()
        post(message)
        if fetch(buffer) is None:
            break
        times[k] = now() - begin
    os.sched_setaffinity(0, cores)
    leave(process)
    there.close(), back.close()
    return float(np.median(times[WARM:])) / 2e9


def bare_c() -> float | None:
    """The same layout in C, in seconds; None without a compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    here = Path(__file__).parent
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "pingpong"
        subprocess.run(
            [
                compiler,
                "-std=gnu11",
                "-D_GNU_SOURCE",
                "-O2",
                f"-I{here.parent / 'src/mojoview'}",
                str(here / "ring_pingpong.c"),
                "-o",
                str(program),
                "-pthread",
            ],
            check=True,
        )
        return int(subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout) / 1e9


def idle_cpu(seconds: float) -> float:
    """Share of a core that a blocked reader uses."""
    with Ring.create() as ring:
        before = resource.getrusage(resource.RUSAGE_SELF)
        ring.read(1, seconds)
        after = resource.getrusage(resource.RUSAGE_SELF)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / seconds
