"""Ring: a stream of frames through shared memory: creating, attaching, iterating, statistics, closing."""

from __future__ import annotations

import asyncio
import os
import time
import warnings
from collections.abc import AsyncIterator, Callable
from typing import Any, Literal

from mojoview.memory._dtype import as_dtype
from mojoview.memory.check import check_int
from mojoview.memory.errors import ArgumentError, CorruptHeader
from mojoview.sharing.ring._handle import CLAIM_AT, CONTROL_BYTES, MODES, SPIN_NS, WAITS, deadline_of, format_ring
from mojoview.sharing.ring._producer import FULL, Claim
from mojoview.sharing.ring._ring import RingCalls
from mojoview.sharing.segment import _segment, schema, segments
from mojoview.sharing.segment._segment import Segment

__all__ = ["Claim", "Ring"]

KINDS = {
    "spsc": _segment.RING_SPSC,
    "mpsc": _segment.RING_MPSC,
    "broadcast": _segment.RING_BROADCAST,
    "recorder": _segment.RING_BROADCAST,
}
MODE_NAMES = {number: name for name, number in MODES.items()}
Path = str | os.PathLike[str]


class Ring(RingCalls):
    """A stream of frames through shared memory, opened by `create` and `attach` on either side.

    The first handle that writes is the producer, the first that reads the consumer; one handle may be both. Sequence
    numbers are consecutive, headers are checked on every read, payloads if ``crc=True``.

    Notes
    -----
    Modes: "spsc", one producer and one reader, nothing is lost, frames are read in place; "mpsc", the same with up to
    64 producers; "broadcast", one producer that never waits and any number of readers, each of which detects
    which frames it missed; "recorder", the same in a file that outlives its processes and keeps the newest `capacity`
    bytes.

    A producer that dies loses only what it had not finished writing. The frames that a dead reader had not released are
    delivered to the next one.

    Thread safety: one thread at a time per handle; further handles are cheap. A forked child attaches its own.

    Sources: SPSC after rigtorp's SPSCQueue, MPSC after Aeron's many-to-one ring buffer; CRC-32C of RFC 3720.

    Examples
    --------
    >>> import mojoview as mv
    >>> with mv.Ring.create() as ring:
    ...     ring.write(b"hello")
    ...     ring.write(b"world")
    ...     [bytes(frame) for frame in ring.read()]
    0
    1
    [b'hello', b'world']
    """

    _keeps_name: bool

    @classmethod
    def create(
        cls,
        name: Path | None = None,
        capacity: int = 1 << 20,
        mode: Literal["spsc", "mpsc", "broadcast", "recorder"] = "spsc",
        dtype: Any = None,
        crc: bool = False,
        wait: Literal["spin", "hybrid", "futex", "poll", "event"] = "hybrid",
        *,
        full: Literal["block", "drop", "error"] = "block",
        broken: Literal["raise", "skip"] = "raise",
        wait_for_peer: bool = False,
        start: str | int | None = None,
        clock: Literal["monotonic", "ticks"] = "monotonic",
        pin: int | None = None,
        priority: int | None = None,
        permissions: int = 0o600,
        reclaim: bool = False,
        _begin: tuple[int, int] = (0, 0),
    ) -> Ring:
        """Create a ring and return a handle on it.

        Parameters
        ----------
        name : str or path, optional
            Name to attach by; a file's path for a recorder. A ring without a name is passed on by pickling, or by fork
            and `attach(ring)`.
        capacity : int
            Bytes, a power of two, at least 4096. Fastest if it fits in a cache; for large messages, four of them.
        mode : {"spsc", "mpsc", "broadcast", "recorder"}
        dtype : dtype-like, optional
            Structured; messages are then whole records of it.
        crc : bool
            Whether payloads have a checksum.
        wait : {"spin", "hybrid", "futex", "poll", "event"}
            Way of waiting: "spin" polls and keeps a core busy; "hybrid" spins for 20 microseconds, then sleeps;
            "futex" sleeps; "poll" does not wait; "event" sleeps, and `fileno()` is watched instead.
        full : {"block", "drop", "error"}
            The action of a write if there is no space. Drops are counted.
        broken : {"raise", "skip"}
            The action of a read on a damaged frame; `broken` records it either way.
        wait_for_peer : bool
            Whether to keep waiting for a successor after the other side has exited.
        start : {"newest", "oldest"} or int, optional
            First frame to read in a lossy ring; a number is a sequence number. If None, "newest", and "oldest" for a
            recorder.
        clock : {"monotonic", "ticks"}
            "ticks" reads the processor's counter, calibrated once: cheaper, drifts by parts in a million.
        pin : int, optional
            Core to bind the calling thread to.
        priority : int, optional
            Real-time priority (SCHED_FIFO) of the calling thread. Warns if not permitted, like `pin`.
        permissions : int
            Mode of the name's file.
        reclaim : bool
            Whether to replace a ring of that name whose creator is dead.

        Returns
        -------
        Ring
            Owns the name until it is closed; a recorder's file is kept.

        Raises
        ------
        ArgumentError, SegmentExists, ShmFullError, SegmentError
            An argument is invalid; the name is taken; there is not enough memory; a system call failed.

        Notes
        -----
        Thread safety: any thread.

        Examples
        --------
        >>> import mojoview as mv, numpy as np
        >>> with mv.Ring.create(dtype=[("t", "f8"), ("n", "i4")]) as ring:
        ...     ring.write_many(np.array([(0.5, 1), (1.5, 2)], ring.dtype))
        ...     ring.read().records["n"].tolist()
        2
        [1, 2]
        """
        operation = f"Ring.create({name!r})"
        options = _options(
            operation, wait, full, broken, wait_for_peer, "newest" if start is None else start, pin, priority
        )
        if not isinstance(mode, str) or mode not in MODES:
            raise ArgumentError(f"{operation}: mode={mode!r}: expected one of {', '.join(MODES)}")
        if clock not in ("monotonic", "ticks"):
            raise ArgumentError(f"{operation}: clock={clock!r}: expected 'monotonic' or 'ticks'")
        capacity = check_int(operation, "capacity", capacity, 4096, 1 << 46)
        if capacity & (capacity - 1):
            raise ArgumentError(f"{operation}: capacity={capacity}: expected a power of two, at least 4096")
        records = None if dtype is None else as_dtype(dtype, operation)
        if records is not None and (
            records.names is None or records.itemsize == 0 or records.itemsize > capacity // 2 - 32
        ):
            raise ArgumentError(
                f"{operation}: dtype={records}: expected a structured dtype of at most {capacity // 2 - 32} bytes"
            )
        path, label = _place(name, mode, operation)
        segment = segments.create_segment(
            KINDS[mode],
            CONTROL_BYTES + capacity,
            name=label,
            path=path,
            dtype=records,
            params=(capacity, MODES[mode], int(bool(crc))),
            mode=check_int(operation, "permissions", permissions, 0, 0o777),
            reclaim=reclaim,
        )
        format_ring(segment, _segment.HEADER_BYTES, *_begin, clock == "ticks")
        if path is None:
            segments.commit_segment(segment)
        else:
            segment.commit()
        ring = cls._wrap(segment, options, start=start)
        ring._keeps_name = path is not None
        _place_thread(pin, priority)
        return ring

    @classmethod
    def attach(
        cls,
        name: Path | Ring,
        *,
        wait: Literal["spin", "hybrid", "futex", "poll", "event"] = "hybrid",
        full: Literal["block", "drop", "error"] = "block",
        broken: Literal["raise", "skip"] = "raise",
        wait_for_peer: bool = False,
        start: str | int | None = None,
        observe: bool = False,
        pin: int | None = None,
        priority: int | None = None,
        timeout: float = 1.0,
        owner: int | None = None,
    ) -> Ring:
        """Attach to a ring and return another handle on it.

        Parameters
        ----------
        name : str, path or Ring
            A path (a `Path`, or text with a separator) is a recorder's file. A Ring: the same ring, also after a fork.
        observe : bool
            Whether to read a lossless ring without consuming; frames may be missed, and their count is known.
        start : {"newest", "oldest"} or int, optional
            If None, "oldest" for a recorder, else "newest".
        timeout : float
            Seconds to wait until the creator has finished the ring.
        owner : int, optional
            User id of the recorder's file, if it belongs to another user: it is then copied, so that its user cannot
            truncate it while it is read. By default, it must be this process's user.
        wait, full, broken, wait_for_peer, pin, priority : as for `create`

        Returns
        -------
        Ring

        Raises
        ------
        SegmentNotFound, NotReady, NotAMojoviewSegment, SegmentAccessError, VersionMismatch, CorruptHeader,
        TruncatedError, SchemaMismatch
            The name does not exist, is not finished, is not a segment of mojoview, or belongs to another user; the
            segment has another version, is damaged, is too short, or is not a ring.
        ArgumentError
            An argument is invalid.

        Notes
        -----
        Thread safety: any thread.
        """
        operation = f"Ring.attach({name!r})"
        options = _options(
            operation, wait, full, broken, wait_for_peer, "newest" if start is None else start, pin, priority
        )
        if owner is not None and not _is_path(name):
            raise ArgumentError(f"{operation}: owner={owner!r}: only a recorder's file can belong to another user")
        if isinstance(name, Ring):
            segment = name.segment.reopen(writable=name._writable)
        elif _is_path(name):
            path = os.path.abspath(_text(name, operation))
            foreign = owner is not None and owner != os.geteuid()
            segment = segments.attach_segment(
                os.path.basename(path),
                path=path,
                kinds=sorted(set(KINDS.values())),
                writable=not foreign and os.access(path, os.W_OK),
                timeout=timeout,
                uid=owner,
                any_boot=True,
                late=CLAIM_AT,  # its last value tells which frames of a copy were overwritten
            )
        else:
            segment = segments.attach_segment(
                _text(name, operation), kinds=sorted(set(KINDS.values())), writable=True, timeout=timeout
            )
        ring = cls._wrap(segment, options, observe=observe, start=start)
        _place_thread(pin, priority)
        return ring

    @classmethod
    def _wrap(
        cls, segment: Segment, options: dict[str, Any], *, observe: bool = False, start: str | int | None = "newest"
    ) -> Ring:
        facts = segment.facts
        capacity, mode, crc = facts["params"][:3]
        dtype = schema.dtype_from_text(facts["dtype_text"]) if facts["dtype_text"] else None
        if start is None and mode == MODES["recorder"]:
            options = {**options, "start": "oldest"}
        if dtype is not None and dtype.itemsize == 0:
            raise CorruptHeader(f"ring {segment.name!r}: its dtype has no bytes")
        ring = cls.__new__(cls)
        ring._open(
            segment,
            facts["payload_off"],
            facts["payload_bytes"],
            capacity,
            mode,
            bool(crc),
            dtype,
            observer=observe and mode in (MODES["spsc"], MODES["mpsc"]),
            **options,
        )
        ring._keeps_name = True
        return ring

    def __init__(self) -> None:
        raise ArgumentError("Ring() cannot be called: use Ring.create(...) or Ring.attach(...)")

    def __reduce__(self) -> tuple[Callable[..., Ring], tuple[Any, ...]]:
        return ring_of_segment, (self.segment,)

    @property
    def name(self) -> str | None:
        """Name to attach by; None if the ring has no name."""
        return None if self.segment.anonymous else self.segment.path if self._is_file else self.segment.name

    @property
    def mode(self) -> str:
        return MODE_NAMES[self._mode]

    @property
    def _is_file(self) -> bool:
        return bool(self.segment.facts["params"][1] == MODES["recorder"])

    def stats(self) -> dict[str, Any]:
        """Return the counters of the ring and of this handle.

        Returns
        -------
        dict
            Of the ring: written, bytes (of payloads), dropped, used and capacity (bytes), read, waiters, producer and
            consumer (pid, or None). Of this reader in a lossy ring, of the consumer in a lossless one: lost, broken,
            crc_errors, resyncs, unblocked. Of this handle: frames_read, overruns, abandoned (messages of which a
            fragment was missing).

        Notes
        -----
        Thread safety: any thread. Each counter is exact; they need not belong to one moment.
        """
        n = self._counters()
        own = self._copies
        active = 1
        return {
            "mode": self.mode,
            "capacity": self.capacity,
            "written": n["written"],
            "bytes": n["bytes"],
            "dropped": n["dropped"],
            "used": min(n["tail"] if self._lossy else n["tail"] - n["head"], self.capacity),
            "read": n["frames"],
            "lost": self.lost if own else n["lost"],
            "broken": self.breaks if own else n["broken"],
            "crc_errors": self.crc_errors if own else n["crc_errors"],
            "resyncs": n["own_resyncs"] if own else n["resyncs"],
            "unblocked": n["unblocked"],
            "waiters": n["data_waiters"] + n["space_waiters"],
            "producer": n["producer_pid"] if n["producer"] == active else None,
            "consumer": n["consumer_pid"] if n["consumer"] == active else None,
            "frames_read": self.frames_read,
            "overruns": self.overruns,
            "abandoned": self.abandoned,
        }

    def __repr__(self) -> str:
        if self.closed:
            return "<mojoview ring: closed>"
        return f"<mojoview ring {self.name!r}: {self.mode}, {self.capacity} bytes>"

    async def __aiter__(self) -> AsyncIterator[Any]:
        """Iterate over frames until the ring ends; the event loop runs while the ring is empty."""
        loop = asyncio.get_running_loop()
        fd = self.fileno()
        while True:
            batch = self.read(256, 0)
            for k, frame in enumerate(batch):
                try:
                    yield frame
                except GeneratorExit:  # `break`: the next read returns the frames after this one
                    self._unread(batch, k + 1)
                    raise
            if batch:
                continue
            if self.ended:
                return
            readable = loop.create_future()
            loop.add_reader(fd, _resolve, readable)
            try:
                await readable
            finally:
                loop.remove_reader(fd)

    def flush(self) -> None:
        """Write a recorder's pages to disk; without it they survive the process, but not a power failure.

        Raises
        ------
        OSError
            The disk could not be written.

        Notes
        -----
        Thread safety: any thread; releases the GIL.
        """
        os.fsync(self.segment.fileno())

    def close(self) -> None:
        """Release the roles and the name; frames that are still held stay valid. Closing twice is allowed.

        Raises
        ------
        Busy
            Another thread is inside a call, or a claim is open.
        """
        if self.closed:
            return
        self._detach()
        if self._keeps_name:
            self.segment.close()
        else:
            segments.close_segment(self.segment)

    def __enter__(self) -> Ring:
        return self

    def __exit__(self, kind: object, value: object, trace: object) -> None:
        self.close()

    def wait_for_reader(self, timeout: float | None = None) -> bool:
        """Wait until the ring has a reader, so that the first messages are not missed.

        Parameters
        ----------
        timeout : float, optional
            Seconds; no limit if None.

        Returns
        -------
        bool
            Whether there is one.
        """
        deadline = deadline_of(timeout)
        while not self._has_reader():
            if time.monotonic_ns() >= deadline:
                return False
            time.sleep(0.001)
        return True


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _options(
    operation: str,
    wait: str = "hybrid",
    full: str = "block",
    broken: str = "raise",
    wait_for_peer: bool = False,
    start: str | int = "newest",
    pin: int | None = None,
    priority: int | None = None,
) -> dict[str, Any]:
    for what, number in (("pin", pin), ("priority", priority)):
        if not isinstance(number, (int, type(None))):
            raise ArgumentError(f"{operation}: {what}={number!r}: expected a whole number, or None")
    for word, value, known in (("wait", wait, WAITS), ("full", full, FULL), ("broken", broken, ("raise", "skip"))):
        if not isinstance(value, str) or value not in known:
            raise ArgumentError(f"{operation}: {word}={value!r}: expected one of {', '.join(known)}")
    if not (start in ("newest", "oldest") if isinstance(start, str) else isinstance(start, int) and 0 <= start < 2**64):
        raise ArgumentError(f"{operation}: start={start!r}: expected 'newest', 'oldest' or a sequence number")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return {
        "wait": WAITS[wait],
        "full": FULL[full],
        "strict": broken == "raise",
        "wait_for_peer": wait_for_peer,
        "start": start,
        "spin_ns": SPIN_NS if cores > 1 else 0,
    }


