"""Consumer: messages out of a ring."""

cimport cython
from cpython.buffer cimport PyBUF_C_CONTIGUOUS, PyBUF_FORMAT, PyBUF_WRITABLE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_CheckSignals
from cpython.long cimport PyLong_AsLongAndOverflow
from cpython.weakref cimport PyWeakref_NewRef
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy
from posix.unistd cimport getpid

from mojoview.memory._lease cimport Lease, lease_buffer
from mojoview.sharing.ring._batch cimport Batch, detach, make_batch, one_frame
from mojoview.sharing.ring._flat cimport writable
from mojoview.sharing.ring._handle cimport EventNotifier, Handle, RingMemory, copies, deadline_of, mv_notifier_arm
from mojoview.sharing.ring._producer cimport has_meaning_of, matrix, without_objects
from mojoview.sharing.ring.operations cimport *
from mojoview.sharing.segment._segment cimport ByteLock

import collections

import numpy as np

from mojoview.memory.check import check_int
from mojoview.memory.errors import (
    AllocationError, ArgumentError, BrokenFrame, MojoViewError, NotOwnerError, PeerGone, ReadOnlyError, ShapeError,
)
from mojoview.sharing.segment._segment import lock_byte
from mojoview.sharing.incoming import check_meaning

REASONS = ("", "header check", "length", "payload checksum", "sequence gap")
cdef enum:
    MAX_FRAMES = 1048576      # of one read
    MAX_COPY = 262144         # bytes that one read of a lossy ring copies, except for a single larger frame
    POLLS = 64                # looks before the GIL is released, one to three microseconds


