"""`Snapshot`: large arrays published whole and read in place, pinned. The algorithm is slots.h."""

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from libc.errno cimport EBUSY
from libc.stdint cimport int64_t, uint64_t
from posix.unistd cimport close

from mojoview.memory._lease cimport lease_owner
from mojoview.sharing.segment._publication cimport Publication, mv_publication_notify
from mojoview.sharing.segment._segment cimport MV_KIND_FRAME, MV_KIND_SNAPSHOT, Mapping, Segment, forks
from mojoview.sharing.snapshot.slots cimport (
    MV_OS_LOCKS, MV_SLOTS_BUSY, MV_SLOTS_DAMAGED, MV_SLOTS_MAX, MV_SLOTS_NONE, MV_SLOTS_PINNED, mv_pin_row,
    mv_slot_at, mv_slots_acquire, mv_slots_claim_row, mv_slots_count, mv_slots_drop_row, mv_slots_head,
    mv_slots_map, mv_slots_map_word, mv_slots_pin, mv_slots_publish, mv_slots_reap, mv_slots_ref,
    mv_slots_set_count, mv_slots_unpin, mv_slots_wait_free, mv_slots_waiters,
)
from mojoview.views._view cimport View, make_view

import errno
import os
import time
import weakref

import numpy as np

from mojoview.memory._dtype import as_dtype
from mojoview.memory.check import check_int, check_shape, deadline_after
from mojoview.memory.errors import ArgumentError, Busy, SegmentError, ShapeError, WaitTimeout
from mojoview.sharing.incoming import array_of, copy_without_loss, open_object
from mojoview.sharing.segment import schema, segments


cdef extern from "memory/clock.h" nogil:
    uint64_t mv_monotonic_ns()

DATA_ALIGN = 65536
cdef int64_t SLICE_NS = 100_000_000  # longest sleep between checks of signals and of the other side


