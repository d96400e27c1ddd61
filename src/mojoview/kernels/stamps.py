"""What an import remembers on disk: which cache entry a file stood for, and how every file that counted looked then.

`load` reads and hashes a source file and all that it imports before it asks the cache. An import that finds sizes and
times of all of them unchanged may skip that. A stamp is written only when the youngest of these times is old enough
that no later change can have the same. The files of the entry itself are verified once, while the stamp is written,
and again whenever they look different.
"""

from __future__ import annotations

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
from mojoview.kernels.build import Build
from mojoview.kernels.cache import DESCRIPTION, LIBRARY, STAMPS, Cache, cache_directory
from mojoview.kernels.compiler import find_compiler, host_cpu
from mojoview.kernels.module import KernelModule, Places
from mojoview.kernels.opening import open_library
from mojoview.kernels.source import _visit
from mojoview.memory.errors import MojoViewError

__all__ = ["recall", "remember"]

SETTLED = 2_000_000_000  # ns; coarser than the clock of any file system that we know
FIRST = ("MOJO", "package")  # compilers that no other one can take the place of unseen


def recall(file: str, flags: Sequence[str]) -> KernelModule | None:
    """The module that the file stood for; None where there is no stamp, or anything has changed since."""
    try:
        place = cache_directory()
        stamp = _stamp(place, file, flags)
        with open(stamp, "rb", buffering=0) as opened:
            facts = json.loads(opened.read())
        if facts["circumstances"] != _circumstances() or any(_look(p) != seen for p, seen in facts["seen"].items()):
            return None
        unchanged = facts["kept"] == _kept(place, facts["entry"])
        found = Cache.open(place).get(facts["entry"], unchanged=unchanged)
        if found is None:
            return None
        with suppress(OSError):
            os.utime(stamp)  # what was used last goes last when the cache makes room
        library, exports = found
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
        places, kept = Places.of(build.sources()), _kept(cache_directory(), entry)
        # what changed between `load` and here has another key
        if build.key() != entry or any(look is None or look[0] > begin - SETTLED for look in seen.values()):
            return
        if Cache.open(cache_directory()).peek(entry) is None:
            return
        facts = {"entry": entry, "kept": kept, "seen": seen, "circumstances": _circumstances(),
                 "places": {symbol: [str(source), line] for symbol, (source, line) in places.exports.items()},
                 "statuses": dict(places.statuses)}
        target = _stamp(cache_directory(), file, flags)
        with Cache.open(cache_directory().with_name(STAMPS)).workplace(os.path.basename(target)) as work:
            (work / "fresh").write_text(json.dumps(facts), encoding="utf-8")
            os.replace(work / "fresh", target)


def _stamp(place: Path, file: str, flags: Sequence[str]) -> str:
    name = hashlib.sha256("\0".join([file, *flags]).encode("utf-8", "surrogatepass")).hexdigest()[:40]
    return f"{place.parent}/{STAMPS}/{name}"


def _kept(place: Path, entry: str) -> list[list[int] | None]:
    return [_look(f"{place}/{entry}/{name}") for name in (LIBRARY, DESCRIPTION)]


def _circumstances() -> list[Any]:
    """What else the key of the cache depends on."""
    return [VERSION, host_cpu(), os.environ.get("MOJO"), sys.prefix]


def _look(path: str) -> list[int] | None:
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
    return map(str, {*seen, *places, build.compiler.path})
