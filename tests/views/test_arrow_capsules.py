"""Arrow structures built by hand: moved, released once and never read afterwards; and every kind of wrong one."""

from __future__ import annotations

import ctypes
import gc
import os
import struct
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from producers import capsules
from producers.arrow import RELEASE_ARRAY, Array, DeviceArray, Producer, StreamProducer, array_of, schema_of

import mojoview as mv
from mojoview.memory._lease import live_leases
from mojoview.memory.errors import DeviceError, InterfaceError, MojoViewError, ZeroCopyError
from mojoview.views.arrow.arrays import StringView


def ints(*values):
    return (ctypes.c_int64 * max(len(values), 1))(*values)


def offsets(*values):
    return (ctypes.c_int32 * len(values))(*values)


def text(data: bytes):
    return (ctypes.c_char * len(data))(*[bytes([c]) for c in data])


def bits(*flags):
    return (ctypes.c_uint8 * 8)(
        *[sum(bool(flag) << k for k, flag in enumerate(flags[8 * i : 8 * i + 8])) for i in range(8)]
    )


def numbers(**fields):
    return Producer("l", 3, (None, ints(5, 6, 7)), **fields)


def nested():
    """list<struct<n: int64, s: string>> with a dictionary-encoded third field."""
    fields = [
        numbers(name="n"),
        Producer("u", 3, (None, offsets(0, 1, 3, 6), text(b"abbccc")), name="s"),
        Producer(
            "i",
            3,
            (None, offsets(0, 0, 1)),
            name="d",
            dictionary=Producer("u", 2, (None, offsets(0, 1, 2), text(b"xy"))),
        ),
    ]
    return Producer("+l", 2, (None, offsets(0, 2, 3)), children=[Producer("+s", 3, (None,), children=fields)])


def test_structures_are_moved_and_released_once():
    producer = nested()
    v = mv.view(producer)
    # taken: the source is marked as moved, and nobody reads the schema again
    assert not producer.array.release
    producer._poison("schema")
    part = v[0]["s"]
    assert [element["n"] for element in v[0]] == [5, 6]
    assert v.values["d"][2] == "y"
    v.release()
    del v
    gc.collect()
    assert producer.released["array"] == 0  # a part is left
    assert list(part) == ["a", "bb"]
    del part
    gc.collect()
    assert producer.released["array"] == 1  # the base only: its children share the callback's count
    child = producer.kept[1][0]
    assert child.released["array"] == 0
    assert all(field.released["array"] == 0 for field in child.kept[1])
    assert producer.released["schema"] == 0  # left to its capsule


def test_a_moved_array_cannot_be_taken_twice():
    producer = numbers()
    v = mv.view(producer)
    with pytest.raises(InterfaceError, match="consumed before"):
        mv.view(producer)
    assert list(v) == [5, 6, 7]


def test_a_refused_array_is_released_once():
    for producer in (
        numbers(offset=-1),
        Producer("u", 1, (None, offsets(0, -5), text(b"x"))),
        Producer("+s", 3, (None,), children=[Producer("l", 2, (None, ints(1, 2)))]),
    ):
        before = live_leases()
        with pytest.raises(InterfaceError):
            mv.view(producer)
        gc.collect()
        assert producer.released["array"] == 1
        assert live_leases() == before


def test_a_refused_type_leaves_the_array_alone():
    producer = Producer("+ud:0", 1, (), children=[numbers()])
    with pytest.raises((ZeroCopyError, InterfaceError)):
        mv.view(producer)
    producer = Producer(None, 1, (None, ints(1)))
    with pytest.raises(InterfaceError):
        mv.view(producer)
    assert producer.released == {"schema": 0, "array": 0}
    assert producer.array.release


