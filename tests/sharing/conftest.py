"""Every test leaves shared memory as it found it: no names, no descriptors, no mappings, no leases."""

import gc
import os
import tempfile

import pytest

from mojoview.memory._lease import live_leases
from mojoview.sharing import naming


def mappings() -> int:
    """How many of this process's mappings are segments."""
    with open("/proc/self/maps", encoding="utf-8") as file:
        return sum("/mojoview-" in line or "memfd:mojoview" in line for line in file)


def descriptors() -> list[str]:
    found = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{fd}")
        except FileNotFoundError:
            continue
        if "/mojoview-" in target or "memfd:mojoview" in target:
            found.append(target)
    return sorted(found)


@pytest.fixture(scope="session", autouse=True)
def private_names():
    """A directory of its own: what other processes of this machine share is not judged here."""
    place = tempfile.mkdtemp(prefix="mojoview-tests-", dir=naming.directory())
    os.environ["MOJOVIEW_SHM_DIR"] = place
    yield
    del os.environ["MOJOVIEW_SHM_DIR"]
    os.rmdir(place)


@pytest.fixture(autouse=True)
def nothing_left_behind():
    gc.collect()
    before = (mappings(), descriptors(), live_leases(), sorted(os.listdir(naming.directory())))
    yield
    gc.collect()
    after = (mappings(), descriptors(), live_leases(), sorted(os.listdir(naming.directory())))
    assert after == before, "left behind: mappings, descriptors, leases or names"


@pytest.fixture
def name(request) -> str:
    """A name that no other test run uses."""
    return f"test-{os.getpid()}-{abs(hash(request.node.nodeid)) % 10**8}"
