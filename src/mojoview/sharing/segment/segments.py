"""Creation, attachment and closing of segments: what other packages call instead of `_segment` and `naming`."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from mojoview.memory._dtype import as_dtype
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
from mojoview.sharing.segment.schema import dtype_to_text, schema_hash, strides_of

__all__ = [
    "adopt_segment",
    "attach_segment",
    "close_segment",
    "commit_segment",
    "create_segment",
    "reserve",
    "take_over",
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
    """Create a segment that no other process can find yet; fill its payload, which is zero, then `commit_segment()`.

    Parameters
    ----------
    kind : int
        `_segment.STATE`, `SNAPSHOT`, `RING_SPSC`, ..., `FRAME`.
    payload_bytes : int
    name : str, optional
        Anonymous memory when absent.
    dtype, shape, fortran : dtype-like, sequence of int, bool
        Of the payload, for the schema.
    params : sequence of int
        Up to 8 numbers by which the kind finds its parts.
    tag : bytes
        Free text of the user; dtype and tag share 3,072 bytes.
    mode : int
        Permissions of the file.
    reclaim : bool
        Whether to replace a segment of that name whose owner is dead.
    reserve : int, optional
        Bytes from the start to allocate now; all when absent.
    path : str, optional
        File of the segment, instead of a name in `naming.directory()`.

    Returns
    -------
    Segment
        Owned by the caller, mapped for writing.

    Raises
    ------
    SegmentExists, ShmFullError, SegmentError, ArgumentError, DTypeError
        The name is taken; there is not enough memory; the system call failed; an argument is invalid.

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
    """Make a segment of `create_segment()` visible, and keep its name until it is closed."""
    segment.commit()
    naming.register(segment)
    return segment


def reserve(segment: Segment, start: int, end: int) -> None:
    """Allocate further bytes of a segment that was created with `reserve`."""
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
    """Close a handle; the owner's also removes the name. Existing views stay valid."""
    if not segment.closed:
        naming.unregister(segment)
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
    late: int | None = None,
) -> Segment:
    """Attach to a named segment; its name and owner are not affected.

    A mapped file that another user truncates would end this process with SIGBUS. Therefore an array and a recording of
    another user are copied into sealed memory of this process.

    Parameters
    ----------
    name : str
    kinds : sequence of int, optional
        Accepted kinds; any when absent.
    writable : bool
    timeout : float
        Seconds to wait for its creator to finish it.
    uid : int, optional
        Its expected owner; this process's user when absent.
    uuid : bytes, optional
        Its expected identity.
    path : str, optional
        Its file, if the name was resolved in another process.
    any_boot : bool
        Whether it may be older than the last boot, as recordings are.
    late : int, optional
        Offset in the payload of a word that a copy takes last.

    Returns
    -------
    Segment

    Raises
    ------
    SegmentNotFound, NotReady, NotAMojoviewSegment, SegmentAccessError, VersionMismatch, CorruptHeader, TruncatedError,
    SchemaMismatch, SegmentLost
        In the order of the checks. Nothing is written to or removed before the header is validated.

    Notes
    -----
    Thread safety: any thread.
    """
    if uid is not None:
        uid = check_int(f"attaching {name!r}", "uid", uid, 0, 2**32 - 1)
    path = naming.path_of(name) if path is None else path
    fd = naming.open_file(name, path, uid)
    adopted = False
    try:
        facts = _validated(fd, name, kinds, timeout, uuid, any_boot)
        if uid not in (None, os.geteuid()) and (any_boot or facts["kind"] == _segment.ARRAY):
            return _adopt_copy(fd, str(name), path, facts, late)
        adopted = not writable  # a handle that writes needs a description of its own
        return _segment.adopt_fd(fd, str(name), path, facts, writable, adopted)
    finally:
        if not adopted:
            os.close(fd)


def _adopt_copy(fd: int, name: str, path: str, facts: dict[str, Any], late: int | None) -> Segment:
    """Return a read-only handle on a copy of a file; the file's user may change it concurrently."""
    operation, total = f"copying segment {name!r} of another user", facts["segment_bytes"]
    capacity.require_room(operation, total, None)
    copy = _segment.sealable_memory(naming.directory())
    adopted = False
    try:
        os.ftruncate(copy, total)
        _copy_range(operation, fd, copy, 0, total)
        if late is not None:
            _copy_range(operation, fd, copy, facts["payload_off"] + late, 8)
        _segment.seal_size(copy)
        fault, copied = _segment.inspect(copy)
        if fault != "ok" or copied["segment_bytes"] != total or copied["uuid"] != facts["uuid"]:
            raise SegmentLost(f"{operation}: it was replaced concurrently")
        adopted = True
        return _segment.adopt_fd(copy, name, path, copied, False, True)
    except OSError as error:
        if capacity.is_full(error):
            raise capacity.shm_full(operation, total, capacity.free_bytes(None), None) from error
        raise
    finally:
        if not adopted:
            os.close(copy)


