"""Snapshot: large arrays published whole; readers look at them in place, pinned. The algorithm is slots.h."""

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t, uint64_t

from mojoview.memory._lease cimport lease_owner
from mojoview.sharing.snapshot._pins cimport Pin, mv_slots_head, mv_slots_ref, mv_pin_row, pin_newest
from mojoview.sharing.segment._publication cimport Publication, mv_publication_notify
from mojoview.sharing.segment._segment cimport MV_KIND_FRAME, MV_KIND_SNAPSHOT, Mapping, Segment, forks
from mojoview.views._view cimport View, make_view

import errno
import time
import weakref

import numpy as np

from mojoview.memory._dtype import as_dtype
from mojoview.memory.check import check_int, check_shape, deadline_after
from mojoview.memory.errors import (
    ArgumentError, Busy, ShapeError, WaitTimeout,
)
from mojoview.sharing.segment import segments


cdef extern from "sharing/snapshot/slots.h" nogil:
    """
    #include "memory/futex.h" /* mv_low_word() */
    static inline uint64_t mv_snapshot_map(const mv_slots_ref *r) { return atomic_load_explicit(&r->head->map, memory_order_acquire); }
    static inline uint64_t mv_snapshot_slots(const mv_slots_ref *r) { return atomic_load_explicit(&r->head->slots, memory_order_acquire); }
    static inline void mv_snapshot_set_slots(const mv_slots_ref *r, uint64_t n) {
        atomic_store_explicit(&r->head->slots, n, memory_order_release);
    }
    static inline void *mv_snapshot_counter(const mv_slots_ref *r) { return &r->head->map; }
    static inline void *mv_snapshot_sleepers(const mv_slots_ref *r) { return &r->rows[0].sleepers; }
    /* The writer's wait for a slot: it announces itself, looks once more, sleeps until an unpin. */
    static inline int mv_snapshot_wait_slot(const mv_slots_ref *r, int64_t ns, int64_t *slot) {
        uint64_t seen = atomic_load_explicit(&r->rows[0].released, memory_order_acquire);
        int rc = 0;
        atomic_store_explicit(&r->rows[0].writers, 1, memory_order_seq_cst);
        atomic_thread_fence(memory_order_seq_cst); /* SC: pairs with mv_slots_unpin() */
        *slot = mv_slots_acquire(r);
        if (*slot < 0) rc = mv_futex_wait(mv_low_word(&r->rows[0].released), (uint32_t)seen, ns);
        atomic_store_explicit(&r->rows[0].writers, 0, memory_order_relaxed);
        return rc;
    }
    """
    enum:
        MV_SLOTS_MAX
    int64_t mv_slots_acquire(const mv_slots_ref *r)
    uint64_t mv_slots_publish(const mv_slots_ref *r, uint64_t slot, uint64_t bytes, uint64_t time_ns)
    int mv_slots_reap(const mv_slots_ref *r, int any)
    uint64_t mv_snapshot_map(const mv_slots_ref *r)
    uint64_t mv_snapshot_slots(const mv_slots_ref *r)
    void mv_snapshot_set_slots(const mv_slots_ref *r, uint64_t n)
    void *mv_snapshot_counter(const mv_slots_ref *r)
    void *mv_snapshot_sleepers(const mv_slots_ref *r)
    int mv_snapshot_wait_slot(const mv_slots_ref *r, int64_t ns, int64_t *slot)

cdef extern from "memory/clock.h" nogil:
    uint64_t mv_monotonic_ns()

DATA_ALIGN = 65536
cdef int64_t SLICE_NS = 100_000_000  # no sleep is longer without a look at signals and at the other side's life


