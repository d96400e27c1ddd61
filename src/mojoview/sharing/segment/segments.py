"""Making and finding segments: arguments checked, dtypes written as text and read back, errors in words."""

from __future__ import annotations

import ast
import errno
import functools
import hashlib
import os
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from mojoview.memory._dtype import as_dtype, dtype_info
from mojoview.memory.check import check_int, check_permissions, deadline_after
from mojoview.memory.errors import (
    ArgumentError,
    CorruptHeader,
    DTypeError,
    NotAMojoviewSegment,
    NotReady,
    SchemaMismatch,
    SegmentExists,
    SegmentLost,
    SegmentNotFound,
    TruncatedError,
    VersionMismatch,
)
from mojoview.sharing.segment import _segment, capacity, naming
from mojoview.sharing.segment._segment import Segment

__all__ = [
    "adopt_segment",
    "attach_segment",
    "close_segment",
    "commit_segment",
    "create_segment",
    "dtype_from_text",
    "dtype_to_text",
]


def create_segment(
    kind: int,
    payload_bytes: int,
    *,
    name: str | None = None,
    dtype: Any = None,
    shape: Sequence[int] = (),
    fortran: bool = False,
    params: Sequence[int] = (),
    tag: bytes = b"",
    flags: int = 0,
    mode: int = 0o600,
    reclaim: bool = False,
    payload_off: int = _segment.HEADER_BYTES,
    reserve: int | None = None,
    path: str | None = None,
) -> Segment:
    """A new segment that nobody can find yet: fill its payload, which is zero, then `commit_segment()`.

    Parameters
    ----------
    kind : int
        `_segment.STATE`, `SNAPSHOT`, `RING_SPSC`, ..., `FRAME`.
    payload_bytes : int
    name : str, optional
        Anonymous memory when absent.
    dtype, shape, fortran : dtype-like, sequence of int, bool
        What the payload holds, for the schema.
    params : sequence of int
        Up to 8 numbers by which the kind finds its parts.
    tag : bytes
        The user's own words; dtype and tag share 3,072 bytes.
    mode : int
        Of the file; 0o600.
    reclaim : bool
        Whether a segment of that name whose owner is dead may be replaced.
    reserve : int, optional
        Bytes from the start that are claimed from the system now; all when absent.
    path : str, optional
        A file of the user's own for the segment, instead of a name in `naming.directory()`.

    Returns
    -------
    Segment
        Owned by the caller, mapped for writing.

    Raises
    ------
    SegmentExists, ShmFullError, SegmentError, ArgumentError, DTypeError
        The name is taken, there is no room, the system refuses, an argument is unusable.

    Notes
    -----
    Thread safety: any thread.
    """
    operation = f"creating segment {name!r}" if name is not None else "creating an anonymous segment"
    if payload_bytes < 0 or payload_bytes > 2**62 or len(shape) > 8 or len(params) > 8:
        raise ArgumentError(
            f"{operation}: {payload_bytes} bytes, {len(shape)} dimensions, {len(params)} parameters: out of range"
        )
    mode = check_permissions(operation, mode)
    if path is None and name is not None:
        path, name = naming.path_of(name), str(name)
    text = b"" if dtype is None else dtype_to_text(as_dtype(dtype, operation))
    if len(text) + len(tag) > _segment.TEXT_BYTES:
        raise DTypeError(
            f"{operation}: the dtype's description takes {len(text)} bytes, the tag {len(tag)}; "
            f"there are {_segment.TEXT_BYTES}"
        )
    if path is not None:
        _check_free(operation, name or "", path, reclaim)
    itemsize = np.dtype(dtype).itemsize if dtype is not None else 1
    total = payload_off + payload_bytes
    place = os.path.dirname(path) if path is not None else None
    capacity.require_room(operation, total if reserve is None else min(reserve, total), place)
    uuid = os.urandom(16)
    flags |= (_segment.FILE if path is not None else 0) | (_segment.FORTRAN if fortran else 0)
    try:
        return _segment.create(
            kind,
            payload_bytes,
            name=name if name is not None else f"anonymous-{uuid.hex()}",
            path=path,
            directory=place if place is not None else naming.directory(),
            mode=mode,
            payload_off=payload_off,
            reserve=total if reserve is None else min(reserve, total),
            flags=flags,
            dtype_text=text,
            tag=tag,
            itemsize=itemsize,
            shape=tuple(shape),
            strides=strides_of(shape, itemsize, fortran),
            params=tuple(params),
            schema_hash=schema_hash(kind, text, shape, fortran, tag),
            uuid=uuid,
        )
    except OSError as error:
        if capacity.is_full(error):
            raise capacity.shm_full(operation, total, capacity.free_bytes(place), place) from error
        raise


def commit_segment(segment: Segment) -> Segment:
    """Makes a segment that `create_segment()` began visible, and keeps its name until it is closed."""
    segment.commit()
    naming.remember(segment)
    return segment


