"""Segments: creation, header checks, names, ownership and what dead processes leave."""

import os
import pickle
import signal
import socket
import struct
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.headers import recrc

import mojoview as mv
from mojoview.memory import errors
from mojoview.sharing.segment import _segment, naming, schema, segments, transfer

HEADER = 4096


def make(name=None, nbytes=80, **options):
    segment = segments.create_segment(_segment.ARRAY, nbytes, name=name, dtype="u1", shape=(nbytes,), **options)
    return segments.commit_segment(segment)


def python(code: str, *, check: bool = True, **options) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=check, **options
    )


@pytest.fixture
def killed(name):
    """A name whose owner was killed."""
    code = (
        "import os\nfrom mojoview.sharing.segment import _segment, segments\n"
        f"s = segments.create_segment(_segment.ARRAY, 80, name={name!r}, dtype='u1', shape=(80,))\n"
        "segments.commit_segment(s)\n"
        "print(os.getpid(), flush=True)\nos.kill(os.getpid(), 9)"
    )
    result = python(code, check=False)
    assert result.returncode == -signal.SIGKILL, result.stderr
    yield int(result.stdout)
    if os.path.exists(naming.path_of(name)):
        mv.unlink(name)


def test_a_name_appears_only_when_the_segment_is_whole(name):
    segment = segments.create_segment(_segment.ARRAY, 8, name=name, dtype="u1", shape=(8,))
    assert not os.path.exists(naming.path_of(name))
    segments.commit_segment(segment)
    status = os.stat(naming.path_of(name))
    assert (status.st_mode & 0o777, status.st_size, status.st_uid) == (0o600, 8192, os.geteuid())
    segments.close_segment(segment)
    assert not os.path.exists(naming.path_of(name))


def test_a_creator_killed_before_commit_leaves_nothing(name):
    before = sorted(os.listdir(naming.directory()))
    result = python(
        "import os\nfrom mojoview.sharing.segment import _segment, segments\n"
        f"s = segments.create_segment(_segment.ARRAY, 1 << 20, name={name!r}, dtype='u1', shape=(1 << 20,))\n"
        "os.kill(os.getpid(), 9)",
        check=False,
    )
    assert result.returncode == -signal.SIGKILL
    assert sorted(os.listdir(naming.directory())) == before


def test_the_umask_does_not_change_the_mode(name):
    old = os.umask(0o777)
    try:
        segment = make(name, mode=0o640)
    finally:
        os.umask(old)
    assert os.stat(naming.path_of(name)).st_mode & 0o777 == 0o640
    segments.close_segment(segment)


def test_anonymous_memory_cannot_change_its_size():
    segment = make()
    for fd in (segment.fileno(), os.open(f"/proc/self/fd/{segment.fileno()}", os.O_RDWR)):
        with pytest.raises(PermissionError):
            os.ftruncate(fd, 0)
        if fd != segment.fileno():
            os.close(fd)
    segments.close_segment(segment)


@pytest.mark.parametrize("bad", ["", "a/b", "../x", "x" * 201, "a\nb", "a\0b", 3, None])
def test_names_cannot_leave_the_directory(bad):
    with pytest.raises((errors.SegmentError, errors.ArgumentError)) as info:
        segments.attach_segment(bad)
    assert not isinstance(info.value, FileNotFoundError)


def test_unknown_name(name):
    with pytest.raises(errors.SegmentNotFound, match=name) as info:
        segments.attach_segment(name)
    assert isinstance(info.value, FileNotFoundError)


def test_views_outlive_the_handle(name):
    segment = make(name)
    segment.view(HEADER, (80,), "u1", writable=True)[:] = 7
    view = segment.view(HEADER, (80,), "u1")
    array = np.asarray(view)
    segments.close_segment(segment)
    assert segment.closed
    del view, segment
    assert array.tolist() == [7] * 80
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1


