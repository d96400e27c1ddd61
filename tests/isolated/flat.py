"""Refcounts, live leases, allocator blocks and resident memory are flat over many good and bad calls."""

import gc
import os
import resource
import sys

from mojoview.memory._lease import live_leases
from mojoview.memory.errors import MojoViewError


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def call_all(good, bad, calls):
    for function in good:
        for _ in range(calls):
            function()
    for number, function in enumerate(bad):
        for _ in range(calls):
            try:
                function()
            except MojoViewError:
                pass
            else:
                raise AssertionError(f"bad call number {number} did not fail")


def check(good, bad, counted, calls):
    """`counted`: objects whose refcounts must be the same afterwards. Bad calls must fail, each time."""

    def state():
        gc.collect()
        return [sys.getrefcount(one) for one in counted], live_leases()

    call_all(good, bad, max(calls // 20, 50))
    exact, blocks, none, memory = state(), sys.getallocatedblocks(), sys.getrefcount(None), resident()
    call_all(good, bad, calls)
    assert state() == exact, (exact, state())
    grown = sys.getallocatedblocks() - blocks
    assert grown < 500, f"{grown} blocks more"
    assert abs(sys.getrefcount(None) - none) < 500, (none, sys.getrefcount(None))
    more = resident() - memory
    assert more < 4 << 20 or os.environ.get("MOJOVIEW_SANITIZED"), f"{more:,} bytes more resident"
    print(f"{calls} calls of {len(good)} good and {len(bad)} bad: {grown} blocks, {more:,} bytes. ok")
