"""Compiled kernels on disk: one directory per content key, in a directory that only its owner can write to.

An entry is a shared object and a JSON file that describes it. It appears by one rename, is verified against its
checksums when it is read, and is built again where they do not match. Beside it lie directories of the same kind for
stamps of imports and for source texts; their size counts too.
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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mojoview.loading.description import plain_signature, read_signature, seal
from mojoview.loading.elf import read_elf
from mojoview.loading.mojo.exports import Exports
from mojoview.memory.errors import ArgumentError, CacheError, CompileTimeoutError, KernelValueError, MojoViewError

__all__ = ["Cache", "Entry", "cache_directory", "cache_limit", "loaded_files", "plain_exports", "read_exports"]

LIBRARY, DESCRIPTION = "kernels.so", "kernels.json"
STAMPS, SOURCES = "imports", "sources"  # beside the entries
IN_USE = 3600  # seconds in which a source text may still be waiting for its compiler
DEFAULT_LIMIT = 1 << 30  # some ten thousand kernels
DAMAGE = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, MojoViewError)  # of what was read
ROOM_TO_COMPILE, FILES_TO_COMPILE = 32 << 20, 64
UNITS = {"": 1, "k": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def cache_directory() -> Path:
    """Where compiled kernels are kept: MOJOVIEW_CACHE_DIR, else `mojoview` under XDG_CACHE_HOME or ~/.cache.

    Returns
    -------
    Path
        It need not exist.

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
    """How many bytes the cache may take: MOJOVIEW_CACHE_LIMIT (`300M`, `2G`, bytes without a letter), else 1 GiB.

    Returns
    -------
    int

    Raises
    ------
    ArgumentError
        The variable holds something else.

    Notes
    -----
    Thread safety: may be called from any thread.
    """
    said = os.environ.get("MOJOVIEW_CACHE_LIMIT", "")
    if not said:
        return DEFAULT_LIMIT
    if match := re.fullmatch(r"([0-9]{1,15})\s*([kMG]?)(?:i?B)?", said.strip()):
        return int(match[1]) * UNITS[match[2]]
    raise ArgumentError("load(): the environment variable MOJOVIEW_CACHE_LIMIT: expected a number of bytes such as 300M"
                        f" or 2G, got {said!r}")


@dataclass(frozen=True, slots=True)
class Entry:
    """What is kept under one key.

    Attributes
    ----------
    key : str
    bytes : int
    used : float
        When it was last loaded or made, in seconds since 1970.
    """

    key: str
    bytes: int
    used: float


