"""RingWriter: messages into a ring."""

cimport cython
from cpython.buffer cimport PyBUF_C_CONTIGUOUS, PyBUF_FORMAT
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from mojoview.memory._lease cimport Lease, lease_buffer, lease_owner
from mojoview.sharing.ring._flat cimport readable
from mojoview.sharing.ring._handle cimport RingBase, deadline_of, frame_type, whole
from mojoview.sharing.ring.operations cimport *
from mojoview.views._view cimport View, make_view

import numpy as np

from mojoview.memory.errors import (
    ArgumentError, DTypeError, ExportedError, LayoutError, MojoViewError, RingFull, ShapeError, WaitTimeout,
)
from mojoview.sharing.ring.tables import make_records
from mojoview.views import view as view_of

cdef enum:
    LARGE = 262144  # bytes from which a copy is worth giving the GIL away


@cython.no_gc_clear
cdef class RingWriter(RingBase):
    """RingWriter()

    The writing half of `Ring`.
    """

    @cython.binding(False)  # a plain method descriptor: the interpreter calls it directly
    def write(self, buffer, *, type=MV_FRAME_DATA, timeout=None):
        """write(buffer, *, type=1, timeout=None)

        Copies a message into the ring, as one frame, or as several where it is larger than `max_frame`.

        Parameters
        ----------
        buffer : bytes-like, C-contiguous
            ndarray, View, bytes, ...; with a dtype whole records of it, also a DataFrame. Not used any
            more after the call.
        type : int
            1, or 16 to 255.
        timeout : float, optional
            Seconds to wait for room (``full="block"``); without end when absent.

        Returns
        -------
        int or None
            Its sequence number; None where it was dropped (``full="drop"``).

        Raises
        ------
        WaitTimeout, RingFull, PeerGone
            No room in time; no room (``full="error"``); the reader is gone. Nothing was written.
        NotOwnerError, ArgumentError, LayoutError, ClosedError, CorruptHeader
            Another producer has the seat; what came cannot be written; the ring is closed or damaged.

        Notes
        -----
        Thread safety: one thread at a time a handle; several handles, or processes, in mode "mpsc".
        """
        cdef Lease lease
        cdef Py_ssize_t n = 0
        cdef uint64_t seq = 0
        cdef int kind = frame_type(type)
        cdef const uint8_t *src = readable(buffer, &n)
        if src is not NULL and n < LARGE:  # what most messages are, with room for them: no lease, no loop
            self.ready(n)
            if mv_ring_send(&self.handle.ring, src, n, kind, &seq) == MV_RING_OK:
                return seq
        lease = source(self, buffer)
        return self.write_bytes(<const uint8_t *>lease.buffer.buf, lease.buffer.len, kind, timeout)

    cdef int ready(self, uint64_t n) except -1:
        """Our seat is taken, and `n` bytes are a message."""
        if self.producer is None or self.producer.owner.fd < 0:
            self.become_producer()
        if self.writing or self.claimed:
            raise self.busy("write")
        if self.record_bytes and n % self.record_bytes:
            raise ShapeError(f"write: expected whole records of {self.record_bytes} bytes, got {n} bytes")
        return 0

    cdef object write_bytes(self, const uint8_t *src, uint64_t n, int type, object timeout):
        cdef mv_ring *r
        cdef uint64_t seq = 0, deadline = 0
        cdef int rc
        self.ready(n)
        r = &self.handle.ring
        while True:
            if n < LARGE:
                rc = mv_ring_send(r, src, n, type, &seq)
            else:
                self.writing = True
                with nogil:
                    rc = mv_ring_send(r, src, n, type, &seq)
                self.writing = False
            if rc == MV_RING_OK:
                return seq
            if rc == MV_RING_TOO_BIG:
                return self.write_large(src, n, type, deadline_of(timeout))
            if rc != MV_RING_FULL:
                raise self.corrupt()
            if deadline == 0:
                deadline = deadline_of(timeout)
            if not self.make_room(n, deadline):
                return None

    cdef bint make_room(self, uint64_t n, uint64_t deadline) except -1:
        """The policy for a full ring: false = drop."""
        if self.full == 1:
            mv_ring_count_dropped(&self.handle.ring, 1)
            return False
        if self.full == 2:
            raise RingFull(f"write: ring {self.segment.name!r} is full")
        if self.wait_for_room(n, deadline) != MV_RING_OK:
            raise WaitTimeout(f"write: ring {self.segment.name!r} had no room for {n} bytes in time")
        return True

    cdef object write_large(self, const uint8_t *src, uint64_t n, int type, uint64_t deadline):
        """A message in fragments. Once the first is in, the rest follows whatever the policy: half a message
        helps nobody.
        """
        cdef mv_ring *r = &self.handle.ring
        cdef uint64_t seq = 0, begin = 0, done = 0, part, stamp = mv_ring_now(r.ctl)
        cdef uint64_t step = min(mv_max_payload(r), r.capacity // 4 - 64)
        cdef int rc, flags
        while done < n:
            part = min(step, n - done)
            flags = (MV_FLAG_BEGIN if done == 0 else 0) | (MV_FLAG_END if done + part == n else 0)
            with nogil:
                rc = mv_ring_put(r, src + done, part, type, flags, stamp, &seq)
            if rc == MV_RING_FULL:
                if done == 0:
                    if not self.make_room(part, deadline):
                        return None
                elif self.wait_for_room(part, deadline) != MV_RING_OK:
                    raise WaitTimeout(f"write: the reader of ring {self.segment.name!r} took {done} of {n} "
                                      f"bytes in time; "
                                      "it will discard the part")
                continue
            if rc != MV_RING_OK:
                raise self.corrupt()
            mv_ring_publish(r)
            mv_ring_wake(&r.ctl.data)
            begin = seq if done == 0 else begin
            done += part
        return begin

    def write_many(self, rows, *, type=MV_FRAME_DATA, timeout=None):
        """write_many(rows, *, type=1, timeout=None)

        Copies many messages, one frame each, with one time stamp for those that go in together.

        Parameters
        ----------
        rows : array-like, 1-D of the ring's dtype or 2-D of bytes, rows contiguous; or a sequence of bytes-likes
        type, timeout : as for `write`

        Returns
        -------
        int
            How many were written; fewer than there are only with ``full="drop"``.

        Raises
        ------
        As `write`; `written` of a `WaitTimeout` or `RingFull` tells how many went in before.
        """
        cdef Lease lease
        cdef int64_t done = 0, count, stride, n, k
        cdef uint64_t seq = 0, deadline = 0
        cdef mv_ring *r
        cdef const uint8_t *src
        cdef int kind = frame_type(type)
        if isinstance(rows, (list, tuple)):
            for row in rows:
                try:
                    done += self.write(row, type=kind, timeout=timeout) is not None
                except (WaitTimeout, RingFull) as error:
                    error.written = done
                    raise
            return done
        self.ready(0)
        lease = source(self, rows)
        count, n = matrix(self, lease, "write_many")
        stride = n
        r = &self.handle.ring
        src = <const uint8_t *>lease.buffer.buf
        if n > <int64_t>mv_max_payload(r):
            for k in range(count):
                try:
                    done += self.write_bytes(src + k * n, n, kind, timeout) is not None
                except (WaitTimeout, RingFull) as error:
                    error.written = done
                    raise
            return done
        while done < count:
            self.writing = True
            with nogil:
                k = mv_ring_put_many(r, src + done * stride, count - done, n, stride, kind, mv_ring_now(r.ctl), &seq)
            self.writing = False
            if k > 0:
                mv_ring_wake(&r.ctl.data)
                done += k
                continue
            if k != MV_RING_FULL:
                raise self.corrupt()
            if deadline == 0:
                deadline = deadline_of(timeout)
            if self.full == 1:
                mv_ring_count_dropped(r, count - done)
                break
            if self.full == 2:
                raise after(done, RingFull(f"write_many: ring {self.segment.name!r} is full after {done} of {count}"))
            if self.wait_for_room(n, deadline) != MV_RING_OK:
                raise after(done, WaitTimeout(f"write_many: ring {self.segment.name!r} took {done} of {count} in time"))
        return done

    def resume(self):
        """resume()

        Takes the producer's seat now rather than at the first write.

        Returns
        -------
        int
            The number of the next frame: where a recorder that comes back goes on in the stream that it records.

        Raises
        ------
        NotOwnerError, Busy, ClosedError, CorruptHeader
            Another producer has the seat, or all seats are taken; the ring is closed or damaged.

        Notes
        -----
        Thread safety: one thread at a time a handle.
        """
        self.ring("resume")
        if self.producer is None or self.producer.owner.fd < 0:
            self.become_producer()
        return self.handle.ring.next_seq

    def _copy_in(self, frame, uint64_t seq, uint64_t timestamp_ns, int type):
        """A frame of another ring, with its own number and time, into a recording."""
        cdef Lease lease = lease_buffer(frame, frame, PyBUF_C_CONTIGUOUS)
        cdef mv_ring *r
        cdef int rc
        if self.producer is None or self.producer.owner.fd < 0:
            self.become_producer()
        r = &self.handle.ring
        if self.record_bytes and <uint64_t>lease.buffer.len % self.record_bytes:
            raise ShapeError(f"append: expected whole records of {self.record_bytes} bytes, got {lease.buffer.len}")
        if <int64_t>(seq - r.next_seq) < 0:
            raise ArgumentError(f"append: frame {seq} comes after {r.next_seq - 1} in {self.segment.name!r}")
        if r.tail == mv_ring_start(r):
            r.ctl.start_seq = seq  # a recording begins where it began to listen
        rc = mv_lossy_write(r, <const uint8_t *>lease.buffer.buf, lease.buffer.len, type,
                            MV_FLAG_WHOLE | (MV_FLAG_CRC if r.crc else 0), seq, timestamp_ns)
        if rc == MV_RING_TOO_BIG:
            raise ShapeError(f"a frame of {lease.buffer.len} bytes does not fit {self.segment.name!r}: give it "
                             f"a larger capacity")
        mv_ring_publish(r)
        mv_ring_wake(&r.ctl.data)

    def claim(self, nbytes, *, type=MV_FRAME_DATA, timeout=None):
        """claim(nbytes, *, type=1, timeout=None)

        Room for a message that is made in place: ``with ring.claim(n) as view: ...`` writes it when the block ends
        well, gives it up when it raises.

        Parameters
        ----------
        nbytes : int
            At most `max_frame`.
        type, timeout : as for `write`

        Returns
        -------
        Claim
            Its view is writable, 1-D of the ring's dtype or of bytes, and ends with the block: an array
            or slice of it that is kept
            raises `ExportedError` there, and gives the message up.

        Raises
        ------
        As `write`, when the block is entered. In a ring of one producer one claim can be open at a time.
        """
        cdef uint64_t n = whole(nbytes, "claim(nbytes)")
        if self.record_bytes and n % self.record_bytes:
            raise ShapeError(f"claim: expected whole records of {self.record_bytes} bytes, got {n} bytes")
        if n > mv_max_payload(self.ring("claim")):
            raise ShapeError(f"claim: {n} bytes are more than a frame holds, {self.max_frame}; write() fragments")
        return make_claim(self, n, frame_type(type), timeout)

    cdef int enter_claim(self, uint64_t n, int type, object timeout, uint64_t *pos, uint8_t **payload) except -1:
        """MV_RING_OK, or MV_RING_FULL where it is to be dropped."""
        cdef mv_ring *r
        cdef uint64_t deadline = 0
        cdef int rc
        if self.producer is None or self.producer.owner.fd < 0:
            self.become_producer()
        if self.writing or self.claimed:
            raise self.busy("claim")
        r = &self.handle.ring
        while True:
            if r.mode == MV_RING_SPSC:
                rc = mv_spsc_claim(r, n, payload)
                self.claimed = rc == MV_RING_OK
            else:
                rc = mv_mpsc_claim(r, n, type, MV_FLAG_WHOLE | (MV_FLAG_CRC if r.crc else 0), pos)
                if rc == MV_RING_OK:
                    payload[0] = mv_mpsc_payload(r, pos[0])
            if rc == MV_RING_OK:
                self.open_claims += 1
                return 0
            if rc != MV_RING_FULL:
                raise self.corrupt()
            deadline = deadline or deadline_of(timeout)
            if not self.make_room(n, deadline):
                raise RingFull(f"claim: ring {self.segment.name!r} is full, and the message is dropped")

    cdef object leave_claim(self, uint64_t pos, const uint8_t *payload, uint64_t n, int type, bint good):
        cdef mv_ring *r = &self.handle.ring
        cdef uint64_t seq = 0
        cdef int flags = MV_FLAG_WHOLE | (MV_FLAG_CRC if r.crc else 0)
        cdef uint32_t crc = mv_crc32c(0, payload, n) if r.crc and good else 0
        self.open_claims -= 1
        if r.mode == MV_RING_MPSC:
            seq = mv_mpsc_commit(r, pos, n, type if good else MV_FRAME_ABORTED, flags, mv_ring_now(r.ctl), crc)
        else:
            self.claimed = False
            if good:
                seq = mv_spsc_commit(r, n, type, flags, mv_ring_now(r.ctl), crc)
                mv_ring_publish(r)
        mv_ring_wake(&r.ctl.data)
        return seq


cdef Claim make_claim(RingWriter ring, uint64_t nbytes, int type, object timeout):
    cdef Claim claim = Claim.__new__(Claim)
    claim.ring, claim.nbytes, claim.type, claim.timeout = ring, nbytes, type, timeout
    return claim


@cython.final
cdef class Claim:
    """Claim()

    A message that is being made in the ring; entered by ``with``. `seq` is its number once it is written.
    """

    def __init__(self):
        raise ArgumentError("Claim() is not called by hand: Ring.claim() makes it")

    def __enter__(self):
        cdef RingWriter ring = self.ring
        if ring is None or self.view is not None or self.seq is not None:
            raise ArgumentError("claim: entered twice, or not made by Ring.claim()")
        dtype = np.dtype("u1") if ring.dtype is None else ring.dtype
        if mv_ring_lossy(ring.ring("claim")):  # readers may look there at any time: made beside the ring, then copied
            self.staging = np.empty(self.nbytes // dtype.itemsize, dtype)
            self.view = view_of(self.staging, writable=True)
        else:
            ring.enter_claim(self.nbytes, self.type, self.timeout, &self.pos, &self.payload)
            self.view = ring_view(ring, self.payload, self.nbytes, dtype)
        return self.view

    def __exit__(self, kind, value, trace):
        cdef RingWriter ring = self.ring
        cdef View view = self.view
        cdef bint good = kind is None
        if view is None:
            raise ArgumentError("claim: left without having been entered")
        kept = False
        self.view = None
        if view.desc is not NULL:
            kept = view._exports != 0 or view._exposed or (<PyObject *>view._lease).ob_refcnt != 1
            if not kept:
                view.release()
        if self.staging is not None:
            if good and not kept:
                self.seq = ring.write(self.staging, type=self.type, timeout=self.timeout)
        else:
            seq = ring.leave_claim(self.pos, self.payload, self.nbytes, self.type, good and not kept)
            self.seq = seq if good and not kept else None
        if kept and good:
            raise ExportedError("claim: an array or a slice of the view outlives the block; drop it (del) "
                                "before, the message was given up")


cdef View ring_view(RingWriter ring, uint8_t *payload, uint64_t n, object dtype):
    cdef int64_t shape[1]
    cdef int64_t strides[1]
    strides[0] = dtype.itemsize
    shape[0] = <int64_t>n // strides[0]
    return make_view(lease_owner(ring.handle.mapping), payload, 1, shape, strides, dtype, False)


cdef object after(int64_t written, object error):
    error.written = written
    return error


cdef Lease source(RingWriter ring, object buffer):
    """The caller's bytes, pinned."""
    try:
        return plain(lease_buffer(buffer, buffer, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT), "write")
    except MojoViewError:
        raise
    except (ValueError, BufferError) as error:
        try:  # datetimes have no PEP 3118 code; their bytes do
            return lease_buffer(np.asarray(buffer).view("u1"), buffer, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT)
        except (ValueError, TypeError, BufferError):
            raise LayoutError(f"write: expected C-contiguous memory that can be copied, got "
                              f"{type(buffer).__name__}: {error}") from None
    except TypeError as error:
        if ring.dtype is None:
            raise ArgumentError(f"write: expected a bytes-like object, got {type(buffer).__name__}") from error
        records = make_records(buffer, ring.dtype).view("u1")
        return lease_buffer(records, records, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT)


cdef Lease plain(Lease lease, str operation):
    """Refuses Python objects: a pointer means nothing to another process, and nobody would count the reference."""
    cdef const char *c = lease.buffer.format
    cdef bint naming = False  # between the colons of a field's name
    while c is not NULL and c[0]:
        naming ^= c[0] == b":"
        if c[0] == b"O" and not naming:
            raise DTypeError(f"{operation}: memory with Python objects (format {lease.buffer.format!r}) is no message")
        c += 1
    return lease


cdef (int64_t, int64_t) matrix(RingWriter ring, Lease lease, str operation) except *:
    """Rows and bytes a row."""
    cdef Py_buffer *b = &lease.buffer
    if ring.dtype is not None:
        if b.len % ring.dtype.itemsize:
            raise ShapeError(f"{operation}: expected records of {ring.dtype.itemsize} bytes, got {b.len} bytes")
        return b.len // ring.dtype.itemsize, ring.dtype.itemsize
    if b.ndim < 2:
        raise ShapeError(f"{operation}: expected 2 dimensions, one row a frame, or a list of messages; got {b.ndim}")
    return b.shape[0], (b.len // b.shape[0] if b.shape[0] else 0)
