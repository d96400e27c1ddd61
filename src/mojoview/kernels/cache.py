"""Compiled kernels on disk: one directory per content key, in a directory that only its owner can write to.

An entry is a shared object and a JSON file that describes it. It appears by one rename, is verified against its
checksums whenever it is read, and is built again where they do not match.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import inspect
import json
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mojoview.kernels.elf import read_elf
from mojoview.kernels.exports import ELEMENTS, ROLES, SCALARS, Exports
from mojoview.kernels.signature import Param, Signature
from mojoview.memory.errors import CacheError, CompileTimeoutError, MojoViewError

__all__ = ["Cache", "cache_directory"]

LIBRARY, DESCRIPTION = "kernels.so", "kernels.json"
DTYPES = {*ELEMENTS.values(), *(dtype for dtype, _ in SCALARS.values())}
RESULTS = {"none", "status", "status_index", *DTYPES}
PASSINGS = {"descriptor", "pointer", "value"}


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
        return Path(named).expanduser().absolute() / "mojo"
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "mojoview" / "mojo"


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
        OSError
            It cannot be made.
        """
        root.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            root.mkdir(mode=0o700)
        above = root.parent.stat()
        replaceable = above.st_mode & stat.S_IWOTH and not above.st_mode & stat.S_ISVTX
        if above.st_uid not in (os.geteuid(), 0) or replaceable:
            raise CacheError(f"load(): other users could replace the kernel cache {root}: {root.parent} belongs to one"
                             " of them or is open to all; set MOJOVIEW_CACHE_DIR to a directory of your own")
        info = root.lstat()
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
            return entry / LIBRARY, _verified(entry, key)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, MojoViewError):
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
        return entry / LIBRARY

    @contextmanager
    def workplace(self, key: str) -> Iterator[Path]:
        """A private directory on the cache's own file system, removed afterwards."""
        with tempfile.TemporaryDirectory(".tmp", f"{key}.", self.root, ignore_cleanup_errors=True) as work:
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


def _seal(body: Mapping[str, Any]) -> str:
    return _digest(json.dumps(body, sort_keys=True).encode())


def _describe(key: str, library: Path, exports: Exports) -> dict[str, Any]:
    body = {"key": key, "library": _digest(library.read_bytes()), "doc": exports.doc,
            "kernels": [_plain(s) for s in exports.kernels.values()], "refused": dict(exports.refused)}
    return {**body, "seal": _seal(body)}


def _plain(signature: Signature) -> dict[str, Any]:
    plain = asdict(signature)
    for param in plain["params"]:
        if param["default"] is inspect.Parameter.empty:
            del param["default"]
    return plain


def _verified(entry: Path, key: str) -> Exports:
    body = json.loads((entry / DESCRIPTION).read_bytes())
    if body.pop("seal") != _seal(body) or body["key"] != key:
        raise ValueError("the description does not carry its own checksum")
    if _digest((entry / LIBRARY).read_bytes()) != body["library"]:
        raise ValueError("the library is not the one described")
    kernels = {s.name: s for s in map(_signature, body["kernels"])}
    refused = {str(symbol): str(reason) for symbol, reason in body["refused"].items()}
    if not kernels.keys() <= read_elf(entry / LIBRARY).exports:
        raise ValueError("the library lacks a kernel of the description")
    return Exports(kernels, refused, str(body["doc"]))


def _signature(plain: Mapping[str, Any]) -> Signature:
    fields = dict(plain)
    params = tuple(_param(**p) for p in fields.pop("params"))
    signature = Signature(params=params, **fields)
    strings = (signature.name, signature.doc, signature.text, signature.result)
    valid = (all(type(s) is str for s in strings) and signature.result in RESULTS and type(signature.masks) is bool
             and signature.shapes == "free")
    if not valid:
        raise ValueError(f"no signature: {plain}")
    return signature


def _param(**fields: Any) -> Param:
    p = Param(**fields)
    valid = (type(p.name) is str and p.role in {*ROLES.values(), "value"}
             and p.dtype in DTYPES and p.passing in PASSINGS and (p.role == "value") == (p.passing == "value")
             and (p.ndim is None or (type(p.ndim) is int and 0 <= p.ndim <= 8))
             and (p.default is inspect.Parameter.empty or type(p.default) in (bool, int, float)))
    if not valid:
        raise ValueError(f"no parameter: {fields}")
    return p
