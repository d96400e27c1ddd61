"""Bytes that enter or leave shared memory mean what the memory's dtype says, and no element is hidden by a mask."""

import array
import ctypes

import numpy as np
import pytest

import mojoview as mv
from mojoview.memory import errors
from mojoview.sharing.ring.ring import Ring

RECORD = np.dtype([("t", "f8"), ("kelvin", "f4")])
RIGHT = np.array([(1.5, 2.5)], RECORD)


class Record(ctypes.LittleEndianStructure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("t", ctypes.c_double), ("kelvin", ctypes.c_float))


SAME = {
    "records": RIGHT,
    "bytes": RIGHT.tobytes(),
    "bytearray": bytearray(RIGHT.tobytes()),
    "memoryview": memoryview(RIGHT.tobytes()),
    "uint8": RIGHT.view("u1"),
    "void": RIGHT.view("V12"),
    "array of bytes": array.array("B", RIGHT.tobytes()),
    "view of records": mv.view(RIGHT),
    "ctypes record": Record(1.5, 2.5),
}
OTHER = {
    "swapped fields": np.zeros(1, [("kelvin", "f4"), ("t", "f8")]),
    "other names": np.zeros(1, [("t", "f8"), ("celsius", "f4")]),
    "big-endian": np.zeros(1, RECORD.newbyteorder(">")),
    "int64 and int32": np.zeros(1, [("t", "i8"), ("kelvin", "i4")]),
    "float32": np.zeros(3, "f4"),
    "int32": np.zeros(3, "i4"),
    "datetime": np.zeros(3, "M8[s]"),
    "array of floats": array.array("f", [1, 2, 3]),
    "memoryview of floats": memoryview(np.zeros(3, "f4")),
    "view of floats": mv.view(np.zeros(3, "f4")),
    "ctypes floats": (ctypes.c_float * 3)(),
}


@pytest.fixture
def ring():
    with Ring.create(dtype=RECORD) as ring:
        yield ring


@pytest.mark.parametrize("kind", SAME)
def test_records_and_raw_bytes_are_written(ring, kind):
    assert ring.write(SAME[kind]) == 0
    assert ring.write_many(SAME[kind]) == 1
    assert ring.read().records[0] == RIGHT[0]


# struct tm-like padding apart: what `float32[3]` and `datetime64[3]` say is 12 or 24 bytes, whole records either way
@pytest.mark.parametrize("kind", OTHER)
def test_another_dtype_is_refused_by_a_ring_of_records(ring, kind):
    for write in (ring.write, ring.write_many):
        with pytest.raises(errors.DTypeError, match="kelvin"):
            write(OTHER[kind])
    with pytest.raises(errors.DTypeError):
        ring.write_many([RIGHT, OTHER[kind]])
    assert len(ring.read()) == 1  # what came before


@pytest.mark.parametrize("kind", [kind for kind in OTHER if "view of" not in kind])
def test_another_dtype_is_refused_as_a_destination(ring, kind):
    ring.write(RIGHT)
    with mv.State.create(None, RECORD) as state:
        state.publish()
        for read in (ring.read_into, ring.read_many, state.read_into):
            with pytest.raises(errors.DTypeError, match="kelvin"):
                read(OTHER[kind])
        for target in (np.zeros((), RECORD), bytearray(12), np.zeros(12, "u1")):
            assert state.read_into(target) == 1
    assert ring.read_many(np.zeros(1, RECORD)) == 1


@pytest.mark.parametrize("kind", ["float64", "records", "big-endian"])
def test_a_ring_of_bytes_takes_any_memory(kind):
    data = {"float64": np.arange(3.0), "records": RIGHT, "big-endian": np.zeros(2, ">f8")}[kind]
    with Ring.create() as ring:
        ring.write(data)
        target = np.empty_like(data)
        ring.read_into(target)
        assert target.tobytes() == data.tobytes()


MASKED = np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0])


def test_a_mask_is_refused_everywhere():
    with (
        Ring.create() as ring,
        mv.Snapshot.create(None, 3, "f8") as snapshot,
        mv.State.create(None, ("f8", 3)) as state,
        mv.Pool() as pool,
    ):
        state.publish()
        entries = {
            "write": lambda x: ring.write(x),
            "write_many": lambda x: ring.write_many(x.reshape(1, 3)),
            "write_many of a list": lambda x: ring.write_many([x]),
            "read_into of a ring": lambda x: ring.read_into(x, 0),
            "publish": snapshot.publish,
            "read_into": state.read_into,
            "share": mv.share,
            "pool": pool.share,
        }
        for name, entry in entries.items():
            with pytest.raises(errors.MaskError):
                print(name, entry(MASKED))
        masked_view = mv.view(np.arange(3.0))
        assert masked_view.mask is None
        assert snapshot.publish(masked_view) == 1
        assert snapshot.publish(np.ma.array([1.0, 2.0, 3.0], mask=False)) == 2  # nothing is hidden


LOSSLESS = [
    (np.array([1, -5, 2**53], "i8"), "f8", True),
    (np.array([0, 0, 2**53 + 1], "i8"), "f8", False),
    (np.array([0, 0, 2**63 - 1], "i8"), "f8", False),
    (np.array([0, 0, 2**64 - 1], "u8"), "f8", False),
    (np.array([0, 0, 2**53 + 1], "i8"), "c16", False),
    (np.array([0, 1, 2**24 + 1], "i4"), "f8", True),
    (np.array([0, 1, 2], "i2"), "f4", True),
    (np.array([0.5, np.nan, np.inf], "f4"), "f8", True),
    (np.array([0.5, 1.0, 1.5]), "f4", False),
    (np.array([True, False, True]), "i1", True),
    (np.array(["2020-01-01", "NaT", "1970"], "M8[D]"), "M8[ns]", True),
    (np.array(["9999-01-01", "NaT", "1970"], "M8[D]"), "M8[ns]", False),
    (np.array([1, 2, 3], "m8[ns]"), "m8[s]", False),
]


@pytest.mark.parametrize(("array", "dtype", "exact"), LOSSLESS, ids=lambda value: getattr(value, "dtype", value))
def test_publish_converts_without_loss_or_not_at_all(array, dtype, exact):
    with mv.Snapshot.create(None, 3, dtype) as snapshot:
        if exact:
            assert snapshot.publish(array) == 1
            np.testing.assert_array_equal(np.asarray(snapshot.read()), array.astype(dtype))
        else:
            with pytest.raises(errors.ArgumentError):
                snapshot.publish(array)
            assert snapshot.read() is None


def test_a_frame_of_other_records_is_not_appended(tmp_path, ring):
    ring.write(RIGHT)
    frame = ring.read()[0]
    with (
        Ring.create(tmp_path / "r.ring", mode="recorder", dtype=[("kelvin", "f4"), ("t", "f8")]) as other,
        pytest.raises(errors.DTypeError),
    ):
        other.append(frame)
    with Ring.create(tmp_path / "s.ring", mode="recorder", dtype=RECORD) as same:
        same.append(frame)
        assert same.read(1, 0).records[0] == RIGHT[0]
