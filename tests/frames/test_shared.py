"""Shared frames: every kind of column in place, whole versions, Copy-on-Write, dead processes and other processes."""

import asyncio
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading

import numpy as np
import pandas as pd
import pytest

import mojoview as mv
from mojoview.memory import errors
from mojoview.sharing.segment import naming

pytest.importorskip("pyarrow")
pytestmark = pytest.mark.skipif(int(pd.__version__.split(".")[0]) < 3, reason="the frames here are pandas 3's")


@pytest.fixture(scope="module", autouse=True)
def private_names(tmp_path_factory):
    """A directory of its own: what other processes of this machine share is not judged here."""
    patch = pytest.MonkeyPatch()
    patch.setenv("MOJOVIEW_SHM_DIR", str(tmp_path_factory.mktemp("shm")))
    yield
    patch.undo()


@pytest.fixture(autouse=True)
def nothing_left_behind():
    yield
    gc.collect()
    assert os.listdir(naming.directory()) == []


COLUMNS = {
    "float64": np.arange(5.0),
    "float32": np.arange(5, dtype="f4"),
    "int8": np.arange(5, dtype="i1"),
    "bool": np.arange(5) > 2,
    "complex": np.arange(5) * 1j,
    "datetime": pd.date_range("2020", periods=5, unit="ns"),
    "datetime[s]": pd.date_range("2020", periods=5, unit="s"),
    "NaT": pd.to_datetime(["2020-01-01", None, "2021-01-01", None, "2022-01-01"]),
    "timedelta": pd.to_timedelta(np.arange(5), "s"),
    "zone": pd.date_range("2020-03-29", periods=5, freq="h", tz="Europe/Berlin"),
    "offset": pd.date_range("2020", periods=5, tz="UTC+02:00"),
    "category": pd.Categorical(["a", "b", None, "a", "c"], ordered=True),
    "categories of numbers": pd.Categorical([3, 1, 3, 1, 2]),
    "Int64": pd.array([1, None, 3, 4, 5], "Int64"),
    "UInt8": pd.array([1, None, 3, 4, 5], "UInt8"),
    "Float32": pd.array([1.5, None, 3, 4, 5], "Float32"),
    "boolean": pd.array([True, None, False, True, None], "boolean"),
    "period": pd.period_range("2020", periods=5, freq="M"),
}
ARROW = {
    "str": pd.array(["a", "é", None, "", "日本"], "str"),
    "string": pd.array(["a", None, "c", "", "e"], "string[pyarrow]"),
    "int32[pyarrow]": pd.array([1, None, 3, 4, 5], "int32[pyarrow]"),
    "timestamp[pyarrow]": pd.array(["2020-01-01", None, "2021-01-01", None, None], "timestamp[ms][pyarrow]"),
}
INDEXES = {
    "range": pd.RangeIndex(10, 20, 2, name="r"),
    "int": pd.Index([5, 3, 1, 4, 2], name="i"),
    "float": pd.Index(np.arange(5.0)),
    "datetime": pd.DatetimeIndex(COLUMNS["NaT"], name="t"),
    "zone": pd.DatetimeIndex(COLUMNS["zone"]).set_names("z"),
    "text": pd.Index(list("vwxyz"), name="text"),
    "category": pd.CategoricalIndex(["a", "b", "a", "b", "a"]),
    "multi": pd.MultiIndex.from_product([["a"], [1, 2, 3, 4, 5]], names=["x", None]),
    "objects": pd.Index(["a", 1, None, 2, "b"], dtype=object),
}


def round_trip(frame: pd.DataFrame, name: str | None = None) -> pd.DataFrame:
    with frame.mojo.share(name) as shared:
        got = shared.reader().read()
    pd.testing.assert_frame_equal(got, frame, check_freq=False)
    assert list(got.dtypes) == list(frame.dtypes)
    return got


@pytest.mark.parametrize("kind", [*COLUMNS, *ARROW])
def test_every_kind_of_column(kind):
    values = {**COLUMNS, **ARROW}[kind]
    round_trip(pd.DataFrame({"x": values, "between": 1.5, "y": values}))


@pytest.mark.parametrize("kind", INDEXES)
def test_every_kind_of_index(kind):
    got = round_trip(pd.DataFrame({"x": np.arange(5)}, index=INDEXES[kind]))
    assert (type(got.index), got.index.names) == (type(INDEXES[kind]), INDEXES[kind].names)


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({**COLUMNS, **ARROW}),
        pd.DataFrame(np.arange(12.0).reshape(3, 4)),
        pd.DataFrame(),
        pd.DataFrame({"a": []}),
        pd.DataFrame(index=range(3)),
        pd.DataFrame({("a", 1): [1], ("b", 2): [2.0]}),
        pd.DataFrame([[1, 2.0, 3]], columns=["a", "a", "b"]),
        pd.DataFrame({1: [1], "x": [2]}),
        pd.DataFrame(np.asfortranarray(np.ones((3, 2)))),
        pd.DataFrame(np.arange(40).reshape(10, 4))[::3],
    ],
    ids=[
        "all kinds",
        "one block",
        "empty",
        "no rows",
        "no columns",
        "tuples",
        "same labels",
        "mixed labels",
        "Fortran",
        "slice",
    ],
)
def test_every_shape(frame):
    round_trip(frame)


