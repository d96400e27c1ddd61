"""Producer: messages into a ring."""

cimport cython
from cpython.buffer cimport PyBUF_C_CONTIGUOUS, PyBUF_FORMAT
from cpython.exc cimport PyErr_CheckSignals
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from posix.unistd cimport getpid

from mojoview.memory._lease cimport Lease, lease_buffer, lease_owner
from mojoview.sharing.ring._flat cimport readable
from mojoview.sharing.ring._handle cimport Handle, deadline_of, frame_type, holds_producer
from mojoview.sharing.ring.operations cimport *
from mojoview.views._view cimport View, make_view

import numpy as np

from mojoview.memory.check import check_int
from mojoview.memory.errors import (
    ArgumentError, Busy, DTypeError, ExportedError, LayoutError, MojoViewError, NotOwnerError, PeerGone, RingFull,
    ShapeError, WaitTimeout,
)
from mojoview.memory.extension_points import TABLE_TO_RECORDS, resolve
from mojoview.sharing.segment._segment import lock_byte
from mojoview.views import view as view_of

FULL = {"block": 0, "drop": 1, "error": 2}
cdef enum:
    FULL_DROP = 1
    FULL_ERROR = 2
    GIL_WORTH = 262144  # bytes from which a copy is worth releasing the GIL


