"""Transfer of segments to other processes, by identity: pickling under fork, spawn and forkserver, and Unix sockets.

Importing this module makes `Segment` picklable.
"""

from __future__ import annotations

import copyreg
import os
import socket
from collections.abc import Callable
from typing import Any

from mojoview.memory.errors import (
    ArgumentError,
    ClosedError,
    NotAMojoviewSegment,
    SegmentError,
    SegmentLost,
    SegmentNotFound,
)
from mojoview.sharing.segment import _segment, naming
from mojoview.sharing.segment._segment import Segment
from mojoview.sharing.segment.segments import adopt_segment, attach_segment

__all__ = ["receive_segment", "reduce_segment", "send_segment"]


def reduce_segment(segment: Segment) -> tuple[Callable[..., Segment], tuple[Any, ...]]:
    """Return what pickle stores: the identity, and the name or, for anonymous memory, a descriptor of multiprocessing.

    Unpickling gives a read-only handle. A descriptor can be fetched once per pickling, while this process is running.
    """
    if segment.closed:
        raise ClosedError(f"pickling segment {segment.name!r}: it was closed")
    if segment.path is not None:
        return _by_name, (segment.name, segment.path, segment.uuid)
    from multiprocessing.reduction import DupFd

    return _by_descriptor, (DupFd(segment.fileno()), segment.name, segment.uuid)


def _by_name(name: str, path: str, uuid: bytes) -> Segment:
    try:
        return attach_segment(name, path=path, uuid=uuid)
    except SegmentNotFound:
        raise SegmentLost(f"segment {name!r}: its owner removed the name before this handle was unpickled") from None


def _by_descriptor(duplicate: Any, name: str, uuid: bytes) -> Segment:
    try:
        fd = duplicate.detach()
    except (OSError, EOFError, KeyError) as error:  # the sender has exited, or the bytes were unpickled before
        raise SegmentLost(
            f"segment {name!r}: the process that pickled this handle no longer provides it ({error!r})"
        ) from error
    try:
        return adopt_segment(fd, name, None, uuid=uuid)
    finally:
        os.close(fd)


copyreg.pickle(Segment, reduce_segment)


def send_segment(connection: socket.socket, segment: Segment) -> None:
    """Send a segment through a Unix socket; the peer calls `receive_segment()`.

    Parameters
    ----------
    connection : socket.socket
        Of family AF_UNIX, connected.
    segment : Segment
        May be closed as soon as this returns.

    Raises
    ------
    ArgumentError, ClosedError, SegmentError
        It is not a Unix socket; the segment is closed; the peer has exited.
    """
    if connection.family != socket.AF_UNIX:
        raise ArgumentError(f"sending a segment: expected a Unix socket, got {connection.family.name}")
    try:
        sent = socket.send_fds(connection, [segment.uuid], [segment.fileno()])
    except OSError as error:
        raise SegmentError(error.errno, f"sending segment {segment.name!r}: {error.strerror}") from error
    if sent != len(segment.uuid):
        raise SegmentError(f"sending segment {segment.name!r}: the socket took {sent} of {len(segment.uuid)} bytes")


def receive_segment(connection: socket.socket) -> Segment:
    """Receive a segment from `send_segment()`, as a read-only handle.

    Raises
    ------
    SegmentLost, NotAMojoviewSegment, SegmentAccessError, CorruptHeader, VersionMismatch
        The peer closed the socket, or sent something else than a segment of this user.
    """
    fds: list[int] = []
    try:
        message, fds, _, _ = socket.recv_fds(connection, 16, 1, socket.MSG_WAITALL)
        if len(message) != 16 or len(fds) != 1:
            raise SegmentLost(
                f"receiving a segment: expected 16 bytes and a descriptor, got {len(message)} and {len(fds)}"
            )
        naming.check_file("received", os.fstat(fds[0]), os.geteuid())
        _, facts = _segment.inspect(fds[0])
        path = naming.path_of(facts["name"]) if facts.get("flags", 0) & _segment.FILE else None
        if path is None and facts.get("kind") and not _segment.size_is_sealed(fds[0]):
            raise NotAMojoviewSegment("receiving a segment: its size is not sealed, so the peer could truncate it")
        return adopt_segment(fds[0], None, path, uuid=message)
    finally:
        for fd in fds:
            os.close(fd)
