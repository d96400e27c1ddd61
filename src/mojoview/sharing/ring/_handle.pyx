"""RingBase: a process's handle on a ring: who sits where, and waiting for the other side. The algorithms are the C
headers `ring*.h`.
"""

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from cpython.long cimport PyLong_AsLongAndOverflow
from libc.stdint cimport UINT64_MAX, int64_t, uint64_t
from posix.unistd cimport getpid

from mojoview.sharing.ring._batch cimport Handle
from mojoview.sharing.segment._segment cimport ByteLock, Segment
from mojoview.sharing.ring.operations cimport *

import operator

from mojoview.memory.errors import ArgumentError, Busy, ClosedError, CorruptHeader, NotOwnerError, PeerGone
from mojoview.memory.check import seconds_of
from mojoview.sharing.segment._segment import byte_locked, lock_byte

MODES = {"spsc": MV_RING_SPSC, "mpsc": MV_RING_MPSC, "broadcast": MV_RING_BROADCAST, "recorder": MV_RING_RECORDER}
WAITS = {"spin": MV_WAIT_SPIN, "hybrid": MV_WAIT_HYBRID, "futex": MV_WAIT_FUTEX, "poll": MV_WAIT_POLL,
         "event": MV_WAIT_EVENT}
FULL = {"block": 0, "drop": 1, "error": 2}
CONTROL_BYTES, SPIN_NS = MV_RING_CTL_BYTES, MV_WAIT_SPIN_NS
cdef enum:
    LOCK_PRODUCER = 2
    LOCK_CONSUMER = 3
    LOCK_SLOT = 16
    ASK_NS = 10000000  # the kernel is asked at most this often who lives
LOCK_BYTE_PRODUCER = LOCK_PRODUCER


