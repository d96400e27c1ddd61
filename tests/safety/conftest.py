"""Workers are kept warm for the tests of one module; after it no process, file or mapping of them is left."""

import gc

import numpy as np
import psutil
import pytest
from support.descriptors import open_files

from mojoview.safety.workers.worker_pool import POOL


@pytest.fixture(scope="module", autouse=True)
def nothing_left_behind():
    POOL.close()
    gc.collect()
    before, children = open_files("memfd:mojoview"), psutil.Process().children()
    yield
    POOL.close()
    gc.collect()
    assert open_files("memfd:mojoview") == before
    assert psutil.Process().children() == children


@pytest.fixture
def x():
    return np.arange(1.0, 5.0)


@pytest.fixture
def y():
    return np.arange(4.0)
