"""`__array_interface__` out, and in: honest ones share, dishonest ones meet one of our errors, none crashes."""

from __future__ import annotations

import ctypes
import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.arrays import DTYPES, arrays, assert_same, filled

import mojoview as mv
from mojoview.memory.errors import (
    ArgumentError,
    DTypeError,
    InterfaceError,
    LayoutError,
    MaskError,
    MojoViewError,
    ProtocolError,
    ReadOnlyError,
    ShapeError,
    ZeroCopyError,
)


class Exporter:
    """Anything as `__array_interface__`."""

    def __init__(self, interface=None, **entries):
        self.__array_interface__ = interface if interface is not None else {"version": 3} | entries


# -- out ---------------------------------------------------------------------------------------------------------------


@given(arrays())
def test_out_equals_numpys_own(array):
    view = mv.view(array)
    try:
        ours = view.__array_interface__
    except ProtocolError:
        assert (
            array.dtype.names is not None
        )  # overlapping, reordered or padded: NumPy could not read its own description
        assert not hasattr(view, "__array_interface__")
        return
    theirs = array.__array_interface__
    assert ours["typestr"] == theirs["typestr"]
    assert ours["shape"] == theirs["shape"]
    assert ours["data"][1] is True
    assert ours["descr"] == theirs["descr"]
    assert ours["version"] == 3
    if array.size:
        assert ours["data"][0] == theirs["data"][0]
    back = np.asarray(Exporter(ours))
    assert back.dtype == array.dtype
    assert back.shape == array.shape


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_asarray_shares_with_the_exact_dtype(dtype):
    array = filled((3, 2), dtype)
    for view in (mv.view(array), mv.view(array)[::-1].T, mv.view(array, writable=True)):
        back = np.asarray(view)
        assert back.dtype == dtype
        assert np.shares_memory(back, array)
        assert back.flags.writeable == (not view.readonly)
    assert view.__array__().dtype is array.dtype


def test_dunder_array_copies_when_told_to_or_when_it_must():
    array = np.arange(3.0)
    view = mv.view(array)
    for arguments in ({}, {"copy": False}, {"copy": None}, {"dtype": "f8"}, {"dtype": float, "copy": False}):
        assert np.shares_memory(view.__array__(**arguments), array)
    for arguments in ({"copy": True}, {"dtype": "f4"}, {"dtype": "f8", "copy": True}):
        assert not np.shares_memory(view.__array__(**arguments), array)
    assert view.__array__("f4").dtype == np.dtype("f4")
    assert not np.shares_memory(np.array(view), array)
    with pytest.raises(ZeroCopyError, match="needs a copy"):
        view.__array__("f4", copy=False)
    for dtype in ("no dtype", 5, object()):
        with pytest.raises(DTypeError):
            view.__array__(dtype)
    with pytest.raises(ArgumentError):
        mv.view(np.array(["x"])).__array__("f8")


# -- in: honest --------------------------------------------------------------------------------------------------------


@given(arrays())
def test_in_from_an_address(array):
    if (
        array.dtype.names is not None
        and np.dtype(np.ndarray((), array.dtype).__array_interface__["descr"] if _has_descr(array.dtype) else "V1")
        != array.dtype
    ):
        return
    exporter = Exporter(array.__array_interface__)
    exporter.keep = array
    view = mv.view(exporter)
    assert_same(view, array, readonly=True)
    assert view.owner is exporter


def _has_descr(dtype):
    try:
        return bool(dtype.descr)
    except ValueError:
        return False


def test_in_from_a_buffer_with_offset_and_strides():
    memory = bytearray(np.arange(20, dtype="i4").tobytes())
    exporter = Exporter(shape=(3, 2), typestr="<i4", data=memory, offset=8, strides=(16, -4))
    # element [0, 0] lies at byte 8, [0, 1] at byte 4
    assert np.asarray(mv.view(exporter)).tolist() == [[2, 1], [6, 5], [10, 9]]
    mv.view(exporter, writable=True)[0, 0] = 77
    assert np.frombuffer(memory, "i4")[2] == 77
    whole = Exporter(shape=[20], typestr="<i4", data=memory)
    view = mv.view(whole)
    assert view.size == 20
    with pytest.raises(BufferError):
        memory.append(0)  # pinned
    view.release()
    memory.append(0)


class OwnBuffer(bytearray):
    """Its description names no data: then its own buffer is meant."""

    def __init__(self, *args, **entries):
        super().__init__(*args)
        self.__array_interface__ = {"version": 3} | entries


def test_in_from_the_exporters_own_buffer(monkeypatch):
    from mojoview.views.interfaces.array_interface import from_interface

    own = OwnBuffer(64, shape=(8,), typestr="<f8")
    assert from_interface(own, own.__array_interface__, False).shape == (8,)
    with pytest.raises(InterfaceError, match="leaves the buffer"):
        from_interface(own, own.__array_interface__ | {"shape": (9,)}, False)
    # through view() the buffer protocol comes first, and says bytes
    assert mv.view(own).dtype == np.dtype("u1")


