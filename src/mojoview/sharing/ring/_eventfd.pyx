"""The thread behind `Ring.fileno()`. The algorithm is `ring_bell.h`."""

cimport cython
from libc.stdint cimport UINT32_MAX, int64_t, uint64_t
from libc.string cimport memset

from mojoview.sharing.ring._handle cimport RingBase
from mojoview.sharing.segment._segment cimport Segment
from mojoview.sharing.ring.operations cimport MV_RING_MPSC, mv_ring

import os
import threading


cdef extern from "sharing/ring/eventfd.h" nogil:
    ctypedef struct mv_notifier:
        mv_ring ring
        uint64_t observer
        int event_fd, lock_fd
        int64_t lock_byte
    void mv_notifier_arm(mv_notifier *b, const mv_ring *r)
    void mv_notifier_stop(mv_notifier *b)
    void mv_notifier_run(mv_notifier *b)


# The thread holds a reference to the bell while it runs: `stop()` ends it.
@cython.final
@cython.no_gc_clear
cdef class Bell:
    """Bell()

    An eventfd that becomes readable when the ring may have something to read, or has ended; made by `Ring.fileno()`.
    """
    cdef mv_notifier bell
    cdef object handle      # whose memory the copy of the ring points into
    cdef object thread

    def __cinit__(self, RingBase ring, int lock_byte):
        memset(&self.bell, 0, sizeof(self.bell))
        self.bell.event_fd = -1
        self.handle = ring.handle
        self.bell.ring = ring.handle.ring
        self.bell.observer = ring.observer
        self.bell.lock_fd = -1 if ring.handle.ring.mode == MV_RING_MPSC else os.dup(ring.segment.fileno())
        self.bell.lock_byte = lock_byte
        self.bell.event_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.thread = threading.Thread(target=self._run, name="mojoview-ring-bell", daemon=True)
        self.thread.start()

    def fileno(self):
        """fileno()

        The eventfd, borrowed.
        """
        return self.bell.event_fd

    def arm(self, RingBase ring):
        """arm(ring)

        Makes the descriptor unreadable until there is something to read from where the ring's reader stands now.
        """
        mv_notifier_arm(&self.bell, &ring.handle.ring)

    def stop(self):
        """stop()

        Ends the thread and closes the descriptor.
        """
        if self.thread is None:
            return
        mv_notifier_stop(&self.bell)
        self.thread.join()
        self.thread = None
        os.close(self.bell.event_fd)
        if self.bell.lock_fd >= 0:
            os.close(self.bell.lock_fd)

    def _run(self):
        with nogil:
            mv_notifier_run(&self.bell)