def _is_path(name: object) -> bool:
    return isinstance(name, os.PathLike) or (isinstance(name, str) and os.sep in name)


def _text(name: object, operation: str) -> str:
    """Return a name, or the text of a path."""
    text = os.fspath(name) if isinstance(name, (str, os.PathLike)) else None
    if not isinstance(text, str) or "\0" in text:
        raise ArgumentError(f"{operation}: expected a name, or the path of a recorder's file, as text")
    return text


def _place(name: Path | None, mode: str, operation: str) -> tuple[str | None, str | None]:
    """Return (path of the ring's own file, name); None for what it does not have."""
    if mode != "recorder":
        if name is not None and _is_path(name):
            raise ArgumentError(f"{operation}: only a recorder has its own file; expected a name without {os.sep!r}")
        return None, None if name is None else _text(name, operation)
    if name is None:
        raise ArgumentError(f"{operation}: a recorder needs the path of its file")
    path = os.path.abspath(_text(name, operation))
    return path, os.path.basename(path)


def _place_thread(pin: int | None, priority: int | None) -> None:
    """Bind the calling thread to a core and set its real-time priority, as far as permitted."""
    try:
        if pin is not None:
            os.sched_setaffinity(0, {pin})
    except (OSError, ValueError, OverflowError, AttributeError) as error:
        warnings.warn(f"pin={pin}: the thread was not bound ({error})", RuntimeWarning, stacklevel=3)
    try:
        if priority is not None:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
    except (OSError, ValueError, OverflowError, AttributeError) as error:
        warnings.warn(f"priority={priority}: the priority was not set ({error})", RuntimeWarning, stacklevel=3)


def ring_of_segment(segment: Segment) -> Ring:
    """Return a handle on the ring in a segment attached for reading, and close that segment handle.

    Used by `mojoview.attach()` and pickle.
    """
    try:
        writable = segment.reopen(writable=True)
    finally:
        segment.close()
    return Ring._wrap(writable, _options("attach()"), start=None)
