"""RingCalls: the calls of `Ring`, forwarded to its producer and its consumer at C level."""

cimport cython
from libc.stdint cimport int64_t, uint64_t

from mojoview.sharing.ring._batch cimport Batch, Frame
from mojoview.sharing.ring._consumer cimport Consumer
from mojoview.sharing.ring._handle cimport Handle, copies
from mojoview.sharing.ring._producer cimport Producer
from mojoview.sharing.ring.operations cimport *
from mojoview.sharing.segment._segment cimport Segment

from mojoview.memory.errors import ArgumentError, DTypeError


# Not cleared by the cycle collector: calls do not check for None.
@cython.no_gc_clear
cdef class RingCalls:
    """RingCalls()

    A handle with its producer and its consumer; `Ring` adds making, finding and closing.
    """
    cdef Handle handle
    cdef Producer producer
    cdef Consumer consumer

    def __cinit__(self):
        self.handle = Handle.__new__(Handle)
        self.producer = Producer.__new__(Producer)
        self.consumer = Consumer.__new__(Consumer)
        self.producer.handle = self.consumer.handle = self.handle

    def _open(self, Segment segment, int64_t offset, int64_t nbytes, uint64_t capacity, int mode, bint crc, dtype, *,
              int wait, uint64_t spin_ns, bint observer, bint wait_for_peer, int full, bint strict, start):
        self.handle.open(segment, offset, nbytes, capacity, mode, crc, dtype, wait=wait, spin_ns=spin_ns,
                         observer=observer, wait_for_peer=wait_for_peer)
        self.producer.full, self.consumer.strict, self.consumer.start = full, strict, start

    def _detach(self):
        """Release the roles; frames that are still held keep their memory until they are dropped."""
        if self.producer.writing or self.consumer.reading or self.producer.open_claims:
            raise self.handle.busy("close")
        if self.handle.notifier is not None:
            notifier, self.handle.notifier = self.handle.notifier, None
            notifier.stop()
        self.handle.release_roles()

    # -- writing --------------------------------------------------------------------------------------------------

    @cython.binding(False)  # a plain method descriptor: the interpreter calls it directly
    def write(self, buffer, *, type=MV_FRAME_DATA, timeout=None):
        """write(buffer, *, type=1, timeout=None)

        Copy a message into the ring: one frame, or several if it is larger than `max_frame`.

        Parameters
        ----------
        buffer : bytes-like, C-contiguous
            ndarray, View, bytes, ...; with a dtype whole records of it, also a DataFrame. Not used after the call.
        type : int
            1, or 16 to 255.
        timeout : float, optional
            Seconds to wait for space (``full="block"``); no limit if None.

        Returns
        -------
        int or None
            Its sequence number; None if it was dropped (``full="drop"``).

        Raises
        ------
        WaitTimeout, RingFull, PeerGone
            No space in time; no space (``full="error"``); the reader has exited. Nothing was written.
        NotOwnerError, ArgumentError, LayoutError, ClosedError, CorruptHeader
            The ring has another producer; `buffer` cannot be written; the ring is closed or damaged.

        Notes
        -----
        Thread safety: one thread at a time per handle; several handles, or processes, in mode "mpsc".
        """
        return self.producer.write(buffer, type, timeout)

    def write_many(self, rows, *, type=MV_FRAME_DATA, timeout=None):
        """write_many(rows, *, type=1, timeout=None)

        Copy many messages, one frame each; those that are published together share one timestamp.

        Parameters
        ----------
        rows : array-like, 1-D of the ring's dtype or 2-D of bytes, rows contiguous; or a sequence of bytes-likes
        type, timeout : as for `write`

        Returns
        -------
        int
            Number of messages written; fewer than given only with ``full="drop"``.

        Raises
        ------
        As `write`; `written` of a `WaitTimeout` or `RingFull` counts the messages written before.
        """
        return self.producer.write_many(rows, type, timeout)

    def claim(self, nbytes, *, type=MV_FRAME_DATA, timeout=None):
        """claim(nbytes, *, type=1, timeout=None)

        Reserve space for a message that is built in place: ``with ring.claim(n) as view: ...``.

        The message is written when the block ends, and given up if the block raises.

        Parameters
        ----------
        nbytes : int
            At most `max_frame`.
        type, timeout : as for `write`

        Returns
        -------
        Claim
            Its view is writable, 1-D of the ring's dtype or of bytes, and valid inside the block. An array or a slice
            of it that outlives the block raises `ExportedError` there, and the message is given up.

        Raises
        ------
        As `write`, when the block is entered. A ring with one producer allows one open claim at a time.
        """
        return self.producer.claim(nbytes, type, timeout)

    def resume(self):
        """resume()

        Become the producer before the first write.

        Returns
        -------
        int
            The number of the next frame, at which a restarted recorder continues in the stream that it records.

        Raises
        ------
        NotOwnerError, Busy, ClosedError, CorruptHeader
            The ring has another producer, or all slots are taken; the ring is closed or damaged.

        Notes
        -----
        Thread safety: one thread at a time per handle.
        """
        return self.producer.resume()

    def append(self, frame):
        """append(frame)

        Copy a frame of another ring into this recording, with its number, time and type.

        Gaps in the numbers are kept.

        Parameters
        ----------
        frame : Frame
            Its number is at least that of the recording's next one.

        Raises
        ------
        ArgumentError, ShapeError, DTypeError
            This is not a recorder, or the number goes back; the frame is larger than `max_frame`, or has other records.
        NotOwnerError
            Another process records.

        Notes
        -----
        Thread safety: the recorder's thread.

        Examples
        --------
        >>> import mojoview as mv, tempfile
        >>> with tempfile.TemporaryDirectory() as folder, mv.Ring.create() as ring:
        ...     with mv.Ring.create(folder + "/flight.ring", mode="recorder") as recording:
        ...         _ = ring.write(b"a"), ring.write(b"b")
        ...         for frame in ring.read():
        ...             recording.append(frame)
        ...         [frame.seq for frame in recording.read(9, 0)]
        [0, 1]
        """
        if not isinstance(frame, Frame):
            raise ArgumentError(f"append: expected a Frame, got {type(frame).__name__}; write() takes bytes")
        if self.handle.opened("append").mode != MV_RING_RECORDER:
            raise ArgumentError(f"append: ring {self.handle.segment.name!r} is not a recorder; write() numbers frames "
                                f"itself")
        records = None if (<Frame>frame).batch is None else (<Frame>frame).batch.dtype
        if self.handle.dtype is not None and records is not None and records != self.handle.dtype:
            raise DTypeError(f"append: expected records of {self.handle.dtype}, got {records}")
        self.producer.append(frame, frame.seq, frame.timestamp_ns, frame.type)

    # -- reading --------------------------------------------------------------------------------------------------

    def read(self, max=256, timeout=None):
        """read(max=256, timeout=None)

        Return the next frames: all that are available, up to `max`. Waits for the first.

        Parameters
        ----------
        max : int
        timeout : float, optional
            Seconds; 0 does not wait; no limit if None.

        Returns
        -------
        Batch
            Empty when time is up, or when the producer has closed and everything was read (`ended`). Borrows the
            ring's memory in a lossless ring, owns a copy in a lossy one.

        Raises
        ------
        BrokenFrame
            A frame was damaged; the next read continues after it. Only recorded with ``broken="skip"``.
        PeerGone
            The producer died, and all that it published was read.
        NotOwnerError, Busy, ClosedError, CorruptHeader, ArgumentError
            The ring has another reader, or another thread is reading; the ring is closed or damaged.

        Notes
        -----
        Thread safety: one thread at a time per handle.
        """
        return self.consumer.read(max, timeout)

    @cython.binding(False)  # as write()
    def read_into(self, buffer, timeout=None):
        """read_into(buffer, timeout=None)

        Copy the next message into memory of the caller.

        Parameters
        ----------
        buffer : writable bytes-like, C-contiguous
        timeout : float, optional
            As for `read`.

        Returns
        -------
        int or None
            Its bytes; None when time is up or the ring has ended. `last` has its header.

        Raises
        ------
        ShapeError
            The message is larger than the buffer; the next read returns it.
        As `read`.
        """
        return self.consumer.read_into(buffer, timeout)

    def read_many(self, rows, timeout=None):
        """read_many(rows, timeout=None)

        Copy the next messages into the rows of an array: as many as are available and have the size of a row.

        Parameters
        ----------
        rows : writable array, C-contiguous; 1-D of the ring's dtype, or 2-D of bytes
        timeout : float, optional
            To wait for the first.

        Returns
        -------
        int
            Number of rows that were filled. `last` has the last one's header.

        Raises
        ------
        ShapeError
            The next message has another size; the next read returns it.
        As `read`.
        """
        return self.consumer.read_many(rows, timeout)

    def __iter__(self):
        """Iterate over frames until the ring ends; each is valid while it, or a view on it, is held."""
        return self.consumer.frames()

    def _unread(self, Batch batch, int k):
        """Read the frames of a batch from `k` on again."""
        self.consumer.unread(batch, k)

    def seek(self, seq):
        """seek(seq)

        Continue reading a lossy ring at the first frame whose number is at least `seq`.

        If that frame was overwritten, the frames missed count as lost.

        Raises
        ------
        ArgumentError
            The ring is lossless: reading consumes.
        """
        self.consumer.seek(seq)

    def fileno(self):
        """fileno()

        Return a descriptor for epoll, select and asyncio: readable if there may be something to read, or the ring
        has ended.

        Returns
        -------
        int
            An eventfd, borrowed; it becomes unreadable when a read finds the ring empty.

        Raises
        ------
        ClosedError, NotOwnerError
            The ring is closed; it has another reader.

        Notes
        -----
        The first call starts a thread that sleeps until the producer wakes it. Thread safety: the reader's thread.
        """
        return self.consumer.fileno()

    # -- facts and counters ---------------------------------------------------------------------------------------

    @property
    def segment(self):
        """The segment that holds the ring."""
        return self.handle.segment

    @property
    def dtype(self):
        """Structured dtype of the records; None if messages are bytes."""
        return self.handle.dtype

    @property
    def closed(self):
        return self.handle.ring is NULL

    @property
    def capacity(self):
        return self.handle.opened("capacity").capacity

    @property
    def max_frame(self):
        """Bytes of the largest message that fits in one frame."""
        return mv_max_payload(self.handle.opened("max_frame"))

    @property
    def ended(self):
        """True if the producer has closed and everything was read."""
        return self.consumer.ended

    @property
    def last(self):
        """(seq, timestamp_ns, type) of the message that was read last."""
        return self.consumer.newest.seq, self.consumer.newest.t_ns, self.consumer.newest.type

    @property
    def lost(self):
        """Messages that this reader missed, by the gaps in their numbers."""
        return self.handle.lost if self.handle.ring is NULL else self.handle.ring.lost

    @property
    def broken(self):
        """The last 1,000 `BrokenFrame` errors."""
        return self.consumer.broken

    @property
    def breaks(self):
        """Number of damaged frames that this reader found."""
        return self.consumer.breaks

    @property
    def crc_errors(self):
        """Number of damaged frames with a wrong payload checksum."""
        return self.consumer.crc_errors

    @property
    def frames_read(self):
        return self.consumer.frames_read

    @property
    def overruns(self):
        """Number of times that this reader of a lossy ring was overtaken by the producer."""
        return self.consumer.overruns

    @property
    def abandoned(self):
        """Messages of which a fragment was missing."""
        return self.consumer.abandoned

    @property
    def _mode(self):
        return self.handle.opened("mode").mode

    @property
    def _copies(self):
        self.handle.opened("stats")
        return copies(self.handle)

    @property
    def _lossy(self):
        return mv_ring_lossy(self.handle.opened("stats")) != 0

    @property
    def _writable(self):
        return not self.handle.opened("attach").readonly

    def _has_reader(self):
        return self.handle.has_reader

    def _counters(self):
        """Return the counters of the ring, with this handle's own count of resyncs."""
        return {**self.handle.counters(), "own_resyncs": self.handle.ring.resyncs}