cpdef uint64_t whole(object value, str what, uint64_t least=0, uint64_t most=UINT64_MAX) except? 0:
    """whole(value, what, least=0, most=2**64 - 1)

    An argument that counts something; `what` names it and its call.
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or not least <= number <= most:
        raise ArgumentError(f"{what}: expected a whole number from {least} to {most}, got {value!r}")
    return number


cdef int frame_type(object type) except -1:
    """A message's type: data, or the user's own."""
    cdef int overflow = 0
    cdef long number = PyLong_AsLongAndOverflow(type, &overflow) if isinstance(type, int) else -1
    if overflow or number > 255 or (number != MV_FRAME_DATA and number < MV_FRAME_USER):
        raise ArgumentError(f"type={type!r}: expected 1, or 16 to 255")
    return <int>number


cpdef uint64_t deadline_of(object timeout) except? 0:
    """deadline_of(timeout)

    CLOCK_MONOTONIC of the end of a wait; 0 = only look.
    """
    cdef double seconds
    if timeout is None:
        return UINT64_MAX
    seconds = seconds_of(timeout, "ring")
    return mv_monotonic_ns() + <uint64_t>(seconds * 1e9) if seconds else 0


def format_ring(Segment segment, int64_t offset, uint64_t start, uint64_t seq, bint ticks):
    """format_ring(segment, offset, start, seq, ticks)

    Makes zeroed memory a ring; before `commit()`. Returns whether the processor's counter keeps the time.
    """
    cdef mv_ring_ctl *ctl = <mv_ring_ctl *>segment.address(offset, MV_RING_CTL_BYTES)
    mv_ring_format(ctl, start & ~<uint64_t>63, seq)
    return ticks and mv_clock_calibrate(ctl) != 0


@cython.no_gc_clear
cdef class RingBase:
    """RingBase()

    Seats and waiting; `RingWriter` writes, `RingReader` reads.
    """

    def _open(self, Segment segment, int64_t offset, int64_t nbytes, uint64_t capacity, int mode, bint crc, dtype,
              int wait, int full, bint observer, bint wait_for_peer, bint strict, uint64_t spin_ns, object start):
        cdef Handle handle = Handle.__new__(Handle)
        if mv_ring_open(&handle.ring, segment.address(offset, nbytes), nbytes, capacity, mode, crc) != MV_RING_OK:
            raise CorruptHeader(f"ring {segment.name!r}: {nbytes} bytes hold no ring of mode {mode} and "
                                f"capacity {capacity}")
        handle.mapping = segment.mapping
        handle.ring.readonly, handle.ring.observer = not segment.mapping.writable, observer
        self.handle, self.segment, self.dtype = handle, segment, dtype
        self.record_bytes = 0 if dtype is None else dtype.itemsize
        self.wait, self.full, self.observer, self.wait_for_peer, self.strict = wait, full, observer, wait_for_peer, strict
        self.spin_ns, self.start = spin_ns, start

    cdef mv_ring *ring(self, str operation) except NULL:
        if self.handle is None:
            raise ClosedError(f"{operation}: the ring was closed")
        return &self.handle.ring

    cdef object corrupt(self):
        return CorruptHeader(f"ring {self.segment.name!r}: its control words contradict each other")

    cdef object busy(self, str operation):
        return Busy(f"{operation}: another thread, or an open claim, is using this handle of ring "
                    f"{self.segment.name!r}; "
                    "open one a thread")

    def __dealloc__(self):
        if self.handle is not None:
            self.stand_up()

    def _leave(self):
        """Gives up the seats; frames that are still looked at keep theirs until they are dropped."""
        if self.handle is None:
            return
        if self.writing or self.reading or self.open_claims:
            raise self.busy("close")
        self.stand_up()

    cdef int stand_up(self) noexcept:
        """Our goodbye on both sides: C only, since a handle that is dropped says it too."""
        cdef Handle handle = self.handle
        if self.producer is not None and self.producer.owner.fd >= 0:
            if handle.ring.mode == MV_RING_MPSC:
                mv_ring_release_slot(&handle.ring)
            else:
                mv_ring_set_side(&handle.ring, MV_PRODUCER, MV_SIDE_CLOSED, getpid())
            self.producer.release()
        handle.leave()
        self.handle = None
        return 0

    @property
    def closed(self):
        return self.handle is None

    @property
    def capacity(self):
        return self.ring("capacity").capacity

    @property
    def max_frame(self):
        """Bytes of the largest message that travels in one piece."""
        return mv_max_payload(self.ring("max_frame"))

    @property
    def _mode(self):
        return self.ring("mode").mode

    @property
    def _copies(self):
        return mv_ring_lossy(self.ring("mode")) != 0

    @property
    def _writable(self):
        return not self.ring("attach").readonly

    @property
    def _observes(self):
        return self.observer

    def _has_reader(self):
        """Whether a reader has a seat, and lives."""
        cdef mv_ring *r = self.ring("wait_for_reader")
        cdef int slot
        if not mv_ring_lossy(r):
            return mv_ring_side(r, MV_CONSUMER) == MV_SIDE_ACTIVE and byte_locked(self.segment, LOCK_CONSUMER)
        for slot in range(MV_RING_SLOTS):
            if mv_ring_slot_owner(r, slot) and byte_locked(self.segment, LOCK_SLOT + slot):
                return True
        return False

    def _sit(self):
        """Takes the reader's seat now rather than at the first read."""
        if not self.started:
            self.become_consumer()

    def _numbers(self):
        """The ring's counters as a dict."""
        cdef mv_ring_stats n
        mv_ring_read_stats(self.ring("stats"), &n)
        return n

    cdef int become_producer(self) except -1:
        """Takes the producer's seat, or one of them; continues where the last one stopped."""
        cdef mv_ring *r
        cdef int rc = MV_RING_OK, slot
        r = self.ring("attach")
        if self.producer is not None and self.producer.owner.forked:
            raise NotOwnerError(f"write: ring {self.segment.name!r} was opened before the fork that made this "
                                f"process; attach again")
        if self.observer or r.readonly:
            raise NotOwnerError(f"write: this handle only looks at ring {self.segment.name!r}")
        if r.mode == MV_RING_MPSC:
            for slot in range(MV_RING_SLOTS):
                self.producer = lock_byte(self.segment, LOCK_SLOT + slot)
                if self.producer is not None:
                    break
            else:
                raise Busy(f"write: all {MV_RING_SLOTS} seats of ring {self.segment.name!r} are taken")
            return mv_mpsc_acquire_slot(r, slot, getpid())
        self.producer = lock_byte(self.segment, LOCK_PRODUCER)
        if self.producer is None:
            raise NotOwnerError(f"write: ring {self.segment.name!r} has a producer, process "
                                f"{mv_ring_side_pid(r, MV_PRODUCER)}; "
                                "mode 'mpsc' takes several")
        if r.mode == MV_RING_SPSC:
            rc = mv_spsc_produce(r)
        elif r.mode == MV_RING_RECORDER:
            with nogil:
                rc = mv_recorder_recover(r)
        else:
            rc = mv_lossy_produce(r)
        if rc != MV_RING_OK:
            self.producer.release()
            self.producer = None
            raise self.corrupt()
        mv_ring_set_side(r, MV_PRODUCER, MV_SIDE_ACTIVE, getpid())
        return 0

    cdef int become_consumer(self) except -1:
        """Takes the consumer's seat and begins at `head`; a lossy reader takes any seat there is, and begins
        where it was told to.
        """
        cdef mv_ring *r
        cdef ByteLock lock = self.handle.consumer if self.handle is not None else None
        cdef int rc, slot
        r = self.ring("attach")
        if lock is not None and lock.owner.forked:
            raise NotOwnerError(f"read: ring {self.segment.name!r} was opened before the fork that made this "
                                f"process; attach again")
        if self.observer or mv_ring_lossy(r):
            if not self.observer and not r.readonly:
                for slot in range(MV_RING_SLOTS):
                    lock = lock_byte(self.segment, LOCK_SLOT + slot)
                    if lock is not None:
                        mv_ring_assign_slot(r, slot, getpid())
                        break
            if isinstance(self.start, str):
                rc = mv_lossy_attach(r, self.start == "oldest")
            else:
                rc = mv_lossy_seek(r, self.start)
        elif r.readonly:
            raise NotOwnerError(f"read: ring {self.segment.name!r} is lossless, so reading takes, and it cannot be "
                                f"written here; observe=True looks without taking")
        else:
            lock = lock_byte(self.segment, LOCK_CONSUMER)
            if lock is None:
                raise NotOwnerError(f"read: ring {self.segment.name!r} has a reader, process "
                                    f"{mv_ring_side_pid(r, MV_CONSUMER)}; "
                                    "mode 'broadcast' takes several")
            rc = mv_spsc_consume(r) if r.mode == MV_RING_SPSC else mv_mpsc_consume(r)
        if rc != MV_RING_OK:
            raise self.corrupt()
        self.handle.consumer = lock
        if not self.observer and not mv_ring_lossy(r):
            mv_ring_set_side(r, MV_CONSUMER, MV_SIDE_ACTIVE, getpid())
        self.started = True
        return 0

    cdef bint side_gone(self, int side) except -1:
        """Whether the other side has left or died. Asks the kernel, so not more often than is useful."""
        cdef mv_ring *r = &self.handle.ring
        cdef int state
        cdef uint64_t now
        if r.mode == MV_RING_MPSC and side == MV_PRODUCER:
            return self.segment.writer_closed  # producers come and go; the ring ends with its creator
        state = mv_ring_side(r, side)
        if state == MV_SIDE_NONE:
            return False
        if state == MV_SIDE_CLOSED:
            return True
        now = mv_monotonic_ns()
        if now - self.asked < ASK_NS:
            return False
        self.asked = now
        if byte_locked(self.segment, LOCK_PRODUCER if side == MV_PRODUCER else LOCK_CONSUMER):
            return False
        return mv_ring_side(r, side) != MV_SIDE_NONE

    cdef int wait_for_room(self, uint64_t n, uint64_t deadline) except? -99:
        cdef mv_ring *r = &self.handle.ring
        cdef int rc, turn = 0, strategy = MV_WAIT_FUTEX if self.wait >= MV_WAIT_POLL else self.wait
        self.writing = True
        try:
            while True:
                with nogil:
                    rc = mv_ring_wait(r, &r.ctl.space, mv_ring_has_room, n, strategy, self.spin_ns, deadline, turn)
                if rc == MV_RING_CORRUPT:
                    raise self.corrupt()
                if rc == MV_RING_OK:
                    return rc
                PyErr_CheckSignals()
                if not self.wait_for_peer and self.side_gone(MV_CONSUMER) and mv_ring_has_room(r, n) != MV_RING_OK:
                    raise PeerGone(f"write: ring {self.segment.name!r} is full and its reader, process "
                                   f"{mv_ring_side_pid(r, MV_CONSUMER)}, is gone; another may attach and go on")
                if mv_monotonic_ns() >= deadline:
                    return MV_RING_FULL
                turn += 1
        finally:
            self.writing = False

    cdef int wait_for_data(self, uint64_t deadline) except? -99:
        """MV_RING_OK: look again. MV_RING_EMPTY: time is up, or there will be no more."""
        cdef mv_ring *r = &self.handle.ring
        cdef int rc = MV_RING_EMPTY, turn = 0, strategy = MV_WAIT_FUTEX if self.wait == MV_WAIT_EVENT else self.wait
        if deadline != 0 and self.soon(r):
            return MV_RING_OK
        self.reading = True
        try:
            while True:
                if deadline == 0 or strategy == MV_WAIT_POLL:
                    rc = mv_ring_has_data(r, self.observer)
                else:
                    with nogil:
                        rc = mv_ring_wait(r, &r.ctl.data, mv_ring_has_data, self.observer, strategy, self.spin_ns,
                                          deadline, turn)
                if rc == MV_RING_CORRUPT:
                    raise self.corrupt()
                if rc == MV_RING_OK:
                    return rc
                PyErr_CheckSignals()
                if r.mode == MV_RING_MPSC and not self.observer and self.unblock() == MV_RING_OK:
                    return MV_RING_OK
                if self.side_gone(MV_PRODUCER) and mv_ring_has_data(r, self.observer) != MV_RING_OK:
                    self.ended = mv_ring_side(r, MV_PRODUCER) == MV_SIDE_CLOSED or r.mode == MV_RING_MPSC
                    if self.ended:
                        return self.nothing()
                    if not self.wait_for_peer and not self.observer and r.mode != MV_RING_RECORDER:
                        raise PeerGone(f"read: the producer of ring {self.segment.name!r}, process "
                                       f"{mv_ring_side_pid(r, MV_PRODUCER)}, died; all that it published was read")
                if deadline == 0 or strategy == MV_WAIT_POLL or mv_monotonic_ns() >= deadline:
                    return self.nothing()
                turn += 1
        finally:
            self.reading = False

    cdef bint soon(self, mv_ring *r) noexcept:
        """Whether there is a frame within a microsecond or three: at full speed the next one is already on its way, and
        to give the GIL away would cost more. Not where this handle does not spin.
        """
        cdef int k
        for k in range(64 if self.wait <= MV_WAIT_HYBRID and self.spin_ns else 0):
            if mv_ring_has_data(r, self.observer) == MV_RING_OK:
                return True
            mv_pause()
        return False

    cdef int nothing(self) except? -99:
        """Found empty: whoever watches `fileno()` is told from here on."""
        if self._arm is not None:
            self._arm(self)
        return MV_RING_EMPTY

    cdef int unblock(self) except? -99:
        """Skips what a dead producer left at our position: `tail` first, then who lives, then the judgement."""
        cdef mv_ring *r = &self.handle.ring
        cdef uint64_t alive = 0, now = mv_monotonic_ns(), before = r.pos
        cdef int slot, rc
        if mv_lossy_tail(r) == r.pos or now - self.asked < ASK_NS:
            return MV_RING_GAP
        self.asked = now
        mv_mpsc_measure_gap(r)
        for slot in range(MV_RING_SLOTS):
            if mv_ring_slot_owner(r, slot) and byte_locked(self.segment, LOCK_SLOT + slot):
                alive |= <uint64_t>1 << slot
        rc = mv_mpsc_unblock(r, alive)
        if rc == MV_RING_CORRUPT:
            raise self.corrupt()
        if r.pos != before:
            self.handle.give_back()
        return rc