@cython.final
cdef class Snapshot(Publication):
    """Snapshot()

    Large arrays published whole to any number of readers, in threads and processes, without a copy by the reader. Made
    by `create`, `attach`, `take_over`.

    The writer fills a free slot and publishes it; a reader gets a read-only view of the newest one and keeps it as long
    as it needs it. The writer waits for readers only on request: with at least two slots more than readers pin there is
    always a free one. A killed writer leaves its last publication readable; a killed reader does not block others.

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
        raise ArgumentError("Snapshot(): use Snapshot.create(name, shape, dtype) or Snapshot.attach(name)")

    # -- creation ------------------------------------------------------------------------------------------------------

    @staticmethod
    def create(name, shape, dtype, slots=3, *, max_slots=None, readers=64, prefault=False, reclaim=False, mode=0o600):
        """create(name, shape, dtype, slots=3, *, max_slots=None, readers=64, prefault=False, reclaim=False, mode=0o600)

        Create a Snapshot, with this handle as its writer.

        Parameters
        ----------
        name : str or None
            None: anonymous memory, transferred by pickling or a Unix socket.
        shape : int or tuple of int
        dtype : dtype-like
        slots : int
            2 to 64. Memory for all of them is allocated now.
        max_slots : int, optional
            Most slots that ``busy="grow"`` may reach; memory is allocated on demand. `slots` + 8, at most 64, when
            absent.
        readers : int
            Most publications that can be pinned at once, 1 to 4,000.
        prefault : bool
            Whether to populate all pages now, so that the first publications are as fast as later ones.
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

        Attach to a named Snapshot as a reader.

        Parameters
        ----------
        name : str
        dtype, shape : dtype-like and tuple of int, optional
            Expected contents.
        timeout : float
            Seconds to wait for a creator that has not finished.
        uid : int, optional

        Returns
        -------
        Snapshot
            Maps the data read-only; it writes only to the page of the readers' pins.

        Raises
        ------
        SegmentNotFound, SchemaMismatch, NotReady, NotAMojoviewSegment, SegmentAccessError, VersionMismatch,
        CorruptHeader, TruncatedError
        """
        segment = segments.attach_segment(name, kinds=(MV_KIND_SNAPSHOT, MV_KIND_FRAME), timeout=timeout, uid=uid)
        schema.check_schema(segment, f"Snapshot.attach({name!r})", dtype, shape)
        return bind(segment)

    @staticmethod
    def take_over(name):
        """take_over(name)

        Become the writer of a Snapshot whose writer is dead; its readers are not interrupted.

        Returns
        -------
        Snapshot

        Raises
        ------
        SegmentExists
            The writer is alive.
        """
        segment = segments.attach_segment(name, kinds=(MV_KIND_SNAPSHOT, MV_KIND_FRAME), writable=True)
        segments.take_over(segment, f"Snapshot.take_over({name!r})")
        return bind(segment)

    @staticmethod
    def _of(Segment segment):
        """Return the handle of a segment, for unpickling and `mojoview.attach()`."""
        return bind(segment)

    # -- writing -------------------------------------------------------------------------------------------------------

    def write(self, *, busy="skip", timeout=None):
        """write(*, busy="skip", timeout=None)

        Return a context manager that gives a writable array in a free slot, and publishes it at the end.

        Parameters
        ----------
        busy : {"skip", "wait", "grow"}
            If readers pin every slot: raise `Busy`, wait for a free slot, or add a slot.
        timeout : float, optional
            Seconds to wait; no limit when absent.

        Returns
        -------
        context manager
            Entering it gives an ndarray of the Snapshot's shape and dtype, with undefined contents. The array borrows
            the slot: after the block it is read-only, and arrays made from it must not be written to. If the block
            raises, nothing is published.

        Raises
        ------
        Busy, WaitTimeout, ShmFullError, NotOwnerError, ClosedError
            When the block is entered.
        """
        return Writing(self, busy, timeout)

    def publish(self, array, *, busy="skip", timeout=None):
        """publish(array, *, busy="skip", timeout=None)

        Copy an array into a free slot and publish it.

        Parameters
        ----------
        array : array-like
            Of the Snapshot's shape, and of a dtype that converts to its dtype without loss.
        busy, timeout
            As `write()`.

        Returns
        -------
        int
            The publication's number, from 1.

        Raises
        ------
        ShapeError, ArgumentError, MaskError
            The shape differs; a value does not convert without loss; the array has missing values.
        DTypeError, ZeroCopyError
            No array says what the object means: categories, time zones, strings.
        Busy, WaitTimeout, ShmFullError, NotOwnerError, ClosedError
        """
        array = array_of(open_object(array, "publish()"), "publish()")
        if array.shape != self.shape:
            raise ShapeError(f"publish(): expected shape {self.shape}, got {array.shape}")
        with Writing(self, busy, timeout) as slot:
            copy_without_loss(slot, array, "publish()")
        return self.version

    cdef int64_t acquire_slot(self, object busy, object timeout) except -1:
        """Mark a free slot as being written, by the policy `busy`."""
        cdef int64_t slot = -1, left
        cdef int rc
        cdef mv_slots_ref pins
        cdef Mapping _mapping = self.mapping, _page = self.page  # keep the memory if another thread closes the handle
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
            raise Busy(
                errno.EAGAIN,
                f"write(): readers pin every free slot of {self.segment.name!r} ({mv_slots_count(&pins)} slots); "
                "release views, wait, or use more slots"
            )
        deadline = deadline_after("write()", timeout, time.monotonic_ns())
        while slot < 0:
            left = SLICE_NS if deadline is None else min(SLICE_NS, deadline - time.monotonic_ns())
            if left <= 0:
                raise WaitTimeout(f"write(): readers pinned every free slot of {self.segment.name!r} for {timeout} s")
            with nogil:
                rc = mv_slots_wait_free(&pins, left, &slot)
            if slot < 0:
                PyErr_CheckSignals()
                self.segment.require_owner("write()")
                if rc == -errno.ETIMEDOUT:
                    mv_slots_reap(&pins, self.segment.fd)
        self.segment.require_owner("write()")  # another thread may have closed it
        self.writing = slot
        return slot

    cdef int grow(self) except -1:
        """Add a slot, if possible. Its memory is allocated first, so that a full disk is an error."""
        cdef int64_t slots = mv_slots_count(&self.pins), start
        if slots >= self.max_slots:
            return 0
        start = self.data_off + slots * self.slot_stride
        segments.reserve(self.segment, start, start + self.slot_stride)
        self.check_open("write()")  # another thread may have closed it
        mv_slots_set_count(&self.pins, slots + 1)
        return 0

    # -- reading -------------------------------------------------------------------------------------------------------

    def read(self):
        """read()

        Return the newest publication, without a copy.

        Returns
        -------
        View or None
            Read-only; None before the first publication. It pins the publication until the view, and all that was made
            from it, is deleted or released; ``view.owner.version`` is its number.

        Raises
        ------
        Busy
            The rows for readers are all in use.
        ClosedError

        Notes
        -----
        Thread safety: any thread.
        """
        cdef Pin pin
        self.check_open("read()")
        pin = self.newest() if self.newest is not None else None
        # Views of one publication share a pin, but not across a fork: the child must not free the parent's row.
        if pin is None or pin.map != mv_slots_map(&self.pins) or pin.row.forks != forks():
            pin = pin_newest(&self.pins, self.segment, self.mapping, self.page, self.free_rows)
            if pin is None:
                return None
            self.newest = weakref.ref(pin)
        self.last_read = pin.map >> 8
        return self.slot_view(pin.mapping, pin, pin.map & 255, False)

    def wait_newer(self, timeout=None, *, after=None):
        """wait_newer(timeout=None, *, after=None)

        Wait for a publication newer than `after`.

        Parameters
        ----------
        timeout : float, optional
            Seconds; no limit when absent.
        after : int, optional
            A publication's number; that of the last `read()` when absent.

        Returns
        -------
        int
            Number of the newest publication; `read()` returns it, or a newer one.

        Raises
        ------
        WaitTimeout, OwnerGone, ClosedError
            None came in time; the writer has closed the Snapshot or is dead.
        """
        last = self.last_read if after is None else check_int("wait_newer()", "after", after, 0, 2**56)
        return self.wait_for_newer(last, timeout)

    cdef View slot_view(self, Mapping mapping, object owner, int64_t slot, bint writable):
        """Return a view of one slot."""
        cdef int64_t extents[8]
        cdef int64_t strides[8]
        cdef int64_t step = self.dtype.itemsize
        cdef int k, ndim = len(self.shape)
        for k in reversed(range(ndim)):
            extents[k] = self.shape[k]
            strides[k] = step
            step *= max(1, extents[k])
        return make_view(
            lease_owner(owner), mapping.base + self.data_off + slot * self.slot_stride, ndim, extents, strides,
            self.dtype, not writable,
        )

    # -- properties ----------------------------------------------------------------------------------------------------

    @property
    def slots(self):
        """Number of slots."""
        self.check_open("slots")
        return mv_slots_count(&self.pins)

    @property
    def nbytes(self):
        """Bytes of one publication."""
        return self.slot_bytes

    def close(self):
        """close()

        Close the handle; the writer's also removes the name. Views stay valid.
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

    The context manager of `Snapshot.write()`.
    """

    cdef Snapshot snapshot
    cdef object busy
    cdef object timeout
    cdef object array

    def __cinit__(self, Snapshot snapshot not None, busy, timeout):
        self.snapshot, self.busy, self.timeout = snapshot, busy, timeout

    def __enter__(self):
        cdef Mapping mapping = self.snapshot.mapping  # keep it if another thread closes the handle
        cdef int64_t slot = self.snapshot.acquire_slot(self.busy, self.timeout)
        self.array = np.asarray(self.snapshot.slot_view(mapping, mapping, slot, True))
        return self.array

    def __exit__(self, kind, value, traceback):
        cdef Snapshot snapshot = self.snapshot
        cdef int64_t slot = snapshot.writing
        if self.array is None:
            raise ArgumentError("write(): this block was not entered, or has ended")
        snapshot.writing = -1
        self.array.flags.writeable = False  # a write after the block is an error, not a torn read
        self.array = None
        if kind is not None:
            return
        snapshot.segment.require_owner("publishing")
        mv_slots_publish(&snapshot.pins, slot, snapshot.slot_bytes, mv_monotonic_ns())
        mv_publication_notify(snapshot.counter, snapshot.waiters)


def create(int kind, name, shape, dtype, slots, max_slots, readers, prefault, reclaim, mode, tag=b""):
    """create(kind, name, shape, dtype, slots, max_slots, readers, prefault, reclaim, mode, tag=b"")

    Create a Snapshot of a kind; `FRAME` is for the layout of frames/.
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
        kind, data_off - 4096 + stride * max_slots, name=name, dtype=dtype, shape=shape, tag=tag, mode=mode,
        reclaim=reclaim, params=(slots, max_slots, readers, rows_off, data_off, stride),
        reserve=data_off + stride * slots,
    )
    self = bind(segment, uncommitted=True)
    mv_slots_set_count(&self.pins, slots)
    if prefault:
        segment.prefault(data_off, stride * slots)
    segments.commit_segment(segment)
    return self