def test_records_by_descr():
    memory = bytes(24)
    assert mv.view(
        Exporter(shape=(2,), typestr="|V12", descr=[("a", "<i4"), ("b", "<f8")], data=memory)
    ).dtype.names == ("a", "b")
    assert mv.view(Exporter(shape=(2,), typestr="|V12", data=memory)).dtype == np.dtype("V12")


# -- in: liars ---------------------------------------------------------------------------------------------------------


def test_descriptions_of_interfaces_are_checked():
    memory = memoryview(bytearray(64))
    with pytest.raises(InterfaceError, match="leaves the buffer of 64 bytes") as caught:
        mv.view(Exporter(shape=(10**9,), typestr="<f8", data=memory))
    assert isinstance(caught.value, ValueError)
    with pytest.raises(ShapeError, match="65 dimensions, the descriptor holds 8"):
        mv.view(Exporter(shape=(1,) * 65, typestr="<f8", data=memory))
    with pytest.raises(ShapeError, match="9 dimensions"):
        mv.view(Exporter(shape=(1,) * 9, typestr="<f8", data=(0, False)))
    with pytest.raises(InterfaceError, match="'shape' is missing"):
        mv.view(Exporter(typestr="<f8", data=memory))
    with pytest.raises(ArgumentError, match="expected an int, got float") as caught:
        mv.view(Exporter(shape=(2.0,), typestr="<f8", data=memory))
    assert isinstance(caught.value, TypeError)
    with pytest.raises(InterfaceError, match="NULL for 3 elements"):
        mv.view(Exporter(shape=(3,), typestr="<f8", data=(0, False)))
    assert mv.view(Exporter(shape=(0,), typestr="<f8", data=(0, False))).size == 0


@pytest.mark.parametrize(
    "extents",
    [
        {"shape": (9,)},
        {"shape": (8,), "offset": 1},
        {"shape": (1,), "offset": 57},
        {"shape": (8,), "offset": -8},
        {"shape": (2,), "strides": (57,)},
        {"shape": (2,), "strides": (-8,)},
        {"shape": (2,), "strides": (-1,)},
        {"shape": (2**62,), "strides": (0,), "offset": 60},
        {"shape": (3, 3), "strides": (32, -8)},
        {"shape": (2**61,)},
        {"shape": (2**62, 4)},
        {"shape": (2, 2**62), "strides": (2**62, 2**62)},
        {"shape": (2,), "strides": (2**63 - 1,)},
        {"shape": (2,), "strides": (-(2**63),)},
        {"shape": (1,), "offset": 2**63 - 1},
        {"shape": (2,), "strides": (-8,), "offset": 2**63 - 1},
        {"shape": (0,), "offset": 65},
        {"shape": (0,), "offset": -1},
        {"shape": (-1,)},
        {"shape": (2, -2)},
        {"shape": (2,), "strides": ()},
        {"shape": (2,), "strides": (8, 8)},
    ],
    ids=str,
)
def test_extents_outside_the_buffer_are_refused(extents):
    with pytest.raises(InterfaceError):
        mv.view(Exporter(typestr="<f8", data=bytearray(64), **extents))


@given(st.lists(st.integers(0, 5), max_size=3), st.data())
def test_exactly_the_extents_inside_the_buffer_are_granted(shape, data):
    strides = data.draw(st.none() | st.tuples(*[st.integers(-20, 20)] * len(shape)))
    offset, length, item = data.draw(st.integers(0, 40)), data.draw(st.integers(0, 60)), 2
    steps = (
        strides
        if strides is not None
        else tuple(int(np.prod(shape[k + 1 :], dtype=int)) * item for k in range(len(shape)))
    )
    touched = [
        offset + sum(i * s for i, s in zip(index, steps, strict=True)) + b
        for index in itertools.product(*map(range, shape))
        for b in range(item)
    ]
    inside = offset <= length and all(0 <= at < length for at in touched)
    exporter = Exporter(shape=tuple(shape), strides=strides, typestr="<i2", data=bytes(length), offset=offset)
    if inside:
        assert mv.view(exporter).shape == tuple(shape)
    else:
        with pytest.raises(InterfaceError):
            mv.view(exporter)


def test_writing_needs_description_and_buffer_to_allow_it():
    with pytest.raises(ReadOnlyError):
        mv.view(Exporter(shape=(1,), typestr="<f8", data=(np.zeros(1).ctypes.data, True)), writable=True)
    with pytest.raises(MojoViewError):
        mv.view(Exporter(shape=(1,), typestr="<f8", data=bytes(8)), writable=True)
    with pytest.raises(LayoutError):
        mv.view(Exporter(shape=(2,), strides=(0,), typestr="<f8", data=bytearray(8)), writable=True)
    assert not mv.view(Exporter(shape=(1,), typestr="<f8", data=bytearray(8)), writable=True).readonly