@pytest.mark.parametrize(
    ("values", "dtype"),
    [([object()], "object"), (pd.arrays.SparseArray([0, 1]), "Sparse")],
)
def test_what_cannot_be_shared_is_named(values, dtype):
    frame = pd.DataFrame({"good": range(len(values)), "bad": values})
    with pytest.raises(errors.ZeroCopyError, match=rf"column 'bad' of dtype .*{dtype}.*astype"):
        frame.mojo.share("refused")
    with pytest.raises(errors.ZeroCopyError, match="the name"):
        pd.DataFrame({"a": [1]}, index=pd.Index([1], name=("t", object()))).mojo.share()


def test_readers_share_memory_and_pandas_copies_on_write():
    frame = pd.DataFrame({"a": np.arange(1000.0), "b": np.arange(1000.0)})
    with frame.mojo.share("memory") as shared:
        reader = mv.attach("memory")
        first, second = reader.read(), reader.read()
        assert np.shares_memory(first["a"].to_numpy(), second["a"].to_numpy())
        assert not first["a"].to_numpy().flags.writeable
        first.loc[0, "a"] = 99.0
        first["b"] += 1
        assert (first.loc[0, "a"], second.loc[0, "a"], reader.read().loc[0, "a"]) == (99.0, 0.0, 0.0)
        assert shared.read()["b"].sum() == frame["b"].sum()
        reader.close()
        assert second["a"].sum() == frame["a"].sum()  # frames outlive their handle
        with pytest.raises(errors.ClosedError):
            reader.read()


def test_versions_and_generations():
    frame = pd.DataFrame({"a": np.arange(4.0), "s": pd.Categorical(list("xyxy"))})
    with frame.mojo.share("versions", capacity=100_000) as shared, mv.attach("versions") as reader:
        held = [reader.read()]
        assert (shared.version, reader.generation) == (1, 1)
        for version in range(2, 6):
            assert shared.publish(frame.assign(a=float(version))) == version
            held.append(reader.read())
        assert [list(each["a"]) for each in held] == [[0, 1, 2, 3], *[[float(version)] * 4 for version in range(2, 6)]]
        assert (reader.generation, shared.generation) == (1, 1)
        shared.publish(frame[["a"]].astype("f4"))
        assert (list(reader.read().dtypes), reader.generation, shared.generation) == ([np.dtype("f4")], 2, 2)
        with pytest.raises(errors.ShmFullError, match="capacity="):
            shared.publish(pd.DataFrame({"a": np.zeros(100_000)}))
        assert (shared.version, shared.publish(frame)) == (6, 7)
        assert (reader.wait_newer(0), reader.read().shape, reader.generation) == (7, (4, 2), 3)
        with pytest.raises(errors.NotOwnerError):
            reader.publish(frame)
        with pytest.raises(errors.ArgumentError, match="expected a DataFrame"):
            shared.publish(frame["a"])
        del held


def test_a_log_grows_to_its_capacity():
    frame = pd.DataFrame({"t": np.arange(10), "v": np.arange(10.0)})
    with frame.mojo.share("log", capacity=2_000) as shared, mv.attach("log") as reader:
        first = reader.read()
        for step in range(1, 4):
            shared.append(pd.DataFrame({"t": np.arange(10) + 10 * step, "v": np.arange(10.0)}))
        assert (len(first), list(reader.read()["t"]), reader.read().index[-1]) == (10, list(range(40)), 39)
        with pytest.raises(errors.ArgumentError, match="expected columns"):
            shared.append(pd.DataFrame({"t": [1.5], "v": [1.0]}))
        full = False
        while not full:
            try:
                shared.append(frame)
            except errors.ShmFullError:
                full = True
        assert 40 < len(reader.read()) < 130
        assert list(reader.read()["t"][:40]) == list(range(40))
        del first


def test_waiting_and_iterating_over_versions():
    frame = pd.DataFrame({"a": [0]})

    async def follow(reader):
        seen = []
        try:
            async for version in reader:
                seen.append(int(version["a"].iloc[0]))
                if seen[-1] == 3:
                    threading.Thread(target=shared.close).start()
        except errors.OwnerGone:
            return seen

    shared = frame.mojo.share(None)
    reader = pickle.loads(pickle.dumps(shared))

    def write():
        for value in (1, 2, 3):
            shared.publish(pd.DataFrame({"a": [value]}))

    thread = threading.Thread(target=write)
    thread.start()
    seen = asyncio.run(follow(reader))
    thread.join()
    assert seen[-1] == 3
    assert seen == sorted(seen)
    reader.close()