@dataclass(frozen=True, slots=True)
class Cache:
    """A directory of compiled kernels; `open` makes and checks it."""

    root: Path

    @classmethod
    def open(cls, root: Path) -> Cache:
        """Makes the directory where needed and holds it to its owner.

        Raises
        ------
        CacheError
            It is no directory, or other users may read or write it: code from there must not run.
        ArgumentError
            The variable for its limit holds no number of bytes.
        OSError
            It cannot be made.
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
            raise CacheError(f"load(): other users could replace the kernel cache {root}: {root.parent} belongs to one"
                             " of them or is open to all; set MOJOVIEW_CACHE_DIR to a directory of your own")
        if not stat.S_ISDIR(info.st_mode):
            raise CacheError(f"load(): the kernel cache {root} is no directory; remove it, or set MOJOVIEW_CACHE_DIR")
        if info.st_uid != os.geteuid():
            raise CacheError(f"load(): the kernel cache {root} belongs to user {info.st_uid}, not to {os.geteuid()};"
                             " set MOJOVIEW_CACHE_DIR to a directory of your own")
        if info.st_mode & 0o077:
            raise CacheError(f"load(): the kernel cache {root} is open to other users: expected mode 700,"
                             f" got {stat.S_IMODE(info.st_mode):o}; chmod 700 {root}")
        return cls(root)

    def get(self, key: str) -> tuple[Path, Exports] | None:
        """The library and the kernels of an entry; None where there is none or it is damaged."""
        entry = self.root / key
        try:
            found = entry / LIBRARY, _verified(entry, key)
            with suppress(OSError):  # one that may only be read has nobody who would make room in it either
                os.utime(entry)
            return found
        except DAMAGE:
            return None

    def peek(self, key: str) -> Exports | None:
        """The kernels of an entry, without counting as a use; None where it is damaged or gone."""
        try:
            return _verified(self.root / key, key)
        except DAMAGE:
            return None

    def put(self, key: str, library: Path, exports: Exports) -> Path:
        """Makes an entry out of a library, in place of a damaged one; returns the path of the library in the cache."""
        entry = self.root / key
        with self.workplace(key) as work:
            fresh = work / "entry"
            fresh.mkdir()
            shutil.copyfile(library, fresh / LIBRARY)
            (fresh / DESCRIPTION).write_text(json.dumps(_describe(key, library, exports)), encoding="utf-8")
            with suppress(FileNotFoundError):
                os.rename(entry, work / "old")  # a process that has the old library mapped keeps it
            try:
                os.rename(fresh, entry)
            except OSError as error:
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):  # else a process without locks was quicker
                    raise
        with suppress(OSError):  # the entry is made; room is made again by whoever comes next
            self.make_room(cache_limit(), keep=key)
        return entry / LIBRARY

    def entries(self) -> list[Entry]:
        """What is there, the least recently used first."""
        found = []
        for path in self.root.iterdir():
            if "." not in path.name:  # not a lock or a workplace
                with suppress(OSError):  # it has just gone
                    found.append(Entry(path.name, _size(path), path.stat().st_mtime))
        return sorted(found, key=lambda entry: (entry.used, entry.key))

    def make_room(self, limit: int, *, keep: str | None = None) -> list[Entry]:
        """Removes the least recently used entries until the rest take no more than `limit` bytes.

        Stamps and source texts count, and go, as entries do. Entries whose library a running process of this user has
        loaded stay, as do `keep`, source texts of the last hour and whatever is being made at this moment; so the rest
        may be larger than the limit.

        Returns
        -------
        list of Entry
            What was removed.
        """
        entries = [(store, entry) for store in (self, *self.beside()) for entry in store.entries()]
        excess, removed = sum(entry.bytes for _, entry in entries) - limit, list[Entry]()
        loaded = loaded_files() if excess > 0 else set[str]()
        for store, entry in sorted(entries, key=lambda each: (each[1].used, each[1].key)):
            if excess <= 0:
                break
            if store is self:
                stays = entry.key == keep or str(self.root / entry.key / LIBRARY) in loaded
            else:
                stays = store.root.name == SOURCES and entry.used > time.time() - IN_USE
            if not stays and store.remove(entry.key):
                removed.append(entry)
                excess -= entry.bytes
        return removed

    def beside(self) -> list[Cache]:
        """The directories of stamps and of source texts that are there, held to their owner as this one is."""
        return [Cache.open(place) for place in map(self.root.with_name, (STAMPS, SOURCES)) if place.is_dir()]

    def remove(self, key: str) -> bool:
        """Takes an entry away in one step; False where it is being made at this moment, or gone.

        A process that has loaded it keeps its code; one that is about to finds it whole or not at all, and builds it.
        """
        try:
            with self.lock(key, 0), self.workplace(key) as work:
                os.rename(self.root / key, work / "old")
        except (CompileTimeoutError, FileNotFoundError):
            return False
        return True

    def left_behind(self) -> list[Path]:
        """Locks and workplaces; those of processes that were killed go when their key is compiled, or with `sweep`."""
        return sorted(path for path in self.root.iterdir() if path.suffix in (".lock", ".tmp"))

    def sweep(self) -> None:
        """Removes what killed processes have left behind."""
        for key in {path.name.partition(".")[0] for path in self.left_behind()}:
            with suppress(CompileTimeoutError), self.lock(key, 0):  # taking the lock removes it
                continue

    @contextmanager
    def workplace(self, key: str) -> Iterator[Path]:
        """A private directory on the cache's own file system, removed afterwards."""
        with tempfile.TemporaryDirectory(".tmp", f"{key}.", self.root, ignore_cleanup_errors=True) as work:
            yield Path(work)

    @contextmanager
    def scratch(self, key: str) -> Iterator[Path]:
        """A private directory to compile in, removed afterwards: the cache's own, where the next one to compile clears
        away what a killed process has left; or, where its disk is full, one among the system's temporary files."""
        disk = os.statvfs(self.root)
        full = disk.f_bavail * disk.f_frsize < ROOM_TO_COMPILE or (disk.f_files and disk.f_favail < FILES_TO_COMPILE)
        with tempfile.TemporaryDirectory(prefix="mojoview-") if full else self.workplace(key) as work:
            yield Path(work)

    @contextmanager
    def lock(self, key: str, timeout: float) -> Iterator[None]:
        """Lets one thread of one process at a time make the entry; the system frees the lock of a process that dies.

        Where the file system has no locks, several may build at once: the rename keeps the entry whole all the same.

        Raises
        ------
        CompileTimeoutError
            Another process held the lock for `timeout` seconds.
        """
        path = self.root / f"{key}.lock"
        deadline = time.monotonic() + timeout
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                while (locked := _try_lock(descriptor)) is False:
                    if time.monotonic() > deadline:
                        raise CompileTimeoutError("load(): another process compiles the same file and has not finished"
                                                  f" within {timeout:g} s (it holds {path})")
                    time.sleep(0.05)
                if locked and not _names(path, descriptor):
                    continue  # who held it before has removed the file
                if locked:
                    for left in self.root.glob(f"{key}.*.tmp"):  # of a process that was killed
                        shutil.rmtree(left, ignore_errors=True)
                try:
                    yield
                finally:
                    path.unlink(missing_ok=True)
                    if locked:
                        fcntl.flock(descriptor, fcntl.LOCK_UN)  # a child forked meanwhile shares the descriptor
                return
            finally:
                os.close(descriptor)


