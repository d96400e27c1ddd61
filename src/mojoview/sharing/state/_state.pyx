"""`State`: a small record with one writer and any number of lock-free readers. The algorithm is latch.h."""

cimport cython
from cpython.buffer cimport PyBUF_C_CONTIGUOUS, PyBUF_WRITABLE, Py_buffer
from cpython.long cimport PyLong_FromLong
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from mojoview.memory._lease cimport Lease, get_buffer, lease_buffer, release_buffer
from mojoview.sharing.segment._publication cimport Publication, mv_publication_notify
from mojoview.sharing.segment._segment cimport MV_KIND_STATE, Segment
from mojoview.sharing.state.latch cimport (
    MV_LATCH_BUSY, MV_LATCH_READ, mv_latch_latest, mv_latch_of_segment, mv_latch_read, mv_latch_read_at,
    mv_latch_stride, mv_latch_write,
)

import errno
import threading
import time

import numpy as np

from mojoview.memory._dtype import as_dtype
from mojoview.memory.check import check_int
from mojoview.memory.errors import ArgumentError, DTypeError, LayoutError, SegmentError, ShapeError, WaitTimeout
from mojoview.sharing.incoming import check_meaning
from mojoview.sharing.segment import schema, segments


cdef type NDARRAY = np.ndarray

cdef extern from "memory/clock.h" nogil:
    uint64_t mv_monotonic_ns()

cdef extern from *:
    """
    #include <pthread.h>
    static inline void mv_state_lock(void *mutex) { if (mutex) pthread_mutex_lock((pthread_mutex_t *)mutex); }
    static inline void mv_state_unlock(void *mutex) { if (mutex) pthread_mutex_unlock((pthread_mutex_t *)mutex); }
    """
    void mv_state_lock(void *mutex) nogil
    void mv_state_unlock(void *mutex) nogil

cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_mutex_t:
        pass
    int pthread_mutex_init(pthread_mutex_t *mutex, void *attributes)
    int pthread_mutex_destroy(pthread_mutex_t *mutex)

MAX_BYTES = 4096


