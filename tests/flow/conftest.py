"""Workers are started once and kept warm; at the end nothing of them is left."""

import gc
import os

import numpy as np
import psutil
import pytest

from mojoview.flow.crew import CREW


def memory_files() -> list[str]:
    found = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{fd}")
        except FileNotFoundError:
            continue
        if "memfd:mojoview" in target:
            found.append(target)
    return sorted(found)


@pytest.fixture(scope="module", autouse=True)
def nothing_left_behind():
    CREW.close()
    gc.collect()
    before, children = memory_files(), psutil.Process().children()
    yield
    CREW.close()
    gc.collect()
    assert memory_files() == before
    assert psutil.Process().children() == children


@pytest.fixture
def x():
    return np.arange(1.0, 5.0)


@pytest.fixture
def y():
    return np.arange(4.0)