cdef Snapshot bind(Segment segment, bint uncommitted=False):
    """Return a handle on a validated segment, after checking the parameters of slots and rows."""
    cdef Snapshot self = Snapshot.__new__(Snapshot)
    cdef int64_t size = segment.mapping.size, rows_off
    operation = f"attaching Snapshot {segment.name!r}"
    self.segment, self.mapping = segment, segment.mapping
    self.dtype = schema.dtype_from_text(segment.facts["dtype_text"])
    self.shape = segment.facts["shape"]
    slots, self.max_slots, readers, rows_off, self.data_off, self.slot_stride = segment.facts["params"][:6]
    nbytes = self.dtype.itemsize
    for extent in self.shape:
        nbytes *= extent
    schema.require_params(
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
    self.counter, self.number_shift, self.waiters = mv_slots_map_word(&self.pins), 8, mv_slots_waiters(&self.pins)
    self.pins.slot_limit = self.max_slots
    if not uncommitted:
        schema.require_params(segment, operation, 2 <= mv_slots_count(&self.pins) <= <uint64_t>self.max_slots)
    return self


@cython.final
cdef class Row:
    def __cinit__(self):
        self.fd = -1

    def __dealloc__(self):
        if self.fd >= 0:
            close(self.fd)


# no_gc_clear: __dealloc__ writes to the mappings, which must still exist.
@cython.final
@cython.no_gc_clear
cdef class Pin:
    """Pin()

    A pinned publication: the writer does not reuse its slot before its last view is deallocated. It is ``view.owner``.

    Attributes
    ----------
    version : int
    time_ns : int
        Time of the publication, by the monotonic clock.
    """

    def __dealloc__(self):
        # After a fork parent and child share the row's lock, and either may still read: the row is then reaped by the
        # writer once
        # both have closed the descriptor.
        if self.map and self.row.forks == forks():
            release_row(&self.pins, self.row, self.free_rows)

    @property
    def version(self):
        return self.map >> 8

    def __repr__(self):
        return f"<mojoview pin: publication {self.version} of {self.name!r}>"


cdef int release_row(const mv_slots_ref *pins, Row row, list free_rows) except -1:
    """Unpin a row, and keep it for the next pin."""
    mv_slots_unpin(pins, row.number)
    if MV_OS_LOCKS:
        free_rows.append(row)
    else:  # without locks a kept row could not be reaped after a crash
        mv_slots_drop_row(pins, row.number)
    return 0


cdef Row acquire_row(const mv_slots_ref *pins, Segment segment, list free_rows):
    """Return a row that only this process holds: a free one of the handle, or a new one."""
    cdef Row row
    cdef int64_t number
    while free_rows:
        row = free_rows.pop()
        if row.forks == forks():
            return row
    row = Row.__new__(Row)
    number = mv_slots_claim_row(pins, segment.fd, &row.fd)
    if number == -EBUSY:
        raise Busy(
            errno.EAGAIN,
            f"read(): all {pins.row_count} rows for readers of {segment.name!r} are in use; "
            "release views, or create it with more readers"
        )
    if number < 0:
        row.fd = -1
        raise SegmentError(-number, f"read(): claiming a row of {segment.name!r}: {os.strerror(-number)}")
    row.number, row.forks = number, forks()
    return row


cdef Pin pin_newest(const mv_slots_ref *pins, Segment segment, Mapping mapping, Mapping page, list free_rows):
    """Pin the newest publication; None if there is none."""
    cdef Pin pin = Pin.__new__(Pin)
    cdef int status
    pin.pins, pin.mapping, pin.page, pin.free_rows, pin.name = pins[0], mapping, page, free_rows, segment.name
    pin.row = acquire_row(pins, segment, free_rows)
    status = mv_slots_pin(pins, pin.row.number, &pin.map)
    deadline = time.monotonic() + 1
    while status == MV_SLOTS_BUSY and time.monotonic() < deadline:
        time.sleep(0)
        status = mv_slots_pin(&pin.pins, pin.row.number, &pin.map)
    if status != MV_SLOTS_PINNED:
        pin.map = 0
        release_row(pins, pin.row, free_rows)
        if status == MV_SLOTS_NONE:
            return None
        schema.require_params(segment, "read()", status != MV_SLOTS_DAMAGED)
        raise Busy(
            errno.EAGAIN, f"read(): the writer of {segment.name!r} lapped this reader for a second; use more slots"
        )
    pin.time_ns = mv_slot_at(&pin.pins, pin.map & 255).time_ns
    pin.nbytes = mv_slot_at(&pin.pins, pin.map & 255).bytes
    return pin