# no_gc_clear: the mutex and the record must outlive the other objects of a cycle.
@cython.final
@cython.no_gc_clear
cdef class State(Publication):
    """State()

    A small record in shared memory: one writer publishes it whole, readers copy it whole. Made by `create`, `attach`,
    `take_over`.

    Neither side waits: a publication costs one copy, a read costs one copy, and a reader retries only if the writer
    laps it. A writer that is killed at any point leaves the last publication readable.

    Attributes
    ----------
    out : numpy.ndarray
        0 dimensions, of the State's dtype, in memory of this handle. The writer fills it, then calls `publish()`; for a
        reader it is read-only, and `refresh()` fills it.
    number : int
        Number of the publication in `out`; 0 before the first.
    age_ns : int or None
        Age of that publication, by the monotonic clock.
    name : str
    dtype : numpy.dtype
    lock : threading.RLock or None
        With ``lock=True``: hold it from filling `out` to `publish()` if several threads write through one handle.

    Notes
    -----
    No read is torn, and the numbers that a handle reads never decrease, on x86-64 and aarch64.

    Thread safety: one thread at a time, because of `out`; `read()`, `read_into()` and `history()` do not touch `out`
    and may run in any thread. Give each thread its own `reader()`. After a fork the child's handles only read.

    References
    ----------
    H.-J. Boehm, "Can seqlocks get along with programming language memory models?", MSPC 2012. Linux, seqcount_latch.

    Examples
    --------
    >>> import mojoview as mv
    >>> writer = mv.State.create(None, [("position", "f8", 3), ("valid", "?")])
    >>> reader = writer.reader()
    >>> writer.out["position"] = 1, 2, 3
    >>> writer.publish()
    1
    >>> reader.refresh(), reader.out["position"].tolist()
    (1, [1.0, 2.0, 3.0])
    >>> writer.close(), reader.close()
    (None, None)
    """

    def __cinit__(self):
        self.latch.base = NULL
        self.mutex = NULL

    def __init__(self):
        raise ArgumentError("State(): use State.create(name, dtype) or State.attach(name)")

    def __dealloc__(self):
        if self.mutex is not NULL:
            pthread_mutex_destroy(<pthread_mutex_t *>self.mutex)
            free(self.mutex)

    # -- creation ------------------------------------------------------------------------------------------------------

    @staticmethod
    def create(name, dtype, *, slots=8, bint lock=False, reclaim=False, mode=0o600):
        """create(name, dtype, *, slots=8, lock=False, reclaim=False, mode=0o600)

        Create a State, with this handle as its writer.

        Parameters
        ----------
        name : str or None
            None: anonymous memory, transferred by pickling or a Unix socket.
        dtype : dtype-like
            1 to 4,096 bytes; usually structured. Larger data belongs in a Snapshot.
        slots : int
            Power of two from 2 to 4096: publications to keep, and the lead of the writer over a copying reader.
        lock : bool
            Whether several threads of this process publish through this handle.
        reclaim : bool
            Whether to replace a name left by a dead process; `take_over()` continues it instead.
        mode : int
            Permissions of the name.

        Returns
        -------
        State
            Owns the name until `close()`.

        Raises
        ------
        SegmentExists, ShmFullError, DTypeError, ArgumentError
        """
        cdef Segment segment
        dtype = as_dtype(dtype, f"State.create({name!r})")
        if not 1 <= dtype.itemsize <= MAX_BYTES:
            raise DTypeError(
                f"State.create({name!r}): expected a dtype of 1 to {MAX_BYTES} bytes, got {dtype.itemsize}; "
                "use a Snapshot"
            )
        slots = check_int(f"State.create({name!r})", "slots, a power of two,", slots, 2, 4096)
        if slots & (slots - 1):
            raise ArgumentError(f"State.create({name!r}): expected slots to be a power of two, got {slots}")
        stride = mv_latch_stride(dtype.itemsize)
        page = (4096 + 128 + slots * stride + 4095) // 4096 * 4096  # then the only page that readers write to
        segment = segments.create_segment(
            MV_KIND_STATE, page, name=name, dtype=dtype, mode=mode, reclaim=reclaim,
            params=(slots, stride, dtype.itemsize, page),
        )
        segments.commit_segment(segment)
        return bind(segment, lock)

    @staticmethod
    def attach(name, dtype=None, *, timeout=1.0, uid=None):
        """attach(name, dtype=None, *, timeout=1.0, uid=None)

        Attach to a named State as a reader.

        Parameters
        ----------
        name : str
        dtype : dtype-like, optional
            Expected contents.
        timeout : float
            Seconds to wait for a creator that has not finished.
        uid : int, optional
            Its expected owner; this process's user when absent.

        Returns
        -------
        State
            Maps the memory read-only.

        Raises
        ------
        SegmentNotFound, SchemaMismatch, NotReady, NotAMojoviewSegment, SegmentAccessError, VersionMismatch,
        CorruptHeader, TruncatedError
        """
        return State._of(segments.attach_segment(name, kinds=(MV_KIND_STATE,), timeout=timeout, uid=uid), dtype)

    @staticmethod
    def take_over(name, dtype=None, *, bint lock=False):
        """take_over(name, dtype=None, *, lock=False)

        Become the writer of a State whose writer is dead. Its readers are not interrupted; the numbers continue.

        Returns
        -------
        State
            `out` holds the last publication.

        Raises
        ------
        SegmentExists
            The writer is alive.
        SegmentNotFound, SchemaMismatch, NotAMojoviewSegment, ...
            As `attach()`.
        """
        cdef Segment segment = segments.attach_segment(name, kinds=(MV_KIND_STATE,), writable=True)
        cdef State self
        if dtype is not None:
            schema.check_schema(segment, f"State.take_over({name!r})", dtype)
        segments.take_over(segment, f"State.take_over({name!r})")
        self = bind(segment, lock)
        self.refresh()
        return self

    @staticmethod
    def _of(Segment segment, dtype=None):
        """Return the handle of a segment, for unpickling and `mojoview.attach()`."""
        if dtype is not None:
            schema.check_schema(segment, f"attaching {segment.name!r}", dtype)
        return bind(segment, False)

    # -- writing -------------------------------------------------------------------------------------------------------

    @cython.binding(False)  # a plain method descriptor that takes no keywords: half the cost of a call
    @cython.always_allow_keywords(False)
    def publish(self):
        """publish()

        Publish `out`.

        Returns
        -------
        int
            The publication's number, from 1.

        Raises
        ------
        NotOwnerError
            This handle only reads, or was inherited through a fork.
        ClosedError
        """
        if self.segment.owner_lock.fd < 0 or self.latch.base is NULL:
            self.segment.require_owner("publish()")
        mv_state_lock(self.mutex)
        self.time_ns = mv_monotonic_ns()
        self.number = mv_latch_write(&self.latch, self.record, self.time_ns)
        mv_state_unlock(self.mutex)
        mv_publication_notify(self.counter, self.waiters)
        return self.number

    # -- reading -------------------------------------------------------------------------------------------------------

    @cython.binding(False)  # as publish()
    @cython.always_allow_keywords(False)
    def refresh(self):
        """refresh()

        Copy the newest publication into `out`.

        Returns
        -------
        int
            Its number; 0 before the first publication.

        Raises
        ------
        WaitTimeout
            The writer lapped this reader for a second: publish less often, or use more slots. `out` is then zero and
            `number` 0, as before the first publication.
        ClosedError
        """
        if self.latch.base is NULL:
            self.check_open("refresh()")
        copy_newest(self)
        if self.counted != self.number:
            self.number_object = PyLong_FromLong(<long>self.number)
            self.counted = self.number
        return self.number_object

    @cython.binding(False)  # as publish()
    @cython.always_allow_keywords(False)
    def poll(self):
        """poll()

        Copy the newest publication into `out`, and return whether it is new. Faster than `refresh()`, which must create
        an integer object.

        Returns
        -------
        bool
            True if `out` holds another publication than before.

        Raises
        ------
        WaitTimeout, ClosedError
            As `refresh()`.
        """
        if self.latch.base is NULL:
            self.check_open("poll()")
        return <bint>copy_newest(self)

    def read(self):
        """read()

        Return a copy of the newest publication; `out` is not touched.

        Returns
        -------
        numpy.ndarray or None
            0 dimensions, owned by the caller; None before the first publication.
        """
        cdef uint64_t number = 0, time_ns = 0
        cdef bytearray store = bytearray(self.latch.bytes)
        self.check_open("read()")
        read_patiently(self, <char *>store, &number, &time_ns)
        return np.ndarray((), self.dtype, store) if number else None

    @cython.binding(False)  # as publish()
    def read_into(self, target):
        """read_into(target)

        Copy the newest publication into other memory; `out` is not touched.

        Parameters
        ----------
        target : writable contiguous buffer
            Of exactly the dtype's size: bytes, or an array of the State's dtype.

        Returns
        -------
        int
            Its number; 0, with `target` unchanged, before the first publication.

        Raises
        ------
        ShapeError, DTypeError, MaskError, LayoutError, ArgumentError
            The size differs; the target has another dtype than the State, or a mask; the buffer is read-only or not
            contiguous; there is no buffer.
        """
        cdef uint64_t number = 0, time_ns = 0
        cdef Py_buffer buffer
        cdef Py_ssize_t nbytes
        cdef Lease lease
        cdef int status = MV_LATCH_BUSY
        self.check_open("read_into()")
        try:
            get_buffer(target, &buffer, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS)
        except Exception as error:  # no buffer, not writable, or not contiguous; exporters differ in the type
            wrong = ArgumentError if isinstance(error, TypeError) else LayoutError
            raise wrong(
                f"read_into(): expected a writable contiguous buffer, got {type(target).__name__} ({error})"
            ) from error
        nbytes = buffer.len
        own = target.dtype if type(target) is NDARRAY else None
        if type(target) is not bytearray and (own is None or (own is not self.dtype and own is not self.agreed)):
            try:
                check_meaning(target, self.dtype, "read_into()")
            except Exception:
                release_buffer(&buffer)
                raise
            if own is not None:
                self.agreed = own  # the next arrays of it need no comparison
        if <uint64_t>nbytes == self.latch.bytes:
            status = mv_latch_read(&self.latch, buffer.buf, &number, &time_ns, &self.retried)
        release_buffer(&buffer)
        if <uint64_t>nbytes != self.latch.bytes:
            raise ShapeError(f"read_into(): expected {self.latch.bytes} bytes, got {nbytes}")
        if status < 0:  # lapped: yielding to the writer takes a lease
            lease = lease_buffer(target, target, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS)
            if <uint64_t>lease.buffer.len != self.latch.bytes:
                raise ShapeError(f"read_into(): the target changed its size to {lease.buffer.len} bytes")
            read_patiently(self, <char *>lease.buffer.buf, &number, &time_ns)
        return number

    def history(self):
        """history()

        Return the last publications, oldest first; while the writer runs at most one fewer than there are slots.

        Returns
        -------
        numbers : numpy.ndarray
            uint64, shape (n,).
        records : numpy.ndarray
            Of the State's dtype, shape (n,); both owned by the caller.
        """
        cdef uint64_t last, n, time_ns
        cdef bytearray store = bytearray(self.latch.bytes)
        self.check_open("history()")
        last = mv_latch_latest(&self.latch)
        numbers, records = [], []
        for n in range(last - min(last, self.latch.mask + 1) + 1, last + 1):
            if mv_latch_read_at(&self.latch, n, <char *>store, &time_ns) == MV_LATCH_READ:
                numbers.append(n)
                records.append(bytes(store))
        shape = (len(numbers), *self.dtype.shape)
        return np.array(numbers, "u8"), np.frombuffer(bytearray(b"".join(records)), self.dtype.base).reshape(shape)

    def wait_newer(self, timeout=None):
        """wait_newer(timeout=None)

        Wait for a publication newer than the one in `out`, then refresh.

        Parameters
        ----------
        timeout : float, optional
            Seconds; no limit when absent.

        Returns
        -------
        int
            Its number.

        Raises
        ------
        WaitTimeout
            None came in time.
        OwnerGone
            The writer has closed the State or is dead: none will come, unless another takes over.
        ClosedError
        """
        self.wait_for_newer(self.number, timeout)
        return self.refresh()

    cdef int map_waiter_count(self) except -1:
        """Map the waiter count for writing, if it is not mapped yet."""
        if not self.waiters_known:
            self.waiters_known = True
            try:
                self.page = self.segment.map_part(self.segment.facts["params"][3], 4096, True)
                self.waiters = self.page.base
            except SegmentError:  # read-only for this user: mv_counter_wait() then polls
                self.waiters = NULL
        return 0

    # -- properties ----------------------------------------------------------------------------------------------------

    @property
    def age_ns(self):
        """Age of the publication in `out`; None before the first."""
        return mv_monotonic_ns() - self.time_ns if self.number else None

    @property
    def retries(self):
        """Number of retries of this handle's reads."""
        return self.retried

    @property
    def slots(self):
        """Number of slots."""
        return self.latch.mask + 1

    def memory(self):
        """memory()

        Return the segment as bytes, header first, for native readers: C includes `sharing/state/latch.h`, Cython
        cimports `mojoview.sharing.state.latch`, and `mv_latch_of_segment` finds the record.

        Returns
        -------
        View
            uint8, read-only; keeps the mapping alive.
        """
        self.check_open("memory()")
        return self.segment.view(0, (self.segment.facts["segment_bytes"],), "u1")

    def close(self):
        """close()

        Close the handle. The writer's also removes the name, and waiting readers get `OwnerGone`; copies stay valid.
        """
        self.latch.base = NULL
        Publication.close(self)

    def __repr__(self):
        role = "closed" if self.closed else "writer" if self.writable else "reader"
        return f"<mojoview State {self.segment.name!r}: {self.dtype}, {role}, publication {self.number}>"


