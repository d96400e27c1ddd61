"""`__cuda_array_interface__` with producers that have no device: described both ways, and never touched by the host."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mojoview as mv
from mojoview.memory.errors import (
    ArgumentError,
    DeviceError,
    DTypeError,
    InterfaceError,
    MaskError,
    MojoViewError,
    ReadOnlyError,
    ShapeError,
    StreamError,
)

ADDRESS = 0x7F0000001000  # nothing is there


class Device:
    def __init__(self, **fields):
        self.__cuda_array_interface__ = {
            "shape": (2, 3),
            "typestr": "<f4",
            "data": (ADDRESS, False),
            "version": 3,
            **fields,
        }


class Second(Device):
    def __dlpack_device__(self):
        return 2, 1


def test_a_description_becomes_a_view():
    d = Device()
    v = mv.view(d)
    assert (v.device, v.ptr, v.shape, v.strides, v.dtype, v.readonly) == (
        "cuda:0",
        ADDRESS,
        (2, 3),
        (12, 4),
        np.float32,
        True,
    )
    assert v.owner is d
    assert not mv.view(d, writable=True).readonly
    assert mv.view(Second()).device == "cuda:1"
    assert mv.view(Second())[1:].T.device == "cuda:1"


@pytest.mark.parametrize("strides", [None, (12, 4), (4, 8), (24, -4)])
def test_strides(strides):
    v = mv.view(Device(strides=strides))
    assert v.strides == (strides or (12, 4))
    assert v.__cuda_array_interface__["strides"] == (None if v.contiguous else strides)


def test_what_goes_out_is_what_came_in():
    v = mv.view(Device(stream=7), writable=True)
    interface = v.__cuda_array_interface__
    assert interface == {
        "version": 3,
        "shape": (2, 3),
        "strides": None,
        "typestr": "<f4",
        "descr": [("", "<f4")],
        "data": (ADDRESS, False),
        "stream": 7,
    }
    again = mv.view(SimpleNamespace(__cuda_array_interface__=v[:, ::-1].__cuda_array_interface__))
    assert (again.ptr, again.strides) == (ADDRESS + 8, (12, -4))
    assert mv.view(Device()).__cuda_array_interface__["data"] == (ADDRESS, True)
    assert mv.view(Device()).__cuda_array_interface__["stream"] is None


def test_no_elements_have_no_address():
    v = mv.view(Device(shape=(0, 3), data=(0, False)))
    assert v.size == 0
    assert v.__cuda_array_interface__["data"][0] == 0
    assert mv.view(Device())[0:0].__cuda_array_interface__["data"][0] == 0


HOST = {
    "buffer": memoryview,
    "array": np.asarray,
    "copy": np.array,
    "bytes": bytes,
    "interface": lambda v: v.__array_interface__,
    "__array__": lambda v: v.__array__(),
    "element": lambda v: v[0, 0],
    "iteration": lambda v: [list(row) for row in v],
    "assignment": lambda v: v.__setitem__((0, 0), 1),
    "view copy": lambda v: mv.view(v, copy="always"),
    "dlpack copy": lambda v: v.__dlpack__(copy=True),
    "dlpack to the host": lambda v: v.__dlpack__(max_version=(1, 0), dl_device=(1, 0)),
    "arrow": lambda v: v.__arrow_c_array__(),
    "arrow device": lambda v: v.__arrow_c_device_array__(),
}


@pytest.mark.parametrize("access", HOST)
def test_the_host_never_touches_device_memory(access):
    with pytest.raises(DeviceError, match=r"cuda:0|device"):
        HOST[access](mv.view(Device(), writable=True))


def test_numpy_refuses_the_capsule_of_device_memory():
    # NumPy 1.26 asks for a capsule of before DLPack 1.0, which read-only memory refuses first.
    with pytest.raises((RuntimeError, BufferError), match=r"[Dd]evice|max_version"):
        np.from_dlpack(mv.view(Device()))


def test_host_memory_has_no_cuda_interface():
    v = mv.view(np.zeros(3))
    assert not hasattr(v, "__cuda_array_interface__")
    with pytest.raises(MojoViewError):
        v.__cuda_array_interface__  # noqa: B018


def test_looking_at_a_device_view_is_allowed():
    v = mv.view(Device())
    assert "2×3" in repr(v)
    assert "table" in v._repr_html_()
    assert v.reshape(6).strides == (4,)
    assert v.cast("i4").dtype == np.int32
    assert not v.masked


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"stream": 0}, StreamError),
        ({"stream": -1}, StreamError),
        ({"stream": True}, StreamError),
        ({"stream": "1"}, StreamError),
        ({"version": 1}, InterfaceError),
        ({"version": None}, InterfaceError),
        ({"data": None}, ArgumentError),
        ({"data": bytearray(24)}, ArgumentError),
        ({"data": (ADDRESS,)}, InterfaceError),
        ({"data": (0, False)}, InterfaceError),
        ({"data": (-1, False)}, InterfaceError),
        ({"data": (2**64, False)}, ArgumentError),
        ({"data": ("x", False)}, ArgumentError),
        ({"shape": None}, InterfaceError),
        ({"shape": (1,) * 9}, ShapeError),
        ({"shape": (-1,)}, InterfaceError),
        ({"shape": (2**62, 4)}, InterfaceError),
        ({"shape": 3}, ArgumentError),
        ({"strides": (4,)}, InterfaceError),
        ({"strides": (2**63 - 1, 4)}, InterfaceError),
        ({"typestr": "|O"}, DTypeError),
        ({"typestr": "<q9"}, DTypeError),
        ({"typestr": None}, InterfaceError),
    ],
)
def test_wrong_descriptions(fields, error):
    with pytest.raises(error, match="__cuda_array_interface__"):
        mv.view(Device(**fields))


def test_writing_is_refused_where_the_description_refuses_it():
    with pytest.raises(ReadOnlyError):
        mv.view(Device(data=(ADDRESS, True)), writable=True)
    with pytest.raises(MojoViewError):
        mv.view(Device(strides=(0, 4)), writable=True)
    assert mv.view(Device(version=2)).device == "cuda:0"


def bitmap(address=ADDRESS + 4096, **fields):
    return SimpleNamespace(
        __cuda_array_interface__={"shape": (20,), "typestr": "<t1", "data": (address, True), "version": 3, **fields}
    )


def test_bitmaps_are_kept():
    v = mv.view(Device(shape=(20,), mask=bitmap()))
    assert v.masked
    assert (v.validity.ptr, v.validity.offset, v.validity.size) == (ADDRESS + 4096, 0, 20)
    out = v.__cuda_array_interface__["mask"].__cuda_array_interface__
    assert (out["data"], out["typestr"], out["shape"]) == ((ADDRESS + 4096, True), "<t1", (20,))
    assert v[8:].__cuda_array_interface__["mask"].__cuda_array_interface__["data"] == (ADDRESS + 4097, True)
    with pytest.raises(MaskError, match="whole byte"):
        v[3:].__cuda_array_interface__  # noqa: B018
    with pytest.raises(DeviceError):
        v.mask  # noqa: B018
    with pytest.raises(DeviceError):
        v.validity[0]
    with pytest.raises(DeviceError):
        v.validity.unpack()
    with pytest.raises(DeviceError):
        v.validity.count()
    with pytest.raises(DeviceError):
        v[0]
    again = mv.view(SimpleNamespace(__cuda_array_interface__=v.__cuda_array_interface__))
    assert again.validity.ptr == ADDRESS + 4096
    assert not v.data.masked


@pytest.mark.parametrize(
    ("mask", "error"),
    [
        (bitmap(typestr="|b1"), MaskError),
        (bitmap(typestr="|u1"), MaskError),
        (bitmap(shape=(19,)), MaskError),
        (bitmap(strides=(2,)), MaskError),
        (bitmap(address=0), InterfaceError),
        (bitmap(data=(5,)), InterfaceError),
        (object(), ArgumentError),
        (bitmap(data="x"), InterfaceError),
    ],
)
def test_other_masks_are_refused(mask, error):
    with pytest.raises(error, match=r"mask|bitmap"):
        mv.view(Device(shape=(20,), mask=mask))
    with pytest.raises(MaskError):
        mv.view(Device(shape=(4, 5), mask=bitmap()))


@pytest.mark.parametrize("stream", [None, -1, 1, 2, 12345])
def test_devices_take_valid_streams_only(stream):
    v = mv.view(Device())
    assert v.__dlpack__(stream=stream, max_version=(1, 0)) is not None
    pending = mv.view(Device(stream=2))
    if stream in (-1, 2):
        assert pending[1:].__dlpack__(stream=stream, max_version=(1, 0)) is not None
    else:
        with pytest.raises(DeviceError, match="stream 2"):
            pending[1:].__dlpack__(stream=stream, max_version=(1, 0))
    with pytest.raises(ValueError, match="0 is ambiguous"):
        v.__dlpack__(stream=0, max_version=(1, 0))


def test_an_interface_that_raises_is_refused_as_such():
    class Raises:
        @property
        def __cuda_array_interface__(self):
            raise RuntimeError("the tensor needs its gradient")

    with pytest.raises(InterfaceError, match="gradient"):
        mv.view(Raises())

    class Absent:
        @property
        def __cuda_array_interface__(self):
            raise AttributeError("on the host")

    with pytest.raises(ArgumentError):
        mv.view(Absent())


ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2**65),
    st.text(max_size=3),
    st.binary(max_size=3),
    st.floats(),
    st.tuples(st.integers(-(2**65), 2**65)),
    st.lists(st.integers(-1, 4), max_size=10),
    st.dictionaries(st.text(max_size=2), st.integers()),
    st.tuples(st.integers(0, 2**63), st.booleans()),
)


@given(
    st.dictionaries(
        st.sampled_from(
            ["shape", "strides", "typestr", "data", "version", "stream", "mask", "descr", "offset", "other"]
        ),
        ANYTHING,
    )
)
def test_any_description_is_viewed_or_refused(fields):
    try:
        v = mv.view(Device(**fields))
    except MojoViewError:
        return
    assert v.device == "cuda:0"
    with pytest.raises(DeviceError):
        memoryview(v)
