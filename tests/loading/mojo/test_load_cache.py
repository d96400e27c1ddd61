"""The kernel cache: owner and permissions, damaged entries, full and read-only disks."""

import errno
import json
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mojoview as mv
from mojoview.loading import description
from mojoview.loading.elf import Elf, read_elf
from mojoview.loading.mojo import cache
from mojoview.loading.mojo.compilation import Build
from mojoview.loading.mojo.compiler import find_compiler
from mojoview.memory import _lease, errors


# ---- the cache directory
def test_where_the_cache_is(monkeypatch):
    monkeypatch.setenv("MOJOVIEW_CACHE_DIR", "/a/b")
    assert cache.cache_directory() == Path("/a/b/mojo")
    monkeypatch.delenv("MOJOVIEW_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/c")
    assert cache.cache_directory() == Path("/c/mojoview/mojo")
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    monkeypatch.setenv("HOME", "/home/me")
    assert cache.cache_directory() == Path("/home/me/.cache/mojoview/mojo")


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o702, 0o710])
def test_cache_that_others_may_use_is_refused(fake, mode):
    fake.cache.mkdir(parents=True)
    fake.cache.chmod(mode)
    with pytest.raises(errors.CacheError, match=f"open to other users: expected mode 700, got {mode:o}; chmod 700"):
        mv.load(fake.source)
    assert fake.lines == []


def test_cache_of_somebody_else_is_refused(fake, monkeypatch):
    mv.load(fake.source)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(errors.CacheError, match=r"belongs to .*MOJOVIEW_CACHE_DIR") as caught:
        mv.load(fake.source)
    assert isinstance(caught.value, OSError)


@pytest.mark.parametrize(("mode", "fine"), [(0o755, True), (0o1777, True), (0o777, False), (0o702, False)])
def test_directory_above_the_cache(fake, mode, fine):
    fake.cache.parent.mkdir()
    fake.cache.parent.chmod(mode)
    if fine:
        assert mv.load(fake.source).add(1, 2) == 3
    else:
        with pytest.raises(errors.CacheError, match="other users could replace"):
            mv.load(fake.source)


@pytest.mark.parametrize("make", [lambda p: p.symlink_to("/", target_is_directory=True), lambda p: p.write_text("")])
def test_cache_that_is_no_directory_is_refused(fake, make):
    fake.cache.parent.mkdir()
    make(fake.cache)
    with pytest.raises(errors.CacheError, match="is not a directory"):
        mv.load(fake.source)


def test_cache_that_cannot_be_made(fake, monkeypatch):
    monkeypatch.setenv("MOJOVIEW_CACHE_DIR", str(fake.source))  # a file
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match=r"cannot be written .*for this process only") as caught:
            module = mv.load(fake.source)
        assert caught[0].filename == __file__
        assert module.add(1, 2) == 3
        assert module.library is None
    assert len(fake.builds) == 2


@pytest.mark.parametrize("where", [(os, "open"), (tempfile, "TemporaryDirectory"), (shutil, "copyfile")])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT])
def test_full_or_read_only_disk(fake, monkeypatch, where, code):
    real, refused = getattr(*where), []

    def fails(*args, **keywords):
        if any(str(fake.cache) in str(a) for a in args):
            refused.append(args)
            raise OSError(code, os.strerror(code))
        return real(*args, **keywords)

    with monkeypatch.context() as patch:
        patch.setattr(*where, fails)
        with pytest.warns(RuntimeWarning, match=os.strerror(code)):
            module = mv.load(fake.source)
    assert refused
    assert module.add(1, 2) == 3
    assert fake.left_over() == []


def test_a_cache_that_can_only_be_read_serves(fake, monkeypatch):
    mv.load(fake.source)
    fake.cache.chmod(0o500)
    monkeypatch.setattr(cache.Cache, "lock", None)
    try:
        assert mv.load(fake.source).add(1, 2) == 3
    finally:
        fake.cache.chmod(0o700)


# ---- damaged entries
def edit(entry, change):
    """Changes the description, and seals it again as one who knows the format would."""
    path = entry / "kernels.json"
    body = json.loads(path.read_text())
    del body["seal"]
    change(body)
    path.write_text(json.dumps({**body, "seal": description.checksum(body)}))


def put(name, data):
    return lambda entry: (entry / name).write_bytes(data((entry / name).read_bytes()))


