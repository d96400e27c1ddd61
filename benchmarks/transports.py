"""Ways between two processes: the ring, and what Python has or installs. Each sends from a child to this process."""

from __future__ import annotations

import ctypes
import importlib.util
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


class Transport:
    """One way: `open()` before the fork, then `sender()` in the child and `receiver()` here. Both return a
    function of n messages.
    """

    name = ""
    needs: str | None = None

    def __init__(self, size: int):
        self.size = size
        self.message = bytes(size)

    def open(self) -> None: ...
    def sender(self): ...
    def receiver(self): ...
    def close(self) -> None: ...


class RingOne(Transport):
    name = "ring"
    options: ClassVar[dict] = {}

    def open(self):
        capacity = max(1 << 20, 1 << (4 * self.size - 1).bit_length())
        self.ring = Ring.create(capacity=capacity, **{"wait": "hybrid", **self.options})
        self.wait = self.options.get("wait", "hybrid")

    def sender(self):
        ring, message = Ring.attach(self.ring, wait=self.wait), self.message

        def send(n):
            for _ in range(n):
                ring.write(message)

        return send

    def receiver(self):
        ring, buffer = self.ring, bytearray(self.size)

        def receive(n):
            for _ in range(n):
                ring.read_into(buffer)
            assert ring.lost == 0

        return receive

    def close(self):
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
                    return frame.seq

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
                n -= ring.read_many(rows)
            assert ring.lost == 0

        return receive


class Sockets(Transport):
    def sender(self):
        send, message = self.pair[0].sendall, self.message
        return lambda n: [send(message) for _ in range(n)] and None

    def receiver(self):
        receive, buffer, size = self.pair[1].recv_into, bytearray(self.size), self.size

        def take(n):
            for _ in range(n):
                receive(buffer, size, socket.MSG_WAITALL)

        return take

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

    def sender(self):
        send, message = self.into.send_bytes, self.message
        return lambda n: [send(message) for _ in range(n)] and None

    def receiver(self):
        receive, buffer = self.out.recv_bytes_into, bytearray(self.size)

        def take(n):
            for _ in range(n):
                receive(buffer)

        return take

    def close(self):
        self.out.close(), self.into.close()


class Queue(Transport):
    name = "Queue"

    def open(self):
        self.queue = context.Queue()

    def sender(self):
        return lambda n: [self.queue.put(self.message) for _ in range(n)] and None

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

    def sender(self):
        import zmq

        self.context = zmq.Context()
        self.push = self.context.socket(zmq.PUSH)
        self.push.connect(self.address)
        return lambda n: [self.push.send(self.message) for _ in range(n)] and None

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
    many = False

    def open(self):
        import faster_fifo

        def same(data):
            return bytes(data)

        self.queue = faster_fifo.Queue(max_size_bytes=max(1 << 20, 8 * self.size), loads=same, dumps=same)

    def sender(self):
        if self.many:
            rows = [self.message] * BATCH

            def send(n):
                for _ in range(n // BATCH):
                    self.queue.put_many(rows, timeout=20)

            return send
        return lambda n: [self.queue.put(self.message, timeout=20) for _ in range(n)] and None

    def receiver(self):
        if self.many:

            def receive(n):
                while n > 0:
                    n -= len(self.queue.get_many(timeout=20, max_messages_to_get=min(n, BATCH)))

            return receive
        return lambda n: [self.queue.get(timeout=20) for _ in range(n)] and None


class FasterFifoMany(FasterFifo):
    name = "faster-fifo, many"
    many = True


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

    def sender(self):
        self.topic = self.service()
        import iceoryx2 as iox

        builder = self.topic.publisher_builder().initial_max_slice_len(self.size)
        publisher = builder.backpressure_strategy(iox.BackpressureStrategy.RetryUntilDelivered).create()
        source, size = ctypes.create_string_buffer(self.message, self.size), self.size

        def send(n):
            for _ in range(n):
                sample = publisher.loan_slice_uninit(size)
                ctypes.memmove(sample.payload_ptr, source, size)
                sample.assume_init().send()

        return send

    def receiver(self):
        self.topic = self.service()
        subscriber = self.topic.subscriber_builder().create()

        def receive(n):
            """It drops what its subscriber does not take in time: what came counts, until none came for a while."""
            got, last = 0, time.perf_counter()
            while got < n:
                sample = subscriber.receive()
                if sample is not None:
                    shown = sample.payload().as_memory_view().cast("B")
                    shown[0], shown[-1]
                    sample.delete()
                    got += 1
                    last = time.perf_counter()
                elif time.perf_counter() - last > (0.5 if got else 5):
                    break
            return got, last

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
    warm = max(1, min(count // 10, BATCH)) if "batches" not in kind.name and "many" not in kind.name else BATCH
    count = max(count // BATCH, 1) * BATCH if warm == BATCH else count

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
    result = receive(count)
    got, end = result if isinstance(result, tuple) else (count, time.perf_counter())
    elapsed = end - begin
    done.set()
    leave(process)
    transport.close()
    return elapsed / got if got else math.inf  # nothing came in five seconds


def leave(process) -> None:
    """The child's end; one that hangs in its transport is ended."""
    process.join(20)
    if process.is_alive():
        process.kill()
        process.join()


def nothing_came(result) -> bool:
    return isinstance(result, tuple) and result[0] == 0


def latency(kind: type[Transport], rounds: int) -> float:
    """Half a round trip, median, in seconds."""
    there, back = kind(64), kind(64)
    there.open(), back.open()

    def child():
        send, receive = back.sender(), there.receiver()
        for _ in range(rounds + 100):
            if nothing_came(receive(1)):
                return
            send(1)

    process = context.Process(target=child)
    process.start()
    receive = back.receiver()
    time.sleep(0.3)
    send = there.sender()
    time.sleep(0.1)
    times = []
    for _ in range(rounds + 100):
        begin = time.perf_counter_ns()
        send(1)
        if nothing_came(receive(1)):
            times = [math.inf] * 101
            break
        times.append(time.perf_counter_ns() - begin)
    leave(process)
    if kind is not Zmq:
        there.close(), back.close()
    return float(np.median(times[100:])) / 2e9


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
                f"-I{here.parent / 'src/mojoview/sharing'}",
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