@cython.final
@cython.no_gc_clear
cdef class Consumer:
    """Consumer()

    The reading side of a handle; becomes the ring's reader with the first read.
    """

    def __cinit__(self):
        self.scratch = NULL
        self.parts = {}
        self.handed_out = []
        self.broken = collections.deque(maxlen=1000)

    def __dealloc__(self):
        free(self.scratch)

    cdef mv_ring *prepare(self, str operation) except NULL:
        """Return the ring, after checking that this handle is its reader and that no other thread reads."""
        cdef Handle handle = self.handle
        cdef mv_ring *r = handle.ring
        if r is NULL:
            handle.opened(operation)
        if not self.started or (handle.memory.reader is not None and handle.memory.reader.lock.fd < 0):
            self.acquire()
        if self.reading:
            raise handle.busy(operation)
        return r

    cdef int acquire(self) except -1:
        """Become the reader and begin at `head`.

        A lossy reader takes a slot if one is free, and begins at `start`.
        """
        cdef Handle handle = self.handle
        cdef mv_ring *r = handle.opened("attach")
        cdef ByteLock lock = handle.memory.reader
        cdef int rc, slot
        if lock is not None and lock.lock.forked:
            raise NotOwnerError(f"read: ring {handle.segment.name!r} was opened before the fork that made this "
                                f"process; attach again")
        if copies(handle):
            if not handle.observer and not r.readonly:
                for slot in range(MV_RING_SLOTS):
                    lock = lock_byte(handle.segment, MV_LOCK_SLOT + slot)
                    if lock is not None:
                        mv_ring_assign_slot(r, slot, getpid())
                        break
            if isinstance(self.start, str):
                rc = mv_lossy_attach(r, self.start == "oldest")
            else:
                rc = mv_lossy_seek(r, self.start)
        elif r.readonly:
            raise NotOwnerError(f"read: ring {handle.segment.name!r} is lossless, so reading consumes, and it is not "
                                f"writable here; observe=True reads without consuming")
        else:
            lock = lock_byte(handle.segment, MV_LOCK_CONSUMER)
            if lock is None:
                raise NotOwnerError(f"read: ring {handle.segment.name!r} has a reader, process "
                                    f"{mv_ring_side_pid(r, MV_CONSUMER)}; mode 'broadcast' takes several")
            rc = mv_spsc_consume(r) if r.mode == MV_RING_SPSC else mv_mpsc_consume(r)
        if rc != MV_RING_OK:
            raise handle.corrupt()
        handle.memory.reader = lock
        if not copies(handle):
            mv_ring_set_side(r, MV_CONSUMER, MV_SIDE_ACTIVE, getpid())
        self.started = True
        return 0

    cdef int wait_for_data(self, uint64_t deadline) except? -99:
        """Return MV_RING_OK to read again, MV_RING_EMPTY when time is up or the ring has ended."""
        cdef Handle handle = self.handle
        cdef mv_ring *r = handle.ring
        cdef int rc = MV_RING_EMPTY, turn = 0, strategy = MV_WAIT_FUTEX if handle.wait == MV_WAIT_EVENT else handle.wait
        if deadline != 0 and self.poll_briefly(r):
            return MV_RING_OK
        if deadline != 0 and handle.memory.count:
            self.detach_batches()
        self.reading = True
        try:
            while True:
                if deadline == 0 or strategy == MV_WAIT_POLL:
                    rc = mv_ring_has_data(r, handle.observer)
                else:
                    with nogil:
                        rc = mv_ring_wait(r, &r.ctl.data, mv_ring_has_data, handle.observer, strategy, handle.spin_ns,
                                          deadline, turn)
                if rc == MV_RING_CORRUPT:
                    raise handle.corrupt()
                if rc == MV_RING_OK:
                    return rc
                PyErr_CheckSignals()
                if r.mode == MV_RING_MPSC and not handle.observer and self.skip_dead_claims() == MV_RING_OK:
                    return MV_RING_OK
                if handle.peer_gone(MV_PRODUCER) and mv_ring_has_data(r, handle.observer) != MV_RING_OK:
                    self.ended = mv_ring_side(r, MV_PRODUCER) == MV_SIDE_CLOSED or r.mode == MV_RING_MPSC
                    if self.ended:
                        return self.no_data()
                    if not handle.wait_for_peer and not handle.observer and r.mode != MV_RING_RECORDER:
                        raise PeerGone(f"read: the producer of ring {handle.segment.name!r}, process "
                                       f"{mv_ring_side_pid(r, MV_PRODUCER)}, died; all that it published was read")
                if deadline == 0 or strategy == MV_WAIT_POLL or mv_monotonic_ns() >= deadline:
                    return self.no_data()
                turn += 1
        finally:
            self.reading = False

    cdef int detach_batches(self) except -1:
        """Copy batches that are held while this reader waits: the producer may need their memory for the next message.

        A loop holds its last frame while it waits. Batches of which an array or a view is in use stay in the ring.
        """
        cdef Batch batch
        for reference in self.handed_out:
            batch = reference()
            if batch is not None:
                detach(batch)
        self.handed_out.clear()
        return 0

    cdef int remember(self, Batch batch) except -1:
        """Remember a batch in the ring's memory, as long as it is held."""
        if len(self.handed_out) >= 64 + 2 * self.handle.memory.count:
            self.handed_out = [reference for reference in self.handed_out if reference() is not None]
        self.handed_out.append(PyWeakref_NewRef(batch, None))
        return 0

    cdef bint poll_briefly(self, mv_ring *r) noexcept:
        """Return whether a frame arrives within a few microseconds; false at once if this handle does not spin.

        At full speed the next frame is already on its way, and releasing the GIL would cost more.
        """
        cdef int _k
        for _k in range(POLLS if self.handle.wait <= MV_WAIT_HYBRID and self.handle.spin_ns else 0):
            if mv_ring_has_data(r, self.handle.observer) == MV_RING_OK:
                return True
            mv_pause()
        return False

    cdef int no_data(self) noexcept:
        """Return MV_RING_EMPTY; arm the eventfd behind `fileno()`."""
        if self.handle.notifier is not None:
            mv_notifier_arm(&self.handle.notifier.notifier, self.handle.ring)
        return MV_RING_EMPTY

    cdef int skip_dead_claims(self) except? -99:
        """Skip what a dead producer left at the read position: `tail` first, then who is alive, then the decision."""
        cdef Handle handle = self.handle
        cdef mv_ring *r = handle.ring
        cdef uint64_t alive, now = mv_monotonic_ns(), before = r.pos
        cdef int rc
        if mv_lossy_tail(r) == r.pos or now - handle.asked < MV_ASK_INTERVAL_NS:
            return MV_RING_GAP
        handle.asked = now
        mv_mpsc_measure_gap(r)
        alive = handle.alive_slots()
        rc = mv_mpsc_unblock(r, alive)
        if rc == MV_RING_CORRUPT:
            raise handle.corrupt()
        if r.pos != before:
            handle.memory.release_passed()
        return rc

    cdef int fileno(self) except -1:
        """Return the eventfd of this handle's notifier."""
        if self.handle.notifier is None:
            self.prepare("fileno")
            self.handle.notifier = EventNotifier(self.handle)
            self.no_data()
        return self.handle.notifier.notifier.event_fd

    cdef Batch read(self, object max, object timeout):
        """Return the next frames, empty when time is up or the ring has ended."""
        cdef uint64_t deadline = 1
        cdef int most = frame_limit(max)
        cdef Batch batch
        self.prepare("read")
        while True:
            batch = self.take_deferred()
            if batch is None:
                batch = self.read_copies(most) if copies(self.handle) else self.read_in_place(most)
            if batch is not None:
                self.newest = batch.frames[batch.count - 1]
                return batch
            if deadline == 1:
                deadline = deadline_of(timeout)
            if self.wait_for_data(deadline) != MV_RING_OK:
                return make_batch(None, NULL, 0, self.handle.dtype)

    cdef Batch take_deferred(self):
        """Return, or raise, what an earlier read deferred to keep the order."""
        if self.pending is not None:
            pending, self.pending = self.pending, None
            raise pending
        ready, self.unread_batch = self.unread_batch, None
        return ready

    cdef int reserve(self, int count) except -1:
        """Allocate memory for `count` headers."""
        cdef mv_ring_frame *grown
        if count > self.scratch_room:
            grown = <mv_ring_frame *>realloc(self.scratch, count * sizeof(mv_ring_frame))
            if grown is NULL:
                raise AllocationError(f"the headers of {count} frames")
            self.scratch, self.scratch_room = grown, count
        return 0

    cdef Batch read_in_place(self, int limit):
        """Return the next frames in place; None if there are none."""
        cdef RingMemory memory = self.handle.memory
        cdef mv_ring *r = &memory.ring
        cdef Batch batch
        cdef int n
        limit = min(limit, <int>min(r.capacity // 64, <uint64_t>MAX_FRAMES))
        self.reserve(limit)
        while True:
            n = mv_ring_peek(r, self.scratch, limit, 1)
            if n > 0 and (self.scratch[0].flags & MV_FLAG_WHOLE) != MV_FLAG_WHOLE:
                message = self.reassemble(&self.scratch[0])
                memory.release_passed()
                if message is None:
                    continue
                mv_ring_count_read(r, 1, 0, 0)
                return message
            if n > 0:
                self.frames_read += n
                mv_ring_count_read(r, n, 0, 0)
                batch = make_batch(memory.hand_out(), self.scratch, n, self.handle.dtype)
                self.remember(batch)
                return batch
            self.check_read(n)
            if n != MV_RING_BROKEN:
                return None

    cdef int check_read(self, int rc) except -1:
        """Release skipped bytes; raise or record what a read of a lossless ring found instead of frames."""
        self.handle.memory.release_passed()
        if rc == MV_RING_CORRUPT:
            raise self.handle.corrupt()
        if rc == MV_RING_BROKEN:
            self.record_break(False)
        return 0

    cdef Batch read_copies(self, int limit):
        """Return copies of the next frames of a lossy ring; None if there are none."""
        cdef mv_ring *r = self.handle.ring
        cdef uint64_t used = 0, room = mv_lossy_tail(r) - r.pos
        cdef int n = 0, rc
        cdef uint8_t *memory
        cdef mv_ring_frame *f
        if room == 0:
            return None
        room = min(room, <uint64_t>MAX_COPY, r.capacity)
        limit = min(limit, <int>min(r.capacity // 64, <uint64_t>MAX_FRAMES))
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
                self.record_break(n > 0)
                if self.pending is not None:
                    break
                continue
            if rc != MV_RING_OK:
                if rc == MV_RING_CORRUPT:
                    raise self.handle.corrupt()
                break
            if (f.flags & MV_FLAG_WHOLE) != MV_FLAG_WHOLE:
                message = self.reassemble(f)
                if message is None:
                    continue
                if n == 0:
                    mv_ring_count_read(r, 1, 0, 0)
                    return message
                self.unread_batch = message
                break
            used += (f.length + 15) & ~<uint64_t>15
            used = min(used, room)
            n += 1
        mv_ring_count_read(r, n, 0, 0)
        if n == 0:
            return None
        self.frames_read += n
        return make_batch(arena, self.scratch, n, self.handle.dtype)

    cdef object reassemble(self, const mv_ring_frame *f):
        """Copy a fragment; return the whole message as a batch of one if it was the last.

        A message of which a fragment is missing is abandoned.
        """
        cdef mv_ring_frame joined
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
        joined = f[0]
        joined.seq, joined.length, joined.payload = parts[0], len(message), <const uint8_t *>PyBytes_AS_STRING(message)
        self.frames_read += 1
        return make_batch(message, &joined, 1, self.handle.dtype)

    cdef int record_break(self, bint later) except -1:
        """Count and record a damaged frame; raise it at once or, if frames before it are returned first, later."""
        cdef mv_ring *r = self.handle.ring
        cdef int crc = r.broken.reason == MV_BREAK_CRC
        error = BrokenFrame(r.broken.pos, r.broken.seq if r.broken.seq_known else None, REASONS[r.broken.reason],
                            self.handle.segment.name)
        self.breaks += 1
        self.crc_errors += crc
        self.broken.append(error)
        mv_ring_count_read(r, 0, 1, crc)
        if self.strict and later:
            self.pending = error
        elif self.strict:
            raise error
        return 0

    cdef object read_into(self, object buffer, object timeout):
        """Copy the next message into `buffer`; return its bytes, or None as `read` returns an empty batch."""
        cdef Lease lease
        cdef Py_ssize_t n = 0
        cdef uint8_t *dst = writable(buffer, &n)
        cdef mv_ring *r = self.prepare("read_into")
        cdef uint64_t deadline = 1
        cdef int rc
        if dst is not NULL and self.reads_directly():  # no lease: the GIL is held until the bytes are copied
            rc = mv_ring_take(r, dst, n, &self.newest)
            if rc == MV_RING_EMPTY and timeout is None and self.poll_briefly(r):
                rc = mv_ring_take(r, dst, n, &self.newest)
            if rc == MV_RING_OK:
                return self.finish_copy(r)
            if rc != MV_RING_SHORT_BUFFER:
                self.check_read(rc)
        lease = destination(self.handle, buffer)
        while self.reads_directly():
            rc = mv_ring_take(r, <uint8_t *>lease.buffer.buf, lease.buffer.len, &self.newest)
            if rc == MV_RING_OK:
                return self.finish_copy(r)
            if rc == MV_RING_SHORT_BUFFER:
                break
            self.check_read(rc)
            if rc == MV_RING_BROKEN:
                continue
            if deadline == 1:
                deadline = deadline_of(timeout)
            if self.wait_for_data(deadline) != MV_RING_OK:
                return None
        return self.copy_out(lease, timeout)

    cdef bint reads_directly(self) noexcept:
        """Return whether the ring's next frame is the caller's next, and can be copied straight from the ring."""
        return not (self.handle.memory.count or self.pending is not None or self.unread_batch is not None
                    or copies(self.handle))

    cdef uint32_t finish_copy(self, mv_ring *r) noexcept:
        """Wake the producer and count a copied message; return its bytes."""
        mv_ring_wake(&r.ctl.space)
        self.frames_read += 1
        mv_ring_count_read(r, 1, 0, 0)
        return self.newest.length

    cdef object copy_out(self, Lease lease, object timeout):
        """Copy the next message from a batch, for messages that cannot be copied straight from the ring."""
        cdef Batch batch = self.read(1, timeout)
        if batch.count == 0:
            return None
        if batch.frames[0].length > <uint64_t>lease.buffer.len:
            self.unread_batch = batch
            raise ShapeError(f"read_into: the next message has {batch.frames[0].length} bytes, the buffer "
                             f"{lease.buffer.len}")
        memcpy(lease.buffer.buf, batch.frames[0].payload, batch.frames[0].length)
        batch.release()
        return batch.frames[0].length

    cdef int64_t read_many(self, object rows, object timeout) except -1:
        """Copy the next messages into rows of one size; return their number."""
        cdef Lease lease = destination(self.handle, rows)
        cdef mv_ring *r = self.prepare("read_many")
        cdef uint64_t deadline = 1
        cdef int64_t count, n, done = 0
        cdef Batch batch
        cdef int k
        count, n = matrix(self.handle.dtype, lease, "read_many")
        if count == 0:
            return 0
        while self.reads_directly():
            done = mv_ring_take_many(r, <uint8_t *>lease.buffer.buf, count, n, n, &self.newest)
            if done > 0:
                mv_ring_wake(&r.ctl.space)
                self.frames_read += done
                mv_ring_count_read(r, done, 0, 0)
                return done
            if done == MV_RING_SHORT_BUFFER:
                break
            self.check_read(<int>done)
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
                    self.unread_batch = batch
                    raise ShapeError(f"read_many: the next message has {batch.frames[0].length} bytes, a row {n}")
                self.unread_batch = rest_of(batch, k)
                break
            memcpy(<uint8_t *>lease.buffer.buf + k * n, batch.frames[k].payload, n)
            done = k + 1
            self.newest = batch.frames[k]
        return max(done, 0)

    def frames(self):
        """frames()

        Yield frames until the ring ends.
        """
        cdef Batch batch
        cdef int k
        while True:
            batch = None  # not held while the next one is waited for
            batch = self.read(256, None)
            if batch.count == 0:
                return
            for k in range(batch.count):
                try:
                    yield one_frame(batch, k)
                except GeneratorExit:  # `break`: the next read returns the frames after this one
                    self.unread(batch, k + 1)
                    raise

    cdef int unread(self, Batch batch, int k) except -1:
        """Read the frames of a batch from `k` on again."""
        if self.handle.ring is not NULL and k < batch.count:
            self.unread_batch = rest_of(batch, k)
            if not copies(self.handle):
                self.remember(self.unread_batch)

    cdef int seek(self, object seq) except -1:
        """Continue at the first frame whose number is at least `seq`."""
        cdef uint64_t number = check_int("seek()", "seq", seq, 0, 2**64 - 1)
        cdef mv_ring *r = self.prepare("seek")
        if not copies(self.handle):
            raise ArgumentError(f"seek: ring {self.handle.segment.name!r} is lossless; expected a recorder or a "
                                f"broadcast ring")
        self.pending = self.unread_batch = None
        self.parts.clear()
        mv_lossy_seek(r, number)


cdef int frame_limit(object max) except -1:
    """Return the most frames of one read; small integers need no Python call."""
    cdef int overflow = 0
    cdef long number = PyLong_AsLongAndOverflow(max, &overflow) if isinstance(max, int) else 0
    if not 0 < number <= MAX_FRAMES:
        number = min(check_int("read()", "max", max, 1, 2**64 - 1), MAX_FRAMES)
    return <int>number


cdef Batch rest_of(Batch batch, int k):
    """Return the frames from `k` on, in the same memory, by the same lease."""
    cdef Batch rest = make_batch(batch, batch.frames + k, batch.count - k, batch.dtype)
    rest.lease = batch.lease
    return rest


cdef Lease destination(Handle handle, object buffer):
    """Return a lease on the caller's writable memory, after checking that it is for the ring's records."""
    cdef int flags = PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE | PyBUF_FORMAT
    cdef Lease lease
    try:
        lease = without_objects(lease_buffer(buffer, buffer, flags), "read")
        if not has_meaning_of(handle, buffer):
            check_meaning(buffer, handle.dtype, "read")
        return lease
    except MojoViewError:
        raise
    except (ValueError, BufferError) as error:
        if isinstance(buffer, np.ndarray) and buffer.flags.c_contiguous and buffer.flags.writeable:
            check_meaning(buffer, handle.dtype, "read")
            return lease_buffer(buffer.view("u1"), buffer, flags)  # datetimes have no PEP 3118 code
        raise ReadOnlyError(f"read: expected writable C-contiguous memory, got {type(buffer).__name__}: "
                            f"{error}") from error
    except TypeError as error:
        raise ArgumentError(f"read: expected a writable buffer, got {type(buffer).__name__}") from error