def reserve(segment: Segment, start: int, end: int) -> None:
    """Claims further bytes of a segment that was created with some in reserve."""
    operation = f"growing segment {segment.name!r}"
    place = naming.directory() if segment.path is not None else None
    capacity.require_room(operation, end - start, place)
    try:
        segment.allocate(start, end)
    except OSError as error:
        if capacity.is_full(error):
            raise capacity.shm_full(operation, end - start, capacity.free_bytes(place), place) from error
        raise


def close_segment(segment: Segment) -> None:
    """The handle's end: the owner's name goes with it. Views that exist stay valid."""
    if not segment.closed:
        naming.forget(segment)
        segment.close()


def attach_segment(
    name: str,
    *,
    kinds: Sequence[int] | None = None,
    writable: bool = False,
    timeout: float = 1.0,
    uid: int | None = None,
    uuid: bytes | None = None,
    path: str | None = None,
    any_boot: bool = False,
) -> Segment:
    """Another handle on a named segment; the name and its owner are not touched.

    Parameters
    ----------
    name : str
    kinds : sequence of int, optional
        Which kinds will do; any when absent.
    writable : bool
    timeout : float
        Seconds to wait for its creator to finish it.
    uid : int, optional
        Whose it must be; this process's user when absent.
    uuid : bytes, optional
        Which it must be.
    path : str, optional
        Its file, where the name was given in another process.
    any_boot : bool
        Whether it may be older than the machine's last start: a recording outlives it.

    Returns
    -------
    Segment

    Raises
    ------
    SegmentNotFound, NotReady, NotAMojoviewSegment, SegmentAccessError, VersionMismatch, CorruptHeader, TruncatedError,
    SchemaMismatch, SegmentLost
        In the order in which it is checked. Nothing is ever written to, or removed, before the header is known to be
        ours.

    Notes
    -----
    Thread safety: any thread.
    """
    where, name = (naming.path_of(name) if path is None else path), str(name)
    if uid is not None:
        uid = check_int(f"attaching {name!r}", "uid", uid, 0, 2**32 - 1)
    fd = naming.open_file(name, where, uid)
    given = False
    try:
        facts = _judge(fd, name, kinds, timeout, uuid, any_boot)
        given = not writable  # a description of our own already; for writing it takes another
        return _segment.adopt_fd(fd, name, where, facts, writable, given)
    finally:
        if not given:
            os.close(fd)


def adopt_segment(
    fd: int,
    name: str | None,
    path: str | None,
    *,
    kinds: Sequence[int] | None = None,
    writable: bool = False,
    timeout: float = 1.0,
    uuid: bytes | None = None,
    any_boot: bool = False,
) -> Segment:
    """Another handle on the segment behind a descriptor, which stays the caller's."""
    facts = _judge(fd, name, kinds, timeout, uuid, any_boot)
    label = name if name is not None else facts["name"] or f"anonymous-{facts['uuid'].hex()}"
    segment = _segment.adopt_fd(fd, label, path, facts, writable)
    if path is None:
        naming.remember(segment)
    return segment


def _judge(
    fd: int, name: str | None, kinds: Sequence[int] | None, timeout: float, uuid: bytes | None, any_boot: bool
) -> dict[str, Any]:
    """The header's facts, once they are known to be those of the segment that is wanted."""
    facts = _ready(fd, name, timeout, any_boot)
    label = facts["name"] if name is None else name
    if uuid is not None and facts["uuid"] != uuid:
        raise SegmentLost(f"segment {label!r}: the one that the handle names is gone; another has its place")
    if kinds is not None and facts["kind"] not in kinds:
        wanted = " or ".join(sorted({_segment.KINDS[kind] for kind in kinds}))
        raise SchemaMismatch(
            f"segment {label!r}: expected {wanted}, it holds {_segment.KINDS.get(facts['kind'], facts['kind'])}"
        )
    return facts


def take_over(segment: Segment, operation: str) -> None:
    """Becomes the writer of a segment whose owner is gone, and the keeper of its name."""
    if not segment.take_ownership():
        raise SegmentExists(
            errno.EEXIST, f"{operation}: the owner of {segment.name!r}, process {segment.owner_pid}, lives"
        )
    naming.remember(segment)


def dtype_to_text(dtype: np.dtype[Any]) -> bytes:
    """A dtype as text that needs no code to be read; refuses items that are references.

    Examples
    --------
    >>> dtype_to_text(np.dtype([("q", "f8", 4)]))
    b"[('q', '<f8', (4,))]"
    """
    dtype_info(dtype)
    try:
        descr: Any = np.lib.format.dtype_to_descr(dtype)
    except ValueError as error:
        raise DTypeError(f"dtype {dtype}: its fields overlap, which the header cannot describe ({error})") from error
    if dtype.subdtype is not None:
        descr = (
            dtype.subdtype[0].str if dtype.subdtype[0].names is None else dtype.subdtype[0].descr,
            dtype.subdtype[1],
        )
    text = repr(descr).encode()
    if dtype_from_text(text) != dtype:
        raise DTypeError(f"dtype {dtype}: its description {text.decode()} reads back as another dtype")
    return text