def test_readers_in_another_process_see_whole_versions():
    code = """
import mojoview as mv
reader = mv.attach("whole")
print("ready", flush=True)
bad = last = 0
while last < 300:
    reader.wait_newer(60)
    frame = reader.read()
    n = int(frame["n"].iloc[0])
    parity = "even" if n % 2 == 0 else "odd"
    bad += not (frame["n"].eq(n).all() and frame["x"].eq(n + 0.5).all() and frame["c"].eq(parity).all()
                and len(frame) == 100 + n % 7) or n < last
    last = n
print(bad)
"""

    def version(n):
        rows = 100 + n % 7
        return pd.DataFrame(
            {"n": np.full(rows, n), "x": n + 0.5, "c": pd.Categorical(["even" if n % 2 == 0 else "odd"] * rows)}
        )

    with version(0).mojo.share("whole", capacity=50_000) as shared:
        reader = subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert reader.stdout.readline() == "ready\n"
        for n in range(1, 301):
            shared.publish(version(n), busy="wait", timeout=60)
        out, err = reader.communicate(timeout=120)
        assert (out.strip(), err) == ("0", "")


def test_a_successor_takes_over_from_a_killed_writer():
    code = """
import os, pandas as pd, mojoview as mv
shared = pd.DataFrame({"a": [1.0, 2.0]}).mojo.share("killed")
shared.publish(pd.DataFrame({"a": [3.0, 4.0]}))
os.kill(os.getpid(), 9)
"""
    subprocess.run([sys.executable, "-c", code], check=False)
    reader = mv.attach("killed")
    held = reader.read()
    successor = mv.SharedFrame.take_over("killed")
    with pytest.raises(errors.SegmentExists):
        mv.SharedFrame.take_over("killed")
    assert successor.publish(pd.DataFrame({"a": [5.0, 6.0]})) == 3
    assert successor.append(pd.DataFrame({"a": [7.0]})) == 4
    assert (list(held["a"]), list(reader.read()["a"]), reader.writer_alive()) == ([3.0, 4.0], [5.0, 6.0, 7.0], True)
    reader.close()
    successor.close()
    with mv.Snapshot.create("no frame", (3,), "f8"), pytest.raises(errors.SchemaMismatch):
        mv.SharedFrame.take_over("no frame")


def test_a_killed_writer_leaves_the_last_version():
    code = """
import os, pandas as pd, mojoview
shared = pd.DataFrame({"a": [1.0, 2.0]}).mojo.share("killed")
shared.publish(pd.DataFrame({"a": [3.0, 4.0]}))
os.kill(os.getpid(), 9)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    reader = mv.attach("killed")
    assert (list(reader.read()["a"]), reader.version, reader.writer_alive()) == ([3.0, 4.0], 2, False)
    with pytest.raises(errors.OwnerGone):
        reader.wait_newer(60)
    frame = reader.read()
    reader.close()
    with pytest.raises(errors.SegmentExists, match="which is dead"):
        frame.mojo.share("killed")
    with frame.mojo.share("killed", reclaim=True) as shared:
        assert shared.version == 1
    assert list(frame["a"]) == [3.0, 4.0]


def test_damaged_descriptions_are_refused():
    with pd.DataFrame({"a": np.arange(10.0), "c": pd.Categorical(list("abcabcabca"))}).mojo.share("damaged") as shared:
        snapshot = mv.Snapshot.attach("damaged")
        good = np.array(snapshot.read())
        snapshot.close()
        length = int(good[:8].view("<u8")[0])
        text = bytes(good[16 : 16 + length])
        cases = [
            text.replace(b'"shape":[1,10]', b'"shape":[1,99]'),
            text.replace(b'"kind":"numpy"', b'"kind":"nympy"'),
            text.replace(b'"rows"', b'"rovs"').replace(b'"blocks"', b'"blacks"'),
            b"{" * length,
            text.replace(b'"at":[0]', b'"at":[7]'),
        ]
        for bad in cases:
            assert len(bad) == length
            if bad == text:
                continue
            with shared._snapshot.write(busy="grow") as slot:
                slot[:] = good
                slot[16 : 16 + length] = np.frombuffer(bad, np.uint8)
            with pytest.raises(errors.CorruptHeader):
                mv.attach("damaged").read()
        for length_word in (2**40, 0):
            with shared._snapshot.write(busy="grow") as slot:
                slot[:] = good
                slot[:8].view("<u8")[:] = length_word
            with pytest.raises(errors.CorruptHeader):
                mv.attach("damaged").read()


def test_share_function_takes_frames():
    frame = pd.DataFrame({"a": [1, 2]})
    with mv.share(frame, "function") as shared:
        assert repr(shared).startswith("<mojoview SharedFrame 'function'")
        pd.testing.assert_frame_equal(mv.attach("function").read(), frame)
        assert [info.kind for info in mv.segments() if info.name == "function"] == ["frame"]
