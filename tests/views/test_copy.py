"""copy="if_needed" and copy="always": when, in which order, how aligned; and from_ptr()."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hypothesis import given
from support.arrays import arrays, assert_same, raw_bytes

import mojoview as mv
from mojoview.memory.errors import (
    ArgumentError,
    DTypeError,
    InterfaceError,
    LayoutError,
    MojoViewError,
    ReadOnlyError,
    ShapeError,
)


@given(arrays())
def test_always_copies_into_aligned_memory_of_its_own(array):
    for writable in (False, True):
        view = mv.view(array, copy="always", writable=writable)
        assert view.shape == array.shape
        assert view.dtype == array.dtype
        assert view.readonly == (not writable)
        assert view.contiguous or view.f_contiguous
        assert view.f_contiguous == (
            array.flags.f_contiguous or view.size == 0 or np.empty(array.shape, order="C").flags.f_contiguous
        )
        assert view.aligned
        if array.nbytes:
            assert view.ptr % 64 == 0
            assert not np.shares_memory(np.asarray(view), array)
        expected = np.empty_like(array, order="C", subok=False)
        expected[...] = array
        if array.dtype.names is None:
            assert raw_bytes(np.asarray(view)) == raw_bytes(expected)


def test_if_needed_shares_where_it_can():
    array = np.arange(12.0)[::-2]
    assert_same(mv.view(array, copy="if_needed"), array)
    assert mv.view(array, copy="if_needed", writable=True).owner is array
    fixed = np.arange(3)
    fixed.flags.writeable = False
    view = mv.view(fixed, copy="if_needed", writable=True)
    view[0] = 9
    assert fixed[0] == 0
    spread = np.broadcast_to(np.arange(3.0), (2, 3))
    view = mv.view(spread, copy="if_needed", writable=True)
    view[0, 0] = 9
    assert spread[1, 0] == view[1, 0] == 0


@pytest.mark.parametrize("obj", [[1, 2, 3], (1.5, 2), range(4), 7, "text", [[1, 2], [3, 4]], True, 3j], ids=repr)
def test_what_exports_nothing_goes_through_numpy(obj):
    for copy in ("if_needed", "always"):
        view = mv.view(obj, copy=copy)
        assert view.dtype == np.asarray(obj).dtype
        assert np.asarray(view).tolist() == np.asarray(obj).tolist()


@pytest.mark.parametrize(
    "obj", [[1, [2, 3]], object(), None, [None], {}, [object()], 10**5000, lambda: 1], ids=lambda o: type(o).__name__
)
def test_what_numpy_makes_no_numbers_of(obj):
    for copy in ("if_needed", "always"):
        with pytest.raises(MojoViewError):
            mv.view(obj, copy=copy)


def test_an_array_method_that_raises():
    class Raising:
        def __array__(self, dtype=None, copy=None):
            raise RuntimeError("its own words")

    with pytest.raises(ArgumentError, match="its own words"):
        mv.view(Raising(), copy="if_needed")


@pytest.mark.parametrize(
    "copy",
    [None, True, False, "maybe", "", 1, b"never", ["never"], np.array(["never", "always"]), float("nan")],
    ids=repr,
)
def test_copy_takes_three_words(copy):
    with pytest.raises(ArgumentError, match="'never', 'if_needed' or 'always'") as caught:
        mv.view(np.arange(3), copy=copy)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("writable", [None, 0, 1, "yes", [], np.array([True, False]), float("nan"), object], ids=repr)
def test_writable_is_a_bool(writable):
    for obj in (np.arange(3), b"x", [1]):
        with pytest.raises(ArgumentError, match="expected a bool"):
            mv.view(obj, writable=writable)
    assert not mv.view(np.arange(3), writable=np.True_).readonly


def test_big_endian_is_shared_and_copied_as_it_is():
    array = np.arange(3, dtype=">i4")
    assert mv.view(array, copy="always").dtype == np.dtype(">i4")


# -- from_ptr ----------------------------------------------------------------------------------------------------------


def test_from_ptr_is_a_window_on_just_that_memory():
    array = np.arange(24, dtype="i4").reshape(4, 6)
    for part in (array, array[::2, ::-1], array.T, array[1:1], array[2, 3:4]):
        view = mv.from_ptr(part.ctypes.data, part.shape, part.dtype, strides=part.strides, owner=array)
        assert_same(view, part, readonly=True)
        assert view.owner is array
    assert_same(mv.from_ptr(array.ctypes.data, 24, "i4", owner=array), array.ravel())
    assert_same(mv.from_ptr(array.ctypes.data, [4, 6], np.int32, owner=array, readonly=False), array, readonly=False)
    assert_same(mv.from_ptr(array.ctypes.data, (np.int8(4),), ("i4", (6,)), owner=array), array)
    assert mv.from_ptr(0, (0, 3), "f8", owner=array).size == 0
    assert mv.from_ptr(array.ctypes.data, (), "i4", owner=array)[()] == 0


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (dict(ptr="x"), ArgumentError),
        (dict(ptr=None), ArgumentError),
        (dict(ptr=1.0), ArgumentError),
        (dict(ptr=True), ArgumentError),
        (dict(ptr=-8), InterfaceError),
        (dict(ptr=2**63), ArgumentError),
        (dict(ptr=2**64), ArgumentError),
        (dict(ptr=10**5000), ArgumentError),
        (dict(ptr=0), InterfaceError),
        (dict(ptr=2**63 - 8), InterfaceError),
        (dict(ptr=8, strides=(-16,)), InterfaceError),
        (dict(shape=-1), InterfaceError),
        (dict(shape="x"), ArgumentError),
        (dict(shape=None), ArgumentError),
        (dict(shape=1.5), ArgumentError),
        (dict(shape=(1.5,)), ArgumentError),
        (dict(shape=(True,)), ArgumentError),
        (dict(shape=True), ArgumentError),
        (dict(shape=(1,) * 9), ShapeError),
        (dict(shape=(2**62, 4)), InterfaceError),
        (dict(shape=2**61), InterfaceError),
        (dict(shape=2**64), ArgumentError),
        (dict(shape=np.array([2, 2])), ArgumentError),
        (dict(shape={2}), ArgumentError),
        (dict(shape=float("nan")), ArgumentError),
        (dict(dtype="O"), DTypeError),
        (dict(dtype="nonsense"), DTypeError),
        (dict(dtype=None), DTypeError),
        (dict(dtype=[("a", "O")]), DTypeError),
        (dict(dtype=5), DTypeError),
        (dict(strides=(8, 8)), InterfaceError),
        (dict(strides=8), ArgumentError),
        (dict(strides="8"), ArgumentError),
        (dict(strides=(1.5,)), ArgumentError),
        (dict(strides=(2**63 - 1,)), InterfaceError),
        (dict(strides=(-(2**63),)), InterfaceError),
        (dict(strides=(2**64,)), ArgumentError),
        (dict(owner=None), ArgumentError),
        (dict(readonly=1), ArgumentError),
        (dict(readonly=None), ArgumentError),
        (dict(readonly=False, strides=(0,)), LayoutError),
        (dict(readonly=False, strides=(4,)), LayoutError),
    ],
)
def test_from_ptr_checks_what_can_be_checked(arguments, error):
    memory = (ctypes.c_double * 4)()
    good = {"ptr": ctypes.addressof(memory), "shape": 3, "dtype": "f8", "owner": memory}
    assert mv.from_ptr(**good).size == 3
    with pytest.raises(error):
        mv.from_ptr(**(good | arguments))


def test_from_ptr_needs_an_owner_and_keywords():
    with pytest.raises(TypeError):
        mv.from_ptr(0, 0, "f8")
    with pytest.raises(ArgumentError, match="keeps the memory alive"):
        mv.from_ptr(0, 0, "f8", owner=None)


class RaisingIndex:
    def __index__(self):
        raise RuntimeError("its own words")


class RaisingSequence(tuple):
    def __iter__(self):
        raise RuntimeError

    __len__ = __getitem__ = __iter__


def test_arguments_that_raise():
    memory = (ctypes.c_double * 4)()
    for arguments in (
        dict(ptr=RaisingIndex()),
        dict(shape=RaisingIndex()),
        dict(shape=(RaisingIndex(),)),
        dict(strides=(RaisingIndex(),)),
    ):
        with pytest.raises(ArgumentError) as caught:
            mv.from_ptr(**({"ptr": ctypes.addressof(memory), "shape": 3, "dtype": "f8", "owner": memory} | arguments))
        assert isinstance(caught.value.__cause__, RuntimeError)
    # a subclass is read for what it holds, not for what it says
    assert mv.from_ptr(ctypes.addressof(memory), RaisingSequence((2, 2)), "f8", owner=memory).shape == (2, 2)
    with pytest.raises(ArgumentError):
        mv.view(np.arange(4)).reshape(RaisingIndex())
    with pytest.raises(IndexError):
        mv.view(np.arange(4))[RaisingIndex()]
    with pytest.raises(TypeError):
        mv.view(np.arange(4))[RaisingIndex() :]


def test_a_dtype_attribute_that_raises():
    class Raising:
        @property
        def dtype(self):
            raise RuntimeError("its own words")

    for function in (mv.view(np.arange(3)).cast, lambda d: mv.from_ptr(0, 0, d, owner=1)):
        with pytest.raises(DTypeError):
            function(Raising())


def test_read_only_memory_is_refused_for_writing():
    for obj in (b"bytes", memoryview(b"x"), np.frombuffer(bytes(8)), np.float64(1), np.broadcast_to(np.zeros(1), 1)):
        with pytest.raises(ReadOnlyError) as caught:
            mv.view(obj, writable=True)
        assert isinstance(caught.value, BufferError)
        assert isinstance(caught.value, ValueError)