cdef State bind(Segment segment, bint lock):
    """Return a handle on a validated segment, after checking the parameters of the latch."""
    cdef State self = State.__new__(State)
    cdef bytearray store
    operation = f"attaching State {segment.name!r}"
    self.segment, self.mapping = segment, segment.mapping
    self.dtype = schema.dtype_from_text(segment.facts["dtype_text"])
    schema.require_params(
        segment, operation,
        mv_latch_of_segment(segment.mapping.base, segment.mapping.size, &self.latch) == 0
        and self.latch.bytes == self.dtype.itemsize
        and 4096 <= segment.facts["params"][3] <= segment.mapping.size - 4096
        and segment.facts["params"][3] % 4096 == 0,
    )
    self.counter = self.latch.base  # `latest` comes first
    store = bytearray(self.latch.bytes)
    self.store, self.record = store, store
    self.out = np.ndarray((), self.dtype, store)
    self.reads = segment.owner_lock.fd < 0
    self.out.flags.writeable = not self.reads
    self.number_object = 0
    if segment.owner_lock.fd >= 0:
        self.waiters, self.waiters_known = segment.mapping.base + <int64_t>segment.facts["params"][3], True
        if lock:
            self.lock = threading.RLock()
            self.mutex = malloc(sizeof(pthread_mutex_t))
            if self.mutex is NULL:
                raise SegmentError(errno.ENOMEM, f"{operation}: out of memory for a lock")
            pthread_mutex_init(<pthread_mutex_t *>self.mutex, NULL)
    return self


