"""The limit of the cache: order of removal, entries that are kept, processes that load at the same time."""

import fcntl
import os
import shutil
import subprocess
import sys

import pytest

import mojoview as mv
from mojoview.loading.mojo import cache
from mojoview.memory.errors import ArgumentError, CacheError

LOAD = "import sys, mojoview as mv; sys.exit(mv.load(sys.argv[1]).add(1.5, 2.0) != 3.5)"
KEYS = [f"{k}" * 40 for k in range(5)]


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("", 1 << 30),
        ("0", 0),
        ("1000", 1000),
        ("3k", 3072),
        ("2M", 2 << 20),
        ("2 GiB", 2 << 30),
        ("1GB", 1 << 30),
        (" 5M ", 5 << 20),
    ],
)
def test_what_the_variable_means(monkeypatch, text, size):
    monkeypatch.setenv("MOJOVIEW_CACHE_LIMIT", text)
    assert cache.cache_limit() == size


@pytest.mark.parametrize("text", ["much", "-1", "1.5G", "1T", "1e6", "9" * 16, "١"])
def test_a_variable_that_means_nothing_is_refused(fake, monkeypatch, text):
    monkeypatch.setenv("MOJOVIEW_CACHE_LIMIT", text)
    with pytest.raises(ArgumentError, match="MOJOVIEW_CACHE_LIMIT: expected a number of bytes such as 300M or 2G, got"):
        mv.load(fake.source)
    assert fake.lines == []


@pytest.fixture
def store(tmp_path):
    """A cache with five entries of 1000 bytes, the first of which was used the longest ago."""
    store = cache.Cache.open(tmp_path / "cache")
    for k, key in enumerate(KEYS):
        (store.root / key).mkdir()
        (store.root / key / "kernels.so").write_bytes(bytes(900))
        (store.root / key / "kernels.json").write_bytes(bytes(100))
        os.utime(store.root / key, (1000 + k, 1000 + k))
    return store


def left(store):
    return [entry.key for entry in store.entries()]


def test_least_recently_used_goes_first(store):
    assert [(e.key, e.bytes, e.used) for e in store.entries()] == [(key, 1000, 1000 + k) for k, key in enumerate(KEYS)]
    assert store.prune(5000) == []
    os.utime(store.root / KEYS[0])  # as a load does
    assert [e.key for e in store.prune(2999)] == KEYS[1:4]
    assert left(store) == [KEYS[4], KEYS[0]]
    assert store.leftovers() == []
    assert len(store.prune(0, keep=KEYS[4])) == 1
    assert left(store) == [KEYS[4]]


def test_what_lies_beside_counts_and_goes_too(store):
    stamps, sources = (cache.Cache.open(store.root.with_name(name)) for name in (cache.IMPORTS, cache.SOURCES))
    (stamps.root / "stamp").write_bytes(bytes(50))
    for name in ("old", "fresh"):
        (sources.root / name).mkdir()
        (sources.root / name / "cell.mojo").write_bytes(bytes(100))
    os.utime(stamps.root / "stamp", (500, 500))
    os.utime(sources.root / "old", (1000.5, 1000.5))
    assert [place.root for place in store.siblings()] == [stamps.root, sources.root]
    assert store.prune(5250) == []
    assert [e.key for e in store.prune(5249)] == ["stamp"]
    assert [e.key for e in store.prune(4000)] == [KEYS[0], "old", KEYS[1]]
    store.prune(0)
    assert left(store) == []
    assert [e.key for e in sources.entries()] == ["fresh"]  # it may be waiting for its compiler
    assert stamps.leftovers() == sources.leftovers() == []


def test_an_entry_that_is_being_made_stays(store):
    with store.lock(KEYS[0], 1):
        assert [e.key for e in store.prune(3000)] == KEYS[1:3]
        assert not store.remove(KEYS[0])
    assert KEYS[0] in left(store)
    assert not store.remove("f" * 40)  # there is none
    assert store.leftovers() == []


def test_an_entry_that_a_process_has_loaded_stays(fake, monkeypatch):
    first, second = (fake.write(name, "fake.mojo", fake.text + f"# {name}\n") for name in ("one", "two"))
    code = "import sys, mojoview as mv; m = mv.load(sys.argv[1]); print(m.library, flush=True); input()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, first], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    library = process.stdout.readline().strip()
    monkeypatch.setenv("MOJOVIEW_CACHE_LIMIT", "1")
    module = mv.load(second)
    assert os.path.exists(library)
    process.communicate("\n", timeout=60)
    other = mv.load(fake.write("three", "fake.mojo", fake.text + "# three\n"))
    assert not os.path.exists(library)
    assert set(fake.cache.iterdir()) == {module.library.parent, other.library.parent}  # this process has loaded them


def test_loading_counts_as_use(fake):
    entry = mv.load(fake.source).library.parent
    os.utime(entry, (1000, 1000))
    mv.load(fake.source)
    assert entry.stat().st_mtime > 1000
    os.utime(entry, (1000, 1000))
    assert cache.Cache(fake.cache).peek(entry.name).kernels.keys() == {"add"}
    assert entry.stat().st_mtime == 1000


def test_code_that_is_loaded_outlives_its_entry(fake):
    module = mv.load(fake.source)
    assert cache.Cache(fake.cache).remove(module.library.parent.name)
    assert not module.library.exists()
    assert module.add(1, 2) == 3
    assert mv.load(fake.source).add(1, 2) == 3  # built again
    assert len(fake.builds) == 2


