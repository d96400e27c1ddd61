"""Memory goes round through every library and protocol, and is at the same address at each hop."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import mojoview as mv

pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")
if np.lib.NumpyVersion(np.__version__) < "2.1.0":
    pytest.skip("NumPy speaks versioned DLPack from 2.1 on", allow_module_level=True)


class OnlyDLPack:
    def __init__(self, obj):
        self.obj = obj

    def __dlpack__(self, **options):
        return self.obj.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.obj.__dlpack_device__()


class OnlyArrow:
    def __init__(self, obj):
        self.obj = obj

    def __arrow_c_array__(self, requested_schema=None):
        return self.obj.__arrow_c_array__(requested_schema)


class OnlyInterface:
    def __init__(self, obj):
        self.__array_interface__ = obj.__array_interface__
        self.obj = obj


# Each hop takes a view, hands its memory to somebody else, and views what they made of it.
HOPS = {
    "memoryview": lambda v: mv.view(memoryview(v)),
    "asarray": lambda v: mv.view(np.asarray(v)),
    "interface": lambda v: mv.view(OnlyInterface(v)),
    "view": lambda v: mv.view(v),
    "dlpack": lambda v: mv.view(OnlyDLPack(v)),
    "numpy by dlpack": lambda v: mv.view(np.from_dlpack(v)),
    "arrow": lambda v: mv.view(OnlyArrow(v)),
    "pyarrow": lambda v: mv.view(pa.array(v)),
    "pyarrow, dlpack": lambda v: mv.view(OnlyDLPack(pa.array(v))),
    "pyarrow chunks": lambda v: mv.view(pa.chunked_array([pa.array(v)])).single(),
    "pyarrow tensor": lambda v: mv.view(pa.Tensor.from_numpy(np.asarray(v))),
    "polars": lambda v: mv.view(pl.Series(v)).single(),
    "table": lambda v: mv.view(pa.table({"x": pa.array(v)}))["x"].single(),
}
NUMBERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"]


def lent(array):
    return array.__array_interface__["data"][0]


@pytest.mark.parametrize("dtype", NUMBERS)
def test_every_hop_after_every_other(dtype):
    a = np.arange(64).astype(dtype)
    for first, second in itertools.product(HOPS, repeat=2):
        v = mv.view(a)
        for name in (first, second):
            v = HOPS[name](v)
            assert v.ptr == lent(a), (first, second, name)
            assert (v.dtype, v.shape, v.readonly) == (a.dtype, a.shape, True), (first, second, name)
        np.testing.assert_array_equal(np.asarray(v), a)


def test_one_long_way_round():
    a = np.arange(1000.0)[8:-8]
    v = mv.view(a)
    for hop in HOPS.values():
        v = hop(v)
    assert v.ptr == lent(a)
    del a
    np.testing.assert_array_equal(np.asarray(v), np.arange(1000.0)[8:-8])


MOMENTS = {"asarray", "interface", "view", "arrow", "pyarrow", "pyarrow chunks", "table", "polars"}


@pytest.mark.parametrize("dtype", ["M8[ms]", "M8[us]", "M8[ns]", "m8[ms]", "m8[us]", "m8[ns]"])
def test_moments_keep_their_unit_wherever_they_are_understood(dtype):
    a = np.arange(8).view(dtype)
    for name in MOMENTS:
        v = HOPS[name](mv.view(a))
        assert (v.ptr, v.dtype) == (lent(a), a.dtype), name


def test_half_precision_goes_everywhere_but_polars():
    a = np.arange(8, dtype="f2")
    for name in HOPS.keys() - {"polars"}:
        v = HOPS[name](mv.view(a))
        assert (v.ptr, v.dtype) == (lent(a), a.dtype), name


@pytest.mark.parametrize("values", [[1, None, 3, 4], [None, None], [1.5, None]], ids=str)
def test_validity_goes_round_with_the_values(values):
    array = pa.array(values, None if any(values) else pa.int8())
    where = [None if b is None else b.address for b in array.buffers()]
    for name in ("view", "arrow", "pyarrow", "pyarrow chunks", "table", "polars"):
        v = HOPS[name](mv.view(array))
        assert [v.validity.ptr, v.ptr] == where, name
        assert [None if x is None else x.item() for x in v] == values


@pytest.mark.parametrize("layout", ["C", "F", "negative", "step", "0-d", "empty", "broadcast"])
def test_layouts_survive_dlpack_and_the_buffer_protocol(layout):
    base = np.arange(24.0).reshape(4, 6)
    a = {
        "C": base,
        "F": np.asfortranarray(base),
        "negative": base[::-1, ::-1],
        "step": base[::2, 1::3],
        "0-d": np.array(3.0),
        "empty": base[:0],
        "broadcast": np.broadcast_to(base[0], (3, 6)),
    }[layout]
    for name in ("memoryview", "asarray", "interface", "dlpack", "numpy by dlpack"):
        v = HOPS[name](mv.view(a))
        assert v.shape == a.shape, name
        np.testing.assert_array_equal(np.asarray(v), a)
        if a.size:
            assert (v.ptr, v.strides) == (lent(a), a.strides), name


def test_a_writable_view_writes_through_every_library():
    a = np.zeros(4)
    for k, way in enumerate((memoryview, np.asarray, np.from_dlpack, OnlyDLPack, OnlyInterface)):
        mv.view(way(mv.view(a, writable=True)), writable=True)[0] = k + 1
        assert a[0] == k + 1
