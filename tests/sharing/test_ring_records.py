"""Messages as arrays, records and tables make a round trip through a ring."""

import numpy as np
import pandas as pd
import pytest

from mojoview import Ring, view
from mojoview.memory import errors

MODES = ["spsc", "mpsc", "broadcast"]


@pytest.fixture
def ring():
    with Ring.create() as made:
        yield made


RECORD = np.dtype([("t", "M8[ns]"), ("q", "f8", (4,)), ("n", "i4")])


def some_records(n):
    records = np.zeros(n, RECORD)
    records["t"] = np.arange(n).astype("M8[ns]")
    records["q"] = np.random.default_rng(n).random((n, 4))
    records["n"] = np.arange(n)
    return records


@pytest.mark.parametrize("mode", MODES)
def test_records(mode):
    records = some_records(100)
    with Ring.create(mode=mode, dtype=RECORD, start="oldest") as ring, Ring.attach(ring) as writer:
        assert writer.dtype == RECORD
        writer.write_many(records)
        batch = ring.read(100)
        assert batch.records.dtype == RECORD
        assert batch.records.tobytes() == records.tobytes()
        assert np.asarray(batch[3].view["n"]).tolist() == [3]
        writer.write(records[:7])
        writer.write(records[7:8])
        batch = ring.read()
        assert batch.records.tobytes() == records[:8].tobytes()
        out = np.empty(100, RECORD)
        writer.write_many(records)
        assert ring.read_many(out) == 100
        assert out.tobytes() == records.tobytes()
        with pytest.raises(errors.ShapeError, match="whole records"):
            writer.write(b"x")


def test_records_of_one_lap_are_not_copied():
    with Ring.create(dtype=RECORD) as ring:
        ring.write_many(some_records(10))
        batch = ring.read()
        records = batch.records
        assert records.strides == (128,)
        assert records.ctypes.data == batch[0].view.ptr
        with pytest.raises(errors.ExportedError):
            batch.release()


def test_tables_make_a_round_trip():
    table = pd.DataFrame({"x": [1.5, 2.5, np.nan], "k": np.array([1, 2, 3], "i4")})
    with Ring.create(dtype=[("k", "i8"), ("x", "f8")]) as ring:
        ring.write(table)
        assert len(ring.read(1, 0)[0].view) == 3
        ring.write_many(table)
        with ring.read() as batch:
            assert len(batch) == 3
            back = batch.to_pandas()
        pd.testing.assert_frame_equal(back, table[["k", "x"]].astype({"k": "i8"}))
        with pytest.raises(errors.ColumnError):
            ring.write(table[["x"]])
        with pytest.raises(errors.RangeError):
            ring.write(pd.DataFrame({"k": [1.5], "x": [1.0]}))


def test_vector_fields_become_columns():
    with Ring.create(dtype=[("q", "f8", (2,))]) as ring:
        ring.write(pd.DataFrame({"q[0]": [1.0, 2.0], "q[1]": [3.0, 4.0]}))
        frame = ring.read()[0]
        assert frame.view["q"].shape == (2, 2)
        assert frame.to_pandas().columns.tolist() == ["q[0]", "q[1]"]
        assert frame.to_pandas().to_numpy().tolist() == [[1.0, 3.0], [2.0, 4.0]]


@pytest.mark.parametrize(
    "message",
    [
        b"abc",
        bytearray(b"abc"),
        memoryview(b"abc"),
        np.arange(5),
        np.array(["2024-01-01"], "M8[s]"),
        view(np.ones((2, 3))),
    ],
    ids=["bytes", "bytearray", "memoryview", "array", "datetime", "view"],
)
def test_bytes_like_objects_can_be_sent(ring, message):
    ring.write(message)
    expected = message.tobytes() if isinstance(message, np.ndarray) else bytes(memoryview(message))
    assert bytes(ring.read()[0]) == expected


def test_bytes_as_rows(ring):
    rows = np.random.default_rng(0).integers(0, 255, (50, 33)).astype("u1")
    assert ring.write_many(rows) == 50
    assert (ring.read().records == rows).all()
    assert ring.write_many([b"a", b"bc"]) == 2
    with pytest.raises(errors.ShapeError, match="do not make one array"):
        ring.read().records  # noqa: B018