def _copy_range(operation: str, source: int, target: int, start: int, nbytes: int) -> None:
    """Copy by system calls, which return less where a file was truncated."""
    end = start + nbytes
    while start < end:
        data = os.pread(source, min(end - start, 1 << 22), start)
        if not data:
            raise TruncatedError(f"{operation}: expected {end} bytes, its file was truncated to {start}")
        while data:
            written = os.pwrite(target, data, start)
            start, data = start + written, data[written:]


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
    """Attach to the segment behind a descriptor, which stays the caller's."""
    facts = _validated(fd, name, kinds, timeout, uuid, any_boot)
    label = name if name is not None else facts["name"] or f"anonymous-{facts['uuid'].hex()}"
    segment = _segment.adopt_fd(fd, label, path, facts, writable)
    if path is None:
        naming.register(segment)
    return segment


def _validated(
    fd: int, name: str | None, kinds: Sequence[int] | None, timeout: float, uuid: bytes | None, any_boot: bool
) -> dict[str, Any]:
    """Return the facts of a header that is the wanted segment's."""
    facts = _ready(fd, name, timeout, any_boot)
    label = facts["name"] if name is None else name
    if uuid is not None and facts["uuid"] != uuid:
        raise SegmentLost(f"segment {label!r}: the segment of this handle no longer exists; another one has its name")
    if kinds is not None and facts["kind"] not in kinds:
        wanted = " or ".join(sorted({_segment.KINDS[kind] for kind in kinds}))
        raise SchemaMismatch(
            f"segment {label!r}: expected {wanted}, it holds {_segment.KINDS.get(facts['kind'], facts['kind'])}"
        )
    return facts


def take_over(segment: Segment, operation: str) -> None:
    """Make this process the owner of a segment whose owner is dead, and of its name."""
    if not segment.take_ownership():
        raise SegmentExists(
            errno.EEXIST, f"{operation}: the owner of {segment.name!r}, process {segment.owner_pid}, is alive"
        )
    naming.register(segment)


def _ready(fd: int, name: str | None, timeout: float, any_boot: bool) -> dict[str, Any]:
    """Return the facts of a sound header; wait for its creator to finish it."""
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
        "foreign": NotAMojoviewSegment(f"{label}: it does not begin like a mojoview segment; it was not changed"),
        "unfinished": NotReady(f"{label}: its creator has not finished it within {timeout} s"),
        "byte order": VersionMismatch(f"{label}: made on a host of the other byte order"),
        "version": VersionMismatch(f"{label}: expected header version {_segment.VERSION[0]}.x, got {major}.{minor}"),
        "corrupt": CorruptHeader(f"{label}: the header's checksum or its fields are wrong"),
        "truncated": TruncatedError(
            f"{label}: the header states {facts.get('segment_bytes', _segment.HEADER_BYTES)} bytes, "
            f"the file has {os.fstat(fd).st_size}"
        ),
    }[fault]


def _check_free(operation: str, name: str, path: str, reclaim: bool) -> None:
    """Raise if the name is taken; on request remove a dead owner's segment."""
    try:
        os.lstat(path)
    except FileNotFoundError:
        return
    fd = naming.open_file(name, path)
    try:
        fault, facts = _segment.inspect(fd)
        alive = "kind" in facts and _segment.owner_alive(fd, facts)
    finally:
        os.close(fd)
    if fault not in ("ok", "truncated"):
        raise NotAMojoviewSegment(
            f"{operation}: {path} exists and is not a finished segment ({fault}); it was not changed"
        )
    if alive:
        raise SegmentExists(errno.EEXIST, f"{operation}: the name is in use by process {facts['owner_pid']}")
    if not reclaim:
        raise SegmentExists(
            errno.EEXIST,
            f"{operation}: the name is left over from process {facts.get('owner_pid', 'unknown')}, which is dead; "
            f"cleanup({name!r}) removes it, reclaim=True replaces it",
        )
    try:
        naming.cleanup(name)
    except SegmentNotFound:  # removed by another process; the first to link has the name
        return