def test_a_closed_handle_says_so(name):
    segment = make(name)
    segments.close_segment(segment)
    for use in (
        lambda: segment.view(HEADER, (1,), "u1"),
        segment.fileno,
        lambda: pickle.dumps(segment),
        lambda: segment.epoch,
        segment.owner_alive,
        segment.reopen,
    ):
        with pytest.raises(errors.ClosedError, match=name):
            use()
    segments.close_segment(segment)


@pytest.mark.parametrize(
    ("offset", "shape"),
    [(HEADER, (4097,)), (-1, (1,)), (1 << 62, (1,)), (8192, (1,)), (0, (2**31, 2**31, 2**31)), (0, (-1,))],
)
def test_a_view_stays_inside(name, offset, shape):
    segment = make(name)
    with pytest.raises(errors.ArgumentError):
        segment.view(offset, shape, "u1")
    segments.close_segment(segment)


def test_a_read_only_handle_gives_no_writable_view(name):
    owner = make(name)
    reader = segments.attach_segment(name)
    with pytest.raises(errors.NotOwnerError):
        reader.view(HEADER, (1,), "u1", writable=True)
    reader.close()
    segments.close_segment(owner)


# -- what attach refuses -----------------------------------------------------------------------------------------------


def image(name) -> bytearray:
    """The bytes of a good segment."""
    segment = make(name)
    with open(naming.path_of(name), "rb") as file:
        content = bytearray(file.read())
    segments.close_segment(segment)
    return content


def planted(name, content: bytes, mode: int = 0o600) -> str:
    path = naming.path_of(name)
    with open(path, "wb") as file:
        file.write(content)
    os.chmod(path, mode)
    return path


def damage(kind: str, good: bytearray) -> bytes:
    if kind == "text file":
        return b"hello, I am somebody's file\n" * 400
    if kind == "empty":
        return b""
    if kind == "magic missing":
        return bytes(8) + bytes(good[8:])
    if kind == "other byte order":
        return bytes(good[:8][::-1]) + bytes(good[8:])
    if kind == "major version":
        return bytes(good[:8]) + struct.pack("<H", 2) + bytes(good[10:])
    if kind == "truncated payload":
        return bytes(good[:HEADER])
    if kind == "truncated header":
        return bytes(good[:1000])
    if kind == "claims more":
        return bytes(recrc(good[:32] + struct.pack("<Q", 1 << 40) + good[40:]))
    if kind == "payload outside":
        return bytes(recrc(good[:40] + struct.pack("<QQ", HEADER, 1 << 63) + good[56:]))
    if kind == "too many dimensions":
        return bytes(recrc(good[:256] + struct.pack("<I", 9) + good[260:]))
    if kind == "text too long":
        return bytes(recrc(good[:264] + struct.pack("<II", 0xFFFFFFFF, 8) + good[272:]))
    if kind == "earlier boot":
        return bytes(recrc(good[:80] + bytes(16) + good[96:]))
    raise AssertionError(kind)


