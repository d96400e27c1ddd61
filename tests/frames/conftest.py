"""Fixtures of the tests of frames/: Copy-on-Write on and off, both routes to pandas' memory, and addresses."""

import numpy as np
import pandas as pd
import pytest

from mojoview.frames import blocks

PANDAS_MAJOR = int(pd.__version__.split(".")[0])


@pytest.fixture(params=["cow"] if PANDAS_MAJOR >= 3 else ["live", "cow"])
def cow(request):
    """Whether Copy-on-Write is on; pandas 2 runs a test with and without."""
    if PANDAS_MAJOR >= 3:
        yield True
        return
    before = pd.get_option("mode.copy_on_write")
    pd.set_option("mode.copy_on_write", request.param == "cow")
    yield request.param == "cow"
    pd.set_option("mode.copy_on_write", before)


@pytest.fixture
def cow_on():
    """Copy-on-Write, in any pandas."""
    if PANDAS_MAJOR >= 3:
        yield
        return
    before = pd.get_option("mode.copy_on_write")
    pd.set_option("mode.copy_on_write", True)
    yield
    pd.set_option("mode.copy_on_write", before)


@pytest.fixture(params=["internal", "public"])
def route(request, monkeypatch):
    """Through pandas' block manager, and through its public calls as if the self-test had failed."""
    if request.param == "public":
        monkeypatch.setattr(blocks, "INTERNALS", False)
    else:
        assert blocks.INTERNALS, blocks.INTERNALS_ERROR
    return request.param


@pytest.fixture
def address():
    """Where pandas itself says that the values of a column begin."""

    def of(df, position):
        block = df._mgr.blocks[df._mgr.blknos[position]]
        values = block.values
        if values.ndim == 2:
            values = values[df._mgr.blklocs[position]]
        for name in ("_ndarray", "_data", "_codes"):
            values = getattr(values, name, values) if not isinstance(values, np.ndarray) else values
        return values.__array_interface__["data"][0]

    return of
