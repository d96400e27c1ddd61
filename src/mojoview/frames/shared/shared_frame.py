"""SharedFrame: a DataFrame in shared memory, published in versions that other processes read in place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pandas as pd

from mojoview.frames.exports.to_pandas import frame_of
from mojoview.frames.shared.frame_layout import plan_layout, rebuild
from mojoview.memory.check import check_int
from mojoview.memory.errors import ArgumentError, CorruptHeader, MaskError, ShmFullError, WaitTimeout
from mojoview.sharing.segment import _segment, segments
from mojoview.sharing.segment._segment import Segment
from mojoview.sharing.snapshot import _snapshot
from mojoview.sharing.snapshot._snapshot import Snapshot
from mojoview.views.arrow.chunked import ChunkedView, type_of

__all__ = ["SharedFrame", "share_frame"]


class SharedFrame:
    """A DataFrame in shared memory. Made by ``df.mojo.share(name)`` and `mojoview.attach(name)`, by unpickling, and by
    `take_over(name)` when the writer has died.

    A version is published whole: blocks, index, labels, categories, masks and strings in one publication, so a reader
    never sees columns of different versions together. Readers get a real DataFrame over the shared
    memory, without a copy of any size; its arrays are read-only, and pandas copies a block before it writes to
    it. A version stays as it is while anything made from it is alive. The writer never waits for readers, and no reader
    for the writer.

    Attributes
    ----------
    name : str
    version : int
        Number of the newest version; 0 before the first.
    generation : int
        Grows when a version has another schema (columns, dtypes, index kind) than the one before; of the version read
        last.
    capacity : int
        Bytes that one version may take.

    Notes
    -----
    Index, column labels and their names come back equal and of the same types: text, numbers, dates and times of
    Python, NumPy and pandas, and tuples of them; other objects are refused by name. So do `attrs`, made of such values,
    lists and dictionaries, and the flag `allows_duplicate_labels`. The `freq` of a datetime or timedelta index comes
    back as None, since pandas would verify it label by label.

    Thread safety: `read()` in any thread; `publish()` and `append()` in one thread at a time. After a fork the child
    only reads.

    Examples
    --------
    >>> import pandas as pd, mojoview as mv
    >>> df = pd.DataFrame({"price": [1.5, 2.5], "city": pd.Categorical(["Rome", "Oslo"])})
    >>> with df.mojo.share("docs-frame") as shared:
    ...     reader = mv.attach("docs-frame")
    ...     first = reader.read()
    ...     version = shared.publish(df.assign(price=[3.0, 4.0]))
    ...     first["price"].tolist(), reader.read()["price"].tolist(), version
    ([1.5, 2.5], [3.0, 4.0], 2)
    >>> reader.close()
    """

    def __init__(self, snapshot: Snapshot):
        if snapshot.shape != (snapshot.nbytes,) or snapshot.segment.facts["kind"] != _segment.FRAME:
            raise CorruptHeader(f"attaching frame {snapshot.name!r}: its slots are not plain bytes")
        self._snapshot = snapshot
        self._description: dict[str, Any] = {}  # of the version that this handle read or published last

    @staticmethod
    def take_over(name: str) -> SharedFrame:
        """Become the writer of a SharedFrame whose writer is dead; its readers are not interrupted.

        Returns
        -------
        SharedFrame
            Its next `publish()` or `append()` continues after the last version.

        Raises
        ------
        SegmentExists
            The writer is alive.
        SegmentNotFound, SchemaMismatch, NotAMojoviewSegment, SegmentAccessError, CorruptHeader
            The name does not exist, or is not a SharedFrame of this user.

        Notes
        -----
        Thread safety: any thread; of several processes that try, one succeeds.
        """
        segment = segments.attach_segment(name, kinds=(_segment.FRAME,), writable=True)
        segments.take_over(segment, f"SharedFrame.take_over({name!r})")
        return SharedFrame(Snapshot._of(segment))

    # -- reading -------------------------------------------------------------------------------------------------------

    def read(self, timeout: float = 1.0) -> pd.DataFrame:
        """Return the newest version.

        Parameters
        ----------
        timeout : float
            Seconds to wait if there is none yet.

        Returns
        -------
        pandas.DataFrame
            Borrows the shared memory and keeps this version of it alive.

        Raises
        ------
        WaitTimeout, ClosedError, CorruptHeader, Busy
        """
        window = self._snapshot.read()
        while window is None:
            self._snapshot.wait_newer(timeout)
            window = self._snapshot.read()
        frame, self._description = rebuild(window)
        return frame

    def wait_newer(self, timeout: float | None = None) -> int:
        """Wait for a version newer than the one read last.

        Returns
        -------
        int
            Its number.

        Raises
        ------
        WaitTimeout, OwnerGone, ClosedError
        """
        return self._snapshot.wait_newer(timeout)

    async def versions(self) -> AsyncIterator[pd.DataFrame]:
        """Iterate over the versions with ``async for``; versions published faster than they are read are skipped.

        Raises
        ------
        OwnerGone, ClosedError
            The writer closed the frame or exited.
        """
        loop = asyncio.get_running_loop()
        while True:
            try:
                await loop.run_in_executor(None, self._snapshot.wait_newer, 0.25)
            except WaitTimeout:
                continue
            yield self.read()

    def __aiter__(self) -> AsyncIterator[pd.DataFrame]:
        return self.versions()

    # -- writing -------------------------------------------------------------------------------------------------------

    def publish(self, frame: pd.DataFrame, *, busy: Any = "grow", timeout: float | None = None) -> int:
        """Publish a frame as the next version.

        Parameters
        ----------
        frame : DataFrame
            Copied once, into the slot. Another schema begins a new generation.
        busy : {"grow", "skip", "wait"}
            If readers hold every slot: add one, raise `Busy`, or wait.
        timeout : float, optional

        Returns
        -------
        int
            The version's number.

        Raises
        ------
        ShmFullError
            The frame needs more than `capacity`.
        ZeroCopyError
            A column cannot be shared; the message names it and the remedy.
        Busy, WaitTimeout, NotOwnerError, ClosedError
        """
        if not isinstance(frame, pd.DataFrame):
            raise ArgumentError(f"publish(): expected a DataFrame, got {type(frame).__name__}")
        layout = plan_layout(frame)
        if not self._description and self.version:  # a new writer continues from the version that exists
            self.read()
        same = layout.description["schema"] == self._description.get("schema")
        layout.describe({**layout.description, "generation": self.generation + (not same)})
        if layout.nbytes > self.capacity:
            raise ShmFullError(
                f"publish(): the frame needs {layout.nbytes} bytes, {self.name!r} has room for {self.capacity}; "
                "share it with capacity=",
                layout.nbytes,
                self.capacity,
            )
        with self._snapshot.write(busy=busy, timeout=timeout) as slot:
            layout.write(slot)
        self._description = layout.description
        return self._snapshot.version

    def append(self, rows: pd.DataFrame, *, busy: Any = "grow", timeout: float | None = None) -> int:
        """Publish the newest version with additional rows, up to `capacity`; readers keep the versions that they hold.

        Parameters
        ----------
        rows : DataFrame
            Of the same columns and dtypes.

        Returns
        -------
        int

        Raises
        ------
        ShmFullError
            The log is full; it stays as it was.
        ArgumentError
            Not a DataFrame, or columns or dtypes differ.
        """
        if not isinstance(rows, pd.DataFrame):
            raise ArgumentError(f"append(): expected a DataFrame, got {type(rows).__name__}")
        held = self.read()
        if not rows.columns.equals(held.columns) or list(rows.dtypes) != list(held.dtypes):
            raise ArgumentError(f"append(): expected columns {dict(held.dtypes)}, got {dict(rows.dtypes)}")
        ignore = isinstance(held.index, pd.RangeIndex) and isinstance(rows.index, pd.RangeIndex)
        grown = pd.concat([held, rows], ignore_index=ignore)
        grown.attrs = held.attrs  # of two frames with different ones pandas keeps none
        return self.publish(grown, busy=busy, timeout=timeout)

    # -- properties ----------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return self._snapshot.name

    @property
    def version(self) -> int:
        return self._snapshot.version

    @property
    def generation(self) -> int:
        return int(self._description.get("generation", 0))

    @property
    def capacity(self) -> int:
        return self._snapshot.nbytes

    @property
    def closed(self) -> bool:
        return self._snapshot.closed

    def writer_alive(self) -> bool:
        """Return whether the writer's process is running and has not closed the frame."""
        return self._snapshot.writer_alive()

    def reader(self) -> SharedFrame:
        """Make a read-only handle on the same frame."""
        return SharedFrame(self._snapshot.reader())

    def close(self) -> None:
        """Close the handle; the writer also removes the name. Frames that were read stay valid."""
        self._snapshot.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return SharedFrame, (self._snapshot,)

    def __enter__(self) -> SharedFrame:
        self._snapshot.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = (
            "closed" if self.closed else f"version {self.version}, {'writer' if self._snapshot.writable else 'reader'}"
        )
        return f"<mojoview SharedFrame {self.name!r}: {state}>"