@cython.final
cdef class Snapshot(Publication):
    """Snapshot()

    Large arrays published whole to any number of readers, in threads and processes, without a copy on their side. Made by `create`,
    `attach`, `take_over`.

    The writer fills a free slot and publishes it; a reader gets a read-only view of the newest one and keeps it as long as it likes.
    The writer never waits for readers unless asked to: with more slots than readers pin plus two there is always a free one. A writer
    that is killed leaves the last publication standing, a reader that is killed holds up nobody.

    Attributes
    ----------
    name : str
    shape : tuple of int
    dtype : numpy.dtype
    version : int
        Number of the newest publication; 0 before the first.

    Notes
    -----
    Thread safety: `read()` in any thread; writing in one thread at a time. After a fork the child's handles only read.

    Examples
    --------
    >>> import mojoview as mv
    >>> writer = mv.Snapshot.create(None, (2, 3), "f8")
    >>> with writer.write() as frame:
    ...     frame[:] = 7
    >>> reader = writer.reader()
    >>> view = reader.read()
    >>> view.shape, float(view[1, 2]), view.readonly, view.owner.version
    ((2, 3), 7.0, True, 1)
    >>> writer.close(), reader.close()
    (None, None)
    """

    def __cinit__(self):
        self.pins.head = NULL
        self.writing = -1
        self.free_rows = []

    def __init__(self):
        raise ArgumentError("Snapshot() is not called by hand: use Snapshot.create(name, shape, dtype) or Snapshot.attach(name)")

    # -- making one --------------------------------------------------------------------------------------------------

    @staticmethod
    def create(name, shape, dtype, slots=3, *, max_slots=None, readers=64, prefault=False, reclaim=False, mode=0o600):
        """create(name, shape, dtype, slots=3, *, max_slots=None, readers=64, prefault=False, reclaim=False, mode=0o600)

        A new Snapshot, of which this handle is the writer.

        Parameters
        ----------
        name : str or None
            None: anonymous memory, handed over by pickling or a Unix socket.
        shape : int or tuple of int
        dtype : dtype-like
        slots : int
            2 to 64. Memory for all of them is claimed now.
        max_slots : int, optional
            How far ``busy="grow"`` may go; memory is claimed when it is needed. `slots` + 8, at most 64, when absent.
        readers : int
            1 to 4,000: how many publications can be pinned at once.
        prefault : bool
            Whether all pages come in now, so that the first publications are as fast as later ones.
        reclaim : bool
            Whether a name left by a dead process may be replaced. `take_over()` continues it instead.
        mode : int

        Returns
        -------
        Snapshot
            Owns the name until `close()`.

        Raises
        ------
        SegmentExists, ShmFullError, DTypeError, ArgumentError
        """
        return create(MV_KIND_SNAPSHOT, name, shape, dtype, slots, max_slots, readers, prefault, reclaim, mode)

    @staticmethod
    def attach(name, dtype=None, shape=None, *, timeout=1.0, uid=None):
        """attach(name, dtype=None, shape=None, *, timeout=1.0, uid=None)

        A reader of a named Snapshot.

        Parameters
        ----------
        name : str
        dtype, shape : dtype-like and tuple of int, optional
            What it must hold.
        timeout : float
            Seconds to wait for a creator that has not finished.
        uid : int, optional

        Returns
        -------
        Snapshot
            The data is mapped read-only; only the page with the readers' pins is written to.

        Raises
        ------
        SegmentNotFound, SchemaMismatch, NotReady, NotAMojoviewSegment, SegmentAccessError, VersionMismatch, CorruptHeader, TruncatedError
        """
        segment = segments.attach_segment(name, kinds=(MV_KIND_SNAPSHOT, MV_KIND_FRAME), timeout=timeout, uid=uid)
        segments.check_schema(segment, f"Snapshot.attach({name!r})", dtype, shape)
        return bind(segment)

    @staticmethod
    def take_over(name):
        """take_over(name)

        Becomes the writer of a Snapshot whose writer is dead; readers go on.

        Returns
        -------
        Snapshot

        Raises
        ------
        SegmentExists
            The writer lives.
        """
        segment = segments.attach_segment(name, kinds=(MV_KIND_SNAPSHOT, MV_KIND_FRAME), writable=True)
        segments.take_over(segment, f"Snapshot.take_over({name!r})")
        return bind(segment)

    @staticmethod
    def _of(Segment segment):
        """The handle of a segment, as unpickling and `mojoview.attach()` need it."""
        return bind(segment)

    # -- writing -----------------------------------------------------------------------------------------------------

    def write(self, *, busy="skip", timeout=None):
        """write(*, busy="skip", timeout=None)

        Produces a publication in place: a context manager that gives a writable array on a free slot, and publishes it at the end.

        Parameters
        ----------
        busy : {"skip", "wait", "grow"}
            What to do where readers pin every slot: raise `Busy` at once, wait for one of them, or add a slot.
        timeout : float, optional
            Seconds to wait; for ever when absent.

        Returns
        -------
        context manager
            Entering gives an ndarray of the Snapshot's shape and dtype, with undefined contents. It borrows the slot: after the block
            it is read-only, and arrays made from it must not be written to. Where the block raises, nothing is published.

        Raises
        ------
        Busy, WaitTimeout, ShmFullError, NotOwnerError, ClosedError
            When the block is entered.
        """
        return Writing(self, busy, timeout)

    def publish(self, array, *, busy="skip", timeout=None):
        """publish(array, *, busy="skip", timeout=None)

        Copies an array into a free slot and publishes it.

        Parameters
        ----------
        array : array-like
            Of the Snapshot's shape, and of its dtype or one that converts to it without loss.
        busy, timeout
            As `write()`.

        Returns
        -------
        int
            The publication's number, from 1.

        Raises
        ------
        ShapeError, TypeError
            The array does not fit.
        Busy, WaitTimeout, ShmFullError, NotOwnerError, ClosedError
        """
        array = np.asarray(array)
        if array.shape != self.shape:
            raise ShapeError(f"publish(): expected shape {self.shape}, got {array.shape}")
        if not np.can_cast(array.dtype, self.dtype, "safe"):
            raise ArgumentError(f"publish(): {array.dtype} does not convert to {self.dtype} without loss")
        with Writing(self, busy, timeout) as slot:
            np.copyto(slot, array)
        return self.version

    cdef int64_t take_slot(self, object busy, object timeout) except -1:
        cdef int64_t slot = -1, left
        cdef int rc
        cdef mv_slots_ref pins
        cdef Mapping mapping = self.mapping, page = self.page
        if not isinstance(busy, str) or busy not in ("skip", "wait", "grow"):
            raise ArgumentError(f"write(busy={busy!r}): expected 'skip', 'wait' or 'grow'")
        self.segment.require_owner("write()")
        if self.writing >= 0:
            raise ArgumentError("write(): another write() of this Snapshot is not finished")
        pins = self.pins
        slot = mv_slots_acquire(&pins)
        if slot < 0 and mv_slots_reap(&pins, self.segment.fd):
            slot = mv_slots_acquire(&pins)
        if slot < 0 and busy == "grow":
            self.grow()
            slot = mv_slots_acquire(&pins)
        if slot < 0 and busy != "wait":
            raise Busy(errno.EAGAIN, f"write(): readers pin every free slot of {self.segment.name!r} ({mv_snapshot_slots(&pins)} slots); "
                       "let views go, wait, or use more slots")
        deadline = deadline_after("write()", timeout, time.monotonic_ns())
        while slot < 0:
            left = SLICE_NS if deadline is None else min(SLICE_NS, deadline - time.monotonic_ns())
            if left <= 0:
                raise WaitTimeout(f"write(): readers pinned every free slot of {self.segment.name!r} for {timeout} s")
            with nogil:
                rc = mv_snapshot_wait_slot(&pins, left, &slot)
            if slot < 0:
                PyErr_CheckSignals()
                self.segment.require_owner("write()")
                if rc == -errno.ETIMEDOUT:
                    mv_slots_reap(&pins, self.segment.fd)
        self.segment.require_owner("write()")  # another thread may have closed it while this one waited
        self.writing = slot
        return slot

    cdef int grow(self) except -1:
        """One more slot, where there is one; its memory is claimed first, so that a full disk is an error."""
        cdef int64_t slots = mv_snapshot_slots(&self.pins), start
        if slots >= self.max_slots:
            return 0
        start = self.data_off + slots * self.slot_stride
        segments.reserve(self.segment, start, start + self.slot_stride)
        self.check_open("write()")  # another thread may have closed it meanwhile
        mv_snapshot_set_slots(&self.pins, slots + 1)
        return 0

    # -- reading -----------------------------------------------------------------------------------------------------

    def read(self):
        """read()

        The newest publication, without a copy.

        Returns
        -------
        View or None
            Read-only; None before the first publication. It pins the publication until it, and what was made from it, is gone or
            released; ``view.owner.version`` is its number.

        Raises
        ------
        Busy
            As many publications are pinned as there are rows for readers.
        ClosedError

        Notes
        -----
        Thread safety: any thread.
        """
        cdef Pin pin
        self.check_open("read()")
        pin = self.newest() if self.newest is not None else None
        # Views of one publication share a pin, but not across a fork: the child's release must not free the parent's row.
        if pin is None or pin.map != mv_snapshot_map(&self.pins) or pin.row.forks != forks():
            pin = pin_newest(&self.pins, self.segment, self.mapping, self.page, self.free_rows)
            if pin is None:
                return None
            self.newest = weakref.ref(pin)
        self.last_read = pin.map >> 8
        return self.slot_view(pin.mapping, pin, pin.map & 255, False)

    def wait_newer(self, timeout=None, *, after=None):
        """wait_newer(timeout=None, *, after=None)

        Sleeps until there is a publication newer than `after`.

        Parameters
        ----------
        timeout : float, optional
            Seconds; for ever when absent.
        after : int, optional
            A publication's number; that of the last `read()` when absent.

        Returns
        -------
        int
            The newest publication's number; `read()` gives it, or a newer one.

        Raises
        ------
        WaitTimeout, OwnerGone, ClosedError
            Nothing came in time; the writer said goodbye or is dead.
        """
        last = self.last_read if after is None else check_int("wait_newer()", "after", after, 0, 2**56)
        return self.wait_for_newer(last, timeout)

    cdef View slot_view(self, Mapping mapping, object owner, int64_t slot, bint writable):
        cdef int64_t extents[8]
        cdef int64_t strides[8]
        cdef int64_t step = self.dtype.itemsize
        cdef int k, ndim = len(self.shape)
        for k in reversed(range(ndim)):
            extents[k] = self.shape[k]
            strides[k] = step
            step *= max(1, extents[k])
        return make_view(lease_owner(owner), mapping.base + self.data_off + slot * self.slot_stride, ndim, extents, strides,
                         self.dtype, not writable)

    # -- what it is --------------------------------------------------------------------------------------------------

    @property
    def slots(self):
        """How many there are now."""
        self.check_open("slots")
        return mv_snapshot_slots(&self.pins)

    @property
    def nbytes(self):
        """Of one publication."""
        return self.slot_bytes

    def close(self):
        """close()

        Lets go. The writer's name goes too; views stay valid as long as they are held.
        """
        self.pins.head = NULL
        self.free_rows.clear()
        Publication.close(self)

    def __repr__(self):
        role = "closed" if self.closed else "writer" if self.writable else "reader"
        number = "" if self.closed else f", publication {self.version}"
        return f"<mojoview Snapshot {self.segment.name!r}: {self.shape} of {self.dtype}, {role}{number}>"


