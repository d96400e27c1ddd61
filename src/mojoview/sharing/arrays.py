"""`share()`: immutable arrays for other processes; `attach()`: handles on segments of any kind by name."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from mojoview.memory._dtype import dtype_info
from mojoview.memory.errors import ClosedError, VersionMismatch
from mojoview.memory.extension_points import ATTACH_FRAME, SHARE_TABLE, load_target, resolve
from mojoview.sharing.incoming import array_of, holds_columns, open_object
from mojoview.sharing.segment import _segment, capacity, schema, segments
from mojoview.sharing.segment._segment import Segment
from mojoview.views import View

__all__ = ["SharedArray", "attach", "attach_kind", "share"]

CHUNK = 64 << 20  # bytes per system call: signals are handled between calls

# Constructors of the other kinds in this package, imported on first use. Higher rooms register theirs in
# memory/extension_points.py.
_KINDS = {
    _segment.STATE: "mojoview.sharing.state._state:State._of",
    _segment.SNAPSHOT: "mojoview.sharing.snapshot._snapshot:Snapshot._of",
    _segment.RING_SPSC: "mojoview.sharing.ring.ring:ring_of_segment",
    _segment.RING_MPSC: "mojoview.sharing.ring.ring:ring_of_segment",
    _segment.RING_BROADCAST: "mojoview.sharing.ring.ring:ring_of_segment",
}


class SharedArray:
    """An immutable array in shared memory, made by `share()` and `attach()` and by unpickling.

    Attributes
    ----------
    name : str
        Generated if the memory is anonymous.
    shape : tuple of int
    dtype : numpy.dtype
    nbytes : int

    Notes
    -----
    Pickling transfers the identity, not the contents: under fork, spawn and forkserver, and in executors.
    `sharing.segment.transfer.send_segment()` does the same through a Unix socket. The operating system seals anonymous
    memory against changes. Memory exists as long as a handle or a view of it; a name exists until its creator closes
    it, unlinks it or exits.

    Thread safety: any thread.
    """

    def __init__(self, segment: Segment):
        facts = segment.facts
        self.segment = segment
        self.dtype: np.dtype[Any] = schema.dtype_from_text(facts["dtype_text"])
        self.shape: tuple[int, ...] = facts["shape"]
        self._offset = facts["payload_off"]
        nbytes = self.dtype.itemsize * math.prod(self.shape)
        schema.require_params(
            segment,
            f"attaching array {segment.name!r}",
            min(self.shape, default=0) >= 0 and nbytes == facts["payload_bytes"],
        )
        self.nbytes = nbytes

    def read(self) -> View:
        """Return the array, without a copy.

        Returns
        -------
        View
            Read-only; keeps the memory alive, also after `close()`.

        Raises
        ------
        ClosedError
        """
        if self.segment.closed:
            raise ClosedError(f"read(): the array {self.name!r} was closed")
        fortran = bool(self.segment.facts["flags"] & _segment.FORTRAN)
        return self.segment.view(self._offset, self.shape, self.dtype, fortran=fortran)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return self.read().__array__(dtype, copy=copy)

    @property
    def name(self) -> str:
        return self.segment.name

    @property
    def closed(self) -> bool:
        return self.segment.closed

    def close(self) -> None:
        """Close the handle; the creator's also removes the name. Views stay valid."""
        segments.close_segment(self.segment)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.segment.closed:
            raise ClosedError(f"pickling: the array {self.name!r} was closed")
        return SharedArray, (self.segment,)

    def __enter__(self) -> SharedArray:
        if self.segment.closed:
            raise ClosedError(f"with: the array {self.name!r} was closed")
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else "creator" if self.segment.owned else "attached"
        return f"<mojoview SharedArray {self.name!r}: {self.shape} of {self.dtype}, {state}>"


