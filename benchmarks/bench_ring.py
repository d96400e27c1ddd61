"""The ring beside other ways between two processes, in one run, in turns; sequence and header checks are on.

    python benchmarks/bench_ring.py [--quick] [--json]

Every transport sends from a child to this process; a round is one run of each, and a transport's figure is its best
round: the machine's
other work can only slow it down. Peers that are not installed are named as absent.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import json
import multiprocessing
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import ClassVar

import numpy as np

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
                elif got and time.perf_counter() - last > 0.5:
                    break
            return got, last

        return receive


def present(kinds: list[type[Transport]]) -> tuple[list[type[Transport]], list[str]]:
    there = [kind for kind in kinds if kind.needs is None or importlib.util.find_spec(kind.needs)]
    return there, [kind.name for kind in kinds if kind not in there]


def throughput(kind: type[Transport], size: int, count: int) -> float:
    """Messages a second, from the first received to the last."""
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
    process.join(20)
    transport.close()
    return got / elapsed


def latency(kind: type[Transport], rounds: int) -> float:
    """Half a round trip, median, in microseconds."""
    there, back = kind(64), kind(64)
    there.open(), back.open()

    def child():
        send, receive = back.sender(), there.receiver()
        for _ in range(rounds + 100):
            receive(1)
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
        receive(1)
        times.append(time.perf_counter_ns() - begin)
    process.join(20)
    if kind is not Zmq:
        there.close(), back.close()
    return float(np.median(times[100:])) / 2000


def bare_c() -> float | None:
    """The same layout in C, in microseconds."""
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
        return int(subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout) / 1000


def idle_cpu(seconds: float) -> float:
    """Share of a core that a blocked reader uses."""
    with Ring.create() as ring:
        before = resource.getrusage(resource.RUSAGE_SELF)
        ring.read(1, seconds)
        after = resource.getrusage(resource.RUSAGE_SELF)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / seconds


def best(kinds: list[type[Transport]], rounds: int, measure, lower: bool = False) -> dict[str, float]:
    """In turns, so that the machine's moods meet all alike."""
    found: dict[str, float] = {}
    for _ in range(rounds):
        for kind in kinds:
            print(".", end="", file=sys.stderr, flush=True)
            value = measure(kind)
            found[kind.name] = value if kind.name not in found else (min if lower else max)(found[kind.name], value)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few messages: shows that it runs, not how fast")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    scale, rounds = (0.05, 1) if arguments.quick else (1, 2)
    peers, absent = present([UnixSocket, Tcp, Pipe, Queue, Zmq, FasterFifo, FasterFifoMany, Iceoryx])
    counts = {Queue: 20_000, Iceoryx: 10_000, RingOne: 400_000, RingIterate: 400_000, RingMany: 4_000_000}
    small = best(
        [RingOne, RingIterate, RingMany, *peers],
        rounds,
        lambda kind: throughput(kind, 64, int(counts.get(kind, 50_000) * scale)),
    )
    middle = best([RingOne, RingChecked], rounds + 2, lambda kind: throughput(kind, 65536, int(20_000 * scale)))
    large_peers, _ = present([Iceoryx])
    large = best([RingOne, RingView, *large_peers], rounds, lambda kind: throughput(kind, 1 << 20, int(2_000 * scale)))
    polled, _ = present([RingSpin, RingFutex, UnixSocket, Iceoryx])
    delays = best(polled, rounds, lambda kind: latency(kind, int(20_000 * scale) + 100), lower=True)
    limit = min(filter(None, (bare_c() for _ in range(rounds))), default=None)
    idle = idle_cpu(2.0)

    peer = max(value for name, value in small.items() if not name.startswith("ring"))
    one, many = small["ring"], small["ring, batches"]
    targets = [
        ("64 B one at a time / best peer", one / peer, 5, True),
        ("64 B in batches / best peer", many / peer, 15, True),
        ("crc32c at 64 KiB, share of throughput lost", 1 - middle["ring, crc"] / middle["ring"], 0.2, False),
        ("one way p50, blocking / Unix socket", delays["ring, blocking"] / delays["Unix socket"], 1.0, False),
        ("idle blocked reader, share of a core", idle, 0.01, False),
    ]
    if limit is not None:
        targets.append(("one way p50, polling / bare C", delays["ring, polling"] / limit, 1.5, False))
    if "iceoryx2" in large:
        targets.append(("1 MiB / iceoryx2", max(large["ring"], large["ring, view out"]) / large["iceoryx2"], 1.0, True))
        targets.append(("one way p50, polling / iceoryx2", delays["ring, polling"] / delays["iceoryx2"], 0.1, False))
    result = {
        "messages_per_s_64_B": small,
        "messages_per_s_64_KiB": middle,
        "messages_per_s_1_MiB": large,
        "one_way_p50_us": delays,
        "bare_c_us": limit,
        "absent": absent,
        "targets": [
            {"what": what, "value": value, "target": target, "met": value >= target if more else value <= target}
            for what, value, target, more in targets
        ],
    }
    if arguments.json:
        print(json.dumps(result, indent=2))
        return 0
    for title, unit, found in (
        ("64 B, messages a second", 1, small),
        ("64 KiB, GB/s", 65536e-9, middle),
        ("1 MiB, GB/s", 1.048576e-3, large),
        ("one way p50, us", 1, {**delays, "bare C": limit}),
    ):
        print(f"\n{title}")
        for name, value in sorted(found.items(), key=lambda pair: pair[1] or 0):
            print(f"  {name:20s} {'-' if value is None else f'{value * unit:14,.2f}'}")
    print("\ntargets" + (f" (absent: {', '.join(absent)})" if absent else ""))
    for row in result["targets"]:
        print(f"  {'met ' if row['met'] else 'MISS'}  {row['what']:45s} {row['value']:8.3f}   target {row['target']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
