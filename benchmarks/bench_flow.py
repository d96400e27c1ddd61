"""Calls in a worker process beside a round trip through a Unix socket, and asynchronous ones beside asyncio's own."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from peers import compare

import mojoview as mv
from mojoview import kernels

ECHO = """
import socket, sys
peer = socket.socket(fileno=int(sys.argv[1]))
while message := peer.recv(64):
    peer.sendall(message)
"""


@pytest.fixture
def echo():
    """A round trip of 64 bytes to a Python process and back."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen([sys.executable, "-c", ECHO, str(theirs.fileno())], pass_fds=[theirs.fileno()])
    message = bytes(64)

    def trip():
        ours.sendall(message)
        return ours.recv(64)

    assert trip() == message
    yield trip
    ours.close()
    process.wait(60)


def test_isolated_call(echo, benchmark):
    x, out = np.arange(8.0), np.zeros(8)

    def isolated():
        mv.safe_call(kernels.multiply, x, x, out, isolate=True)

    isolated()
    assert (out == x * x).all()
    table = compare(
        "a call on three arrays of 8 float64 in a warm worker process",
        {
            "safe_call(isolate=True)": isolated,
            "Unix-socket round trip, 64 bytes": echo,
            "safe_call(isolate=True, safety='strict')": lambda: mv.safe_call(
                kernels.multiply, x, x, out, isolate=True, safety="strict"
            ),
            "safe_call(safety='strict'), this process": lambda: mv.safe_call(
                kernels.multiply, x, x, out, safety="strict"
            ),
            "kernel": partial(kernels.multiply, x, x, out),
        },
        rounds=200,
        number=20,
        targets={"Unix-socket round trip, 64 bytes": 1 / 3},
    )
    table.record(benchmark)
    benchmark(isolated)


def test_isolated_call_on_large_arrays(benchmark):
    x, out = np.arange(1e6), np.zeros(1_000_000)

    def isolated():
        mv.safe_call(kernels.multiply, x, x, out, isolate=True)

    table = compare(
        "a call on three arrays of 1,000,000 float64 in a warm worker process",
        {
            "safe_call(isolate=True)": isolated,
            "kernel, and copies of what travels": lambda: (
                kernels.multiply(x, x, out),
                x.copy(),
                x.copy(),
                out.copy(),
                out.copy(),
            ),
            "kernel": partial(kernels.multiply, x, x, out),
        },
        rounds=20,
        number=1,
    )
    table.record(benchmark)
    benchmark(isolated)


@pytest.mark.parametrize("size", [8, 20_000, 100_000])
def test_awaited_one_by_one(size, benchmark):
    x = np.arange(float(size))
    loop = asyncio.new_event_loop()

    def awaiting(call: Callable[[], Awaitable[object]], count: int = 20):
        async def main():
            for _ in range(count):
                await call()

        return lambda: loop.run_until_complete(main())

    assert loop.run_until_complete(kernels.sum.aio(x)) == x.sum()
    ours = awaiting(lambda: kernels.sum.aio(x))
    table = compare(
        f"20 calls on {size} float64, each awaited",
        {
            "kernel.aio": ours,
            "asyncio.to_thread": awaiting(lambda: asyncio.to_thread(kernels.sum, x)),
            "kernel": lambda: [kernels.sum(x) for _ in range(20)],
        },
        rounds=100,
        number=1,
        targets={"asyncio.to_thread": 2},
    )
    table.record(benchmark)
    benchmark(ours)
    loop.close()


@pytest.mark.parametrize("size", [8, 20_000, 100_000])
def test_gathered(size, benchmark):
    x = np.arange(float(size))
    loop = asyncio.new_event_loop()

    def gathering(call: Callable[[], Awaitable[object]]):
        async def main():
            return await asyncio.gather(*[call() for _ in range(100)])

        return lambda: loop.run_until_complete(main())

    ours = gathering(lambda: kernels.sum.aio(x))
    assert ours() == [x.sum()] * 100
    table = compare(
        f"100 calls on {size} float64, gathered",
        {"kernel.aio": ours, "asyncio.to_thread": gathering(lambda: asyncio.to_thread(kernels.sum, x))},
        rounds=50,
        number=1,
        targets={"asyncio.to_thread": 2},
    )
    table.record(benchmark)
    benchmark(ours)
    loop.close()


def test_futures(benchmark):
    x = np.arange(100_000.0)
    with ThreadPoolExecutor(2) as pool:

        def ours():
            return [future.result() for future in [kernels.sum.submit(x) for _ in range(100)]]

        def theirs():
            return [future.result() for future in [pool.submit(kernels.sum, x) for _ in range(100)]]

        assert ours() == theirs()
        table = compare(
            "100 calls on 100,000 float64, submitted, then their results",
            {"kernel.submit": ours, "ThreadPoolExecutor.submit": theirs},
            rounds=50,
            number=1,
        )
    table.record(benchmark)
    benchmark(ours)
