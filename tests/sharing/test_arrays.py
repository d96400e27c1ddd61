"""share() and attach(): arrays given away once, by name or anonymously; pools."""

import gc
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra import numpy as npst
from support.headers import recrc

import mojoview as mv
from mojoview.memory import errors
from mojoview.sharing.segment import naming, transfer

PROGRAMS = Path(__file__).parent / "programs"


def same(view, expected) -> None:
    got = np.asarray(view)
    assert (got.shape, got.dtype, got.flags.writeable) == (expected.shape, expected.dtype, False)
    assert got.tobytes() == expected.tobytes()


ARRAYS = {
    "C": np.arange(12.0).reshape(3, 4),
    "F": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    "0-d": np.array(5.5),
    "strided": np.arange(24).reshape(2, 3, 4)[:, ::-1, ::2],
    "broadcast": np.broadcast_to(np.float32(3), (4, 5)),
    "datetime": np.array(["2020-01-01", "NaT"], "M8[ns]"),
    "record": np.zeros(5, [("a", "i1"), ("b", "f8")])[::2],
    "swapped": np.arange(5, dtype=">i4"),
    "text": np.array(["a", "bcd"]),
    "bytes": np.array([b"x", b"yz"]),
    "complex": np.array([1 + 2j, 3]),
    "bool": np.array([True, False]),
    "big strided": np.arange(600_000)[::3],
    "8-d": np.ones((1, 2) * 4),
}


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("kind", ARRAYS)
def test_round_trip(name, named, kind):
    array = ARRAYS[kind]
    with mv.share(array, name if named else None) as shared:
        other = mv.attach(name) if named else pickle.loads(pickle.dumps(shared))
        same(other.read(), array)
        assert other.read().ptr != array.ctypes.data
        same(np.asarray(other), array)
        if array.ndim > 1 and array.size and kind in ("C", "F"):
            assert np.asarray(other).strides == array.strides
        other.close()


@given(array=npst.arrays(npst.scalar_dtypes(), npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)))
def test_any_array(array):
    with mv.share(array) as shared:
        same(shared.read(), array)


@pytest.mark.parametrize("shape", [(5, 0), (0,), (0, 3, 2)])
@pytest.mark.parametrize("named", [True, False])
def test_zero_length_dimensions(name, named, shape):
    with mv.share(np.empty(shape, "f4"), name if named else None) as shared:
        other = pickle.loads(pickle.dumps(shared))
        assert (other.shape, other.read().shape, np.asarray(other).dtype) == (shape, shape, np.dtype("f4"))
        other.close()


