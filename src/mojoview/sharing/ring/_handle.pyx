"""Handle: a process's end of a ring, shared by its producer and its consumer.

It owns the mapped memory with the C handle, the roles that this process holds, and the eventfd behind `fileno()`. The
algorithms are the C headers beside it.
"""

cimport cython
from cpython.long cimport PyLong_AsLongAndOverflow
from libc.stdint cimport UINT64_MAX, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset
from posix.unistd cimport getpid

from mojoview.sharing.ring.operations cimport *
from mojoview.sharing.segment._segment cimport Segment

import os
import threading

from mojoview.memory.check import seconds_of
from mojoview.memory.errors import AllocationError, ArgumentError, Busy, ClosedError, CorruptHeader
from mojoview.sharing.segment._segment import byte_locked

MODES = {"spsc": MV_RING_SPSC, "mpsc": MV_RING_MPSC, "broadcast": MV_RING_BROADCAST, "recorder": MV_RING_RECORDER}
WAITS = {
    "spin": MV_WAIT_SPIN,
    "hybrid": MV_WAIT_HYBRID,
    "futex": MV_WAIT_FUTEX,
    "poll": MV_WAIT_POLL,
    "event": MV_WAIT_EVENT,
}
CONTROL_BYTES, SPIN_NS = MV_RING_CTL_BYTES, MV_WAIT_SPIN_NS
CLAIM_AT = MV_RING_CLAIM_AT


cdef int frame_type(object type) except -1:
    """Return a message's type: data, or a number of the user's own."""
    cdef int overflow = 0
    cdef long number = PyLong_AsLongAndOverflow(type, &overflow) if isinstance(type, int) else -1
    if overflow or number > 255 or (number != MV_FRAME_DATA and number < MV_FRAME_USER):
        raise ArgumentError(f"type={type!r}: expected 1, or 16 to 255")
    return <int>number


cpdef uint64_t deadline_of(object timeout) except? 0:
    """deadline_of(timeout)

    Return the end of a wait on CLOCK_MONOTONIC; 0 = do not wait.
    """
    cdef double seconds
    if timeout is None:
        return UINT64_MAX
    seconds = seconds_of(timeout, "ring")
    return mv_monotonic_ns() + <uint64_t>(seconds * 1e9) if seconds else 0


def format_ring(Segment segment, int64_t offset, uint64_t start, uint64_t seq, bint ticks):
    """format_ring(segment, offset, start, seq, ticks)

    Make a ring of zeroed memory, before `commit()`. Return whether timestamps come from the processor's counter.
    """
    cdef mv_ring_ctl *ctl = <mv_ring_ctl *>segment.address(offset, MV_RING_CTL_BYTES)
    mv_ring_format(ctl, start & ~<uint64_t>(MV_RING_LINE - 1), seq)
    return ticks and mv_clock_calibrate(ctl) != 0


# Not cleared by the cycle collector: regions release their bytes through it until the last of them is deallocated.
@cython.final
@cython.no_gc_clear
cdef class RingMemory:
    """RingMemory()

    The mapped ring: the C handle, and the queue of regions that were read and are not released.
    """

    def __cinit__(self):
        self.ends, self.over = NULL, NULL
        self.closing = False

    def __dealloc__(self):
        free(self.ends)
        free(self.over)

    cdef object hand_out(self):
        """Return the bytes from the end of the last region to the reader's position as a new region."""
        cdef Region region = Region.__new__(Region)
        cdef uint64_t *ends
        cdef uint8_t *over
        cdef Py_ssize_t room, k
        if self.count == self.room:
            room = max(16, 2 * self.room)
            ends = <uint64_t *>malloc(room * sizeof(uint64_t))
            over = <uint8_t *>malloc(room)
            if ends is NULL or over is NULL:
                free(ends)
                free(over)
                raise AllocationError(f"a queue of {room} unreleased batches")
            for k in range(self.count):
                ends[k] = self.ends[(self.first + k) % self.room]
                over[k] = self.over[(self.first + k) % self.room]
            free(self.ends)
            free(self.over)
            self.ends, self.over, self.room, self.first = ends, over, room, 0
        k = (self.first + self.count) % self.room
        self.ends[k] = self.ring.pos
        self.over[k] = 0
        region.serial = self.serial + self.count
        region.memory = self
        self.count += 1
        return region

    cdef int settle(self, uint64_t serial) noexcept:
        """Mark a region as released; its bytes are the producer's again when all older regions are released too.

        A forked child releases nothing.
        """
        cdef uint64_t upto = self.ring.released
        self.over[(self.first + <Py_ssize_t>(serial - self.serial)) % self.room] = 1
        while self.count and self.over[self.first]:
            upto = self.ends[self.first]
            self.first = (self.first + 1) % self.room
            self.count -= 1
            self.serial += 1
        if upto != self.ring.released and self.reader is not None and self.reader.lock.fd >= 0:
            mv_ring_release(&self.ring, upto)
            mv_ring_wake(&self.ring.ctl.space)
        if self.closing and self.count == 0:
            self.release_reader()
        return 0

    cdef int release_passed(self) noexcept:
        """Release bytes that were skipped or copied, if no region is outstanding."""
        if self.count == 0 and self.ring.pos != self.ring.released:
            mv_ring_release(&self.ring, self.ring.pos)
            mv_ring_wake(&self.ring.ctl.space)
        return 0

    cdef int release_reader(self) noexcept:
        """Release the reader's role, at the latest when the last region is released."""
        self.closing = True
        if self.count or self.reader is None:
            return 0
        if self.reader.lock.fd >= 0:
            if mv_ring_lossy(&self.ring):
                mv_ring_release_slot(&self.ring)
            else:
                mv_ring_set_side(&self.ring, MV_CONSUMER, MV_SIDE_CLOSED, 0)
            self.reader.release()
        return 0


