"""Records of earlier imports: the cache entry of a source file, valid while nothing that it depends on has changed.

`load` reads and hashes a source file and everything that it imports before it looks into the cache. An import skips
that if size, inode and time of all these files are unchanged. A record is written only if the youngest of these times
is so old that no later change can have the same time. It also holds the signatures of the kernels. The files of the
cache entry are verified when the record is written, and again whenever their size, inode or time has changed.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from mojoview._build_config import VERSION
from mojoview.loading.description import exports_from_json, exports_to_json
from mojoview.loading.module import KernelModule, SourceIndex
from mojoview.loading.mojo.cache import DESCRIPTION, IMPORTS, LIBRARY, Cache, cache_directory
from mojoview.loading.mojo.compilation import Build
from mojoview.loading.mojo.compiler import find_compiler, host_cpu, open_with_runtime
from mojoview.loading.mojo.include_path import get_mojo_include
from mojoview.loading.mojo.source import collect_files, index_sources
from mojoview.memory.errors import MojoViewError

__all__ = ["lookup", "store"]

ATIME_GRANULARITY_S = 60  # the time of the last use may lag: updating it costs as much as opening a file
MTIME_RACE_NS = 2_000_000_000  # coarser than the clock of any known file system
UNAMBIGUOUS = ("MOJO", "package")  # compilers that another one cannot replace unnoticed


def lookup(file: str, flags: Sequence[str]) -> KernelModule | None:
    """Return the module of an earlier import of the file; None if there is no record or anything has changed."""
    try:
        directory = cache_directory()
        record = _record_path(directory, file, flags)
        with open(record, "rb", buffering=0) as opened:
            facts, used = json.loads(opened.read()), os.fstat(opened.fileno()).st_mtime
        unchanged = all(stat_key(path) == seen for path, seen in facts["seen"].items())
        if not unchanged or facts["environment"] != environment_key():
            return None
        cache, entry = Cache.open(directory), f"{directory}/{facts['entry']}"
        if facts["entry_stat"] == entry_stat(entry):
            library, exports = Path(f"{entry}/{LIBRARY}"), exports_from_json(facts)
        elif (found := cache.get(facts["entry"])) is not None:
            library, exports = found
        else:
            return None
        if time.time() - used > ATIME_GRANULARITY_S:
            for path in (record, entry):  # the cache removes the least recently used
                with suppress(OSError):
                    os.utime(path)
        index = SourceIndex(
            {symbol: (Path(source), line) for symbol, (source, line) in facts["places"].items()},
            {name: (code, doc) for name, (code, doc) in facts["statuses"].items()},
        )
        return KernelModule(Path(file), library, open_with_runtime(library), exports, index=index)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, MojoViewError):
        return None  # `load` reports what is wrong


def store(file: str, flags: Sequence[str], module: KernelModule) -> None:
    """Write the record of a module that `load` has just returned, if that is safe; a full disk is not an error."""
    if module.library is None:
        return
    with suppress(OSError, MojoViewError):
        begin = time.time_ns()
        build = Build.of(file, flags, find_compiler())
        if build.compiler.found not in UNAMBIGUOUS:
            return
        entry = module.library.parent.name
        seen = {path: stat_key(path) for path in _dependencies(build)}
        index, files_of_entry = index_sources(build.sources()), entry_stat(str(module.library.parent))
        # If a file has changed since `load`, the key differs.
        newest = max(package_key()[1], *(sys.maxsize if stat is None else stat[0] for stat in seen.values()))
        if build.key() != entry or newest > begin - MTIME_RACE_NS:
            return
        exports = Cache.open(cache_directory()).peek(entry)
        if exports is None:
            return
        facts = {
            **exports_to_json(exports),
            "entry": entry,
            "entry_stat": files_of_entry,
            "seen": seen,
            "environment": environment_key(),
            "places": {symbol: [str(source), line] for symbol, (source, line) in index.exports.items()},
            "statuses": dict(index.statuses),
        }
        target = _record_path(cache_directory(), file, flags)
        with Cache.open(cache_directory().with_name(IMPORTS)).work_directory(os.path.basename(target)) as work:
            (work / "fresh").write_text(json.dumps(facts), encoding="utf-8")
            os.replace(work / "fresh", target)


def _record_path(directory: Path, file: str, flags: Sequence[str]) -> str:
    name = hashlib.sha256("\0".join([file, *flags]).encode("utf-8", "surrogatepass")).hexdigest()[:40]
    return f"{directory.parent}/{IMPORTS}/{name}"


def stat_key(path: str | Path) -> list[int] | None:
    """Return values that differ after any change of a file: its ctime cannot be set. None if there is no file."""
    try:
        info = os.stat(path)
    except OSError:
        return None
    return [info.st_ctime_ns, info.st_size, info.st_ino]


def entry_stat(entry: str) -> list[list[int] | None]:
    """Return the `stat_key` of both files of a cache entry."""
    return [stat_key(f"{entry}/{name}") for name in (LIBRARY, DESCRIPTION)]


def environment_key() -> list[Any]:
    """Return everything but files that the key of a cache entry depends on."""
    return [VERSION, host_cpu(), os.environ.get("MOJO"), sys.prefix, package_key()[0]]


@functools.cache
def package_key() -> tuple[str, int]:
    """Return a hash of the `stat_key` of all files of our own Mojo package, and the youngest of their times.

    It is computed once per process, as Python modules of the package are imported once.
    """
    stats = [
        (path, stat_key(path))
        for directory, _, names in os.walk(get_mojo_include())
        for path in (directory, *(f"{directory}/{name}" for name in names))
    ]
    digest = hashlib.sha256(repr(sorted(stats)).encode("utf-8", "surrogatepass")).hexdigest()
    return digest, max(sys.maxsize if stat is None else stat[0] for _, stat in stats)


def _dependencies(build: Build) -> Iterable[str]:
    """Return the source files, the compiler, and the directories in which a new file would change an import."""
    seen: dict[Path, tuple[str, str]] = {}
    members = [file for file, _ in build.inputs.members]
    for file in (build.file, *members):
        collect_files(file, file.name, build.search, seen)
    if build.file not in members:  # generated from the members
        del seen[build.file]
    places = {*build.search, *(file.parent for file in members)}
    for file in seen:
        inside = [d for d in file.parents if any(p in d.parents for p in places)]
        if inside:  # all directories of a package matter
            places.update(inside)
            places.update(Path(d) for d, _, _ in os.walk(inside[-1]) if not d.endswith("__pycache__"))
    ours = get_mojo_include()
    return [str(p) for p in {*seen, *places, build.compiler.path} if p != ours and ours not in p.parents]