DAMAGES = {
    "text file": errors.NotAMojoviewSegment,
    "empty": errors.NotAMojoviewSegment,
    "magic missing": errors.NotReady,
    "other byte order": errors.VersionMismatch,
    "major version": errors.VersionMismatch,
    "truncated payload": errors.TruncatedError,
    "truncated header": errors.TruncatedError,
    "claims more": errors.TruncatedError,
    "payload outside": errors.CorruptHeader,
    "too many dimensions": errors.CorruptHeader,
    "text too long": errors.CorruptHeader,
    "earlier boot": errors.SegmentLost,
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_attach_refuses_and_touches_nothing(name, kind):
    content = damage(kind, image(name))
    path = planted(name, content)
    try:
        with pytest.raises(DAMAGES[kind], match=name):
            segments.attach_segment(name, timeout=0.01)
        with open(path, "rb") as file:
            assert file.read() == content
        assert next(info.state for info in mv.segments() if info.name == name) != "live"
        if DAMAGES[kind] in (errors.NotAMojoviewSegment, errors.NotReady):
            for remove in (mv.unlink, mv.cleanup):
                with pytest.raises(errors.NotAMojoviewSegment):
                    remove(name)
            with pytest.raises(errors.NotAMojoviewSegment):
                make(name, reclaim=True)
            mv.cleanup()
            assert os.path.exists(path)
    finally:
        os.unlink(path)


@settings(max_examples=200, deadline=None)
@given(where=st.integers(0, HEADER - 1), bit=st.integers(0, 7))
def test_a_flipped_bit_in_the_header_is_found(where, bit):
    fuzz = f"test-flip-{os.getpid()}"
    content = image(fuzz)
    content[where] ^= 1 << bit
    path = planted(fuzz, bytes(content))
    try:
        mutable = 124 <= where < 256 or where >= 1024 + len(repr("|u1"))  # words that change, and unused room
        if mutable:
            segments.attach_segment(fuzz, timeout=0).close()
        else:
            with pytest.raises((errors.CorruptHeader, errors.VersionMismatch, errors.NotAMojoviewSegment)):
                segments.attach_segment(fuzz, timeout=0)
    finally:
        os.unlink(path)


def test_symbolic_links_are_refused_and_not_followed(name, tmp_path):
    target = tmp_path / "precious"
    target.write_bytes(bytes(image(name)))
    before = target.stat()
    os.symlink(target, naming.path_of(name))
    try:
        for use in (segments.attach_segment, make, mv.unlink, mv.cleanup):
            with pytest.raises(errors.NotAMojoviewSegment):
                use(name)
        assert os.path.islink(naming.path_of(name))
        assert (target.stat().st_mtime_ns, target.stat().st_size) == (before.st_mtime_ns, before.st_size)
        assert next(info.state for info in mv.segments() if info.name == name) == "foreign"
    finally:
        os.unlink(naming.path_of(name))


def test_pipes_do_not_hang_attach(name):
    os.mkfifo(naming.path_of(name))
    try:
        with pytest.raises(errors.NotAMojoviewSegment):
            segments.attach_segment(name)
    finally:
        os.unlink(naming.path_of(name))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to act as another user")
def test_segments_of_other_users_are_refused(name):
    segment = make(name)
    os.chown(naming.path_of(name), 12345, 12345)
    try:
        with pytest.raises(errors.SegmentAccessError, match="12345") as info:
            segments.attach_segment(name)
        assert isinstance(info.value, PermissionError)
        for remove in (mv.unlink, mv.cleanup):
            with pytest.raises(errors.SegmentAccessError):
                remove(name)
        segments.attach_segment(name, uid=12345).close()
    finally:
        segments.close_segment(segment)


def test_segments_that_everybody_can_write_to_are_refused(name):
    segment = make(name, mode=0o666)
    with pytest.raises(errors.SegmentAccessError, match="every user"):
        segments.attach_segment(name)
    segments.close_segment(segment)


# -- owners, alive and dead --------------------------------------------------------------------------------------------


def test_a_dead_owners_name_can_be_reclaimed(name, killed):
    with pytest.raises(
        errors.SegmentExists, match=rf"process {killed}, which is dead.*cleanup\('{name}'\).*reclaim=True"
    ) as info:
        make(name)
    assert isinstance(info.value, FileExistsError)
    assert next(entry.state for entry in mv.segments() if entry.name == name) == "dead"
    segment = make(name, reclaim=True)
    assert segment.owner_pid == os.getpid()
    segments.close_segment(segment)


def test_cleanup_removes_only_what_dead_owners_left(name, killed):
    alive = make(name + "-alive")
    with pytest.raises(errors.SegmentError, match=f"process {os.getpid()}, is alive"):
        mv.cleanup(name + "-alive")
    removed = mv.cleanup()
    assert name in removed
    assert name + "-alive" not in removed
    segments.attach_segment(name + "-alive").close()
    segments.close_segment(alive)


def test_a_readers_mapping_survives_cleanup(name, killed):
    reader = segments.attach_segment(name)
    assert not reader.owner_alive()
    assert mv.cleanup(name) == [name]
    assert np.asarray(reader.view(HEADER, (80,), "u1")).sum() == 0
    reader.close()


def test_a_reused_pid_is_not_the_owner(name, killed):
    """The header names a pid that lives, with another start time: the owner is dead."""
    path = naming.path_of(name)
    with open(path, "r+b") as file:
        file.seek(136)
        file.write(struct.pack("<I", os.getppid()))
    assert next(entry.state for entry in mv.segments() if entry.name == name) == "dead"
    assert mv.cleanup(name) == [name]


def test_a_name_in_use_cannot_be_reclaimed(name):
    segment = make(name)
    with pytest.raises(errors.SegmentExists, match=f"in use by process {os.getpid()}"):
        make(name, reclaim=True)
    segments.close_segment(segment)


def test_taking_over_from_a_dead_owner(name, killed):
    segment = segments.attach_segment(name, writable=True)
    reader = segments.attach_segment(name)
    segments.take_over(segment, "test")
    assert (segment.owned, segment.epoch, segment.owner_pid, reader.owner_alive()) == (True, 1, os.getpid(), True)
    second = segments.attach_segment(name, writable=True)
    with pytest.raises(errors.SegmentExists, match="is alive"):
        segments.take_over(second, "test")
    with pytest.raises(errors.NotOwnerError, match="read-only"):
        reader.take_ownership() or segments.take_over(reader, "test")
    for handle in (second, reader):
        handle.close()
    segments.close_segment(segment)


def test_the_name_goes_when_its_process_exits(name):
    result = python(
        f"from mojoview.sharing.segment import _segment, segments\n"
        f"segments.commit_segment(segments.create_segment(_segment.ARRAY, 8, name={name!r}))\nimport os; "
        f"from mojoview.sharing.segment import naming; print(os.path.exists(naming.path_of({name!r})))"
    )
    assert (result.stdout.strip(), result.stderr) == ("True", "")
    assert not os.path.exists(naming.path_of(name))


def test_a_process_that_only_attached_keeps_the_name(name):
    segment = make(name)
    result = python(
        "from mojoview.sharing.segment import segments\n"
        f"print(segments.attach_segment({name!r}).facts['payload_bytes'])"
    )
    assert (result.stdout.strip(), result.stderr) == ("80", "")
    assert os.path.exists(naming.path_of(name))
    segments.close_segment(segment)


def test_a_forked_child_owns_nothing_of_its_parent(name):
    code = f"""
import os, signal, sys, time
from mojoview.sharing.segment import _segment, segments
s = segments.commit_segment(segments.create_segment(_segment.ARRAY, 80, name={name!r}, dtype='u1', shape=(80,)))
read, write = os.pipe()
started, ready = os.pipe()
if os.fork() == 0:
    os.close(write)
    assert not s.owned and s.owner_alive()
    os.write(ready, b"1")
    os.read(read, 1)                     # returns when the parent is gone
    while s.owner_alive(): time.sleep(0.001)
    print(bytes(s.view(4096, (3,), 'u1')), flush=True)
    os._exit(0)
os.read(started, 1)
os.kill(os.getpid(), signal.SIGKILL)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        out, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL, err
    assert out.strip() == r"b'\x00\x00\x00'", (out, err)
    assert mv.cleanup(name) == [name]


def test_unlink_is_explicit_and_leaves_mappings(name):
    segment = make(name)
    reader = segments.attach_segment(name)
    mv.unlink(name)
    with pytest.raises(errors.SegmentNotFound):
        mv.unlink(name)
    assert reader.owner_alive()
    replacement = make(name)
    segments.close_segment(segment)  # its name now leads to another segment, which stays
    segments.attach_segment(name).close()
    reader.close()
    segments.close_segment(replacement)


# -- room --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("named", [True, False])
def test_more_than_there_is_room_for(name, named):
    before = sorted(os.listdir(naming.directory()))
    with pytest.raises(errors.ShmFullError, match="are free") as info:
        make(name if named else None, nbytes=2**40)
    assert (info.value.errno, info.value.needed >= 2**40, info.value.free < 2**40) == (28, True, True)
    assert sorted(os.listdir(naming.directory())) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a file system")
def test_a_full_file_system_is_an_error_and_not_a_bus_error(tmp_path, monkeypatch):
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)], capture_output=True
    ).returncode:
        pytest.skip("this machine does not let tests mount a tmpfs")
    monkeypatch.setenv("MOJOVIEW_SHM_DIR", str(tmp_path))
    try:
        with pytest.raises(errors.ShmFullError):
            make("big", nbytes=8 << 20)
        monkeypatch.setattr(
            "mojoview.sharing.segment.capacity.free_bytes", lambda directory: 2**62
        )  # the check passes, the system refuses
        with pytest.raises(errors.ShmFullError):
            make("big", nbytes=8 << 20)
        assert os.listdir(tmp_path) == []
        segment = make("small", nbytes=1 << 16)
        segments.close_segment(segment)
        monkeypatch.undo()
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


# -- handing over ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("named", [True, False])
def test_pickling_is_by_identity(name, named):
    segment = make(name if named else None)
    segment.view(HEADER, (80,), "u1", writable=True)[:] = 5
    other = pickle.loads(pickle.dumps(segment))
    assert (other.uuid, other.name, other.owned) == (segment.uuid, segment.name, False)
    segment.view(HEADER, (80,), "u1", writable=True)[3] = 6
    assert np.asarray(other.view(HEADER, (5,), "u1")).tolist() == [5, 5, 5, 6, 5]
    other.close()
    segments.close_segment(segment)


def test_a_pickle_of_a_recreated_name_is_refused(name):
    segment = make(name)
    stored = pickle.dumps(segment)
    segments.close_segment(segment)
    with pytest.raises(errors.SegmentLost, match="removed the name"):
        pickle.loads(stored)
    segment = make(name)
    with pytest.raises(errors.SegmentLost, match="another one has its name"):
        pickle.loads(stored)
    segments.close_segment(segment)


@pytest.mark.parametrize("named", [True, False])
def test_unix_sockets_carry_segments(name, named):
    segment = make(name if named else None)
    here, there = socket.socketpair()
    with here, there:
        transfer.send_segment(here, segment)
        other = transfer.receive_segment(there)
        assert (other.uuid, other.path, other.anonymous) == (segment.uuid, segment.path, not named)
        other.close()
        with open(__file__, "rb") as foreign:
            socket.send_fds(here, [bytes(16)], [foreign.fileno()])
        with pytest.raises(errors.NotAMojoviewSegment):
            transfer.receive_segment(there)
        here.close()
        with pytest.raises(errors.SegmentLost):
            transfer.receive_segment(there)
    segments.close_segment(segment)


# -- dtypes as text ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype",
    [
        "f8",
        ">i2",
        "?",
        "M8[ns]",
        "m8[15m]",
        "S7",
        "U3",
        "V5",
        "c16",
        [("a", "i1"), ("b", "f8", (2, 3))],
        np.dtype([("a", "i1"), ("b", "f8")], align=True),
        [("o", [("i", ">f4")])],
        ("f8", (4,)),
    ],
    ids=str,
)
def test_dtypes_survive_as_text(dtype):
    dtype = np.dtype(dtype)
    assert schema.dtype_from_text(schema.dtype_to_text(dtype)) == dtype


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"'f8",
        b"__import__('os')",
        b"[" * 3000,
        b"'O'",
        b"\xff",
        b"[('a', 'f8'), ('a', 'f8')]",
        b"()",
        b"'f99'",
        b"1",
    ],
)
def test_hostile_dtype_text_is_refused(text):
    with pytest.raises(errors.CorruptHeader):
        schema.dtype_from_text(text)


@pytest.mark.parametrize("dtype", ["O", [("a", "O")]])
def test_references_cannot_be_shared(dtype):
    with pytest.raises(errors.DTypeError):
        segments.create_segment(_segment.ARRAY, 8, dtype=dtype)
