"""`python -m mojoview ring`: each action on a real ring, through the entry point of the command line."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pandas as pd
import pytest

from mojoview import Ring
from mojoview.cli.main import main
from mojoview.memory import errors

RECORD = np.dtype([("t", "f8"), ("n", "i4")])

pytestmark = pytest.mark.usefixtures("nothing_left_behind")


@pytest.fixture
def recording(tmp_path):
    path = tmp_path / "flight.ring"
    with Ring.create(path, 1 << 20, "recorder", dtype=RECORD, crc=True) as ring:
        for k in range(100):
            ring.write(np.array([(k / 2, k)], RECORD), type=20)
    return path


def run(capsys, *arguments):
    status = main(["ring", *map(str, arguments), "--json"])
    return status, json.loads(capsys.readouterr().out)


def test_check(capsys, recording):
    status, found = run(capsys, "check", recording)
    assert status == 0
    assert (found["frames"], found["first"], found["last"], found["missing"], found["broken"]) == (100, 0, 99, 0, 0)
    content = bytearray(recording.read_bytes())
    content[16384 + 64 * 10 + 35] ^= 1
    recording.write_bytes(content)
    status, found = run(capsys, "check", recording)
    assert status == 1
    assert (found["frames"], found["broken"]) == (99, 1)
    assert "frame 10 at position 640 is damaged: payload checksum" in found["first_break"]


def test_export(capsys, recording, tmp_path):
    status, found = run(capsys, "export", recording, tmp_path / "out.csv")
    assert (status, found["rows"]) == (0, 100)
    back = pd.read_csv(tmp_path / "out.csv")
    assert back.columns.tolist() == ["seq", "timestamp_ns", "type", "t", "n"]
    assert back["t"].tolist() == [k / 2 for k in range(100)]
    assert back["type"].unique().tolist() == [20]
    assert main(["ring", "export", str(recording), str(tmp_path / "out.txt")]) == 1
    assert "expected a name that ends in" in capsys.readouterr().err


def test_export_to_parquet(capsys, recording, tmp_path):
    pytest.importorskip("pyarrow")
    run(capsys, "export", recording, tmp_path / "out.parquet")
    back = pd.read_parquet(tmp_path / "out.parquet")
    assert back["n"].tolist() == list(range(100))
    assert back["n"].dtype == "int32"


def test_tail(capsys, recording):
    assert main(["ring", "tail", str(recording), "--oldest", "-n", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[2].split()[0] == "2"
    assert "[(1.0, 2)]" in lines[2]


def test_top(capsys, name):
    with Ring.create(name) as ring:
        for _ in range(1000):
            ring.write(b"x")
        status, look = run(capsys, "top", name, "--count", 1, "--interval", 0.05)
        assert status == 0
        assert look["written"] == 1000
        assert len(ring.read(2000, 0)) == 1000  # nothing was consumed


def test_top_draws_a_table(capsys, name, monkeypatch):
    pytest.importorskip("rich")
    monkeypatch.setattr("mojoview.cli.ring._has_rich", lambda: True)
    with Ring.create(name) as ring:
        ring.write(b"x")
        assert main(["ring", "top", name, "--count", "1", "--interval", "0.01"]) == 0
    assert "frames per s" in capsys.readouterr().out


def test_replay(capsys, recording, name):
    got = []

    def listen():
        deadline = time.monotonic() + 20
        while True:
            try:
                ring = Ring.attach(name)
                break
            except errors.SegmentNotFound:
                assert time.monotonic() < deadline, "the replayed ring did not appear"
                time.sleep(0.001)
        with ring:
            got.extend((frame.type, bytes(frame)) for frame in ring)

    thread = threading.Thread(target=listen)
    thread.start()
    status, found = run(capsys, "replay", recording, name, "--speed", 0)
    thread.join(20)
    assert (status, found["frames"]) == (0, 100)
    assert got == [(20, np.array([(k / 2, k)], RECORD).tobytes()) for k in range(100)]


def test_record_continues_after_a_kill(name, tmp_path, capsys):
    """Frames overwritten while no recorder ran are a gap; frames still in the ring are not."""
    target = tmp_path / "flight.ring"
    with Ring.create(name, 1 << 16, "broadcast", crc=True) as ring:
        ring.write_many([b"before the recorder"] * 50)
        for turn in range(3):
            command = [sys.executable, "-m", "mojoview", "ring", "record", name, str(target)]
            process = subprocess.Popen(command, env={**os.environ}, stdout=subprocess.DEVNULL)
            assert ring.wait_for_reader(30)
            for k in range(200):
                ring.write(b"%d" % (turn * 200 + k))
            wait_for(target, turn * 200 + 200)
            process.send_signal(signal.SIGKILL)
            process.wait()
        for _ in range(5000):  # more than the ring keeps
            ring.write(b"lost")
        status, found = run(capsys, "record", name, target, "--seconds", 0.2)
    assert status == 0
    assert found["missed"] > 0
    status, found = run(capsys, "check", target)
    assert status == 0
    assert found["first"] == 50
    assert found["frames"] + found["missing"] == 5600
    assert found["missing"] > 3000


def wait_for(target, count):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if target.exists():
            with Ring.attach(target) as ring:
                if ring.stats()["written"] >= count:
                    return
        time.sleep(0.01)
    pytest.fail(f"the recording never reached {count} frames")


@pytest.mark.skipif(
    importlib.util.find_spec("matplotlib") is None, reason="matplotlib (the plot extra) is not installed"
)
def test_histogram(capsys, recording, tmp_path):
    status, found = run(capsys, "histogram", recording, tmp_path / "out.png")
    assert status == 0
    assert (tmp_path / "out.png").read_bytes()[:4] == b"\x89PNG"
    assert found["p50_us"] > 0


def test_an_unknown_name_is_a_short_error(capsys):
    assert main(["ring", "check", "nobody"]) == 1
    assert "segment 'nobody': not found" in capsys.readouterr().err


@pytest.mark.parametrize("seed", range(2))
def test_damaged_recordings_end_with_a_status(capsys, recording, tmp_path, name, seed, monkeypatch):
    """Random bytes anywhere in the file: every command ends with a status instead of a traceback."""
    monkeypatch.setattr(Ring, "wait_for_reader", lambda *_: False)
    content, rng = bytearray(recording.read_bytes()), np.random.default_rng(seed)
    for k in range(8):
        file = tmp_path / f"damaged-{k}"
        damaged = bytearray(content)
        reach = (4096, 16384, 4096 + 600, len(damaged))[k % 4]  # header, control words, frames
        for at in rng.integers(0 if k % 4 == 0 else 4096, reach, 30):
            damaged[int(at)] = int(rng.integers(256))
        if k == 7:
            damaged = damaged[: 4096 * int(rng.integers(5))]
        file.write_bytes(damaged)
        for action, *rest in (
            ("check",),
            ("tail", "--oldest", "-n", 3),
            ("export", tmp_path / "out.csv"),
            ("replay", name, "--speed", 0),
            ("top", "--count", 1, "--interval", 0.01),
            ("record", tmp_path / f"copy-{k}", "--seconds", 0.01),
        ):
            if action == "tail" and main(["ring", "check", str(file), "--json"]) != 0:
                continue  # it would wait for frames that never come
            assert main(["ring", action, str(file), *map(str, rest)]) in (0, 1)
    capsys.readouterr()