WRONG = {
    "length": lambda: numbers(offset=2**62 + 1),
    "negative length": lambda: Producer("l", -1, (None, ints())),
    "overflow": lambda: Producer("l", 2**61, (None, ints(1)), offset=2**61),
    "null_count": lambda: numbers(null_count=4),
    "null_count -2": lambda: numbers(null_count=-2),
    "nulls without bitmap": lambda: numbers(null_count=1),
    "buffers": lambda: Producer("l", 1, (None,)),
    "more buffers": lambda: Producer("l", 1, (None, ints(1), None)),
    "negative buffers": lambda: numbers(n_buffers=-1),
    "no list": lambda: numbers(lists=False),
    "no data": lambda: Producer("l", 1, (None, None)),
    "children": lambda: numbers(children=[numbers()]),
    "missing child": lambda: Producer("+l", 1, (None, offsets(0, 1))),
    "array children": lambda: Producer("+l", 1, (None, offsets(0, 1)), children=[numbers()], n_children=0),
    "no child list": lambda: Producer("+l", 0, (None, None), n_buffers=0, n_children=1, schema_children=1, lists=False),
    "negative children": lambda: Producer("+s", 0, (None,), schema_children=-1),
    "no offsets": lambda: Producer("+l", 1, (None, None), children=[numbers()]),
    "no text": lambda: Producer("u", 1, (None, offsets(0, 3), None)),
    "no string offsets": lambda: Producer("u", 1, (None, None, text(b"abc"))),
    "end": lambda: Producer("u", 1, (None, offsets(0, -1), text(b"abc"))),
    "no bits": lambda: Producer("b", 1, (None, None)),
    "short field": lambda: Producer("+s", 4, (None,), children=[numbers()]),
    "short lists": lambda: Producer("+w:2", 2, (None,), children=[numbers()]),
    "list width": lambda: Producer("+w:x", 1, (None,), children=[numbers()]),
    "width": lambda: Producer("w:-3", 1, (None, ints(1))),
    "width text": lambda: Producer("w:abc", 1, (None, ints(1))),
    "decimal": lambda: Producer("d:3", 1, (None, ints(1))),
    "decimal bits": lambda: Producer("d:3,1,77", 1, (None, ints(1))),
    "decimal text": lambda: Producer("d:a,b", 1, (None, ints(1))),
    "dictionary array": lambda: _without_dictionary(),
    "metadata": lambda: Producer("n", 0, (), metadata=struct.pack("=i", -1)),
    "deep": lambda: _deep(80),
}


def _without_dictionary():
    producer = Producer("i", 1, (None, offsets(0)), dictionary=Producer("u", 0, (None, None, None)))
    producer.array.dictionary = None
    return producer


def _deep(levels):
    producer = numbers()
    for _ in range(levels):
        producer = Producer("+l", 1, (None, offsets(0, 1)), children=[producer])
    return producer


@pytest.mark.parametrize("case", WRONG)
def test_wrong_structures_are_refused(case):
    producer = WRONG[case]()
    before = live_leases()
    with pytest.raises(InterfaceError):
        mv.view(producer)
    gc.collect()
    assert producer.released["array"] <= 1
    assert live_leases() == before


@pytest.mark.parametrize("format", ["+ud:0,1", "+us:0", "+r", "x", "", "ts", "tsx:", "+q", "tdZ", "vx"])
def test_types_without_a_view_are_named(format):
    producer = Producer(format, 0, (None, None), children=[numbers()] if format[:1] == "+" else ())
    with pytest.raises(MojoViewError, match="Arrow") as info:
        mv.view(producer)
    assert repr(format) in str(info.value) or "buffers" in str(info.value)


def test_elements_whose_offsets_lie_are_refused_one_by_one():
    v = mv.view(Producer("u", 3, (None, offsets(0, 2, 1, 3), text(b"abc"))))
    assert v[0] == "ab"
    with pytest.raises(InterfaceError, match="element 1"):
        v[1]
    v = mv.view(Producer("+l", 2, (None, offsets(0, 9, 2)), children=[numbers()]))
    with pytest.raises(InterfaceError, match="list 0"):
        v[0]
    v = mv.view(Producer("i", 2, (None, offsets(0, 7)), dictionary=Producer("u", 1, (None, offsets(0, 1), text(b"a")))))
    assert v[0] == "a"
    with pytest.raises(InterfaceError, match="code 7"):
        v[1]
    with pytest.raises(InterfaceError, match="UTF-8"):
        mv.view(Producer("u", 1, (None, offsets(0, 1), text(b"\xff"))))[0]
    with pytest.raises(InterfaceError, match="integer codes"):
        mv.view(Producer("g", 1, (None, ints(0)), dictionary=numbers()))[0]


def view_words(size, buffer=0, start=0):
    return (ctypes.c_int32 * 4)(size, 0, buffer, start)


@pytest.mark.parametrize(
    "words", [(-1, 0, 0), (13, -1, 0), (13, 1, 0), (13, 0, -1), (13, 0, 8), (2**31 - 1, 0, 2**31 - 1)]
)
def test_string_views_that_lie_are_refused(words):
    data = text(b"twenty bytes of text")
    sound = mv.view(Producer("vu", 1, (None, view_words(14, 0, 6), data, ints(20))))
    assert sound[0] == " bytes of text"
    v = mv.view(Producer("vu", 1, (None, view_words(*words), data, ints(20))))
    with pytest.raises(InterfaceError):
        v[0]
    with pytest.raises(InterfaceError):
        mv.view(Producer("vu", 0, (None, None, data, ints(-1)))).buffers  # noqa: B018


