"""`Publication`: the common part of State and Snapshot, a segment with one writer and numbered publications."""

from cpython.exc cimport PyErr_CheckSignals
from libc.errno cimport EINTR
from libc.stdint cimport int64_t, uint64_t

from mojoview.sharing.segment._segment cimport Mapping, Segment

import errno
import os
import time

from mojoview.memory.check import deadline_after
from mojoview.memory.errors import ClosedError, OwnerGone, WaitTimeout
from mojoview.sharing.segment import segments


cdef extern from "memory/futex.h" nogil:
    """
    static inline uint64_t mv_counter_now(void *counter) {
        /* ACQ: with what the counter publishes */
        return atomic_load_explicit((_Atomic uint64_t *)counter, memory_order_acquire);
    }
    static inline int mv_publication_wait(void *counter, uint64_t seen, void *waiters, int64_t spin_ns, int64_t ns) {
        return mv_counter_wait((_Atomic uint64_t *)counter, seen, (_Atomic uint32_t *)waiters, spin_ns, ns);
    }
    """
    uint64_t mv_counter_now(void *counter)
    int mv_publication_wait(void *counter, uint64_t seen, void *waiters, int64_t spin_ns, int64_t ns)

cdef int64_t SPIN_NS = 20_000 if (os.cpu_count() or 1) > 1 else 0  # spinning cannot help on one core
cdef int64_t SLICE_NS = 100_000_000  # longest sleep between checks of signals and of the writer


cdef Segment CLOSED = Segment.__new__(Segment)  # the segment of a handle made by __new__() alone


cdef class Publication:
    """Publication()

    The common part of `State` and `Snapshot`.
    """

    def __cinit__(self):
        self.counter = self.waiters = NULL
        self.segment = CLOSED

    def reader(self):
        """reader()

        Return another handle on the same memory, for another thread; it only reads.
        """
        self.check_open("reader()")
        return type(self)._of(self.segment.reopen())

    def __reduce__(self):
        self.check_open("pickling")
        return type(self)._of, (self.segment,)

    cdef uint64_t word(self) noexcept:
        """Load the counter."""
        return mv_counter_now(self.counter)

    cdef int check_open(self, str operation) except -1:
        """Raise if the handle is closed."""
        if self.counter is NULL:
            raise ClosedError(f"{operation}: the {type(self).__name__} {self.segment.name!r} was closed")
        return 0

    cdef int map_waiter_count(self) except -1:
        """Map the waiter count, if it is not mapped yet."""
        return 0

    cdef uint64_t wait_for_newer(self, uint64_t number, object timeout) except? 0:
        """Wait until the number of the newest publication is above `number`; return it."""
        cdef uint64_t seen
        cdef int64_t left
        cdef void *counter
        cdef void *waiters
        cdef Mapping _mapping, _page  # keep the memory if another thread closes this handle
        cdef int rc
        deadline = deadline_after("wait_newer()", timeout, time.monotonic_ns())
        while True:
            self.check_open("wait_newer()")
            seen = self.word()
            if seen >> self.number_shift > number:
                return seen >> self.number_shift
            if self.segment.writer_closed:
                raise OwnerGone(f"wait_newer(): the writer of {self.segment.name!r} has closed it")
            left = SLICE_NS if deadline is None else min(SLICE_NS, deadline - time.monotonic_ns())
            if left <= 0:
                raise WaitTimeout(
                    f"wait_newer(): nothing newer than {number} in {self.segment.name!r} within {timeout} s"
                )
            self.map_waiter_count()
            counter, waiters, _mapping, _page = self.counter, self.waiters, self.mapping, self.page
            if counter is NULL:  # closed by another thread
                continue
            with nogil:
                rc = mv_publication_wait(counter, seen, waiters, SPIN_NS, left)
            if rc == -EINTR:
                PyErr_CheckSignals()
            elif rc == -errno.ETIMEDOUT:
                PyErr_CheckSignals()
                self.check_open("wait_newer()")
                if self.word() == seen and not self.segment.writer_closed and not self.segment.owner_alive():
                    raise OwnerGone(
                        f"wait_newer(): the writer of {self.segment.name!r}, process {self.segment.owner_pid}, "
                        f"is dead; {type(self).__name__}.take_over() continues it"
                    )

    @property
    def name(self):
        return self.segment.name

    @property
    def version(self):
        """Number of the newest publication."""
        self.check_open("version")
        return self.word() >> self.number_shift

    @property
    def writable(self):
        return self.counter is not NULL and self.segment.owner_lock.fd >= 0

    @property
    def closed(self):
        return self.counter is NULL

    def writer_alive(self):
        """writer_alive()

        Return whether the writer's process is alive and has not closed the segment.
        """
        self.check_open("writer_alive()")
        return self.segment.owner_alive()

    def close(self):
        """close()

        Close the handle. The writer's also removes the name, and waiting readers get `OwnerGone`. Copies and views stay
        valid.
        """
        self.counter = self.waiters = NULL
        self.mapping = self.page = None
        segments.close_segment(self.segment)

    def __enter__(self):
        self.check_open("with")
        return self

    def __exit__(self, *exc):
        self.close()
