"""Names of segments, which are files in one directory: resolve, list and remove them; remove this process's at exit.

Attaching never unlinks anything, and no resource tracker is involved: a name ends when its creator closes it, unlinks
it or exits, or when `cleanup()` finds its owner dead.
"""

from __future__ import annotations

import atexit
import errno
import os
import stat
import sys
import tempfile
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mojoview.memory.errors import (
    ArgumentError,
    NotAMojoviewSegment,
    SegmentAccessError,
    SegmentError,
    SegmentNotFound,
)
from mojoview.sharing.segment import _segment
from mojoview.sharing.segment._segment import Segment

__all__ = ["SegmentInfo", "cleanup", "segments", "unlink"]

PREFIX = "mojoview-"
_USUAL = "/dev/shm" if os.path.isdir("/dev/shm") else tempfile.gettempdir()
# Segments that this process created or took over, by path: the locks must exist as long as the names.
_owned: dict[str, Segment] = {}
_anonymous: weakref.WeakValueDictionary[bytes, Segment] = weakref.WeakValueDictionary()
_hooked = 0  # pid of the process whose exit hooks are installed


def directory() -> str:
    """Return the directory of names: ``MOJOVIEW_SHM_DIR``, else /dev/shm, else the user's temporary directory."""
    return os.environ.get("MOJOVIEW_SHM_DIR") or _USUAL


def path_of(name: str) -> str:
    """Return the file of a name. A name that would be outside the directory, or hidden in it, is an error."""
    if not isinstance(name, str):
        raise ArgumentError(f"segment name: expected str, got {type(name).__name__}")
    if not name or len(name.encode("utf-8", "surrogatepass")) > 200 or "/" in name or not name.isprintable():
        raise SegmentError(f"segment name {name!r}: expected 1 to 200 bytes of printable text without '/'")
    return f"{directory()}/{PREFIX}{name}"


def open_file(name: str, path: str, uid: int | None = None) -> int:
    """Open a name's file for reading: a regular file of the expected user. The caller closes the descriptor."""
    fd = _segment.open_plain(path, os.geteuid() if uid is None else uid)
    if fd >= 0:
        return fd
    try:  # again, to find out why it failed
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise SegmentNotFound(errno.ENOENT, f"segment {name!r}: not found in {os.path.dirname(path)}") from None
    except PermissionError:
        raise SegmentAccessError(errno.EACCES, f"segment {name!r}: this user may not open {path}") from None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENXIO):
            raise NotAMojoviewSegment(
                f"segment {name!r}: {path} is a symbolic link or a device, which is never followed"
            ) from None
        raise SegmentError(error.errno, f"segment {name!r}: {error.strerror}") from None
    try:
        check_file(name, os.fstat(fd), os.geteuid() if uid is None else uid)
    except BaseException:
        os.close(fd)
        raise
    return fd


def check_file(name: str, status: os.stat_result, uid: int) -> None:
    """Raise if a file is not regular, belongs to another user, or can be written to by everyone."""
    if not stat.S_ISREG(status.st_mode):
        raise NotAMojoviewSegment(f"segment {name!r}: expected a regular file, got {stat.filemode(status.st_mode)}")
    if status.st_uid != uid:
        raise SegmentAccessError(
            errno.EACCES,
            f"segment {name!r}: expected a segment of user {uid}, it belongs to {status.st_uid}; "
            f"if you trust that user, attach with uid={status.st_uid} (a recorder's file: owner={status.st_uid})",
        )
    if status.st_mode & stat.S_IWOTH:
        raise SegmentAccessError(
            errno.EACCES, f"segment {name!r}: every user can write to its file ({stat.filemode(status.st_mode)})"
        )


@dataclass(frozen=True)
class SegmentInfo:
    """One segment in the list of `segments()`."""

    name: str
    kind: str  #: state, snapshot, ring, array, frame; "" if the header is not readable
    state: str  #: live, dead (its owner has exited), unreadable, or the header's fault: foreign, corrupt, ...
    nbytes: int  #: of the segment, header included
    owner_pid: int
    uid: int
    mode: int
    created_ns: int  #: since 1970
    path: str | None  #: None if anonymous


def segments() -> list[SegmentInfo]:
    """List the named segments of this machine that this user can see, and this process's anonymous ones.

    Returns
    -------
    list of SegmentInfo
        Sorted by name; owned by the caller.

    Notes
    -----
    Thread safety: any thread. Opens files for reading, one at a time; changes nothing.

    Examples
    --------
    >>> import mojoview as mv, numpy as np
    >>> with mv.share(np.zeros(3), "docs-listing"):
    ...     [info.state for info in mv.segments() if info.name == "docs-listing"]
    ['live']
    """
    found = [_describe(name, path) for name, path in _files()]
    for segment in list(_anonymous.values()):
        if not segment.closed:
            facts = segment.facts
            found.append(
                SegmentInfo(
                    segment.name,
                    _segment.KINDS.get(facts["kind"], ""),
                    "live",
                    facts["segment_bytes"],
                    segment.owner_pid,
                    facts["creator_uid"],
                    0o600,
                    facts["created_ns"],
                    None,
                )
            )
    return sorted((info for info in found if info is not None), key=lambda info: info.name)