def test_null_count_not_counted_and_bitmaps_without_nulls():
    unknown = Producer("l", 3, (bits(1, 0, 1), ints(5, 6, 7)), null_count=-1)
    v = mv.view(unknown)
    assert list(v) == [5, None, 7]
    none = mv.view(Producer("l", 3, (bits(0, 0, 0), ints(5, 6, 7)), null_count=0))
    assert not none.masked  # the count says that the bitmap need not be read
    words = mv.view(Producer("u", 2, (bits(0, 0, 1, 1), offsets(0, 0, 1, 2, 3), text(b"abc")), null_count=-1, offset=2))
    assert type(words) is StringView
    assert (words.null_count, list(words)) == (0, ["b", "c"])


def test_arrays_of_nothing_may_have_no_buffers():
    assert mv.view(Producer("l", 0, (None, None))).size == 0
    assert list(mv.view(Producer("u", 0, (None, None, None)))) == []
    assert list(mv.view(Producer("b", 0, (None, None)))) == []
    assert list(mv.view(Producer("+l", 0, (None, None), children=[Producer("l", 0, (None, None))]))) == []


def test_metadata_and_names_go_through():
    pairs = struct.pack("=ii3si5s", 1, 3, b"key", 5, b"value")
    producer = Producer("u", 1, (None, offsets(0, 1), text(b"a")), name="söme", metadata=pairs, flags=3)
    schema = schema_of(capsule := mv.view(producer).__arrow_c_schema__())
    assert (schema.format, schema.name.decode(), schema.flags) == (b"u", "söme", 3)
    assert ctypes.string_at(schema.metadata, len(pairs)) == pairs
    assert capsule is not None
    with_metadata = Producer("l", 1, (None, ints(4)), metadata=pairs)
    assert list(mv.view(with_metadata)) == [4]


def test_wrong_capsules():
    for pair in (
        (5, 6),
        (None, None),
        (numbers().__arrow_c_array__()[0],) * 2,
        (numbers().__arrow_c_array__()[1],) * 2,
    ):
        kind = type("Wrong", (), {"__arrow_c_array__": lambda self, schema=None, pair=pair: pair})
        with pytest.raises(InterfaceError):
            mv.view(kind())
    with pytest.raises(ZeroCopyError):
        mv.view(type("Odd", (), {"__arrow_c_array__": lambda self, schema=None: 5})())
    with pytest.raises(InterfaceError):
        mv.view(type("Odd", (), {"__arrow_c_stream__": lambda self, schema=None: 5})())

    def refuse(self, schema=None):
        raise ValueError("no way")

    refuses = type("Refuses", (), {"__arrow_c_array__": refuse})()
    with pytest.raises(ZeroCopyError, match="no way"):
        mv.view(refuses)


def test_arrays_on_a_device_are_refused():
    producer = numbers()
    device = DeviceArray(producer.array, 0, 2, None)
    pair = (
        capsules.new(ctypes.addressof(producer.schema), "arrow_schema"),
        capsules.new(ctypes.addressof(device), "arrow_device_array"),
    )
    kind = type("OnGpu", (), {"__arrow_c_device_array__": lambda self, schema=None, **_: pair})
    with pytest.raises(DeviceError):
        mv.view(kind())
    assert producer.released["array"] == 0
    device.device_type = 1
    v = mv.view(kind())
    assert list(v) == [5, 6, 7]
    del v
    gc.collect()
    assert producer.released["array"] == 1


# -- streams -----------------------------------------------------------------------------------------------------------


def test_streams_are_read_to_the_end_and_released_once():
    chunks = [numbers(), Producer("l", 0, (None, None)), Producer("l", 1, (None, ints(9)))]
    stream = StreamProducer(first := numbers(), chunks)
    v = mv.view(stream)
    assert [list(chunk) for chunk in v.chunks] == [[5, 6, 7], [], [9]]
    assert (stream.released, first.released["schema"]) == (1, 1)
    assert [chunk.released["array"] for chunk in chunks] == [0, 0, 0]
    kept = v[1:3]
    del v
    gc.collect()
    assert [chunk.released["array"] for chunk in chunks] == [0, 1, 1]
    assert list(kept) == [6, 7]
    with pytest.raises(InterfaceError):
        mv.view(stream)


def test_streams_that_fail_give_everything_back():
    chunks = [numbers(), numbers()]
    stream = StreamProducer(numbers(), chunks, fail_at=1)
    with pytest.raises(InterfaceError, match="the disk is gone"):
        mv.view(stream)
    gc.collect()
    assert stream.released == 1
    assert [chunk.released["array"] for chunk in chunks] == [1, 0]
    stream = StreamProducer(numbers(), chunks, fail_schema=True, message=None)
    with pytest.raises(InterfaceError, match="errno 5"):
        mv.view(stream)
    gc.collect()
    assert stream.released == 1
    bad = StreamProducer(numbers(), [numbers(), wrong := numbers(offset=-4)])
    with pytest.raises(InterfaceError):
        mv.view(bad)
    gc.collect()
    assert (bad.released, wrong.released["array"]) == (1, 1)