cdef inline int copy_newest(State self) except -1:
    """Copy the newest publication into `out`; return whether it is new."""
    cdef uint64_t n = mv_latch_latest(&self.latch), before = self.number
    # A reader's `out` is read-only: it still holds an unchanged publication, and one load is the whole read.
    if n == 0 or n == before and self.reads:
        return False
    if mv_latch_read_at(&self.latch, n, self.record, &self.time_ns) == MV_LATCH_READ:
        self.number = n
    else:
        retry_copy(self)
    return self.number != before


cdef int retry_copy(State self) except -1:
    """Continue `copy_newest()` after the writer lapped it."""
    self.retried += 1
    try:
        read_patiently(self, self.record, &self.number, &self.time_ns)
    except BaseException:  # also Ctrl-C while it yields
        memset(self.record, 0, self.latch.bytes)
        self.number = 0
        raise
    return 0


cdef int read_patiently(State self, char *record, uint64_t *number, uint64_t *time_ns) except -1:
    """Read, and yield to a writer that keeps lapping; `number` stays 0 before the first publication."""
    cdef int status = mv_latch_read(&self.latch, record, number, time_ns, &self.retried)
    if status >= 0:
        return 0
    deadline = time.monotonic() + 1
    while time.monotonic() < deadline:
        time.sleep(0)
        self.check_open("reading")
        if mv_latch_read(&self.latch, record, number, time_ns, &self.retried) >= 0:
            return 0
    raise WaitTimeout(
        f"reading {self.segment.name!r}: the writer lapped this reader for a second; "
        "publish less often, or use more slots"
    )