def cleanup(name: str | None = None) -> list[str]:
    """Remove the names whose owner is dead, and only those.

    Parameters
    ----------
    name : str, optional
        One name; all of this user's when absent.

    Returns
    -------
    list of str
        The removed names.

    Raises
    ------
    SegmentNotFound, NotAMojoviewSegment, SegmentAccessError
        For a given name: it does not exist, or is not a segment of this user.
    SegmentError
        For a given name: its owner is alive.

    Notes
    -----
    An owner is dead if the operating system has released its lock and no process of its pid and start time exists. A
    segment that was truncated so far that its header does not name the owner is removed if that lock is free.
    Other damaged files are not changed; `segments()` lists them with their fault. None of them ends the search.
    Mappings of readers stay valid. Thread safety: any thread, and any number of processes at once: the owner's lock
    decides which of them removes a name.

    Examples
    --------
    >>> import mojoview as mv
    >>> isinstance(mv.cleanup(), list)
    True
    """
    if name is not None:
        fault, facts = _remove(name, path_of(name), dead_only=True)
        if fault == "live":
            raise SegmentError(
                f"cleanup({name!r}): its owner, process {facts.get('owner_pid', 'unknown')}, is alive; "
                f"unlink({name!r}) removes it all the same"
            )
        if fault != "removed":
            raise NotAMojoviewSegment(f"cleanup({name!r}): its header is {fault}; it was not changed")
        return [name]
    removed = []
    for candidate, path in _files():
        try:
            fault, _ = _remove(candidate, path, dead_only=True)
        except OSError:  # not this user's, or removed by another process; `segments()` lists what is damaged
            continue
        if fault == "removed":
            removed.append(candidate)
    return removed


def unlink(name: str) -> None:
    """Remove a name, whether or not its owner is alive; existing mappings stay valid.

    Parameters
    ----------
    name : str

    Raises
    ------
    SegmentNotFound, NotAMojoviewSegment, SegmentAccessError
        It does not exist, or is not a segment of this user: a foreign file is never touched.

    Notes
    -----
    Thread safety: any thread.

    Examples
    --------
    >>> import mojoview as mv, numpy as np
    >>> shared = mv.share(np.zeros(3), "docs-unlink")
    >>> mv.unlink("docs-unlink")
    >>> shared.close()
    """
    fault, _ = _remove(name, path_of(name), dead_only=False)
    if fault != "removed":
        raise NotAMojoviewSegment(f"unlink({name!r}): its header is {fault}; it was not changed")
    _owned.pop(path_of(name), None)


def _files() -> Iterator[tuple[str, str]]:
    place = directory()
    try:
        entries = sorted(os.listdir(place))
    except OSError as error:
        raise SegmentError(error.errno, f"segments: {place}: {error.strerror}") from error
    for entry in entries:
        if entry.startswith(PREFIX):
            yield entry[len(PREFIX) :], os.path.join(place, entry)


def _describe(name: str, path: str) -> SegmentInfo | None:
    try:
        status = os.lstat(path)
    except FileNotFoundError:  # removed after it was listed
        return None
    facts: dict[str, Any] = {}
    state = "foreign"
    try:
        fd = open_file(name, path, status.st_uid)
    except SegmentNotFound:
        return None
    except SegmentError:  # a link or a device: listed as foreign
        state = "foreign"
    else:
        try:
            state, facts = _segment.inspect(fd)
            if state == "ok":
                state = "live" if _segment.owner_alive(fd, facts) else "dead"
        except OSError:
            state = "unreadable"
        finally:
            os.close(fd)
    return SegmentInfo(
        name,
        _segment.KINDS.get(facts.get("kind", 0), ""),
        state,
        facts.get("segment_bytes", status.st_size),
        facts.get("owner_pid", 0),
        status.st_uid,
        stat.S_IMODE(status.st_mode),
        facts.get("created_ns", 0),
        path,
    )


def _remove(name: str, path: str, *, dead_only: bool) -> tuple[str, dict[str, Any]]:
    """Remove a name. Return "removed", "live" or the header's fault, and the facts of the header."""
    fd = open_file(name, path)
    lock = None
    try:
        fault, facts = _segment.inspect(fd)
        if fault not in ("ok", "truncated"):
            return fault, facts
        if dead_only:
            if "kind" in facts and _segment.owner_alive(fd, facts):
                return "live", facts
            lock = _segment.claim_owner_lock(fd)
            if lock is None:  # another process cleans up, or has taken over
                return "live", facts
        if _same_file(fd, path):
            os.unlink(path)
        return "removed", facts
    finally:
        os.close(fd)
        if lock is not None:
            os.close(lock)


def _same_file(fd: int, path: str) -> bool:
    """Return whether a name still leads to the open file."""
    try:
        named = os.lstat(path)
    except FileNotFoundError:
        return False
    held = os.fstat(fd)
    return (named.st_dev, named.st_ino) == (held.st_dev, held.st_ino)


# -- names of this process
# -------------------------------------------------------------------------------------------------


def register(segment: Segment) -> None:
    """Keep the name of a segment until it is closed or unlinked or the process exits, or list an anonymous one."""
    if segment.path is None:
        _anonymous[segment.uuid] = segment
        return
    _owned[segment.path] = segment
    _hook_exit()


def unregister(segment: Segment) -> None:
    """Remove the name of a segment, if this process owns it."""
    if segment.path is not None and segment.owned and _same_file(segment.fileno(), segment.path):
        os.unlink(segment.path)
    if segment.path is not None and _owned.get(segment.path) is segment:
        del _owned[segment.path]


def _unregister_all() -> None:
    for segment in list(_owned.values()):
        if segment.closed or not segment.owned:  # inherited through a fork
            continue
        unregister(segment)
        segment.close()
    _owned.clear()


def _hook_exit() -> None:
    global _hooked
    if _hooked == os.getpid():
        return
    _hooked = os.getpid()
    atexit.register(_unregister_all)
    if "multiprocessing.util" in sys.modules:  # its children exit by os._exit() and run only these
        from multiprocessing import util

        util.Finalize(None, _unregister_all, exitpriority=0)