@cython.final
cdef class Writing:
    """Writing()

    The block of `Snapshot.write()`.
    """

    cdef Snapshot snapshot
    cdef object busy
    cdef object timeout
    cdef object array

    def __cinit__(self, Snapshot snapshot not None, busy, timeout):
        self.snapshot, self.busy, self.timeout = snapshot, busy, timeout

    def __enter__(self):
        cdef Mapping mapping = self.snapshot.mapping  # held: another thread may close the handle
        cdef int64_t slot = self.snapshot.take_slot(self.busy, self.timeout)
        self.array = np.asarray(self.snapshot.slot_view(mapping, mapping, slot, True))
        return self.array

    def __exit__(self, kind, value, traceback):
        cdef Snapshot snapshot = self.snapshot
        cdef int64_t slot = snapshot.writing
        if self.array is None:
            raise ArgumentError("write(): this block was not entered, or has ended")
        snapshot.writing = -1
        self.array.flags.writeable = False  # the array outlives the block under its name: a late write to it is an error, not a torn read
        self.array = None
        if kind is not None:
            return
        snapshot.segment.require_owner("publishing")
        mv_slots_publish(&snapshot.pins, slot, snapshot.slot_bytes, mv_monotonic_ns())
        mv_publication_notify(snapshot.counter, snapshot.sleepers)