DAMAGE = {
    "library cut short": put("kernels.so", lambda b: b[: len(b) // 2]),
    "library empty": put("kernels.so", lambda b: b""),
    "library of one other byte": put("kernels.so", lambda b: b[:5000] + bytes([b[5000] ^ 1]) + b[5001:]),
    "no library": lambda entry: (entry / "kernels.so").unlink(),
    "no description": lambda entry: (entry / "kernels.json").unlink(),
    "a file for an entry": lambda entry: (shutil.rmtree(entry), entry.write_text("")),
    "another dtype": put("kernels.json", lambda b: b.replace(b"float64", b"float32", 1)),
    "cut description": put("kernels.json", lambda b: b[:-20]),
    "empty description": put("kernels.json", lambda b: b""),
    "no JSON": put("kernels.json", lambda b: b"\xff\xfe\0"),
    "deep JSON": put("kernels.json", lambda b: b"[" * 100_000),
    "a list": put("kernels.json", lambda b: b"[]"),
    "null": put("kernels.json", lambda b: b"null"),
    "no seal": put("kernels.json", lambda b: b"{}"),
    "sealed: another key": lambda e: edit(e, lambda b: b.update(key="0" * 40)),
    "sealed: unknown dtype": lambda e: edit(e, lambda b: b["kernels"][0]["params"][0].update(dtype="object")),
    "sealed: unknown role": lambda e: edit(e, lambda b: b["kernels"][0]["params"][0].update(role="in")),
    "sealed: unknown passing": lambda e: edit(e, lambda b: b["kernels"][0]["params"][0].update(passing="pointer")),
    "sealed: ndim": lambda e: edit(e, lambda b: b["kernels"][0]["params"][0].update(ndim="2")),
    "sealed: default": lambda e: edit(e, lambda b: b["kernels"][0]["params"][0].update(default=[1])),
    "sealed: more fields": lambda e: edit(e, lambda b: b["kernels"][0].update(more=1)),
    "sealed: result": lambda e: edit(e, lambda b: b["kernels"][0].update(result="pointer")),
    "sealed: shapes": lambda e: edit(e, lambda b: b["kernels"][0].update(shapes="equal")),
    "sealed: masks": lambda e: edit(e, lambda b: b["kernels"][0].update(masks=1)),
    "sealed: name": lambda e: edit(e, lambda b: b["kernels"][0].update(name=7)),
    "sealed: no such symbol": lambda e: edit(e, lambda b: b["kernels"][0].update(name="sub")),
    "sealed: kernels": lambda e: edit(e, lambda b: b.update(kernels=None)),
    "sealed: refused": lambda e: edit(e, lambda b: b.update(refused=[])),
}


def make_entry(fake):
    """An entry that no process has mapped: changes to mapped code cannot be prevented."""
    build, store = Build.of(fake.source, (), find_compiler()), cache.Cache.open(fake.cache)
    with store.work_directory("new") as work:
        return store.put(build.key(), work / "new.so", build.run(work / "new.so", None, 60)).parent


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_entry_is_built_again(fake, damage):
    DAMAGE[damage](make_entry(fake))
    for _ in range(2):
        assert mv.load(fake.source).add(1.5, 2) == 3.5
        assert len(fake.builds) == 2
    assert fake.left_over() == []


def test_entry_without_damage_is_taken(fake):
    make_entry(fake)
    mv.load(fake.source)
    assert len(fake.builds) == 1


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(data=st.data())
def test_no_description_upsets_the_reader(fake, data):
    path = (make_entry(fake) if not fake.lines else fake.entry) / "kernels.json"
    text = fake.__dict__.setdefault("original", path.read_bytes())
    at = data.draw(st.integers(0, len(text)))
    path.write_bytes(text[:at] + data.draw(st.binary(max_size=6)) + text[data.draw(st.integers(at, len(text))) :])
    found = cache.Cache(fake.cache).get(fake.entry.name)
    assert found is None or found[1].kernels["add"].result == "float64"


def test_shared_object_is_read_without_trust(tmp_path):
    whole = Path(_lease.__file__).read_bytes()
    good = read_elf(Path(_lease.__file__))
    assert "PyInit__lease" in good.exports
    assert {"PyObject_GetBuffer", "PyErr_SetString"} <= good.imports
    path, rng, outcomes = tmp_path / "x.so", np.random.default_rng(1), set()
    cuts = [whole[:n] for n in (0, 3, 16, 60, 64, 1000, len(whole) // 2, len(whole) - 1)]
    table = int.from_bytes(whole[40:48], "little")
    for k in range(300):  # the header and the section table, where every byte counts
        at = int(rng.integers(6, 64)) if k % 2 else table + int(rng.integers(0, 64 * 28))
        cuts.append(whole[:at] + rng.bytes(2) + whole[at + 2 :])
    for data in cuts:
        path.write_bytes(data)
        try:
            outcomes.add(type(read_elf(path)))
        except errors.KernelError:
            outcomes.add(errors.KernelError)
    assert outcomes == {Elf, errors.KernelError}
