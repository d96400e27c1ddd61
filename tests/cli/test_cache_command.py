"""`python -m mojoview cache list | info | clear`."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from mojoview.calls.signature import Param, Signature
from mojoview.cli.main import main
from mojoview.loading.exports import Exports
from mojoview.loading.mojo.cache import IMPORTS, SOURCES, Cache
from mojoview.memory import _lease, errors


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A cache with two entries, copies of an existing library."""
    monkeypatch.setenv("MOJOVIEW_CACHE_DIR", str(tmp_path))
    store = Cache.open(tmp_path / "mojo")
    x = Param("x", "value", "float64", None, "value")
    for k, key in enumerate(("aa11" * 10, "bb22" * 10)):
        signature = Signature("PyInit__lease", (x,), "float64", text="f(x)", shapes="free")
        exports = Exports({"PyInit__lease": signature}, {"g": "why"})
        library = tmp_path / "lib.so"
        shutil.copy(_lease.__file__, library)
        store.put(key, library, exports)
        os.utime(store.root / key, (1000 + k, 1000 + k))
    return store


def run(capsys, *argv, status=0):
    assert main(["cache", *argv]) == status
    return capsys.readouterr().out


def test_list(kept, capsys):
    size = sum(f.stat().st_size for f in kept.root.glob("*/*"))
    found = json.loads(run(capsys, "list", "--json"))
    assert [e["key"] for e in found["entries"]] == ["bb22" * 10, "aa11" * 10]
    assert found["total_bytes"] == size
    assert found["entries"][0]["kernels"] == ["PyInit__lease"]
    (kept.root / ("aa11" * 10) / "kernels.json").write_text("{")
    lines = run(capsys, "list").splitlines()
    assert lines[0].split() == ["key", "bytes", "used", "kernels"]
    assert "damaged: will be built again" in lines[2]
    assert lines[-1].startswith("2 entries, ")


def test_info(kept, capsys, monkeypatch):
    monkeypatch.setenv("MOJOVIEW_CACHE_LIMIT", "5M")
    found = json.loads(run(capsys, "info", "--json"))
    assert (found["directory"], found["entries"], found["limit"]) == (str(kept.root), 2, 5 << 20)
    assert found["in_progress_or_left_behind"] == 0
    one = json.loads(run(capsys, "info", "aa", "--json"))
    assert (one["signatures"], one["refused"], one["loaded"]) == (["f(x)"], {"g": "why"}, False)
    assert "g: why" in run(capsys, "info", "bb")
    for key, count in (("cc", "no"), ("", "no")):
        assert main(["cache", "info", key]) == 1
        assert f"{count} keys of entries begin with {key!r}" in capsys.readouterr().err


def test_clear(kept, capsys):
    found = json.loads(run(capsys, "clear", "aa", "--json"))
    assert (found["removed"], found["kept"]) == (["aa11" * 10], [])
    assert [e.key for e in kept.entries()] == ["bb22" * 10]
    assert main(["cache", "clear", ""]) == 1
    capsys.readouterr()
    (kept.root / "dd.x.tmp").mkdir()
    with kept.lock("bb22" * 10, 1):
        assert "removed 0 entries, 0 bytes" in (said := run(capsys, "clear"))
        assert "1 are being compiled and were kept" in said
    assert run(capsys, "clear").startswith("removed 1 entries")
    assert list(kept.root.iterdir()) == []
    assert "no compiled kernels in" in run(capsys, "list")