_NUMBERS = {repr(np.dtype(code).str).encode(): np.dtype(code) for code in "?bBhHiIlLefdFD"}


@functools.lru_cache(maxsize=256)
def dtype_from_text(text: bytes) -> np.dtype[Any]:
    """The dtype that a header describes."""
    if text in _NUMBERS:  # as most arrays are: nothing to parse
        return _NUMBERS[text]
    try:
        descr = ast.literal_eval(text.decode())
        dtype: np.dtype[Any] = np.lib.format.descr_to_dtype(descr)
        dtype_info(dtype)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError, UnicodeDecodeError, IndexError) as error:
        raise CorruptHeader(f"header: {text[:80]!r} describes no dtype ({error})") from error
    return dtype


def check_schema(segment: Segment, operation: str, dtype: Any = None, shape: Sequence[int] | None = None) -> None:
    """Whether a segment holds what the caller expects; both values in the message."""
    held = dtype_from_text(segment.facts["dtype_text"])
    if dtype is not None and held != (wanted := as_dtype(dtype, operation)):
        raise SchemaMismatch(f"{operation}: expected dtype {wanted}, {segment.name!r} holds {held}")
    if shape is not None and segment.facts["shape"] != tuple(shape):
        raise SchemaMismatch(
            f"{operation}: expected shape {tuple(shape)}, {segment.name!r} holds {segment.facts['shape']}"
        )


def require_params(segment: Segment, operation: str, sound: bool) -> None:
    """Raises where a header with a right checksum describes parts that do not fit together."""
    if not sound:
        raise CorruptHeader(f"{operation}: its parameters {segment.facts['params']} do not fit its kind and size")


def _ready(fd: int, name: str | None, timeout: float, any_boot: bool) -> dict[str, Any]:
    """The checked facts of a header, once its creator has finished it."""
    deadline = deadline_after("attach()", timeout, time.monotonic_ns())
    fault, facts = _segment.inspect(fd)
    while fault == "unfinished" and (deadline is None or time.monotonic_ns() < deadline):
        time.sleep(0.001)
        fault, facts = _segment.inspect(fd)
    label = "anonymous segment" if name is None else f"segment {name!r}"
    if fault == "ok":
        if not any_boot and facts["boot_id"] != _segment.this_boot():
            raise SegmentLost(f"{label}: left over from before the machine restarted; cleanup() removes it")
        return facts
    major, minor = facts["version"]
    raise {
        "foreign": NotAMojoviewSegment(f"{label}: it does not begin as a mojoview segment does; it was not touched"),
        "unfinished": NotReady(f"{label}: its creator has not finished it within {timeout} s"),
        "byte order": VersionMismatch(f"{label}: made on a host of the other byte order"),
        "version": VersionMismatch(f"{label}: expected header version {_segment.VERSION[0]}.x, got {major}.{minor}"),
        "corrupt": CorruptHeader(f"{label}: the header's checksum or its contents are wrong"),
        "truncated": TruncatedError(
            f"{label}: the header says {facts.get('segment_bytes', _segment.HEADER_BYTES)} bytes, "
            f"the file has {os.fstat(fd).st_size}"
        ),
    }[fault]


def _check_free(operation: str, name: str, path: str, reclaim: bool) -> None:
    """Raises where the name is taken, in words that help; removes a dead owner's segment on request."""
    try:
        os.lstat(path)
    except FileNotFoundError:
        return
    fd = naming.open_file(name, path)
    try:
        fault, facts = _segment.inspect(fd)
        lives = "kind" in facts and _segment.owner_alive(fd, facts)
    finally:
        os.close(fd)
    if fault not in ("ok", "truncated"):
        raise NotAMojoviewSegment(
            f"{operation}: {path} exists and is not a finished segment ({fault}); it was not touched"
        )
    if lives:
        raise SegmentExists(errno.EEXIST, f"{operation}: the name is in use by process {facts['owner_pid']}")
    if not reclaim:
        raise SegmentExists(
            errno.EEXIST,
            f"{operation}: the name is left over from process {facts['owner_pid']}, which is dead; "
            f"cleanup({name!r}) removes it, reclaim=True replaces it",
        )
    try:
        naming.cleanup(name)
    except SegmentNotFound:  # another process was quicker; whoever links first has the name
        return


def strides_of(shape: Sequence[int], itemsize: int, fortran: bool) -> tuple[int, ...]:
    strides = [0] * len(shape)
    step = itemsize
    for k in range(len(shape)) if fortran else reversed(range(len(shape))):
        strides[k] = step
        step *= max(1, shape[k])
    return tuple(strides)


def schema_hash(kind: int, text: bytes, shape: Sequence[int], fortran: bool, tag: bytes) -> int:
    digest = hashlib.blake2b(repr((kind, text, tuple(shape), fortran, tag)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")
