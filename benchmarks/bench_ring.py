"""The ring beside other ways between two processes, with its sequence and header checks."""

from __future__ import annotations

import pytest
from peers import QUICK, Table
from peers.faster_fifos import FasterFifo, FasterFifoMany
from peers.iceoryx import Iceoryx
from peers.measure import bare_c, idle_cpu, latency, throughput, turns
from peers.multiprocessing_queues import Pipe, Queue
from peers.pyzmq import Zmq
from peers.rings import RingChecked, RingFutex, RingIterate, RingMany, RingOne, RingSpin, RingView
from peers.sockets import Tcp, UnixSocket

from mojoview import Ring

RINGS = [RingOne, RingMany, RingIterate]
PEERS = [UnixSocket, Tcp, Pipe, Queue, Zmq, FasterFifo, FasterFifoMany, Iceoryx]
# Messages that take about a quarter of a second; 50,000 for the other kinds.
COUNTS = {Queue: 10_000, Iceoryx: 10_000, RingOne: 400_000, RingIterate: 400_000, RingMany: 4_000_000}
SCALE = 0.01 if QUICK else 1


def show(table: Table, benchmark):
    print(f"\n{table}")
    table.record(benchmark)
    with Ring.create() as ring:
        message, buffer = bytes(64), bytearray(64)

        def there_and_back():
            ring.write(message)
            return ring.read_into(buffer)

        assert benchmark(there_and_back) == 64


@pytest.fixture(scope="module")
def small_frames():
    """Measure all kinds in turn, once for the tables of all three rings."""

    def measure(kind):
        return throughput(kind, 64, max(1000, int(COUNTS.get(kind, 50_000) * SCALE)))

    return turns("64-byte frames between processes", [*RINGS, *PEERS], 3, measure, {})


@pytest.mark.parametrize(("kind", "target"), [(RingOne, 5), (RingMany, 15), (RingIterate, None)])
def test_small_frames(kind, target, small_frames, benchmark):
    others = {name: times for name, times in small_frames.rounds.items() if name not in {ring.name for ring in RINGS}}
    targets = dict.fromkeys(others, target) if target else {}
    rounds = {kind.name: small_frames.rounds[kind.name], **others}
    show(Table(f"{small_frames.title}: {kind.name}", rounds, targets), benchmark)


def test_checksums(benchmark):
    def measure(kind):
        return throughput(kind, 65_536, int(20_000 * SCALE))

    table = turns("64 KiB frames with a checksum", [RingChecked, RingOne], 6, measure, {"ring": 0.8})
    show(table, benchmark)


@pytest.mark.parametrize("kind", [RingOne, RingView])
def test_large_frames(kind, benchmark):
    def measure(which):
        return throughput(which, 1 << 20, max(20, int(2_000 * SCALE)))

    show(turns(f"1 MiB frames: {kind.name}", [kind, Iceoryx], 4, measure, {"iceoryx2": 1.0}), benchmark)


def test_one_way_polling(benchmark):
    def measure(kind):
        return latency(kind, int(5_000 * SCALE))

    table = turns("one way of 64 bytes, median, polling", [RingSpin, Iceoryx], 4, measure, {"iceoryx2": 10})
    limits = [bare_c() for _ in table.rounds["ring, polling"]]
    if None in limits:
        table.title += " (no C compiler: without the bare C ring)"
    else:
        table.rounds["the same ring in C"] = limits
        table.targets["the same ring in C"] = 1 / 1.5
    show(table, benchmark)


def test_one_way_blocking(benchmark):
    def measure(kind):
        return latency(kind, int(5_000 * SCALE))

    kinds = [RingFutex, UnixSocket]
    show(turns("one way of 64 bytes, median, blocking", kinds, 4, measure, {"Unix socket": 1.0}), benchmark)


def test_idle_reader(benchmark):
    seconds = 0.1 if QUICK else 2.0
    used = [idle_cpu(seconds) for _ in range(2)]
    table = Table("CPU seconds a second", {"a reader that waits": used, "a core": [1.0, 1.0]}, {"a core": 100})
    show(table, benchmark)