def share(obj: Any, name: str | None = None, *, reclaim: bool = False, mode: int = 0o600) -> Any:
    """Share an array or a table with other processes: one copy into shared memory, none in the other processes.

    Parameters
    ----------
    obj : array-like or table
        ndarray, View, anything `mojoview.view()` takes, at most 8 dimensions. Chunks are joined. The numbers of a
        Series or Index are shared without labels and name, and only if they are what it means: to share categories,
        time zones, periods or missing values, share a DataFrame. DataFrames and FrameViews become shared frames, as do
        tables of pyarrow, polars and DuckDB, with columns of Arrow dtypes (needs pyarrow).
    name : str, optional
        1 to 200 bytes without "/"; anonymous memory when absent, transferred by pickling.
    reclaim : bool
        Whether to replace a name left by a dead process.
    mode : int
        Permissions of the name.

    Returns
    -------
    SharedArray
        Owns the name until `close()`. For a DataFrame or table the result of ``df.mojo.share(name)``.

    Raises
    ------
    SegmentExists
        The name is taken; the message names the process, and the remedy if it is dead.
    ShmFullError
        There is not enough memory. No segment remains.
    DTypeError, ZeroCopyError, MaskError, ShapeError, ArgumentError
        No array says what the object means, or the object has no items of one width; the message names the remedy.

    Notes
    -----
    Thread safety: any thread. Releases the GIL while it copies.

    Examples
    --------
    >>> import mojoview as mv, numpy as np
    >>> with mv.share(np.arange(3.0)) as shared:
    ...     np.asarray(shared.read()).tolist()
    [0.0, 1.0, 2.0]
    """
    accessor = getattr(obj, "mojo", None) if hasattr(type(obj), "mojo") else None
    if getattr(type(obj), "of_mojoview", False):  # a FrameView
        accessor = obj
    if accessor is not None and hasattr(accessor, "share"):
        return accessor.share(name, reclaim=reclaim, mode=mode)
    operation = "share()" if name is None else f"share(name={name!r})"
    found = open_object(obj, operation)
    if holds_columns(found):
        return resolve(SHARE_TABLE)(found, name, reclaim=reclaim, mode=mode)
    array = array_of(found, operation)
    dtype_info(array.dtype)
    fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    segment = segments.create_segment(
        _segment.ARRAY,
        array.nbytes,
        name=name,
        dtype=array.dtype,
        shape=array.shape,
        fortran=fortran,
        flags=_segment.SEALED,
        mode=mode,
        reclaim=reclaim,
        reserve=_segment.HEADER_BYTES,
    )
    _write(operation, segment, array, fortran)
    segments.commit_segment(segment)
    if name is None:
        segment.seal(_segment.SEAL_NOW)
        segment.disown()  # contents that cannot change need no writer
    return SharedArray(segment)


def attach(name: str, *, timeout: float = 1.0, uid: int | None = None) -> Any:
    """Attach to the segment of a name: array, State, Snapshot, Ring or frame.

    Parameters
    ----------
    name : str
    timeout : float
        Seconds to wait for a creator that has not finished.
    uid : int, optional
        Its expected owner; this process's user when absent.

    Returns
    -------
    SharedArray, State, Snapshot, Ring or SharedFrame
        A reader; closing it does not affect the name.

    Raises
    ------
    SegmentNotFound, NotReady, NotAMojoviewSegment, SegmentAccessError, VersionMismatch, CorruptHeader, TruncatedError,
    SegmentLost

    Notes
    -----
    Thread safety: any thread. No resource tracker is involved.

    Examples
    --------
    >>> import mojoview as mv, numpy as np
    >>> with mv.share(np.arange(3), "docs-attach"):
    ...     mv.attach("docs-attach").shape
    (3,)
    """
    return attach_kind(segments.attach_segment(name, timeout=timeout, uid=uid))


def attach_kind(segment: Segment) -> Any:
    """Return the handle for the kind of a segment; it owns the segment."""
    kind = segment.facts["kind"]
    if kind == _segment.ARRAY:
        return SharedArray(segment)
    if kind == _segment.FRAME:
        return resolve(ATTACH_FRAME)(segment)
    how = _KINDS.get(kind)
    if how is None:
        segment.close()
        raise VersionMismatch(f"attach({segment.name!r}): kind {kind} is unknown to this version of mojoview")
    return load_target(how)(segment)


def _write(operation: str, segment: Segment, array: np.ndarray[Any, Any], fortran: bool) -> None:
    """Copy the array behind the header by system calls, which populate pages faster than faults do."""
    fd, offset = segment.fileno(), segment.facts["payload_off"]
    try:
        for chunk in _chunks(array, fortran):
            while chunk:
                written = os.pwrite(fd, chunk[:CHUNK], offset)
                offset += written
                chunk = chunk[written:]
    except OSError as error:
        segment.close()
        if capacity.is_full(error):
            place = os.path.dirname(segment.path) if segment.path is not None else None
            raise capacity.shm_full(operation, array.nbytes, capacity.free_bytes(place), place) from error
        raise


def _chunks(array: np.ndarray[Any, Any], fortran: bool) -> Iterator[memoryview]:
    """Yield the bytes of the array in the order of the segment."""
    if array.nbytes == 0:
        return
    if array.flags.c_contiguous or fortran:
        yield memoryview((array.T if fortran else array).reshape(-1).view(np.uint8))  # type: ignore[arg-type]
        return
    items = max(1, (1 << 20) // array.itemsize)
    pieces: Any = np.nditer(
        array,
        ["external_loop", "buffered", "zerosize_ok", "growinner"],  # type: ignore[call-overload]
        [["readonly", "contig"]],
        order="C",
        buffersize=items,
    )
    for piece in pieces:
        yield memoryview(np.ascontiguousarray(piece).view(np.uint8))  # type: ignore[arg-type]