def share_frame(
    frame: pd.DataFrame,
    name: str | None,
    *,
    capacity: int | None = None,
    slots: int = 3,
    prefault: bool = False,
    reclaim: bool = False,
    mode: int = 0o600,
) -> SharedFrame:
    """Publish a frame as version 1 of a new SharedFrame; see `df.mojo.share`."""
    needed = plan_layout(frame).nbytes
    room = needed + needed // 4 + 65536
    if capacity is not None:
        room = check_int(f"share({name!r})", "capacity", capacity, 0, 2**62)
    if room < needed:
        raise ShmFullError(f"share({name!r}): the frame needs {needed} bytes, capacity is {room}", needed, room)
    shared = SharedFrame(
        _snapshot.create(_segment.FRAME, name, (room,), "u1", slots, None, 64, prefault, reclaim, mode)
    )
    try:
        shared.publish(frame)
    except BaseException:
        shared.close()
        raise
    return shared


def share_table(table: Any, name: str | None, **options: Any) -> SharedFrame:
    """Publish a table of Arrow, opened as `StructView` or `ChunkedView`, as a DataFrame of Arrow dtypes."""
    if table.masked:
        raise MaskError("share(table): expected rows that are all there, got records that are missing as a whole")
    if isinstance(table, ChunkedView):
        fields = table._type.children
        parts = [chunk.children for chunk in table.chunks]
        columns = [ChunkedView([part[k] for part in parts], field) for k, field in enumerate(fields)]
    else:
        fields, columns = type_of(table).children, list(table.children)
    return share_frame(frame_of(columns, [field.name for field in fields], "share(table)"), name, **options)


def attach_frame(segment: Segment) -> SharedFrame:
    """Make the handle that `mojoview.attach()` returns."""
    return SharedFrame(Snapshot._of(segment))