def create(int kind, name, shape, dtype, slots, max_slots, readers, prefault, reclaim, mode, tag=b""):
    """create(kind, name, shape, dtype, slots, max_slots, readers, prefault, reclaim, mode, tag=b"")

    A Snapshot of a kind: "frame" for what frames/ publishes in its own layout.
    """
    cdef Snapshot self
    cdef Segment segment
    operation = f"Snapshot.create({name!r})"
    shape = check_shape(operation, shape)
    dtype = as_dtype(dtype, operation)
    if dtype.subdtype is not None:
        dtype, inner = dtype.subdtype
        shape = check_shape(operation, shape + inner)
    slots = check_int(operation, "slots", slots, 2, MV_SLOTS_MAX)
    readers = check_int(operation, "readers", readers, 1, 4000)
    max_slots = min(slots + 8, MV_SLOTS_MAX) if max_slots is None else max_slots
    max_slots = check_int(operation, "max_slots", max_slots, slots, MV_SLOTS_MAX)
    nbytes = dtype.itemsize
    for extent in shape:
        nbytes *= extent
    align = DATA_ALIGN if nbytes >= DATA_ALIGN else 4096
    stride = max(align, (nbytes + align - 1) // align * align)
    rows_off = (4096 + 128 * (1 + max_slots) + 4095) // 4096 * 4096
    data_off = (rows_off + 128 * (1 + readers) + DATA_ALIGN - 1) // DATA_ALIGN * DATA_ALIGN
    if stride * max_slots > 2**62:
        raise ShapeError(f"{operation}: {max_slots} slots of shape {shape} do not fit an address space")
    segment = segments.create_segment(
        kind, data_off - 4096 + stride * max_slots, name=name, dtype=dtype, shape=shape, tag=tag, mode=mode, reclaim=reclaim,
        params=(slots, max_slots, readers, rows_off, data_off, stride), reserve=data_off + stride * slots)
    self = bind(segment, uncommitted=True)
    mv_snapshot_set_slots(&self.pins, slots)
    if prefault:
        segment.prefault(data_off, stride * slots)
    segments.commit_segment(segment)
    return self


cdef Snapshot bind(Segment segment, bint uncommitted=False):
    """A handle on a checked segment; what the header claims about slots and rows is checked here."""
    cdef Snapshot self = Snapshot.__new__(Snapshot)
    cdef int64_t size = segment.mapping.size, rows_off
    operation = f"attaching Snapshot {segment.name!r}"
    self.segment, self.mapping = segment, segment.mapping
    self.dtype = segments.dtype_from_text(segment.facts["dtype_text"])
    self.shape = segment.facts["shape"]
    slots, self.max_slots, readers, rows_off, self.data_off, self.slot_stride = segment.facts["params"][:6]
    nbytes = self.dtype.itemsize
    for extent in self.shape:
        nbytes *= extent
    segments.require_params(
        segment, operation,
        2 <= slots <= self.max_slots <= MV_SLOTS_MAX and 1 <= readers <= 4000 and min(self.shape, default=0) >= 0
        and rows_off % 4096 == 0 and self.data_off % 4096 == 0 and self.slot_stride % 4096 == 0
        and 4096 + 128 * (1 + self.max_slots) <= rows_off and rows_off + 128 * (1 + readers) <= self.data_off <= size
        and 0 <= nbytes <= self.slot_stride and self.slot_stride <= (size - self.data_off) // self.max_slots)
    self.slot_bytes = nbytes
    self.page = segment.map_part(rows_off, (128 * (1 + readers) + 4095) // 4096 * 4096, True)
    self.pins.head = <mv_slots_head *>(segment.mapping.base + 4096)
    self.pins.rows = <mv_pin_row *>self.page.base
    self.pins.row_count = readers
    self.counter, self.number_shift, self.sleepers = mv_snapshot_counter(&self.pins), 8, mv_snapshot_sleepers(&self.pins)
    self.pins.slot_limit = self.max_slots
    if not uncommitted:
        segments.require_params(segment, operation, 2 <= mv_snapshot_slots(&self.pins) <= <uint64_t>self.max_slots)
    return self
