"""Fixtures for tests that make segments: private names, and a check that nothing is left behind."""

import gc
import os
import tempfile
import time

import pytest

from mojoview.memory._lease import live_leases
from mojoview.sharing.segment import naming
from support.descriptors import open_files


def mappings() -> int:
    """Count this process's mappings of segments."""
    with open("/proc/self/maps", encoding="utf-8") as file:
        return sum("/mojoview-" in line or "memfd:mojoview" in line for line in file)


def held_resources() -> tuple[int, list[str], int, list[str]]:
    files = open_files("/mojoview-", "memfd:mojoview")
    return mappings(), files, live_leases(), sorted(os.listdir(naming.directory()))


@pytest.fixture(scope="session")
def private_names():
    """A name directory of this session's own: segments of other processes do not count."""
    place = tempfile.mkdtemp(prefix="mojoview-tests-", dir=naming.directory())
    os.environ["MOJOVIEW_SHM_DIR"] = place
    yield
    del os.environ["MOJOVIEW_SHM_DIR"]
    os.rmdir(place)


@pytest.fixture
def nothing_left_behind(private_names):
    """Compare mappings, descriptors, leases and names before and after the test."""
    gc.collect()
    before = held_resources()
    yield
    gc.collect()
    deadline = time.monotonic() + 10  # a thread that has passed a descriptor on closes its own a moment later
    while (after := held_resources()) != before and time.monotonic() < deadline:
        time.sleep(0.001)
    assert after == before, "left behind: mappings, descriptors, leases or names"


@pytest.fixture
def name(request) -> str:
    """A name that no other test run uses."""
    return f"test-{os.getpid()}-{abs(hash(request.node.nodeid)) % 10**8}"
