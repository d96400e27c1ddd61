"""Compiled kernels on disk: one directory per content key, in a directory that only its owner can write to.

The key is `Build.key()` in `compilation`. An entry is a shared object and a JSON file that describes it. It appears
by one rename, its checksums are verified when it is read, and it is built again if they do not match. Import records
and source texts have such directories beside it, and the limit includes their size.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mojoview.loading.description import checksum, exports_from_json, exports_to_json
from mojoview.loading.elf import read_elf
from mojoview.loading.exports import Exports
from mojoview.memory.errors import ArgumentError, CacheError, CompileTimeoutError, KernelValueError, MojoViewError

__all__ = ["Cache", "Entry", "cache_directory", "cache_limit", "loaded_files"]

LIBRARY, DESCRIPTION = "kernels.so", "kernels.json"
IMPORTS, SOURCES = "imports", "sources"  # directories beside the entries
SOURCE_GRACE_S = 3600  # a source text may still be waiting for its compiler
DEFAULT_LIMIT = 1 << 30  # bytes; about ten thousand kernels
DAMAGE = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    RecursionError,
    MojoViewError,
)  # raised by damaged files
MIN_FREE_BYTES, MIN_FREE_FILES = 32 << 20, 64  # of a disk to compile on
UNITS = {"": 1, "k": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def cache_directory() -> Path:
    """Return the kernel cache: under MOJOVIEW_CACHE_DIR, else in `mojoview` under XDG_CACHE_HOME or ~/.cache.

    Returns
    -------
    Path
        It may not exist yet.

    Notes
    -----
    Thread safety: may be called from any thread.
    """
    if named := os.environ.get("MOJOVIEW_CACHE_DIR"):
        path = os.path.expanduser(named)
        if path.startswith("~"):
            raise CacheError(f"MOJOVIEW_CACHE_DIR={named!r}: there is no such home directory")
        return Path(os.path.join("" if os.path.isabs(path) else os.getcwd(), path, "mojo"))
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "mojoview" / "mojo"


def cache_limit() -> int:
    """Return the limit of the cache in bytes: MOJOVIEW_CACHE_LIMIT (`300M`, `2G`, `1000`), else 1 GiB.

    Returns
    -------
    int

    Raises
    ------
    ArgumentError
        The variable is not a number of bytes.

    Notes
    -----
    Thread safety: may be called from any thread.
    """
    text = os.environ.get("MOJOVIEW_CACHE_LIMIT", "")
    if not text:
        return DEFAULT_LIMIT
    if match := re.fullmatch(r"([0-9]{1,15})\s*([kMG]?)(?:i?B)?", text.strip()):
        return int(match[1]) * UNITS[match[2]]
    raise ArgumentError(
        "load(): the environment variable MOJOVIEW_CACHE_LIMIT: expected a number of bytes such as 300M"
        f" or 2G, got {text!r}"
    )


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of the cache.

    Attributes
    ----------
    key : str
    bytes : int
    used : float
        Time of the last load, or of its creation, in seconds since 1970.
    """

    key: str
    bytes: int
    used: float