def _size(path: Path) -> int:
    if not path.is_dir():
        return path.lstat().st_size
    return sum(file.lstat().st_size for file in path.iterdir())


def loaded_files() -> set[str]:
    """The files that processes of this user have mapped, as far as this process may see them."""
    found = set[str]()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError), open(process / "maps", encoding="utf-8", errors="surrogateescape") as file:
            found.update(line.rstrip("\n").split(maxsplit=5)[5] for line in file if " /" in line)
    return found


def _try_lock(descriptor: int) -> bool | None:
    """Whether the lock was free; None where the file system has no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _names(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def plain_exports(exports: Exports) -> dict[str, Any]:
    """Kernels as what JSON can hold."""
    return {"doc": exports.doc, "kernels": [plain_signature(s) for s in exports.kernels.values()],
            "refused": dict(exports.refused)}


def read_exports(plain: Mapping[str, Any]) -> Exports:
    """The kernels that JSON held; raises one of DAMAGE where it held something else."""
    kernels = {s.name: s for s in map(read_signature, plain["kernels"])}
    refused = {str(symbol): str(reason) for symbol, reason in plain["refused"].items()}
    return Exports(kernels, refused, str(plain["doc"]))


def _describe(key: str, library: Path, exports: Exports) -> dict[str, Any]:
    body = {**plain_exports(exports), "key": key, "library": _digest(library.read_bytes())}
    return {**body, "seal": seal(body)}


def _verified(entry: Path, key: str) -> Exports:
    body = json.loads((entry / DESCRIPTION).read_bytes())
    if body.pop("seal") != seal(body) or body["key"] != key:
        raise KernelValueError("the description does not carry its own checksum")
    if _digest((entry / LIBRARY).read_bytes()) != body["library"]:
        raise KernelValueError("the library is not the one described")
    exports = read_exports(body)
    if not exports.kernels.keys() <= read_elf(entry / LIBRARY).exports:
        raise KernelValueError("the library lacks a kernel of the description")
    return exports
