"""DLPack with NumPy as the peer: what goes out, what comes in, and what is refused."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from producers.dlpack import COPIED, READ_ONLY, tensor_of

import mojoview as mv
from mojoview.memory._lease import live_leases
from mojoview.memory.errors import (
    ArgumentError,
    DeviceError,
    LayoutError,
    MaskError,
    ReadOnlyError,
    ReleasedError,
    StreamError,
    ZeroCopyError,
)

if np.lib.NumpyVersion(np.__version__) < "2.1.0":
    pytest.skip("NumPy speaks versioned DLPack from 2.1 on", allow_module_level=True)

NUMERIC = "?bhilqBHILQefdFD"


class Peer:
    """An array that only speaks DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class OldPeer(Peer):
    """The same before DLPack 1.0: no keywords, unversioned capsules."""

    def __dlpack__(self, stream=None):
        return self.array.__dlpack__()


def address(array):
    return array.__array_interface__["data"][0]


@pytest.mark.parametrize("letter", NUMERIC)
def test_every_number_crosses_both_ways_at_one_address(letter):
    a = np.arange(6).reshape(2, 3).astype(letter)
    v = mv.view(Peer(a))
    b = np.from_dlpack(v)
    assert v.ptr == a.ctypes.data == b.ctypes.data
    assert v.dtype == a.dtype == b.dtype
    assert v.strides == a.strides == b.strides
    np.testing.assert_array_equal(b, a)


@given(
    hnp.arrays(
        st.sampled_from([np.dtype(c) for c in NUMERIC]),
        hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4),
    ),
    st.data(),
)
def test_any_window_crosses_both_ways(a, data):
    window = a[data.draw(hnp.basic_indices(a.shape, allow_newaxis=True))] if a.ndim else a
    window = window if isinstance(window, np.ndarray) and window.ndim <= 8 else a
    for v in (mv.view(Peer(window)), mv.view(np.asarray(window))):
        b = np.from_dlpack(v)
        assert b.shape == v.shape == window.shape
        assert b.dtype == window.dtype
        np.testing.assert_array_equal(b, window)
        if window.size:
            assert address(b) == v.ptr == address(window)
            assert [s for s, n in zip(b.strides, b.shape, strict=True) if n > 1] == [
                s for s, n in zip(window.strides, window.shape, strict=True) if n > 1
            ]


def test_writing_follows_the_capsule():
    a = np.zeros(1)
    frozen = np.zeros(1)
    frozen.flags.writeable = False
    assert mv.view(Peer(a)).readonly
    w = mv.view(Peer(a), writable=True)
    w[0] = 5.0
    assert a[0] == 5.0
    with pytest.raises(ReadOnlyError, match="read-only"):
        mv.view(Peer(frozen), writable=True)
    with pytest.raises(ReadOnlyError, match=r"before DLPack 1\.0"):
        mv.view(OldPeer(a), writable=True)
    assert mv.view(OldPeer(a)).ptr == a.ctypes.data
    assert not np.from_dlpack(mv.view(a)).flags.writeable
    assert np.from_dlpack(mv.view(a, writable=True)).flags.writeable


def test_negative_strides_are_exchanged():
    a = np.arange(12.0).reshape(3, 4)[:, ::-1]
    v = mv.view(Peer(a))
    assert v.strides == (32, -8)
    assert v.ptr == address(a)
    np.testing.assert_array_equal(np.asarray(v), a)
    b = np.from_dlpack(mv.view(a))
    assert b.strides == (32, -8)
    np.testing.assert_array_equal(b, a)


@pytest.mark.parametrize("version", [None, (0, 8), (1, 0), (2, 0)])
def test_unconsumed_capsules_leak_nothing(version):
    a = np.arange(3.0)
    v = mv.view(a, writable=True)
    before = sys.getrefcount(a), sys.getrefcount(v), live_leases()
    for _ in range(100):
        v.__dlpack__(max_version=version)
    assert (sys.getrefcount(a), sys.getrefcount(v), live_leases()) == before
    v.release()


def test_zero_dimensions_and_elements_are_exchanged():
    scalar = np.array(5.0)
    assert np.from_dlpack(mv.view(scalar)).shape == ()
    assert np.from_dlpack(mv.view(scalar))[()] == 5.0
    assert mv.view(Peer(scalar)).ptr == scalar.ctypes.data
    empty = np.empty((0, 3), "f4")
    assert np.from_dlpack(mv.view(empty)).shape == mv.view(Peer(empty)).shape == (0, 3)
    _, tensor = tensor_of(capsule := mv.view(np.zeros((2, 3))).__dlpack__(max_version=(1, 0)))
    assert tensor.strides[:2] == [3, 1]
    assert capsule is not None
    capsule = mv.view(empty).__dlpack__(max_version=(1, 0))
    assert tensor_of(capsule)[1].data is None  # the specification asks for NULL


@pytest.mark.parametrize("stream", [-1, 0, 1, 2, 7, "1", True])
def test_host_memory_has_no_streams(stream):
    v = mv.view(np.zeros(2))
    with pytest.raises(ValueError, match="pass None"):
        v.__dlpack__(stream=stream, max_version=(1, 0))
    v.release()  # a refusal takes nothing


