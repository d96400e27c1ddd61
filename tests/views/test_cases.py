"""Situations from public bug reports that concern views and have no better home."""

from __future__ import annotations

import numpy as np
import pytest
from support.arrays import assert_same

import mojoview as mv
from mojoview.memory.errors import LayoutError, ReadOnlyError


@pytest.mark.parametrize("dtype", [">f4", ">i8", ">M8[s]", ">c16", ">U3"])
def test_the_byte_order_is_part_of_a_view(dtype):
    array = np.ones(10, dtype)
    view = mv.view(array)
    assert_same(view, array)
    assert view[0] == array[0]
    assert not view.dtype.isnative
    assert mv.view(array[::2])[1] == array[2]


@pytest.mark.parametrize("padding", [0, 1, 3, 4])
def test_strides_count_bytes(padding):
    size = 12 + padding
    dtype = np.dtype({"names": ["i", "d"], "formats": ["i4", "f8"], "offsets": [0, 4], "itemsize": size})
    records = np.zeros(3, dtype)
    records["d"] = [1, 2, 4]
    for view in (mv.view(records["d"]), mv.view(records)["d"]):
        assert view.strides == (size,)
        assert view.itemsize == 8
        assert [float(x) for x in view] == [1.0, 2.0, 4.0]
        assert np.asarray(view).sum() == 7.0
        assert view[::-2].strides == (-2 * size,)


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.broadcast_arrays(np.arange(3.0), np.zeros((4, 3)))[0],
        lambda: np.broadcast_to(np.arange(3.0), (4, 3)),
        lambda: np.lib.stride_tricks.as_strided(np.arange(3.0), (4, 3), (0, 8)),
        lambda: np.lib.stride_tricks.sliding_window_view(np.arange(10.0), 3, writeable=True),
        lambda: np.lib.stride_tricks.as_strided(np.arange(10.0)[2:], (3, 3), (8, -8), writeable=True),
    ],
    ids=["broadcast_arrays", "broadcast_to", "stride 0", "sliding window", "diagonals"],
)
def test_overlapping_elements_are_read_only(make):
    array = make()
    assert_same(mv.view(array), array, readonly=True)
    with pytest.raises((ReadOnlyError, LayoutError)) as caught:  # and no warning of NumPy's: they are errors here
        mv.view(array, writable=True)
    assert isinstance(caught.value, BufferError)
    assert isinstance(caught.value, ValueError)
    one = np.lib.stride_tricks.as_strided(np.arange(3.0), (1, 3), (0, 8))
    mv.view(one, writable=True)[0, 0] = 9  # a stride of 0 along an axis of one element reaches nothing twice


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.frombuffer(bytes(80), "f8"),
        lambda: bytes(80),
        lambda: memoryview(bytes(80)).cast("d"),
        lambda: pytest.importorskip("pandas").Series([1.0, 2.0]).to_numpy(),
    ],
    ids=["frombuffer", "bytes", "memoryview", "pandas"],
)
def test_readers_take_read_only_memory(make):
    obj = make()
    view = mv.view(obj)
    for window in (view, view[1:], view.T, view.reshape(-1, 1), view.cast("u1"), mv.view(view)):
        assert window.readonly
        assert not np.asarray(window).flags.writeable
        assert memoryview(window).readonly
        with pytest.raises(ReadOnlyError):
            window[0] = 1
    if not (isinstance(obj, np.ndarray) and obj.flags.writeable):  # pandas before 3 hands out writable arrays
        with pytest.raises(ReadOnlyError):
            mv.view(obj, writable=True)
    copied = mv.view(obj, copy="if_needed", writable=True)
    copied[0] = 1
    assert copied[0] == 1