@dataclass(frozen=True, slots=True)
class Cache:
    """A directory of compiled kernels, by key; `open` creates and checks it."""

    root: Path

    @classmethod
    def open(cls, root: Path) -> Cache:
        """Create the directory if needed, and check that only its owner can access it.

        Raises
        ------
        CacheError
            It is not a directory, or other users can access it: its code must not be executed.
        ArgumentError
            MOJOVIEW_CACHE_LIMIT is not a number of bytes.
        OSError
            It cannot be created.
        """
        cache_limit()
        try:
            info = root.lstat()
        except (FileNotFoundError, NotADirectoryError):
            root.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with suppress(FileExistsError):
                root.mkdir(mode=0o700)
            info = root.lstat()
        above = root.parent.stat()
        replaceable = above.st_mode & stat.S_IWOTH and not above.st_mode & stat.S_ISVTX
        if above.st_uid not in (os.geteuid(), 0) or replaceable:
            raise CacheError(
                f"load(): other users could replace the kernel cache {root}: {root.parent} belongs to one"
                " of them or is open to all; set MOJOVIEW_CACHE_DIR to a directory of your own"
            )
        if not stat.S_ISDIR(info.st_mode):
            raise CacheError(
                f"load(): the kernel cache {root} is not a directory; remove it, or set MOJOVIEW_CACHE_DIR"
            )
        if info.st_uid != os.geteuid():
            raise CacheError(
                f"load(): the kernel cache {root} belongs to user {info.st_uid}, not to {os.geteuid()};"
                " set MOJOVIEW_CACHE_DIR to a directory of your own"
            )
        if info.st_mode & 0o077:
            raise CacheError(
                f"load(): the kernel cache {root} is open to other users: expected mode 700,"
                f" got {stat.S_IMODE(info.st_mode):o}; chmod 700 {root}"
            )
        return cls(root)

    def get(self, key: str) -> tuple[Path, Exports] | None:
        """Return library and kernels of an entry; None if it is missing or damaged."""
        entry = self.root / key
        try:
            found = entry / LIBRARY, _verified(entry, key)
            with suppress(OSError):  # a read-only cache is never pruned
                os.utime(entry)
            return found
        except DAMAGE:
            return None

    def peek(self, key: str) -> Exports | None:
        """Return the kernels of an entry without marking it as used; None if it is missing or damaged."""
        try:
            return _verified(self.root / key, key)
        except DAMAGE:
            return None

    def put(self, key: str, library: Path, exports: Exports) -> Path:
        """Store a library as an entry, replacing a damaged one; return the path of the library in the cache."""
        entry = self.root / key
        with self.work_directory(key) as work:
            fresh = work / "entry"
            fresh.mkdir()
            shutil.copyfile(library, fresh / LIBRARY)
            (fresh / DESCRIPTION).write_text(json.dumps(_describe(key, library, exports)), encoding="utf-8")
            with suppress(FileNotFoundError):
                os.rename(entry, work / "old")  # processes keep the old library mapped
            try:
                os.rename(fresh, entry)
            except OSError as error:
                if error.errno not in (
                    errno.EEXIST,
                    errno.ENOTEMPTY,
                ):  # otherwise stored by another process without locks
                    raise
        with suppress(OSError):  # the entry is stored; the next one prunes again
            self.prune(cache_limit(), keep=key)
        return entry / LIBRARY

    def entries(self) -> list[Entry]:
        """Return all entries, the least recently used first."""
        found = []
        for path in self.root.iterdir():
            if "." not in path.name:  # not a lock or a work directory
                with suppress(OSError):  # just removed
                    found.append(Entry(path.name, _size(path), path.stat().st_mtime))
        return sorted(found, key=lambda entry: (entry.used, entry.key))

    def prune(self, limit: int, *, keep: str | None = None) -> list[Entry]:
        """Remove the least recently used entries until the rest take at most `limit` bytes.

        Import records and source texts are treated as entries. Not removed are libraries that a running process of this
        user has loaded, `keep`, source texts of the last hour and entries that are locked; so the rest may exceed the
        limit.

        Returns
        -------
        list of Entry
            The removed entries.
        """
        entries = [(store, entry) for store in (self, *self.siblings()) for entry in store.entries()]
        excess, removed = sum(entry.bytes for _, entry in entries) - limit, list[Entry]()
        loaded = loaded_files() if excess > 0 else set[str]()
        for store, entry in sorted(entries, key=lambda each: (each[1].used, each[1].key)):
            if excess <= 0:
                break
            if store is self:
                stays = entry.key == keep or str(self.root / entry.key / LIBRARY) in loaded
            else:
                stays = store.root.name == SOURCES and entry.used > time.time() - SOURCE_GRACE_S
            if not stays and store.remove(entry.key):
                removed.append(entry)
                excess -= entry.bytes
        return removed

    def siblings(self) -> list[Cache]:
        """Return the directories of import records and source texts, if they exist, checked as this one."""
        return [Cache.open(place) for place in map(self.root.with_name, (IMPORTS, SOURCES)) if place.is_dir()]

    def remove(self, key: str) -> bool:
        """Remove an entry atomically; return False if it is locked or missing.

        Processes that have loaded it keep its code; others find it complete or not at all, and build it again.
        """
        try:
            with self.lock(key, 0), self.work_directory(key) as work:
                os.rename(self.root / key, work / "old")
        except (CompileTimeoutError, FileNotFoundError):
            return False
        return True

    def leftovers(self) -> list[Path]:
        """Return locks and work directories.

        Those of killed processes are removed when their key is compiled again, or by `sweep`.
        """
        return sorted(path for path in self.root.iterdir() if path.suffix in (".lock", ".tmp"))

    def sweep(self) -> None:
        """Remove locks and work directories of killed processes."""
        for key in {path.name.partition(".")[0] for path in self.leftovers()}:
            with suppress(CompileTimeoutError), self.lock(key, 0):  # acquiring the lock removes them
                continue

    @contextmanager
    def work_directory(self, key: str) -> Iterator[Path]:
        """Make a private directory on the file system of the cache; remove it afterwards."""
        with tempfile.TemporaryDirectory(".tmp", f"{key}.", self.root, ignore_cleanup_errors=True) as work:
            yield Path(work)

    @contextmanager
    def scratch(self, key: str) -> Iterator[Path]:
        """Make a private directory to compile in; remove it afterwards.

        It is in the cache, where the next compilation removes the directory of a killed process; if that disk is full,
        it is a temporary directory of the system.
        """
        disk = os.statvfs(self.root)
        full = disk.f_bavail * disk.f_frsize < MIN_FREE_BYTES or (disk.f_files and disk.f_favail < MIN_FREE_FILES)
        with tempfile.TemporaryDirectory(prefix="mojoview-") if full else self.work_directory(key) as work:
            yield Path(work)

    @contextmanager
    def lock(self, key: str, timeout: float) -> Iterator[None]:
        """Hold the lock of an entry; the system releases the lock of a process that dies.

        On a file system without locks several processes may build at once; the rename keeps the entry complete.

        Raises
        ------
        CompileTimeoutError
            Another process held the lock for `timeout` seconds.
        """
        path = self.root / f"{key}.lock"
        descriptor, locked = _acquire(path, timeout)
        try:
            if locked:
                for left in self.root.glob(f"{key}.*.tmp"):  # of a killed process
                    shutil.rmtree(left, ignore_errors=True)
            yield
        finally:
            path.unlink(missing_ok=True)
            if locked:
                fcntl.flock(descriptor, fcntl.LOCK_UN)  # a forked child shares the descriptor
            os.close(descriptor)


