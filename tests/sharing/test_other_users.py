"""Files of other users, and files that are damaged or truncated: errors of the tree, never a signal."""

import os
import subprocess
import sys

import numpy as np
import pytest

import mojoview as mv
from mojoview.memory import errors
from mojoview.sharing.segment import naming

OTHER = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")


@pytest.fixture
def recording(tmp_path):
    """A recording of 100 frames that belongs to another user."""
    path = str(tmp_path / "flight.ring")
    with mv.Ring.create(path, 1 << 16, "recorder", crc=True) as ring:
        for k in range(100):
            ring.write(b"%03d" % k * 10)
    if os.geteuid() == 0:
        os.chown(path, OTHER, OTHER)
    return path


@needs_root
def test_a_recording_of_another_user_is_refused(recording):
    with pytest.raises(errors.SegmentAccessError, match=f"owner={OTHER}"):
        mv.Ring.attach(recording)
    with pytest.raises(errors.SegmentAccessError):
        mv.Ring.attach(recording, owner=1234)
    with pytest.raises(errors.ArgumentError, match="only a recorder's file"):
        mv.Ring.attach("name", owner=OTHER)


@needs_root
@pytest.mark.parametrize("size", [0, 4096, 8192, 40000])
def test_truncation_by_the_other_user_does_not_reach_the_reader(recording, size):
    with mv.Ring.attach(recording, owner=OTHER) as ring:
        os.truncate(recording, size)
        assert [bytes(frame)[:3] for frame in ring.read(1000, 0)] == [b"%03d" % k for k in range(100)]
        assert (ring.lost, ring.breaks) == (0, 0)
    with pytest.raises(errors.SegmentError) as caught:
        mv.Ring.attach(recording, owner=OTHER)
    assert isinstance(caught.value, errors.TruncatedError | errors.NotAMojoviewSegment)


@needs_root
def test_a_recording_of_another_user_is_read_while_it_is_written(tmp_path):
    path = str(tmp_path / "flight.ring")
    code = (
        "import os, sys, mojoview as mv\n"
        f"with mv.Ring.create({path!r}, 1 << 16, 'recorder', crc=True) as ring:\n"
        f"    os.chown({path!r}, {OTHER}, {OTHER})\n"
        "    print('ready', flush=True)\n"
        "    k = 0\n"
        "    while True:\n"
        "        ring.write(b'%08d' % k * 20)\n"
        "        k += 1\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as writer:
        try:
            writer.stdout.readline()
            for _ in range(30):
                with mv.Ring.attach(path, owner=OTHER, broken="skip") as ring:
                    assert all(bytes(frame) == bytes(frame)[:8] * 20 for frame in ring.read(1000, 0))
                    assert ring.breaks == 0
        finally:
            writer.kill()


@needs_root
def test_an_array_of_another_user_is_a_copy(name):
    shared = mv.share(np.arange(10_000.0), name)
    path = naming.path_of(name)
    os.chown(path, OTHER, OTHER)
    with pytest.raises(errors.SegmentAccessError, match=f"uid={OTHER}"):
        mv.attach(name)
    with mv.attach(name, uid=OTHER) as copy:
        os.truncate(path, 0)
        assert np.asarray(copy.read()).tolist() == list(range(10_000))
    os.chown(path, 0, 0)
    os.truncate(path, 1 << 20)  # its owner maps it
    shared.close()


def test_memory_that_a_peer_could_truncate_is_not_received():
    import socket

    from mojoview.sharing.segment import transfer

    shared = mv.share(np.arange(100.0))
    fd = os.memfd_create("mojoview-copy", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.fchmod(fd, 0o600)
    size = os.fstat(shared.segment.fileno()).st_size
    os.write(fd, os.pread(shared.segment.fileno(), size, 0))
    here, there = socket.socketpair()
    with here, there:
        socket.send_fds(here, [shared.segment.uuid], [fd])
        with pytest.raises(errors.NotAMojoviewSegment, match="not sealed"):
            transfer.receive_segment(there)
    os.close(fd)
    shared.close()


def left_behind(names):
    """Leave files of a dead process in the directory of names."""
    code = (
        "import os, numpy as np, mojoview as mv\n"
        f"s = [mv.share(np.zeros(9), name) for name in {names}]\n"
        "os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code])
    return [naming.path_of(name) for name in names]


def overwrite(at, data):
    def damage(path):
        with open(path, "r+b") as file:
            file.seek(at)
            file.write(data)

    return damage


DAMAGES = {
    "below its header": (lambda path: os.truncate(path, 100), True),
    "to its magic": (lambda path: os.truncate(path, 8), True),
    "empty": (lambda path: os.truncate(path, 0), False),
    "below its payload": (lambda path: os.truncate(path, 4096), True),
    "other magic": (overwrite(0, b"SOMETHING"), False),
    "unfinished": (overwrite(0, bytes(8)), False),
    "field": (overwrite(32, b"\xff" * 8), False),
    "version": (overwrite(8, b"\x09"), False),
    "everyone may write": (lambda path: os.chmod(path, 0o666), False),
    "a link": (lambda path: (os.unlink(path), os.symlink("/etc/passwd", path)), False),
    "a directory": (lambda path: (os.unlink(path), os.mkdir(path)), False),
    "a pipe": (lambda path: (os.unlink(path), os.mkfifo(path)), False),
}


def test_a_damaged_segment_does_not_end_a_search(name, capsys):
    from mojoview.cli.main import main

    names = [f"{name}-{k}" for k in range(len(DAMAGES))]
    paths = dict(zip(names, left_behind([*names, f"{name}-last"]), strict=False))
    for path, (damage, _) in zip(paths.values(), DAMAGES.values(), strict=True):
        damage(path)
    try:
        listed = {info.name for info in mv.segments()}
        assert paths.keys() | {f"{name}-last"} <= listed
        assert main(["shm", "list"]) == 0
        collected = {f"{name}-{k}" for k, (_, gone) in enumerate(DAMAGES.values()) if gone} | {f"{name}-last"}
        assert set(mv.cleanup()) == collected
        capsys.readouterr()
        assert main(["shm", "gc"]) == 0
        stay = {line.split()[-1] for line in capsys.readouterr().out.splitlines()}
        assert stay == paths.keys() - collected
    finally:
        for path in paths.values():
            if os.path.isdir(path) and not os.path.islink(path):
                os.rmdir(path)
            elif os.path.lexists(path):
                os.unlink(path)


def test_a_truncated_segment_whose_owner_lives_is_kept(name):
    shared = mv.share(np.zeros(3), name)
    path = naming.path_of(name)
    with open(path, "rb") as file:
        content = file.read()
    shared_copy = os.open(path, os.O_RDWR)
    os.truncate(path, 100)
    assert mv.cleanup() == []
    with pytest.raises(errors.SegmentError, match="is alive"):
        mv.cleanup(name)
    os.pwrite(shared_copy, content, 0)  # its owner maps it
    os.close(shared_copy)
    shared.close()
