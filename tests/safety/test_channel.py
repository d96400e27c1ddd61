"""The channel between a worker and its parent: both ends in one process, and memory that a kernel has overwritten."""

from __future__ import annotations

import math
import mmap
import os
import random
import socket
import threading
import time

import pytest

from mojoview.memory import errors
from mojoview.safety.workers._channel import CHANNEL_BYTES, OUT_OF_LINE, Channel
from mojoview.safety.workers.crash_report import parse_report

MESSAGE_BYTES = 192  # sequence, reader_waits, count, tag, kinds, values: in three cache lines
REQUEST = CHANNEL_BYTES - 2 * MESSAGE_BYTES  # before it is the crash record
COUNT, KINDS = REQUEST + 12, REQUEST + 24


class Pair:
    def __init__(self):
        self.fd = os.memfd_create("channel")
        os.ftruncate(self.fd, CHANNEL_BYTES)
        self.sockets = socket.socketpair()
        self.parent = Channel(self.fd, self.sockets[0].fileno(), False)
        self.worker = Channel(self.fd, self.sockets[1].fileno(), True)
        self.memory = mmap.mmap(self.fd, CHANNEL_BYTES)

    def close(self):
        os.close(self.fd)
        for one in self.sockets:
            one.close()


@pytest.fixture
def pair():
    made = Pair()
    yield made
    made.close()


@pytest.mark.parametrize(
    "values",
    [
        (),
        (None,),
        (1.5, None, -3, True, False),
        (2**64 - 1, 2**63, 2**63 - 1, -(2**63)),
        (-0.0, math.inf, -math.inf, 5e-324),
        (0.25,) * 15,
    ],
    ids=lambda values: str(len(values)),
)
def test_messages_both_ways(pair, values):
    for number in range(3):
        assert pair.parent.send(number, values)
        assert pair.worker.receive(10) == number
        found = pair.worker.values()
        assert (found, list(map(type, found)), list(map(str, found))) == (
            list(values),
            list(map(type, values)),
            list(map(str, values)),
        )
        assert pair.worker.send(OUT_OF_LINE)
        assert pair.parent.receive(10) == OUT_OF_LINE
        assert pair.parent.values() == []


@pytest.mark.parametrize(
    "value", [2**64, -(2**63) - 1, "text", 1j, (), pytest.importorskip("numpy").float64(1)], ids=repr
)
def test_values_that_do_not_fit_are_not_sent(pair, value):
    assert not pair.parent.send(7, (value,))
    assert not pair.parent.send(7, (None,) * 16)
    with pytest.raises(errors.WaitTimeout):
        pair.worker.receive(0.01)


def test_a_polling_reader_is_woken(pair):
    for side, other in ((pair.parent, pair.worker), (pair.worker, pair.parent)):
        sleeper = threading.Timer(0.05, side.send, (3, (0.5,)))
        sleeper.start()
        assert other.receive(30) == 3
        assert other.values() == [0.5]
        sleeper.join()
    assert [one.recv(8, socket.MSG_DONTWAIT | socket.MSG_PEEK) for one in pair.sockets if _readable(one)] == []


def _readable(one):
    try:
        return bool(one.recv(1, socket.MSG_DONTWAIT | socket.MSG_PEEK))
    except BlockingIOError:
        return False


def test_no_message_is_lost_at_any_pace(pair):
    """Send messages without pauses, and with pauses about as long as a reader spins before it polls."""

    def echo():
        for _ in range(3000):
            tag = pair.worker.receive(30)
            pair.worker.send(tag, tuple(pair.worker.values()))

    thread = threading.Thread(target=echo)
    thread.start()
    for k in range(3000):
        pair.parent.send(k, (float(k),))
        assert pair.parent.receive(30) == k
        assert pair.parent.values() == [k]
        if k % 3 == 0:
            time.sleep((k % 40) * 1e-6)
    thread.join()


def test_a_closed_socket_is_an_error(pair):
    threading.Timer(0.05, pair.sockets[1].shutdown, (socket.SHUT_RDWR,)).start()
    with pytest.raises(errors.PeerGone):
        pair.parent.receive(30)
    pair.memory[REQUEST + 8] = 1  # its reader polls the socket
    pair.sockets[1].close()
    with pytest.raises(errors.PeerGone):
        pair.parent.send(1)


@pytest.mark.parametrize(("at", "byte"), [(COUNT, 16), (COUNT + 3, 255), (KINDS, 5), (KINDS, 255)])
def test_a_malformed_message_is_an_error(pair, at, byte):
    pair.parent.send(1, (1.0,))
    pair.memory[at] = byte
    pair.worker.receive(10)
    with pytest.raises(errors.PeerGone, match="malformed message"):
        pair.worker.values()


def test_a_wrong_sequence_number_is_ignored(pair):
    pair.memory[REQUEST] = 9
    with pytest.raises(errors.WaitTimeout):
        pair.worker.receive(0.01)


def test_a_byte_without_a_message_is_an_error(pair):
    pair.sockets[0].send(b"x")
    with pytest.raises(errors.PeerGone):
        pair.worker.receive(30)


def test_any_bytes_in_the_crash_record_give_a_report(pair):
    for seed in range(100):
        junk = random.Random(seed).randbytes(REQUEST)
        pair.memory[:REQUEST] = junk if seed % 2 else b"/" * REQUEST  # the second has no NUL in its names
        record = pair.parent.crash_record()
        frames = record[-1]
        assert len(frames) <= 40, seed
        assert all(len(module) <= 256 and len(name) <= 120 for _, _, module, name in frames), seed
        assert len(parse_report(record).frames) <= 41, seed  # one more for a jump to an invalid address


def test_a_file_that_cannot_be_mapped_is_an_error():
    with pytest.raises(errors.KernelError, match="cannot be mapped"):
        Channel(-1, -1, False)