@pytest.mark.parametrize(
    ("method", "naming_of"),
    [
        ("fork", "anonymous"),
        ("fork", "named"),
        ("spawn", "anonymous"),
        pytest.param("spawn", "named", marks=pytest.mark.slow),
        pytest.param("forkserver", "anonymous", marks=pytest.mark.slow),
        pytest.param("forkserver", "named", marks=pytest.mark.slow),
    ],
)
def test_every_start_method(method, naming_of):
    """Arguments, queues, pools, executors; an error in a worker reaches the parent; no tracker complains."""
    done = subprocess.run(
        [sys.executable, "-W", "error", PROGRAMS / "start_methods.py", method, naming_of],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("ok\n", "", 0)


def test_joblib_workers(name):
    pytest.importorskip("joblib")
    code = f"""
import numpy as np, joblib, mojoview as mv
def total(array, state):
    return float(np.asarray(array).sum()), state.refresh()
with mv.share(np.arange(10.0), {name!r}) as shared, mv.State.create({name!r} + "s", "f8") as state:
    state.publish()
    print(joblib.Parallel(2)(joblib.delayed(total)(shared, state) for _ in range(4)) == [(45.0, 1)] * 4)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=200, check=False)
    assert done.stdout == "True\n", done.stderr


def test_sizes_come_from_the_header(name):
    with mv.share(np.arange(8, dtype="u1"), name) as shared:
        assert os.path.getsize(naming.path_of(name)) == 8192  # rounded up to pages
        other = mv.attach(name)
        assert (other.shape, other.nbytes, other.read().nbytes) == ((8,), 8, 8)
        os.truncate(naming.path_of(name), 65536)
        longer = mv.attach(name)
        assert (longer.shape, longer.nbytes) == ((8,), 8)
        for handle in (other, longer):
            handle.close()
        assert shared.nbytes == 8


def test_a_thousand_anonymous_arrays():
    held = [mv.share(np.zeros(1)) for _ in range(100)]
    read, write = os.pipe()
    if (pid := os.fork()) == 0:
        more = [mv.share(np.zeros(1)) for _ in range(50)]
        os.write(write, "\n".join(shared.name for shared in more).encode())
        os._exit(0)
    os.close(write)
    with open(read, encoding="ascii") as pipe:
        theirs = pipe.read().split()
    os.waitpid(pid, 0)
    held += [mv.share(np.zeros(1)) for _ in range(900)]
    names = [shared.name for shared in held]
    listed = [info.name for info in mv.segments() if info.path is None]
    assert len({*names, *theirs}) == 1050
    assert set(names) <= set(listed)
    assert len(listed) == len(set(listed))
    for shared in held:
        shared.close()


def test_anonymous_arrays_cannot_be_written_to_by_anybody():
    shared = mv.share(np.zeros(100))
    with open(f"/proc/self/fd/{shared.segment.fileno()}", "r+b", buffering=0) as file, pytest.raises(PermissionError):
        file.write(b"x")
    with pytest.raises(errors.SegmentError):
        shared.segment.reopen(writable=True)
    with pytest.raises(errors.ReadOnlyError):
        shared.read()[0] = 1
    shared.close()


def test_the_original_can_change_afterwards():
    array = np.zeros(3)
    with mv.share(array) as shared:
        array[:] = 9
        assert np.asarray(shared).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("obj", "error"),
    [
        (np.array([None]), errors.DTypeError),
        (np.ma.masked_array([1, 2], [0, 1]), errors.MaskError),
        (object(), errors.ArgumentError),
        (np.zeros(1, [("a", "O")]), errors.DTypeError),
    ],
)
def test_what_cannot_be_shared(name, obj, error):
    with pytest.raises(error):
        mv.share(obj, name)
    assert not os.path.exists(naming.path_of(name))


def test_buffers_and_views_are_shared():
    for obj in (b"abc", bytearray(b"abc"), memoryview(b"abc"), mv.view(np.frombuffer(b"abc", "u1"))):
        with mv.share(obj) as shared:
            assert bytes(np.asarray(shared)) == b"abc"


def test_a_name_in_use(name):
    with mv.share(np.zeros(3), name) as shared:
        with pytest.raises(errors.SegmentExists, match="in use"):
            mv.share(np.ones(3), name)
        assert np.asarray(mv.attach(name)).tolist() == [0, 0, 0]
        assert shared.name == name
    with pytest.raises(errors.SegmentNotFound):
        mv.attach(name)
    gc.collect()


def test_closing(name):
    shared = mv.share(np.arange(3), name)
    view = shared.read()
    shared.close()
    shared.close()
    assert view[2] == 2
    for use in (shared.read, lambda: pickle.dumps(shared), shared.__enter__, lambda: np.asarray(shared)):
        with pytest.raises(errors.ClosedError):
            use()
    assert "closed" in repr(shared)


def test_a_dropped_name_lasts_until_it_is_unlinked(name):
    mv.share(np.arange(3), name)
    gc.collect()
    with mv.attach(name) as other:
        assert np.asarray(other).tolist() == [0, 1, 2]
    mv.unlink(name)
    gc.collect()


def test_headers_that_contradict_themselves(name):
    shared = mv.share(np.arange(4.0), name)
    path = naming.path_of(name)
    content = Path(path).read_bytes()
    shared.close()
    for offset, value in [(272, 5), (272, -4), (272, 2**60), (48, 8), (256, 0)]:
        bad = bytearray(content)
        bad[offset : offset + 4 if offset == 256 else offset + 8] = value.to_bytes(
            4 if offset == 256 else 8, "little", signed=True
        )
        Path(path).write_bytes(recrc(bad))
        os.chmod(path, 0o600)
        with pytest.raises(errors.CorruptHeader):
            mv.attach(name)
    bad = bytearray(content)
    bad[16:20] = (99).to_bytes(4, "little")
    Path(path).write_bytes(recrc(bad))
    with pytest.raises(errors.VersionMismatch, match="kind 99 is unknown"):
        mv.attach(name)
    os.unlink(path)
    gc.collect()


def test_any_kind_goes_through_a_socket(name):
    import socket

    from mojoview.sharing import arrays

    with mv.share(np.arange(3)) as shared, mv.State.create(None, "f8") as state:
        here, there = socket.socketpair()
        with here, there:
            for handle in (shared, state):
                transfer.send_segment(here, handle.segment)
                other = arrays.attach_kind(transfer.receive_segment(there))
                assert type(other) is type(handle)
                other.close()


# -- pools -------------------------------------------------------------------------------------------------------------


def test_a_pool_uses_its_memory_again():
    with mv.Pool() as pool:
        addresses = set()
        for value in range(20):
            with pool.share(np.full((100, 10), value, "f4")) as shared:
                same(shared.read(), np.full((100, 10), value, "f4"))
                addresses.add(os.stat(shared.segment.fileno()).st_ino)
        assert (len(addresses), pool.segments) == (1, 1)
        with pool.share(np.zeros(10**6)) as large, pool.share(np.asfortranarray(np.ones((2, 3)))) as small:
            assert (large.nbytes, np.asarray(small).strides, pool.segments) == (8 * 10**6, (8, 16), 2)


def test_a_pool_leaves_alone_what_somebody_may_still_look_at():
    with mv.Pool() as pool:
        shared = pool.share(np.zeros(4))
        view = shared.read()
        shared.close()
        second = pool.share(np.ones(4))
        assert (pool.segments, np.asarray(view).tolist()) == (2, [0, 0, 0, 0])
        stored = pickle.dumps(second)
        second.close()
        third = pool.share(np.full(4, 2.0))  # the second's memory is on its way to somebody
        other = pickle.loads(stored)
        assert (np.asarray(other).tolist(), pool.segments) == ([1] * 4, 3)
        other.close()
        del view
        third.close()
        for _ in range(10):
            pool.share(np.zeros(4)).close()
        assert pool.segments == 3


def test_a_pool_keeps_no_more_than_its_limit():
    with mv.Pool(limit=10_000) as pool:
        held = [pool.share(np.zeros(1000)) for _ in range(3)]
        for shared in held:
            shared.close()
        assert (pool.segments, pool.idle_bytes <= 10_000) == (1, True)
        pool.reserve(500)
        assert pool.segments == 2
    with pytest.raises(errors.ClosedError):
        pool.share(np.zeros(1))
    with pytest.raises(errors.ClosedError):
        pool.reserve(1)


def test_only_the_pool_can_write_to_its_memory():
    with mv.Pool() as pool, pool.share(np.zeros(4)) as shared, pytest.raises(errors.SegmentError):
        shared.segment.reopen(writable=True)
