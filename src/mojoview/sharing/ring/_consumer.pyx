"""RingReader: messages out of a ring."""

cimport cython
from cpython.buffer cimport PyBUF_C_CONTIGUOUS, PyBUF_FORMAT, PyBUF_WRITABLE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

from mojoview.memory._lease cimport Lease, lease_buffer
from mojoview.sharing.ring._batch cimport Batch, Handle, make_batch, one_frame
from mojoview.sharing.ring._flat cimport writable
from mojoview.sharing.ring._handle cimport deadline_of, whole
from mojoview.sharing.ring._producer cimport RingWriter, matrix, plain
from mojoview.sharing.ring.operations cimport *

import collections

import numpy as np

from mojoview.memory.errors import AllocationError, ArgumentError, BrokenFrame, MojoViewError, ReadOnlyError, ShapeError

REASONS = ("", "header check", "length", "payload checksum", "sequence gap")
cdef enum:
    MOST = 1048576  # frames that one read takes
    ARENA = 262144  # what one read of a lossy ring copies at most, but for a single larger frame


@cython.no_gc_clear
cdef class RingReader(RingWriter):
    """RingReader()

    The reading half of `Ring`.
    """

    def __cinit__(self):
        self.scratch = NULL
        self.parts = {}
        self.broken = collections.deque(maxlen=1000)

    def __dealloc__(self):
        free(self.scratch)

    cdef mv_ring *sit(self, str operation) except NULL:
        """Our handle, with the reader's seat taken and nobody else in it."""
        cdef mv_ring *r = self.ring(operation)
        if not self.started or (self.handle.consumer is not None and self.handle.consumer.owner.fd < 0):
            self.become_consumer()
        if self.reading:
            raise self.busy(operation)
        return r

    cdef bint copies(self) noexcept:
        return self.observer or mv_ring_lossy(&self.handle.ring)

    def read(self, max=256, timeout=None):
        """read(max=256, timeout=None)

        The next frames: all that are there, up to `max`; waits for the first.

        Parameters
        ----------
        max : int
        timeout : float, optional
            Seconds; 0 only looks; without end when absent.

        Returns
        -------
        Batch
            Empty when time is up, or when the producer has closed and all is read (`ended`). Borrows the ring's memory
            in a lossless ring, owns a copy in a lossy one.

        Raises
        ------
        BrokenFrame
            A frame was damaged; the next read goes on behind it. Recorded only, with ``broken="skip"``.
        PeerGone
            The producer died, and all that it published was read.
        NotOwnerError, Busy, ClosedError, CorruptHeader, ArgumentError
            Another reader has the seat, or another thread is reading; the ring is closed or damaged.

        Notes
        -----
        Thread safety: one thread at a time a handle.
        """
        cdef uint64_t deadline = 1
        cdef int most = <int>min(whole(max, "read(max)", 1), <uint64_t>MOST)
        cdef Batch batch
        self.sit("read")
        while True:
            batch = self.take_ready()
            if batch is None:
                batch = self.read_copies(most) if self.copies() else self.read_in_place(most)
            if batch is not None:
                self.newest = batch.frames[batch.count - 1]
                return batch
            if deadline == 1:
                deadline = deadline_of(timeout)
            if self.wait_for_data(deadline) != MV_RING_OK:
                return make_batch(None, NULL, 0, self.dtype)

    cdef Batch take_ready(self):
        """What an earlier read had to put off, so that it comes in order."""
        if self.pending is not None:
            pending, self.pending = self.pending, None
            raise pending
        ready, self.waiting = self.waiting, None
        return ready

    cdef int reserve(self, int count) except -1:
        cdef mv_ring_frame *grown
        if count > self.scratch_room:
            grown = <mv_ring_frame *>realloc(self.scratch, count * sizeof(mv_ring_frame))
            if grown is NULL:
                raise AllocationError(f"the headers of {count} frames")
            self.scratch, self.scratch_room = grown, count
        return 0

    cdef Batch read_in_place(self, int limit):
        """Frames where they lie; None where there are none."""
        cdef Handle handle = self.handle
        cdef mv_ring *r = &handle.ring
        cdef int n
        limit = min(limit, <int>min(r.capacity // 64, <uint64_t>MOST))
        self.reserve(limit)
        while True:
            n = mv_ring_peek(r, self.scratch, limit, 1)
            if n > 0 and (self.scratch[0].flags & MV_FLAG_WHOLE) != MV_FLAG_WHOLE:
                message = self.collect(&self.scratch[0])
                handle.give_back()
                if message is None:
                    continue
                mv_ring_count_read(r, 1, 0, 0)
                return message
            if n > 0:
                self.frames_read += n
                mv_ring_count_read(r, n, 0, 0)
                return make_batch(handle.hand_out(), self.scratch, n, self.dtype)
            self.cannot_read(n)
            if n != MV_RING_BROKEN:
                return None

    cdef int cannot_read(self, int rc) except -1:
        """What a look at a lossless ring said instead of frames; skipped bytes go back."""
        self.handle.give_back()
        if rc == MV_RING_CORRUPT:
            raise self.corrupt()
        if rc == MV_RING_BROKEN:
            self.note_break(False)
        return 0

    cdef Batch read_copies(self, int limit):
        """Copies of the next frames of a lossy ring; None where there are none."""
        cdef mv_ring *r = &self.handle.ring
        cdef uint64_t used = 0, room = mv_lossy_tail(r) - r.pos
        cdef int n = 0, rc
        cdef uint8_t *memory
        cdef mv_ring_frame *f
        if room == 0:
            return None
        room = min(room, <uint64_t>ARENA, r.capacity)
        limit = min(limit, <int>min(r.capacity // 64, <uint64_t>MOST))
        self.reserve(limit)
        arena = PyBytes_FromStringAndSize(NULL, room)
        memory = <uint8_t *>PyBytes_AS_STRING(arena)
        while n < limit:
            f = &self.scratch[n]
            rc = mv_lossy_next(r, memory + used, room - used, f)
            if rc == MV_RING_LAPPED:
                self.overruns += 1
                continue
            if rc == MV_RING_SHORT_BUFFER and n == 0:
                room, used = f.length, 0
                arena = PyBytes_FromStringAndSize(NULL, room)
                memory = <uint8_t *>PyBytes_AS_STRING(arena)
                continue
            if rc == MV_RING_BROKEN:
                self.note_break(n > 0)
                if self.pending is not None:
                    break
                continue
            if rc != MV_RING_OK:
                if rc == MV_RING_CORRUPT:
                    raise self.corrupt()
                break
            if (f.flags & MV_FLAG_WHOLE) != MV_FLAG_WHOLE:
                message = self.collect(f)
                if message is None:
                    continue
                if n == 0:
                    mv_ring_count_read(r, 1, 0, 0)
                    return message
                self.waiting = message
                break
            used += (f.length + 15) & ~<uint64_t>15
            used = min(used, room)
            n += 1
        mv_ring_count_read(r, n, 0, 0)
        if n == 0:
            return None
        self.frames_read += n
        return make_batch(arena, self.scratch, n, self.dtype)

    cdef object collect(self, const mv_ring_frame *f):
        """A fragment, copied; the whole message as a batch of one when it was the last. A message with a hole
        in it is abandoned.
        """
        cdef mv_ring_frame whole
        parts = self.parts.pop(f.source, None)
        if parts is not None and (f.flags & MV_FLAG_BEGIN or parts[1] != f.seq):
            self.abandoned += 1
            parts = None
        if f.flags & MV_FLAG_BEGIN:
            parts = [f.seq, f.seq, []]
        if parts is None:
            return None
        parts[2].append(PyBytes_FromStringAndSize(<const char *>f.payload, f.length))
        parts[1] = f.seq + 1
        if not f.flags & MV_FLAG_END:
            self.parts[f.source] = parts
            return None
        message = b"".join(parts[2])
        whole = f[0]
        whole.seq, whole.length, whole.payload = parts[0], len(message), <const uint8_t *>PyBytes_AS_STRING(message)
        self.frames_read += 1
        return make_batch(message, &whole, 1, self.dtype)

    cdef int note_break(self, bint later) except -1:
        """Counts and records a damaged frame; raises it, now or (with frames before it still to be handed
        over) at the next read.
        """
        cdef mv_ring *r = &self.handle.ring
        cdef int crc = r.broken.reason == MV_BREAK_CRC
        error = BrokenFrame(r.broken.pos, r.broken.seq if r.broken.seq_known else None, REASONS[r.broken.reason],
                            self.segment.name)
        self.breaks += 1
        self.crc_errors += crc
        self.broken.append(error)
        mv_ring_count_read(r, 0, 1, crc)
        if self.strict and later:
            self.pending = error
        elif self.strict:
            raise error
        return 0

    @cython.binding(False)  # as write()
    def read_into(self, buffer, timeout=None):
        """read_into(buffer, timeout=None)

        Copies the next message into memory of the caller.

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
            The message is larger than the buffer; it is still the next one.
        As `read`.
        """
        cdef Lease lease
        cdef Py_ssize_t n = 0
        cdef uint8_t *dst = writable(buffer, &n)
        cdef mv_ring *r = self.sit("read_into")
        cdef uint64_t deadline = 1
        cdef int rc
        if dst is not NULL and self.in_order():  # no lease: the GIL is ours until the bytes are there
            rc = mv_ring_take(r, dst, n, &self.newest)
            if rc == MV_RING_EMPTY and timeout is None and self.soon(r):
                rc = mv_ring_take(r, dst, n, &self.newest)
            if rc == MV_RING_OK:
                return self.took(r)
            if rc != MV_RING_SHORT_BUFFER:
                self.cannot_read(rc)
        lease = destination(buffer)
        while self.in_order():
            rc = mv_ring_take(r, <uint8_t *>lease.buffer.buf, lease.buffer.len, &self.newest)
            if rc == MV_RING_OK:
                return self.took(r)
            if rc == MV_RING_SHORT_BUFFER:
                break
            self.cannot_read(rc)
            if rc == MV_RING_BROKEN:
                continue
            if deadline == 1:
                deadline = deadline_of(timeout)
            if self.wait_for_data(deadline) != MV_RING_OK:
                return None
        return self.copy_out(lease, timeout)

    cdef bint in_order(self) noexcept:
        """Whether the ring's next frame is the caller's next, and may be copied straight from there."""
        return not (self.handle.count or self.pending is not None or self.waiting is not None or self.copies())

    cdef uint32_t took(self, mv_ring *r) noexcept:
        """After a message was copied out: its bytes."""
        mv_ring_wake(&r.ctl.space)
        self.frames_read += 1
        mv_ring_count_read(r, 1, 0, 0)
        return self.newest.length

    cdef object copy_out(self, Lease lease, object timeout):
        """As read_into, by way of a batch."""
        cdef Batch batch = self.read(1, timeout)
        if batch.count == 0:
            return None
        if batch.frames[0].length > <uint64_t>lease.buffer.len:
            self.waiting = batch
            raise ShapeError(f"read_into: the next message has {batch.frames[0].length} bytes, the buffer "
                             f"{lease.buffer.len}")
        memcpy(lease.buffer.buf, batch.frames[0].payload, batch.frames[0].length)
        batch.release()
        return batch.frames[0].length

    def read_many(self, rows, timeout=None):
        """read_many(rows, timeout=None)

        Copies the next messages into the rows of an array: as many as are there, all of one row's size.

        Parameters
        ----------
        rows : writable array, C-contiguous; 1-D of the ring's dtype, or 2-D of bytes
        timeout : float, optional
            To wait for the first.

        Returns
        -------
        int
            How many rows were filled. `last` has the last one's header.

        Raises
        ------
        ShapeError
            The next message has another size; it is still the next one.
        As `read`.
        """
        cdef Lease lease = destination(rows)
        cdef mv_ring *r = self.sit("read_many")
        cdef uint64_t deadline = 1
        cdef int64_t count, n, done = 0
        cdef Batch batch
        cdef int k
        count, n = matrix(self, lease, "read_many")
        if count == 0:
            return 0
        while self.in_order():
            done = mv_ring_take_many(r, <uint8_t *>lease.buffer.buf, count, n, n, &self.newest)
            if done > 0:
                mv_ring_wake(&r.ctl.space)
                self.frames_read += done
                mv_ring_count_read(r, done, 0, 0)
                return done
            if done == MV_RING_SHORT_BUFFER:
                break
            self.cannot_read(<int>done)
            if done == MV_RING_BROKEN:
                continue
            if deadline == 1:
                deadline = deadline_of(timeout)
            if self.wait_for_data(deadline) != MV_RING_OK:
                return 0
        batch = self.read(<int>min(count, 1024), timeout)
        for k in range(batch.count):
            if batch.frames[k].length != <uint64_t>n:
                if k == 0:
                    self.waiting = batch
                    raise ShapeError(f"read_many: the next message has {batch.frames[0].length} bytes, a row {n}")
                self.waiting = rest_of(batch, k)
                break
            memcpy(<uint8_t *>lease.buffer.buf + k * n, batch.frames[k].payload, n)
            done = k + 1
            self.newest = batch.frames[k]
        return max(done, 0)

    def __iter__(self):
        """Frames, until the ring ends; each is valid while it, or a view on it, is held."""
        cdef Batch batch
        cdef int k
        while True:
            batch = self.read(256, None)
            if batch.count == 0:
                return
            for k in range(batch.count):
                try:
                    yield one_frame(batch, k)
                except GeneratorExit:  # a break: the frames behind it are the next read's
                    self._put_back(batch, k + 1)
                    raise

    def _put_back(self, Batch batch, int k):
        """The frames of a batch from `k` on are read again."""
        if self.handle is not None and k < batch.count:
            self.waiting = rest_of(batch, k)

    def seek(self, seq):
        """seek(seq)

        In a lossy ring: the next frame read is the first whose number is at least `seq`; what is gone before
        it counts as lost.

        Raises
        ------
        ArgumentError
            The ring is lossless: reading takes.
        """
        cdef uint64_t number = whole(seq, "seek(seq)")
        cdef mv_ring *r = self.sit("seek")
        if not self.copies():
            raise ArgumentError(f"seek: ring {self.segment.name!r} is lossless; a recorder or broadcast ring "
                                f"can be sought")
        self.pending = self.waiting = None
        self.parts.clear()
        mv_lossy_seek(r, number)

    @property
    def last(self):
        """(seq, timestamp_ns, type) of the message that was read last."""
        return self.newest.seq, self.newest.t_ns, self.newest.type

    @property
    def lost(self):
        """Messages that this reader knows it missed, from gaps in their numbers."""
        return self.handle.ring.lost if self.handle is not None else self.lost_before

    @property
    def _resyncs(self):
        return self.handle.ring.resyncs if self.handle is not None else 0

    @property
    def _position(self):
        return self.ring("position").pos


cdef Batch rest_of(Batch batch, int k):
    """The frames from `k` on, in the same memory."""
    cdef Batch rest = make_batch(batch, batch.frames + k, batch.count - k, batch.dtype)
    return rest


cdef Lease destination(object buffer):
    cdef int flags = PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE | PyBUF_FORMAT
    try:
        return plain(lease_buffer(buffer, buffer, flags), "read")
    except MojoViewError:
        raise
    except (ValueError, BufferError) as error:
        if isinstance(buffer, np.ndarray) and buffer.flags.c_contiguous and buffer.flags.writeable:
            return lease_buffer(buffer.view("u1"), buffer, flags)  # datetimes have no PEP 3118 code; their bytes do
        raise ReadOnlyError(f"read: expected writable C-contiguous memory, got {type(buffer).__name__}: "
                            f"{error}") from error
    except TypeError as error:
        raise ArgumentError(f"read: expected a writable buffer, got {type(buffer).__name__}") from error