def test_what_a_capsule_says():
    a = np.arange(6, dtype="c8").reshape(2, 3)
    capsule = mv.view(a).__dlpack__(max_version=(1, 1))
    managed, tensor = tensor_of(capsule)
    assert (managed.major, managed.minor, managed.flags) == (1, 1, READ_ONLY)
    assert (tensor.data, tensor.device_type, tensor.device_id, tensor.ndim) == (a.ctypes.data, 1, 0, 2)
    assert (tensor.code, tensor.bits, tensor.lanes, tensor.byte_offset) == (5, 64, 1, 0)
    assert (tensor.shape[:2], tensor.strides[:2]) == ([2, 3], [3, 1])
    for asked, minor in {(1, 0): 0, (1, 99): 3, (2, 0): 3, (7, 1): 3}.items():
        managed, _ = tensor_of(kept := mv.view(a).__dlpack__(max_version=asked))
        assert (managed.major, managed.minor) == (1, minor), kept
    managed, _ = tensor_of(capsule := mv.view(a, writable=True).__dlpack__(max_version=(1, 0)))
    assert managed.flags == 0
    managed, _ = tensor_of(capsule := mv.view(a).__dlpack__(max_version=(1, 0), copy=True))
    assert managed.flags == COPIED


def test_strides_of_three_dimensions_count_items():
    a = np.arange(120, dtype="i2").reshape(2, 3, 4, 5)[:, ::-2, :, 1::3]
    _, tensor = tensor_of(capsule := mv.view(a).__dlpack__(max_version=(1, 0)))
    assert tensor.strides[:4] == [s // 2 for s in a.strides]
    assert capsule is not None


def test_copy():
    a = np.arange(6.0).reshape(2, 3)[:, ::-1]
    v = mv.view(a)
    b = np.from_dlpack(v, copy=True)
    assert b.flags.writeable
    assert not np.shares_memory(a, b)
    np.testing.assert_array_equal(a, b)
    v.release()  # the copy holds memory of its own
    b[0, 0] = 9
    assert np.from_dlpack(mv.view(a), copy=False).ctypes.data == address(a)
    capsule = mv.view(a).__dlpack__(copy=True)  # an old capsule may carry the copy, which is writable
    assert tensor_of(capsule)[1].ndim == 2
    z = np.zeros(3, {"names": ["i", "d"], "formats": ["i4", "f8"], "offsets": [0, 4], "itemsize": 12})["d"]
    np.testing.assert_array_equal(np.from_dlpack(mv.view(z), copy=True), z)  # strides that DLPack cannot count
    with pytest.raises(LayoutError):
        np.from_dlpack(mv.view(z), copy=False)


def test_release_waits_for_consumers():
    v = mv.view(np.zeros(3))
    b = np.from_dlpack(v)
    with pytest.raises(BufferError, match="consumer"):
        v.release()
    del b
    v.release()
    with pytest.raises(ReleasedError):
        v.__dlpack__(max_version=(1, 0))
    with pytest.raises(ReleasedError):
        v.__dlpack_device__()


REFUSED = [
    (np.zeros(2, ">f4"), ZeroCopyError, "byte order"),
    (np.zeros(2, "M8[ns]"), ZeroCopyError, "datetime64"),
    (np.zeros(2, "m8[s]"), ZeroCopyError, "timedelta64"),
    (np.zeros(2, "S3"), ZeroCopyError, "no code"),
    (np.zeros(2, "U3"), ZeroCopyError, "no code"),
    (np.zeros(2, "V3"), ZeroCopyError, "no code"),
    (np.zeros(2, "g"), ZeroCopyError, "no code"),
    (np.zeros(2, "G"), ZeroCopyError, "no code"),
    (np.zeros(2, "i4,f8"), ZeroCopyError, "no code"),
    (
        np.zeros(3, {"names": ["d"], "formats": ["f8"], "offsets": [4], "itemsize": 12})["d"],
        LayoutError,
        "multiples of 8 bytes",
    ),
    (np.ma.array([1, 2], mask=[0, 1]), MaskError, "mask"),
]


@pytest.mark.parametrize(
    ("array", "error", "words"), REFUSED, ids=[str(case[0].dtype) + case[1].__name__ for case in REFUSED]
)
def test_what_dlpack_cannot_say_is_refused(array, error, words):
    v = mv.view(array)
    for options in ({"max_version": (1, 0)}, {}):
        with pytest.raises(error, match=words) as info:
            v.__dlpack__(**options)
        assert isinstance(info.value, BufferError)
    v.release()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, ReadOnlyError),
        ({"max_version": (0, 8)}, ReadOnlyError),
        ({"max_version": (1, 0), "dl_device": (2, 0)}, DeviceError),
        ({"max_version": (1, 0), "dl_device": (1, 1)}, DeviceError),
        ({"max_version": (1, 0), "copy": 1}, ArgumentError),
        ({"max_version": 1}, ArgumentError),
        ({"max_version": (1,)}, ArgumentError),
        ({"max_version": ("1", "0")}, TypeError),
        ({"max_version": (1, 0), "stream": 1}, StreamError),
    ],
)
def test_requests_that_cannot_be_met(options, error):
    v = mv.view(np.zeros(2))
    with pytest.raises(error):
        v.__dlpack__(**options)
    v.release()


def test_device():
    v = mv.view(np.zeros(2))
    assert v.__dlpack_device__() == (1, 0)
    np.from_dlpack(v, device="cpu")
    assert v.__dlpack__(max_version=(1, 0), dl_device=(1, 0)) is not None


def test_views_of_views_by_dlpack_keep_the_first_owner():
    a = np.arange(5.0)
    v = mv.view(Peer(mv.view(Peer(a))))
    del a
    np.testing.assert_array_equal(np.asarray(v), np.arange(5.0))
    a = np.from_dlpack(v)
    del v
    np.testing.assert_array_equal(a, np.arange(5.0))