@cython.final
@cython.no_gc_clear
cdef class Producer:
    """Producer()

    The writing side of a handle; becomes the ring's producer with the first message.
    """

    cdef int prepare(self, uint64_t n, str operation) except -1:
        """Check that this handle is the producer and not in use, and that `n` bytes are a message."""
        if not holds_producer(self.handle):
            self.acquire()
        if self.writing or self.claimed:
            raise self.handle.busy(operation)
        if self.handle.record_bytes and n % self.handle.record_bytes:
            raise ShapeError(f"{operation}: expected whole records of {self.handle.record_bytes} bytes, got {n} bytes")
        return 0

    cdef int acquire(self) except -1:
        """Become the producer, or one of them; continue after the last one's frames."""
        cdef Handle handle = self.handle
        cdef mv_ring *r = handle.opened("attach")
        cdef int rc = MV_RING_OK, slot
        if handle.producer is not None and handle.producer.lock.forked:
            raise NotOwnerError(f"write: ring {handle.segment.name!r} was opened before the fork that made this "
                                f"process; attach again")
        if handle.observer or r.readonly:
            raise NotOwnerError(f"write: this handle only observes ring {handle.segment.name!r}")
        if r.mode == MV_RING_MPSC:
            for slot in range(MV_RING_SLOTS):
                handle.producer = lock_byte(handle.segment, MV_LOCK_SLOT + slot)
                if handle.producer is not None:
                    return mv_mpsc_acquire_slot(r, slot, getpid())
            raise Busy(f"write: all {MV_RING_SLOTS} producer slots of ring {handle.segment.name!r} are taken")
        handle.producer = lock_byte(handle.segment, MV_LOCK_PRODUCER)
        if handle.producer is None:
            raise NotOwnerError(f"write: ring {handle.segment.name!r} has a producer, process "
                                f"{mv_ring_side_pid(r, MV_PRODUCER)}; mode 'mpsc' takes several")
        if r.mode == MV_RING_SPSC:
            rc = mv_spsc_produce(r)
        elif r.mode == MV_RING_RECORDER:
            with nogil:
                rc = mv_recorder_recover(r)
        else:
            rc = mv_lossy_produce(r)
        if rc != MV_RING_OK:
            handle.producer.release()
            handle.producer = None
            raise handle.corrupt()
        mv_ring_set_side(r, MV_PRODUCER, MV_SIDE_ACTIVE, getpid())
        return 0

    cdef object write(self, object buffer, object type, object timeout):
        """Copy one message into the ring; return its number, or None if it was dropped."""
        cdef Lease lease
        cdef Py_ssize_t n = 0
        cdef uint64_t seq = 0
        cdef int kind = frame_type(type)
        cdef const uint8_t *src = readable(buffer, &n)
        if src is not NULL and n < GIL_WORTH:  # most messages, if there is space for them: no lease, no loop
            self.prepare(n, "write")
            if mv_ring_send(self.handle.ring, src, n, kind, &seq) == MV_RING_OK:
                return seq
        lease = source(self.handle, buffer)
        return self.write_bytes(<const uint8_t *>lease.buffer.buf, lease.buffer.len, kind, timeout)

    cdef object write_bytes(self, const uint8_t *src, uint64_t n, int type, object timeout):
        """Copy one message; wait for space or fragment it as needed."""
        cdef mv_ring *r
        cdef uint64_t seq = 0, deadline = 0
        cdef int rc
        self.prepare(n, "write")
        r = self.handle.ring
        while True:
            if n < GIL_WORTH:
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
                raise self.handle.corrupt()
            if deadline == 0:
                deadline = deadline_of(timeout)
            if not self.make_room(n, deadline):
                return None

    cdef bint make_room(self, uint64_t n, uint64_t deadline) except -1:
        """Apply the policy for a full ring; return false if the message is to be dropped."""
        if self.full == FULL_DROP:
            mv_ring_count_dropped(self.handle.ring, 1)
            return False
        if self.full == FULL_ERROR:
            raise RingFull(f"write: ring {self.handle.segment.name!r} is full")
        if self.wait_for_room(n, deadline) != MV_RING_OK:
            raise WaitTimeout(f"write: ring {self.handle.segment.name!r} had no room for {n} bytes in time")
        return True

    cdef int wait_for_room(self, uint64_t n, uint64_t deadline) except? -99:
        """Return MV_RING_OK if there is space for `n` bytes, MV_RING_FULL after the timeout."""
        cdef Handle handle = self.handle
        cdef mv_ring *r = handle.ring
        cdef int rc, turn = 0, strategy = MV_WAIT_FUTEX if handle.wait >= MV_WAIT_POLL else handle.wait
        self.writing = True
        try:
            while True:
                with nogil:
                    rc = mv_ring_wait(r, &r.ctl.space, mv_ring_has_room, n, strategy, handle.spin_ns, deadline, turn)
                if rc == MV_RING_CORRUPT:
                    raise handle.corrupt()
                if rc == MV_RING_OK:
                    return rc
                PyErr_CheckSignals()
                if not handle.wait_for_peer and handle.peer_gone(MV_CONSUMER) and mv_ring_has_room(r, n) != MV_RING_OK:
                    raise PeerGone(f"write: ring {handle.segment.name!r} is full and its reader, process "
                                   f"{mv_ring_side_pid(r, MV_CONSUMER)}, is gone; another may attach and go on")
                if mv_monotonic_ns() >= deadline:
                    return MV_RING_FULL
                turn += 1
        finally:
            self.writing = False

    cdef object write_large(self, const uint8_t *src, uint64_t n, int type, uint64_t deadline):
        """Write a message in fragments.

        After the first fragment the policy for a full ring no longer applies: a partial message is useless.
        """
        cdef mv_ring *r = self.handle.ring
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
                    raise WaitTimeout(f"write: the reader of ring {self.handle.segment.name!r} took {done} of {n} "
                                      f"bytes in time; it will discard them")
                continue
            if rc != MV_RING_OK:
                raise self.handle.corrupt()
            mv_ring_publish(r)
            mv_ring_wake(&r.ctl.data)
            begin = seq if done == 0 else begin
            done += part
        return begin

    cdef int64_t write_many(self, object rows, object type, object timeout) except -1:
        """Copy messages, one frame each; return how many were written."""
        cdef Lease lease
        cdef int64_t done = 0, count, stride, n, k
        cdef uint64_t seq = 0, deadline = 0
        cdef mv_ring *r
        cdef const uint8_t *src
        cdef int kind = frame_type(type)
        if isinstance(rows, (list, tuple)):
            for row in rows:
                try:
                    done += self.write(row, kind, timeout) is not None
                except (WaitTimeout, RingFull) as error:
                    error.written = done
                    raise
            return done
        self.prepare(0, "write_many")
        lease = source(self.handle, rows)
        count, n = matrix(self.handle.dtype, lease, "write_many")
        stride = n
        r = self.handle.ring
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
                raise self.handle.corrupt()
            if deadline == 0:
                deadline = deadline_of(timeout)
            if self.full == FULL_DROP:
                mv_ring_count_dropped(r, count - done)
                break
            if self.full == FULL_ERROR:
                raise with_count(done, RingFull(f"write_many: ring {self.handle.segment.name!r} is full after {done} "
                                                f"of {count}"))
            if self.wait_for_room(n, deadline) != MV_RING_OK:
                raise with_count(done, WaitTimeout(f"write_many: ring {self.handle.segment.name!r} took {done} of "
                                                   f"{count} in time"))
        return done

    cdef uint64_t resume(self) except? 0:
        """Become the producer; return the number of the next frame."""
        self.handle.opened("resume")
        if not holds_producer(self.handle):
            self.acquire()
        return self.handle.ring.next_seq

    cdef int append(self, object frame, uint64_t seq, uint64_t timestamp_ns, int type) except -1:
        """Copy a frame of another ring, with its own number and time, into a recording."""
        cdef Lease lease = lease_buffer(frame, frame, PyBUF_C_CONTIGUOUS)
        cdef mv_ring *r
        cdef int rc
        if not holds_producer(self.handle):
            self.acquire()
        r = self.handle.ring
        if self.handle.record_bytes and <uint64_t>lease.buffer.len % self.handle.record_bytes:
            raise ShapeError(f"append: expected whole records of {self.handle.record_bytes} bytes, "
                             f"got {lease.buffer.len}")
        if <int64_t>(seq - r.next_seq) < 0:
            raise ArgumentError(f"append: frame {seq} comes after {r.next_seq - 1} in {self.handle.segment.name!r}")
        if r.tail == mv_ring_start(r):
            r.ctl.start_seq = seq  # the numbers of a recording begin with its first frame
        rc = mv_lossy_write(r, <const uint8_t *>lease.buffer.buf, lease.buffer.len, type,
                            MV_FLAG_WHOLE | (MV_FLAG_CRC if r.crc else 0), seq, timestamp_ns)
        if rc == MV_RING_TOO_BIG:
            raise ShapeError(f"a frame of {lease.buffer.len} bytes does not fit {self.handle.segment.name!r}: give it "
                             f"a larger capacity")
        mv_ring_publish(r)
        mv_ring_wake(&r.ctl.data)

    cdef Claim claim(self, object nbytes, object type, object timeout):
        """Return a claim of `nbytes`; the space is reserved when its block is entered."""
        cdef uint64_t n = check_int("claim()", "nbytes", nbytes, 0, 2**64 - 1)
        if self.handle.record_bytes and n % self.handle.record_bytes:
            raise ShapeError(f"claim: expected whole records of {self.handle.record_bytes} bytes, got {n} bytes")
        if n > mv_max_payload(self.handle.opened("claim")):
            raise ShapeError(f"claim: {n} bytes are more than a frame holds, {mv_max_payload(self.handle.ring)}; "
                             f"write() sends fragments")
        return make_claim(self, n, frame_type(type), timeout)

    cdef int begin_claim(self, uint64_t n, int type, object timeout, uint64_t *pos, uint8_t **payload) except -1:
        """Reserve the space of a claim."""
        cdef mv_ring *r
        cdef uint64_t deadline = 0
        cdef int rc
        if not holds_producer(self.handle):
            self.acquire()
        if self.writing or self.claimed:
            raise self.handle.busy("claim")
        r = self.handle.ring
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
                raise self.handle.corrupt()
            deadline = deadline or deadline_of(timeout)
            if not self.make_room(n, deadline):
                raise RingFull(f"claim: ring {self.handle.segment.name!r} is full, and the message is dropped")

    cdef uint64_t end_claim(self, uint64_t pos, const uint8_t *payload, uint64_t n, int type,
                            bint good) noexcept:
        """Commit a claim, or give it up; return its number."""
        cdef mv_ring *r = self.handle.ring
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