# -- what we hand out --------------------------------------------------------------------------------------------------


def test_children_may_be_moved_away_from_our_arrays():
    v = mv.view(np.arange(6.0).reshape(2, 3))
    _, capsule = v.__arrow_c_array__()
    base = array_of(capsule)
    child = Array()
    ctypes.memmove(ctypes.addressof(child), base.children[0], ctypes.sizeof(Array))
    base.children[0].contents.release = RELEASE_ARRAY()
    base.release(base)
    assert not base.release
    with pytest.raises(BufferError):
        v.release()
    assert list((ctypes.c_double * 6).from_address(child.buffers[1])) == [0, 1, 2, 3, 4, 5]
    child.release(child)
    v.release()


def test_releases_may_come_from_a_foreign_thread_without_the_gil():
    v = mv.view(np.arange(3.0))
    _, capsule = v.__arrow_c_array__()
    array = array_of(capsule)
    thread = threading.Thread(target=array.release, args=(ctypes.pointer(array),))
    thread.start()
    thread.join()
    assert not array.release
    v.release()


AFTER_PYTHON = """
import ctypes, sys
import numpy as np, mojoview as mv
from producers.arrow import Array, RELEASE_ARRAY, array_of
view = mv.view(np.zeros(3))
schema, capsule = view.__arrow_c_array__()
kept = Array.from_buffer_copy(array_of(capsule))
array_of(capsule).release = RELEASE_ARRAY()
place = ctypes.CDLL(None).malloc
place.restype, place.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
address = place(ctypes.sizeof(Array))
ctypes.memmove(address, ctypes.addressof(kept), ctypes.sizeof(Array))
libc = ctypes.CDLL(None)
libc.__cxa_atexit.argtypes = [ctypes.c_void_p] * 3
libc.__cxa_atexit(ctypes.cast(kept.release, ctypes.c_void_p), address, None)  # runs when Python is gone
sys.kept = view.__arrow_c_array__(), view
"""


def test_releases_may_come_after_python_has_ended():
    done = subprocess.run(
        [sys.executable, "-c", AFTER_PYTHON],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])},
    )
    assert (done.returncode, done.stderr) == (0, "")


# -- anything at all ---------------------------------------------------------------------------------------------------

COUNTS = st.one_of(st.integers(-2, 6), st.sampled_from([2**31, 2**62, 2**63 - 1, -(2**63)]))
FORMATS = st.one_of(
    st.sampled_from(
        [
            "l",
            "i",
            "b",
            "u",
            "Z",
            "vu",
            "n",
            "+s",
            "+l",
            "+L",
            "+w:2",
            "+vl",
            "+m",
            "d:3,1",
            "w:3",
            "tsu:",
            "+ud:",
            "+r",
        ]
    ),
    st.text(max_size=4),
)


@given(
    format=FORMATS,
    length=COUNTS,
    null_count=COUNTS,
    offset=COUNTS,
    buffers=st.lists(st.sampled_from([None, 1, 2]), max_size=5),
    n_buffers=st.one_of(st.none(), st.integers(-1, 5)),
    children=st.integers(0, 3),
    data=st.binary(min_size=0, max_size=64),
    dictionary=st.booleans(),
    lists=st.booleans(),
)
def test_any_array_is_viewed_or_refused(
    format, length, null_count, offset, buffers, n_buffers, children, data, dictionary, lists
):
    if any(0xD800 <= ord(c) < 0xE000 or c == "\0" for c in format):
        format = "?"
    memory = (ctypes.c_uint8 * (1 << 16))(*data)
    # What the interface cannot tell, how large buffers are, is kept true: counts beyond the memory have no buffers.
    sound = abs(length) <= 6 and abs(offset) <= 6
    producer = Producer(
        format,
        length,
        [memory if item is not None and sound else None for item in buffers],
        null_count=null_count,
        offset=offset,
        n_buffers=None if n_buffers is None else min(n_buffers, len(buffers)),
        lists=lists,
        children=[numbers(name=str(k)) for k in range(children)],
        dictionary=numbers() if dictionary else None,
    )
    before = live_leases()
    try:
        v = mv.view(producer)
        assert len(v) == length
        repr(v)
        v.__arrow_c_array__()
        v[:1]
    except MojoViewError:
        pass
    v = None
    gc.collect(0)
    assert live_leases() == before
    assert producer.released["array"] <= 1