def test_processes_that_load_while_entries_go(fake, monkeypatch):
    """Processes load two files repeatedly with a cache limit of zero: all get their kernels."""
    files = [fake.write(f"s{k}", "fake.mojo", fake.text + f"# {k}\n") for k in range(2)]
    code = """
import ctypes, sys, mojoview as mv
for turn in range(2):
    for file in sys.argv[1:]:
        assert mv.load(file).add(turn, 2.0) == turn + 2
"""
    monkeypatch.setenv("MOJOVIEW_CACHE_LIMIT", "0")
    processes = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", code, *files[k:], *files[:k]], stderr=subprocess.PIPE, text=True
        )
        for k in range(2)
    ]
    try:
        while any(process.poll() is None for process in processes):
            store = cache.Cache(fake.cache)
            for path in fake.cache.glob("[0-9a-f]" * 40) if fake.cache.exists() else ():
                store.remove(path.name)  # as prune(), but without sparing loaded entries
    finally:
        said = [(process.communicate(timeout=60)[1], process.returncode) for process in processes]
    assert said == [("", 0)] * 2
    assert fake.left_over() == []
    assert len(fake.builds) > 2


def test_files_of_killed_processes_are_removed(store):
    (store.root / f"{KEYS[0]}.abc.tmp").mkdir()
    (store.root / f"{KEYS[0]}.abc.tmp" / "half").write_text("")
    (store.root / f"{KEYS[1]}.lock").write_text("")
    with open(store.root / f"{KEYS[2]}.lock", "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        (store.root / f"{KEYS[2]}.xyz.tmp").mkdir()
        store.sweep()
        assert [p.name for p in store.leftovers()] == [f"{KEYS[2]}.lock", f"{KEYS[2]}.xyz.tmp"]
    store.sweep()
    assert store.leftovers() == []
    assert left(store) == KEYS


def test_files_that_this_process_has_loaded_are_seen(fake):
    library = mv.load(fake.source).library
    assert str(library) in cache.loaded_files()


# ---- a disk that is really full, or really read-only
MOUNTED = """
import os, sys, warnings, mojoview as mv
source, *places = sys.argv[1:]
for place in places:
    os.environ["MOJOVIEW_CACHE_DIR"] = place + "/cache"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert mv.load(source).add(1.5, 2.0) == 3.5, place
    assert [w.category for w in caught] == [RuntimeWarning], (place, caught)
    files = [file for _, _, files in os.walk(place + "/cache") for file in files]
    print(os.path.basename(place), files, caught[0].message, sep=": ", flush=True)
"""
PREPARE = {
    "full": "mount -t tmpfs -o size=16k,mode=755 tmpfs {0} && head -c 12000 /dev/zero > {0}/filler",
    "no inodes": "mount -t tmpfs -o nr_inodes=5,mode=755 tmpfs {0}",
    "read-only": "mount -t tmpfs -o mode=755 tmpfs {0} && mkdir -p -m 700 {0}/cache/mojo && mount -o remount,ro {0}",
    "read-only, empty": "mount -t tmpfs -o ro,mode=755 tmpfs {0}",
}


def mounts():
    """Return whether this user can mount file systems in a new namespace."""
    if shutil.which("unshare") is None:
        return False
    tried = subprocess.run(
        ["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, check=False, timeout=60
    )
    return tried.returncode == 0


@pytest.mark.skipif(not mounts(), reason="file systems cannot be mounted here (unshare -rm)")
def test_a_disk_that_is_full_or_read_only(fake, tmp_path):
    places = [tmp_path / kind.replace(" ", "-").replace(",", "") for kind in PREPARE]
    for place in places:
        place.mkdir()
    commands = [prepare.format(place) for place, prepare in zip(places, PREPARE.values(), strict=True)]
    done = subprocess.run(
        [
            *("unshare", "-rm", "sh", "-c", " && ".join([*commands, 'exec "$@"']), "sh"),
            *(sys.executable, "-c", MOUNTED, fake.source, *places),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == len(fake.builds) == len(PREPARE)
    for place, line in zip(places, lines, strict=True):
        reason = "Read-only file system" if "read-only" in place.name else "No space left on device"
        assert line.startswith(f"{place.name}: []: "), line
        assert f"cannot be written ({reason})" in line


@pytest.mark.skipif(not mounts(), reason="file systems cannot be mounted here (unshare -rm)")
def test_a_source_in_a_read_only_place_is_no_obstacle(fake, tmp_path):
    """As in the site-packages of a system: the cache is elsewhere, and nothing is written beside the source."""
    place = tmp_path / "site-packages"
    place.mkdir()
    shutil.copy(fake.source, place)
    command = f'mount --bind {place} {place} && mount -o remount,ro,bind {place} && exec "$@"'
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", command, "sh", sys.executable, "-W", "error", "-c", LOAD, place / "fake.mojo"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.stderr, done.returncode) == ("", 0)
    assert len(fake.builds) == 1
    assert mv.load(fake.source).add(1, 2) == 3
    assert len(fake.builds) == 1


def test_a_cache_of_an_unknown_user_is_rejected(monkeypatch):
    monkeypatch.setenv("MOJOVIEW_CACHE_DIR", "~no-such-user-here/cache")
    with pytest.raises(CacheError, match="MOJOVIEW_CACHE_DIR"):
        cache.cache_directory()