def test_stamps_and_source_texts(kept, capsys):
    stamps, sources = (Cache.open(kept.root.with_name(name)).root for name in (IMPORTS, SOURCES))
    (stamps / "one").write_bytes(bytes(10))
    (stamps / "one.5.tmp").mkdir()  # of a process that was killed
    (sources / "text").mkdir()
    (sources / "text" / "cell.mojo").write_bytes(bytes(20))
    beside = {"imports": {"number": 1, "bytes": 10}, "sources": {"number": 1, "bytes": 20}}
    listing, found = (json.loads(run(capsys, action, "--json")) for action in ("list", "info"))
    assert listing["beside"] == found["beside"] == beside
    assert found["bytes"] == listing["total_bytes"] + 30
    assert "beside it 1 imports (10 bytes), 1 sources (20 bytes)" in run(capsys, "list")
    run(capsys, "clear", "aa")
    with kept.lock("dd22" * 10, 1):  # another process compiles, possibly one of these texts
        assert "and 1 files beside it" in run(capsys, "clear")
    assert list(stamps.iterdir()) == []
    assert [path.name for path in sources.iterdir()] == ["text"]
    assert json.loads(run(capsys, "clear", "--json"))["removed_beside"] == 1
    assert list(sources.iterdir()) == []


def test_a_cache_that_is_not_there_is_not_made(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MOJOVIEW_CACHE_DIR", str(tmp_path / "none"))
    for action in ("list", "info", "clear"):
        assert json.loads(run(capsys, action, "--json"))["ok"] is True
    assert not (tmp_path / "none").exists()


def test_a_cache_of_others_and_a_wrong_limit_are_errors(kept, monkeypatch, capsys):
    kept.root.chmod(0o755)
    assert main(["cache", "clear"]) == 1
    assert "chmod 700" in capsys.readouterr().err
    kept.root.chmod(0o700)
    monkeypatch.setenv("MOJOVIEW_CACHE_LIMIT", "lots")
    assert main(["cache", "info"]) == 1
    assert "MOJOVIEW_CACHE_LIMIT" in capsys.readouterr().err
    assert issubclass(errors.CacheError, errors.MojoViewError)


SPOILT = {
    "a file": lambda place: place.write_text("in the way"),
    "a circle": lambda place: place.symlink_to(place),
    "a file inside": lambda place: place.mkdir() or (place / "mojo").write_text("in the way"),
    "a circle inside": lambda place: place.mkdir(0o700) or (place / "mojo").symlink_to("mojo"),
    "not text": lambda place: (
        (place / "mojo").mkdir(0o700, True) or (place / "mojo" / os.fsdecode(b"\xff\n\x1b")).touch()
    ),
    "an entry in a circle": lambda place: (place / "mojo").mkdir(0o700, True) or (place / "mojo" / "k").symlink_to("k"),
}
EVERY_COMMAND = """
import contextlib, io, os, sys, traceback
from mojoview.cli.main import main
for place in sys.argv[1:]:
    for action in ("list", "info", "clear"):
        os.environ["MOJOVIEW_CACHE_DIR"] = f"{place}/{action}"
        with contextlib.redirect_stderr(io.StringIO()) as said:
            status = main(["cache", action])
        assert status in (0, 1) and "Traceback" not in said.getvalue(), (place, action, status, said.getvalue())
print("done")
"""


def test_a_damaged_cache_is_an_error_without_traceback(tmp_path):
    for name, spoil in SPOILT.items():
        for action in ("list", "info", "clear"):
            (tmp_path / name).mkdir(exist_ok=True)
            spoil(tmp_path / name / action)
    done = subprocess.run(
        [sys.executable, "-c", EVERY_COMMAND, *(str(tmp_path / name) for name in SPOILT)],
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.endswith(b"done\n")


def test_a_closed_pipe_is_an_error_without_traceback(tmp_path):
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb") as pipe:
        done = subprocess.run(
            [sys.executable, "-m", "mojoview", "cache", "info"],
            stdout=pipe,
            stderr=subprocess.PIPE,
            timeout=120,
            check=False,
            env=os.environ | {"MOJOVIEW_CACHE_DIR": str(tmp_path / "none")},
        )
    assert (done.returncode, done.stderr) == (1, b"")


def test_caches_cleared_at_once(kept):
    """Several programs that list and clear one cache at the same time."""
    programs = [
        subprocess.Popen(
            [sys.executable, "-m", "mojoview", "cache", action], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        for action in ("clear", "list", "clear", "info")
    ]
    for program in programs:
        _, said = program.communicate(timeout=120)
        assert (program.returncode, said) == (0, b"")