cdef Claim make_claim(Producer producer, uint64_t nbytes, int type, object timeout):
    cdef Claim claim = Claim.__new__(Claim)
    claim.producer, claim.nbytes, claim.type, claim.timeout = producer, nbytes, type, timeout
    return claim


@cython.final
cdef class Claim:
    """Claim()

    A message that is built in the ring, inside a ``with`` block. `seq` is its number once it is written.
    """

    def __init__(self):
        raise ArgumentError("Claim() cannot be called: use Ring.claim()")

    def __enter__(self):
        cdef Producer producer = self.producer
        if producer is None or self.view is not None or self.seq is not None:
            raise ArgumentError("claim: entered twice, or not made by Ring.claim()")
        dtype = np.dtype("u1") if producer.handle.dtype is None else producer.handle.dtype
        if mv_ring_lossy(producer.handle.opened("claim")):  # readers may read at any time: built outside, then copied
            self.staging = np.empty(self.nbytes // dtype.itemsize, dtype)
            self.view = view_of(self.staging, writable=True)
        else:
            producer.begin_claim(self.nbytes, self.type, self.timeout, &self.pos, &self.payload)
            self.view = writable_view(producer.handle, self.payload, self.nbytes, dtype)
        return self.view

    def __exit__(self, kind, value, trace):
        cdef Producer producer = self.producer
        cdef View view = self.view
        cdef uint64_t seq
        cdef bint kept = False, good = kind is None
        if view is None:
            raise ArgumentError("claim: left without having been entered")
        self.view = None
        if view.desc is not NULL:
            kept = view._exports != 0 or view._exposed or (<PyObject *>view._lease).ob_refcnt != 1
            if not kept:
                view.release()
        if self.staging is not None:
            if good and not kept:
                self.seq = producer.write(self.staging, self.type, self.timeout)
        else:
            seq = producer.end_claim(self.pos, self.payload, self.nbytes, self.type, good and not kept)
            self.seq = seq if good and not kept else None
        if kept and good:
            raise ExportedError("claim: an array or a slice of the view outlives the block, so the message was given "
                                "up; delete it inside the block")


cdef View writable_view(Handle handle, uint8_t *payload, uint64_t n, object dtype):
    cdef int64_t shape[1]
    cdef int64_t strides[1]
    strides[0] = dtype.itemsize
    shape[0] = <int64_t>n // strides[0]
    return make_view(lease_owner(handle.memory.mapping), payload, 1, shape, strides, dtype, False)


cdef object with_count(int64_t written, object error):
    error.written = written
    return error


cdef Lease source(Handle handle, object buffer):
    """Return a lease on the bytes of a message."""
    try:
        return without_objects(lease_buffer(buffer, buffer, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT), "write")
    except MojoViewError:
        raise
    except (ValueError, BufferError) as error:
        try:  # datetimes have no PEP 3118 code; their bytes do
            return lease_buffer(np.asarray(buffer).view("u1"), buffer, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT)
        except (ValueError, TypeError, BufferError):
            raise LayoutError(f"write: expected C-contiguous memory that can be copied, got "
                              f"{type(buffer).__name__}: {error}") from None
    except TypeError as error:
        if handle.dtype is None:
            raise ArgumentError(f"write: expected a bytes-like object, got {type(buffer).__name__}") from error
        records = resolve(TABLE_TO_RECORDS)(buffer, handle.dtype).view("u1")
        return lease_buffer(records, records, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT)


cdef Lease without_objects(Lease lease, str operation):
    """Return the lease; refuse Python objects, whose pointers mean nothing in another process."""
    cdef const char *c = lease.buffer.format
    cdef bint naming = False  # between the colons of a field's name
    while c is not NULL and c[0]:
        naming ^= c[0] == b":"
        if c[0] == b"O" and not naming:
            raise DTypeError(f"{operation}: memory with Python objects (format {lease.buffer.format!r}) cannot be a "
                             f"message")
        c += 1
    return lease


cdef (int64_t, int64_t) matrix(object dtype, Lease lease, str operation) except *:
    """Return the number of rows and the bytes of a row."""
    cdef Py_buffer *b = &lease.buffer
    if dtype is not None:
        if b.len % dtype.itemsize:
            raise ShapeError(f"{operation}: expected records of {dtype.itemsize} bytes, got {b.len} bytes")
        return b.len // dtype.itemsize, dtype.itemsize
    if b.ndim < 2:
        raise ShapeError(f"{operation}: expected 2 dimensions, one row per frame, or a list of messages; got {b.ndim}")
    return b.shape[0], (b.len // b.shape[0] if b.shape[0] else 0)