def _size(path: Path) -> int:
    if not path.is_dir():
        return path.lstat().st_size
    return sum(file.lstat().st_size for file in path.iterdir())


def loaded_files() -> set[str]:
    """Return the files that processes of this user have mapped, as far as this process may read that."""
    found = set[str]()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError), open(process / "maps", encoding="utf-8", errors="surrogateescape") as file:
            found.update(line.rstrip("\n").split(maxsplit=5)[5] for line in file if " /" in line)
    return found


def _acquire(path: Path, timeout: float) -> tuple[int, bool]:
    """Open and lock a lock file; return its descriptor, and whether the file system has locks."""
    deadline = time.monotonic() + timeout
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            while (locked := _try_lock(descriptor)) is False:
                if time.monotonic() > deadline:
                    raise CompileTimeoutError(
                        "load(): another process compiles the same file and has not finished"
                        f" within {timeout:g} s (it holds {path})"
                    )
                time.sleep(0.05)
            if not locked or _is_file_of(path, descriptor):
                return descriptor, bool(locked)
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # its last holder has removed the file


def _try_lock(descriptor: int) -> bool | None:
    """Acquire the lock if it is free; None if the file system has no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _is_file_of(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _describe(key: str, library: Path, exports: Exports) -> dict[str, Any]:
    body = {**exports_to_json(exports), "key": key, "library": _digest(library.read_bytes())}
    return {**body, "seal": checksum(body)}


def _verified(entry: Path, key: str) -> Exports:
    body = json.loads((entry / DESCRIPTION).read_bytes())
    if body.pop("seal") != checksum(body) or body["key"] != key:
        raise KernelValueError("the checksum of the description is wrong")
    if _digest((entry / LIBRARY).read_bytes()) != body["library"]:
        raise KernelValueError("the description belongs to another library")
    exports = exports_from_json(body)
    if not exports.kernels.keys() <= read_elf(entry / LIBRARY).exports:
        raise KernelValueError("the library lacks a kernel of the description")
    return exports
