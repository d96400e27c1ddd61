"""Export of columns by Arrow and DLPack: the consumer pins them until it releases them."""

from __future__ import annotations

import gc

import numpy as np
import pandas as pd
import pytest

import mojoview as mv

pa = pytest.importorskip("pyarrow")


def take_arrow(column):
    return pa.array(column)


def take_dlpack(column):
    if np.lib.NumpyVersion(np.__version__) < "2.1.0":
        pytest.skip("NumPy speaks versioned DLPack from 2.1 on")
    return np.from_dlpack(column)


@pytest.mark.parametrize("take", [take_arrow, take_dlpack])
def test_a_consumer_pins_the_column(take):
    df = pd.DataFrame({"a": np.arange(5.0), "b": np.arange(5)})
    taken = take(df.mojo.view("a"))
    address = taken.buffers()[1].address if take is take_arrow else taken.ctypes.data
    assert address == df.mojo.view("a").ptr
    gc.collect()
    if int(pd.__version__.split(".")[0]) >= 3:
        df.loc[0, "a"] = 99.0  # pandas copies on write: the consumer's memory is not the frame's any more
        assert taken[0].as_py() == 0.0 if take is take_arrow else taken[0] == 0.0
    del df
    gc.collect()
    values = taken.to_pylist() if take is take_arrow else taken.tolist()
    assert values[1:] == [1.0, 2.0, 3.0, 4.0]


def test_masked_columns_go_out_with_their_validity():
    column = pd.DataFrame({"n": pd.array([1, None, 3], dtype="Int64")}).mojo.view(na="mask")["n"]
    assert pa.array(column).to_pylist() == [1, None, 3]
    assert pa.array(column).buffers()[1].address == column.ptr


def test_series_are_viewed_by_their_accessor_not_by_arrow():
    series = pd.Series([1.0, 2.0])
    assert mv.view(series).ptr == series.mojo.view().ptr
