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
    ShapeError, WaitTimeout, ZeroCopyError,
)
from mojoview.memory.extension_points import TABLE_TO_RECORDS, resolve
from mojoview.sharing.incoming import check_meaning
from mojoview.sharing.segment._segment import lock_byte
from mojoview.views import view as view_of

FULL = {"block": 0, "drop": 1, "error": 2}
cdef enum:
    FULL_BLOCK = 0
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
        """Return MV_RING_OK if there is space for a frame of `n` bytes, MV_RING_FULL after the timeout."""
        return self.wait_until(mv_ring_has_room, n, deadline)

    cdef int wait_for_space(self, uint64_t nbytes, uint64_t deadline) except? -99:
        """Return MV_RING_OK if `nbytes` are free (one producer), MV_RING_FULL after the timeout."""
        return self.wait_until(mv_ring_has_space, nbytes, deadline)

    cdef int wait_until(self, mv_ring_condition has_room, uint64_t n, uint64_t deadline) except? -99:
        """Wait until the condition holds for `n`."""
        cdef Handle handle = self.handle
        cdef mv_ring *r = handle.ring
        cdef int rc, turn = 0, strategy = MV_WAIT_FUTEX if handle.wait >= MV_WAIT_POLL else handle.wait
        self.writing = True
        try:
            while True:
                with nogil:
                    rc = mv_ring_wait(r, &r.ctl.space, has_room, n, strategy, handle.spin_ns, deadline, turn)
                if rc == MV_RING_CORRUPT:
                    raise handle.corrupt()
                if rc == MV_RING_OK:
                    return rc
                PyErr_CheckSignals()
                if not handle.wait_for_peer and handle.peer_gone(MV_CONSUMER) and has_room(r, n) != MV_RING_OK:
                    raise PeerGone(f"write: ring {handle.segment.name!r} is full and its reader, process "
                                   f"{mv_ring_side_pid(r, MV_CONSUMER)}, is gone; another may attach and go on")
                if mv_monotonic_ns() >= deadline:
                    return MV_RING_FULL
                turn += 1
        finally:
            self.writing = False

    cdef object write_large(self, const uint8_t *src, uint64_t n, int type, uint64_t deadline):
        """Write a message in fragments.

        The policy for a full ring is applied to the whole message, before the first fragment. Only a message that is
        larger than the ring, or that waits beside other producers, is written while a reader reads it: if the reader
        stops, the reader's successor discards the fragments.
        """
        cdef mv_ring *r = self.handle.ring
        cdef uint64_t seq = 0, begin = 0, done = 0, part, stamp = mv_ring_now(r.ctl), whole = mv_fragments_bytes(r, n)
        cdef uint64_t step = mv_fragment_payload(r)
        cdef int rc, flags
        if mv_ring_lossy(r):
            if whole > r.capacity:
                raise ShapeError(f"write: a message of {n} bytes takes {whole} with its headers; ring "
                                 f"{self.handle.segment.name!r} holds {r.capacity}")
        elif self.full != FULL_BLOCK:
            if r.mode == MV_RING_MPSC:
                return self.claim_fragments(src, n, type, whole)
            if whole > r.capacity or mv_spsc_room(r, whole) != MV_RING_OK:
                return self.refuse_large(n, whole)
        elif r.mode == MV_RING_SPSC and whole <= r.capacity:
            if self.wait_for_space(whole, deadline) != MV_RING_OK:
                raise WaitTimeout(f"write: ring {self.handle.segment.name!r} had no room for {n} bytes in time")
        while done < n:
            part = min(step, n - done)
            flags = (MV_FLAG_BEGIN if done == 0 else 0) | (MV_FLAG_END if done + part == n else 0)
            with nogil:
                rc = mv_ring_put(r, src + done, part, type, flags, stamp, &seq)
            if rc == MV_RING_FULL:
                if self.wait_for_room(part, deadline) != MV_RING_OK:
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

    cdef object claim_fragments(self, const uint8_t *src, uint64_t n, int type, uint64_t whole):
        """Claim the space of all fragments beside other producers, then fill it; without space give the claims up."""
        cdef mv_ring *r = self.handle.ring
        cdef uint64_t step = mv_fragment_payload(r), stamp = mv_ring_now(r.ctl), seq = 0, begin = 0, part
        cdef int count = <int>((n + step - 1) // step) if whole <= r.capacity else 0, claimed, k, flags
        cdef uint64_t[8] places  # a fragment takes a quarter of the ring, so a message that fits has few
        cdef int rc = MV_RING_OK if 0 < count <= 8 else MV_RING_FULL
        claimed = 0
        while rc == MV_RING_OK and claimed < count:
            part = min(step, n - claimed * step)
            flags = (MV_FLAG_BEGIN if claimed == 0 else 0) | (MV_FLAG_END if claimed + 1 == count else 0)
            rc = mv_mpsc_claim(r, part, type, flags | (MV_FLAG_CRC if r.crc else 0), &places[claimed])
            claimed += rc == MV_RING_OK
        for k in range(claimed):
            part = min(step, n - k * step)
            flags = (MV_FLAG_BEGIN if k == 0 else 0) | (MV_FLAG_END if k + 1 == count else 0)
            if rc == MV_RING_OK:
                seq = mv_mpsc_fill(r, places[k], src + k * step, part, type, flags, stamp)
                begin = seq if k == 0 else begin
            else:
                mv_mpsc_commit(r, places[k], part, MV_FRAME_ABORTED, MV_FLAG_WHOLE, stamp, 0)
        if claimed:
            mv_ring_wake(&r.ctl.data)
        if rc == MV_RING_FULL:
            return self.refuse_large(n, whole)
        if rc != MV_RING_OK:
            raise self.handle.corrupt()
        return begin

    cdef object refuse_large(self, uint64_t n, uint64_t whole):
        """Drop a message that does not fit as a whole, or raise, by the policy."""
        cdef mv_ring *r = self.handle.ring
        if self.full == FULL_DROP:
            mv_ring_count_dropped(r, 1)
            return None
        never = f"; it never fits the ring's {r.capacity} bytes" if whole > r.capacity else ""
        raise RingFull(f"write: ring {self.handle.segment.name!r} has no room for a message of {n} bytes, {whole} with "
                       f"its headers{never}")

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
    """Return a lease on the bytes of a message, after checking what they mean."""
    cdef Lease lease
    try:
        lease = without_objects(lease_buffer(buffer, buffer, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT), "write")
    except (MojoViewError, ValueError, BufferError) as error:
        if isinstance(error, MojoViewError) and not isinstance(error, ZeroCopyError):
            raise
        try:  # datetimes, and records of a View, have no PEP 3118 code; their bytes do
            lease = lease_buffer(np.asarray(buffer).view("u1"), buffer, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT)
        except (ValueError, TypeError, BufferError):
            raise LayoutError(f"write: expected C-contiguous memory that can be copied, got "
                              f"{type(buffer).__name__}: {error}") from None
    except TypeError as error:
        if handle.dtype is None:
            raise ArgumentError(f"write: expected a bytes-like object, got {type(buffer).__name__}") from error
        records = resolve(TABLE_TO_RECORDS)(buffer, handle.dtype).view("u1")
        return lease_buffer(records, records, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT)
    if not has_meaning_of(handle, buffer):
        check_meaning(buffer, handle.dtype, "write")
    return lease


cdef bint has_meaning_of(Handle handle, object buffer):
    """Return whether a look at its type shows that a buffer holds what the ring holds: raw bytes, or its records."""
    if type(buffer) is bytes or type(buffer) is bytearray:
        return True
    return type(buffer) is np.ndarray and (handle.dtype is None or buffer.dtype is handle.dtype)


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
