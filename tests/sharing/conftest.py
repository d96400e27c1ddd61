"""Every test leaves shared memory as it found it: no names, no descriptors, no mappings, no leases."""

import gc
import os
import tempfile

import pytest
from support.descriptors import open_files

from mojoview.memory._lease import live_leases
from mojoview.sharing.segment import naming


def mappings() -> int:
    """How many of this process's mappings are segments."""
    with open("/proc/self/maps", encoding="utf-8") as file:
        return sum("/mojoview-" in line or "memfd:mojoview" in line for line in file)


@pytest.fixture(scope="session", autouse=True)
def private_names():
    """A directory of its own: what other processes of this machine share is not judged here."""
    place = tempfile.mkdtemp(prefix="mojoview-tests-", dir=naming.directory())
    os.environ["MOJOVIEW_SHM_DIR"] = place
    yield
    del os.environ["MOJOVIEW_SHM_DIR"]
    os.rmdir(place)


def what_is_held() -> tuple[int, list[str], int, list[str]]:
    files = open_files("/mojoview-", "memfd:mojoview")
    return mappings(), files, live_leases(), sorted(os.listdir(naming.directory()))


@pytest.fixture(autouse=True)
def nothing_left_behind():
    gc.collect()
    before = what_is_held()
    yield
    gc.collect()
    assert what_is_held() == before, "left behind: mappings, descriptors, leases or names"


@pytest.fixture
def name(request) -> str:
    """A name that no other test run uses."""
    return f"test-{os.getpid()}-{abs(hash(request.node.nodeid)) % 10**8}"