@cython.final
@cython.no_gc_clear
cdef class Region:
    """Region()

    Bytes of a ring with the frames of one batch; released when the last view of them is deallocated.
    """

    def __dealloc__(self):
        if self.memory is not None:
            self.memory.settle(self.serial)


# The thread holds a reference to the notifier while it runs: `stop()` ends it.
@cython.final
@cython.no_gc_clear
cdef class EventNotifier:
    """EventNotifier()

    An eventfd that becomes readable when the ring may have something to read, or has ended. See `eventfd.h`.
    """

    def __cinit__(self, Handle handle):
        memset(&self.notifier, 0, sizeof(self.notifier))
        self.notifier.event_fd = -1
        self.memory = handle.memory
        self.notifier.ring = handle.memory.ring
        self.notifier.observer = handle.observer
        self.notifier.lock_fd = -1 if handle.ring.mode == MV_RING_MPSC else os.dup(handle.segment.fileno())
        self.notifier.lock_byte = MV_LOCK_PRODUCER
        self.notifier.event_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.thread = threading.Thread(target=self._run, name="mojoview-ring-notifier", daemon=True)
        self.thread.start()

    def stop(self):
        """stop()

        End the thread and close the descriptor.
        """
        if self.thread is None:
            return
        mv_notifier_stop(&self.notifier)
        self.thread.join()
        self.thread = None
        os.close(self.notifier.event_fd)
        if self.notifier.lock_fd >= 0:
            os.close(self.notifier.lock_fd)

    def _run(self):
        with nogil:
            mv_notifier_run(&self.notifier)


# Not cleared by the cycle collector: __dealloc__ releases the roles.
@cython.final
@cython.no_gc_clear
cdef class Handle:
    """Handle()

    A process's end of a ring; closed until `open` was called.
    """

    def __dealloc__(self):
        self.release_roles()

    def open(self, Segment segment, int64_t offset, int64_t nbytes, uint64_t capacity, int mode, bint crc, dtype, *,
             int wait, uint64_t spin_ns, bint observer, bint wait_for_peer):
        cdef RingMemory memory = RingMemory.__new__(RingMemory)
        if mv_ring_open(&memory.ring, segment.address(offset, nbytes), nbytes, capacity, mode, crc) != MV_RING_OK:
            raise CorruptHeader(f"ring {segment.name!r}: {nbytes} bytes hold no ring of mode {mode} and "
                                f"capacity {capacity}")
        memory.mapping = segment.mapping
        memory.ring.readonly, memory.ring.observer = not segment.mapping.writable, observer
        self.segment, self.dtype = segment, dtype
        self.record_bytes = 0 if dtype is None else dtype.itemsize
        self.wait, self.spin_ns, self.observer, self.wait_for_peer = wait, spin_ns, observer, wait_for_peer
        self.memory, self.ring = memory, &memory.ring

    cdef mv_ring *opened(self, str operation) except NULL:
        if self.ring is NULL:
            raise ClosedError(f"{operation}: the ring was closed")
        return self.ring

    cdef object corrupt(self):
        return CorruptHeader(f"ring {self.segment.name!r}: its control words contradict each other")

    cdef object busy(self, str operation):
        return Busy(f"{operation}: another thread, or an open claim, is using this handle of ring "
                    f"{self.segment.name!r}; attach one handle per thread")

    cdef int release_roles(self) noexcept:
        """Release both roles and the memory. C only: also called from __dealloc__."""
        if self.ring is NULL:
            return 0
        if holds_producer(self):
            if self.ring.mode == MV_RING_MPSC:
                mv_ring_release_slot(self.ring)
            else:
                mv_ring_set_side(self.ring, MV_PRODUCER, MV_SIDE_CLOSED, getpid())
            self.producer.release()
        self.lost = self.ring.lost
        self.memory.release_reader()
        self.ring, self.memory = NULL, None
        return 0

    cdef bint peer_gone(self, int side) except -1:
        """Return whether the other side has closed or exited. Queries the operating system at most every 10 ms."""
        cdef mv_ring *r = self.ring
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
        if now - self.asked < MV_ASK_INTERVAL_NS:
            return False
        self.asked = now
        if byte_locked(self.segment, MV_LOCK_PRODUCER if side == MV_PRODUCER else MV_LOCK_CONSUMER):
            return False
        return mv_ring_side(r, side) != MV_SIDE_NONE

    cdef uint64_t alive_slots(self) except? 0:
        """Return a bit for each slot whose owner is alive."""
        cdef uint64_t alive = 0
        cdef int slot
        for slot in range(MV_RING_SLOTS):
            if mv_ring_slot_owner(self.ring, slot) and byte_locked(self.segment, MV_LOCK_SLOT + slot):
                alive |= <uint64_t>1 << slot
        return alive

    @property
    def has_reader(self):
        """True if a living reader holds a role."""
        cdef mv_ring *r = self.opened("wait_for_reader")
        if mv_ring_lossy(r):
            return self.alive_slots() != 0
        return mv_ring_side(r, MV_CONSUMER) == MV_SIDE_ACTIVE and byte_locked(self.segment, MV_LOCK_CONSUMER)

    def counters(self):
        """counters()

        Return the ring's counters as a dict.
        """
        cdef mv_ring_stats n
        mv_ring_read_stats(self.opened("stats"), &n)
        return n