@pytest.mark.parametrize("copy", ["never", "if_needed", "always"])
def test_a_copy_is_no_way_round_the_checks(copy):
    # NumPy takes True for an offset of 1, and would believe the rest as well
    exporter = Exporter(shape=(1,), typestr="<f8", data=bytearray(16), offset=True)
    assert np.asarray(exporter).shape == (1,)
    with pytest.raises(ArgumentError, match="got a bool"):
        mv.view(exporter, copy=copy)
    with pytest.raises(InterfaceError):
        mv.view(Exporter(shape=(10**9,), typestr="<f8", data=bytearray(8)), copy=copy)


class Raises:
    """Fails whatever is asked of it."""

    def __getattribute__(self, name):
        raise RuntimeError(name)


class BadTruth:
    def __bool__(self):
        raise ZeroDivisionError

    __eq__ = __index__ = __len__ = __iter__ = __bool__
    __hash__ = None


class BadDict(dict):
    def get(self, *args):
        raise RuntimeError

    __getitem__ = __contains__ = get


class BadTuple(tuple):
    def __iter__(self):
        raise RuntimeError

    __len__ = __getitem__ = __iter__


ODD = [
    None,
    True,
    0,
    -1,
    2**64,
    10**5000,
    1.5,
    float("nan"),
    "x",
    b"x",
    "",
    (),
    [],
    {},
    (1, 2, 3),
    (None, None),
    ("1", False),
    (1.5, False),
    (2**70, False),
    (-8, False),
    (0, False),
    (0, BadTruth()),
    object(),
    Raises,
    BadTruth(),
    BadTuple((1,)),
    BadTuple(()),
    bytearray(64),
    bytes(64),
    memoryview(bytes(64))[::2],
    np.zeros(8),
    np.array(3),
    [("a", "<i4")],
    [("a", "<O")],
    [("a",)],
    [BadTruth()],
    (BadTruth(),),
    (BadTruth(), 2),
    "<f8",
    "|O",
    "O",
    "<O8",
    "|V8",
    "<M8[ns]",
    "<q",
    "(2,)<f4",
    "<f8,<f8",
    "<f3",
    ">U2",
    "|b1",
    "T",
    "<\0f8",
    "é",
    "<f8" * 1000,
]


@settings(max_examples=600)
@given(
    st.dictionaries(
        st.sampled_from(["shape", "typestr", "data", "strides", "offset", "descr", "mask", "version"]),
        st.sampled_from(ODD),
    ),
    st.sampled_from(["never", "if_needed", "always"]),
    st.booleans(),
)
@example({"shape": (1,), "typestr": "<f8", "data": (0, BadTruth())}, "never", True)
def test_liars_of_every_kind_get_an_error_of_the_tree_or_a_view(entries, copy, writable):
    base = {"version": 3, "shape": (2,), "typestr": "<f8", "data": bytearray(64)}
    interface = base | entries
    try:
        view = mv.view(Exporter(interface), writable=writable, copy=copy)
    except MojoViewError:
        return
    if isinstance(interface["data"], tuple):
        assert view.nbytes == 0  # no address in ODD is one that could be read
        return
    assert view.nbytes <= 64 or 0 in view.strides or copy != "never"
    np.array(view).tobytes()  # every byte can be read


@pytest.mark.parametrize(
    "interface",
    [
        None,
        5,
        "x",
        [],
        (),
        object(),
        Raises,
        BadTruth(),
        {},
        {"shape": (1,)},
        BadDict(shape=(1,)),
        {1: 2},
        {"version": BadTruth(), "shape": (1,), "typestr": "<f8"},
    ],
    ids=lambda i: type(i).__name__,
)
def test_descriptions_that_are_none(interface):
    exporter = Exporter.__new__(Exporter)
    exporter.__array_interface__ = interface
    with pytest.raises(MojoViewError):
        mv.view(exporter)


@pytest.mark.parametrize("error", [RuntimeError, AttributeError, ValueError, KeyError, MemoryError, ZeroDivisionError])
def test_a_property_that_raises(error):
    class Raising:
        @property
        def __array_interface__(self):
            raise error("no")

    with pytest.raises(MojoViewError):
        mv.view(Raising())


def test_masks_and_references_are_refused():
    with pytest.raises(MaskError):
        mv.view(Exporter(shape=(1,), typestr="<f8", data=bytes(8), mask=bytes(1)))
    for entries in ({"typestr": "|O"}, {"typestr": "|V8", "descr": [("a", "|O")]}):
        with pytest.raises(DTypeError):
            mv.view(Exporter(shape=(1,), data=(ctypes.addressof(ctypes.c_double()), False), **entries))
    with pytest.raises(InterfaceError, match="items of 4 bytes, typestr of 8"):
        mv.view(Exporter(shape=(1,), typestr="|V8", descr=[("a", "<i4")], data=bytes(8)))
    with pytest.raises(InterfaceError, match="version 3"):
        mv.view(Exporter(shape=(1,), typestr="<f8", data=bytes(8), version=2))


def test_errors_name_the_class_of_the_exporter():
    with pytest.raises(InterfaceError, match=r"^Exporter\.__array_interface__: entry 'typestr' is missing"):
        mv.view(Exporter(shape=(1,)))
