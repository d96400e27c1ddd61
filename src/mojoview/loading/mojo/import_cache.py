"""What an import remembers on disk: which cache entry a file stood for, and how every file that counted looked then.

`load` reads and hashes a source file and all that it imports before it asks the cache. An import that finds sizes and
times of all of them unchanged may skip that. A stamp is written only when the youngest of these times is old enough
that no later change can have the same. It holds the entry's signatures, too. The files of the entry itself are verified
once, while the stamp is written, and again whenever they look different.
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
from mojoview.loading.mojo.build import Build
from mojoview.loading.mojo.cache import (
    DESCRIPTION,
    LIBRARY,
    STAMPS,
    Cache,
    cache_directory,
    plain_exports,
    read_exports,
)
from mojoview.loading.mojo.compiler import find_compiler, host_cpu
from mojoview.loading.mojo.include_path import get_mojo_include
from mojoview.loading.module import KernelModule, Places
from mojoview.loading.dlopen import open_library
from mojoview.loading.mojo.source import _visit
from mojoview.memory.errors import MojoViewError

__all__ = ["recall", "remember"]

COARSE = 60  # seconds by which the time of the last use may be behind: noting it costs as much as opening a file
SETTLED = 2_000_000_000  # ns; coarser than the clock of any file system that we know
FIRST = ("MOJO", "package")  # compilers that no other one can take the place of unseen


def recall(file: str, flags: Sequence[str]) -> KernelModule | None:
    """The module that the file stood for; None where there is no stamp, or anything has changed since."""
    try:
        place = cache_directory()
        stamp = _stamp(place, file, flags)
        with open(stamp, "rb", buffering=0) as opened:
            facts, used = json.loads(opened.read()), os.fstat(opened.fileno()).st_mtime
        if facts["circumstances"] != _circumstances() or any(_look(p) != seen for p, seen in facts["seen"].items()):
            return None
        cache, entry = Cache.open(place), f"{place}/{facts['entry']}"
        if facts["kept"] == _kept(entry):
            library, exports = Path(f"{entry}/{LIBRARY}"), read_exports(facts)
        elif (found := cache.get(facts["entry"])) is not None:
            library, exports = found
        else:
            return None
        if time.time() - used > COARSE:
            for path in (stamp, entry):  # what was used last goes last when the cache makes room
                with suppress(OSError):
                    os.utime(path)
        places = Places({symbol: (Path(source), line) for symbol, (source, line) in facts["places"].items()},
                        {name: (code, words) for name, (code, words) in facts["statuses"].items()})
        return KernelModule(Path(file), library, open_library(library), exports, places=places)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, MojoViewError):
        return None  # `load` finds out what is wrong


def remember(file: str, flags: Sequence[str], module: KernelModule) -> None:
    """Writes the stamp of a module that `load` has just given, where that is safe. A disk that is full is no error."""
    if module.library is None:
        return
    with suppress(OSError, MojoViewError):
        begin = time.time_ns()
        build = Build.of(file, flags, find_compiler())
        if build.compiler.found not in FIRST:
            return
        entry = module.library.parent.name
        seen = {path: _look(path) for path in _counting(build)}
        places, kept = Places.of(build.sources()), _kept(str(module.library.parent))
        # what changed between `load` and here has another key
        newest = max(_ours()[1], *(sys.maxsize if look is None else look[0] for look in seen.values()))
        if build.key() != entry or newest > begin - SETTLED:
            return
        exports = Cache.open(cache_directory()).peek(entry)
        if exports is None:
            return
        facts = {**plain_exports(exports), "entry": entry, "kept": kept, "seen": seen,
                 "circumstances": _circumstances(),
                 "places": {symbol: [str(source), line] for symbol, (source, line) in places.exports.items()},
                 "statuses": dict(places.statuses)}
        target = _stamp(cache_directory(), file, flags)
        with Cache.open(cache_directory().with_name(STAMPS)).workplace(os.path.basename(target)) as work:
            (work / "fresh").write_text(json.dumps(facts), encoding="utf-8")
            os.replace(work / "fresh", target)


def _stamp(place: Path, file: str, flags: Sequence[str]) -> str:
    name = hashlib.sha256("\0".join([file, *flags]).encode("utf-8", "surrogatepass")).hexdigest()[:40]
    return f"{place.parent}/{STAMPS}/{name}"


def _kept(entry: str) -> list[list[int] | None]:
    return [_look(f"{entry}/{name}") for name in (LIBRARY, DESCRIPTION)]


def _circumstances() -> list[Any]:
    """What else the key of the cache depends on."""
    return [VERSION, host_cpu(), os.environ.get("MOJO"), sys.prefix, _ours()[0]]


@functools.cache
def _ours() -> tuple[str, int]:
    """How the files of our own Mojo package look, and the youngest of their times. They are looked at once in a
    process, as the modules of Python in the same package are."""
    looks = [(path, _look(path)) for directory, _, names in os.walk(get_mojo_include())
             for path in (directory, *(f"{directory}/{name}" for name in names))]
    return (hashlib.sha256(repr(sorted(looks)).encode("utf-8", "surrogatepass")).hexdigest(),
            max(sys.maxsize if look is None else look[0] for _, look in looks))


def _look(path: str | Path) -> list[int] | None:
    try:
        info = os.stat(path)
    except OSError:
        return None
    return [info.st_ctime_ns, info.st_size, info.st_ino]  # nobody can set a ctime


def _counting(build: Build) -> Iterable[str]:
    """Files that count, the compiler, and the directories in which a new file would count."""
    seen: dict[Path, tuple[str, str]] = {}
    members = [file for file, _ in build.inputs.members]
    for file in (build.file, *members):
        _visit(file, file.name, build.search, seen)
    if build.file not in members:  # it is made of the others' exports
        del seen[build.file]
    places = {*build.search, *(file.parent for file in members)}
    for file in seen:
        inside = [d for d in file.parents if any(p in d.parents for p in places)]
        if inside:  # of a package, whose directories count whole
            places.update(inside)
            places.update(Path(d) for d, _, _ in os.walk(inside[-1]) if not d.endswith("__pycache__"))
    ours = get_mojo_include()
    return [str(p) for p in {*seen, *places, build.compiler.path} if p != ours and ours not in p.parents]
