"""What an import remembers on disk: which cache entry a file stood for, and how every file that counted looked then.

`load` reads and hashes a source file and all that it imports before it asks the cache. An import that finds sizes and
times of all of them unchanged may skip that. A stamp is written only when the youngest of these times is old enough
that no later change can have the same.
"""

from __future__ import annotations

import ctypes
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
from mojoview.kernels.cache import Cache, cache_directory
from mojoview.kernels.compiler import find_compiler, host_cpu
from mojoview.kernels.module import KernelModule
from mojoview.kernels.source import _visit
from mojoview.memory.errors import MojoViewError

__all__ = ["recall", "remember"]

SETTLED = 2_000_000_000  # ns; coarser than the clock of any file system that we know
FIRST = ("MOJO", "package")  # compilers that no other one can take the place of unseen


def recall(file: str, flags: Sequence[str]) -> KernelModule | None:
    """The module that the file stood for; None where there is no stamp, or anything has changed since."""
    try:
        place = cache_directory()
        with open(_stamp(place, file, flags), "rb", buffering=0) as opened:
            facts = json.loads(opened.read())
        if facts["circumstances"] != _circumstances() or any(_look(p) != seen for p, seen in facts["seen"].items()):
            return None
        found = Cache.open(place).get(facts["entry"])
        if found is None:
            return None
        library, exports = found
        return KernelModule(Path(file), library, ctypes.CDLL(str(library)), exports)
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
        # what changed between `load` and here has another key
        if build.key() != entry or any(look is None or look[0] > begin - SETTLED for look in seen.values()):
            return
        place = Cache.open(cache_directory().with_name("imports")).root
        facts = {"entry": entry, "seen": seen, "circumstances": _circumstances()}
        target = _stamp(cache_directory(), file, flags)
        fresh = place / f"{os.path.basename(target)}.{os.getpid()}.{time.monotonic_ns()}"
        try:
            fresh.write_text(json.dumps(facts), encoding="utf-8")
            os.replace(fresh, target)
        finally:
            fresh.unlink(missing_ok=True)


def _stamp(place: Path, file: str, flags: Sequence[str]) -> str:
    name = hashlib.sha256("\0".join([file, *flags]).encode("utf-8", "surrogatepass")).hexdigest()[:40]
    return f"{place.parent}/imports/{name}.json"


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
    _visit(build.file, build.file.name, build.search, seen)
    places = {*build.search, build.file.parent}
    for file in seen:
        inside = [d for d in file.parents if any(p in d.parents for p in places)]
        if inside:  # of a package, whose directories count whole
            places.update(inside)
            places.update(Path(d) for d, _, _ in os.walk(inside[-1]) if not d.endswith("__pycache__"))
    return map(str, {*seen, *places, build.compiler.path})
