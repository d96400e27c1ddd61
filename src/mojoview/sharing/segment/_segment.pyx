"""`Segment`: shared memory with a header; creation, mapping and ownership. `naming` keeps the names."""

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from libc.errno cimport EINTR
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcmp, memset
from posix.types cimport off_t
from posix.unistd cimport close, ftruncate, getpid

from mojoview.memory._lease cimport lease_owner
from mojoview.sharing.segment._header cimport (
    alive, fill_header, header_facts, mv_segment_closed, mv_segment_epoch, mv_segment_owner_pid,
    mv_segment_owner_start, mv_segment_owner_state, process_start,
)
from mojoview.views._view cimport make_view

import errno
import os

from mojoview.memory._dtype import as_dtype
from mojoview.memory.errors import ArgumentError, ClosedError, NotOwnerError, SegmentError, SegmentExists, SegmentLost
from mojoview.sharing.segment._header import (
    ARRAY, FAULTS, FILE, FORTRAN, FRAME, HAS_LOCKS, HEADER_BYTES, KINDS, NAME_BYTES,  # no-cython-lint
    RING_BROADCAST, RING_MPSC, RING_SPSC, SEAL_FUTURE, SEAL_NOW, SEAL_SIZE, SEALED, SNAPSHOT,  # no-cython-lint
    STATE, TEXT_BYTES, VERSION, inspect, open_plain, owner_alive, seal_size, sealable_memory,  # no-cython-lint
    size_is_sealed, this_boot,  # no-cython-lint
)


cdef extern from "sharing/segment/segment.h" nogil:
    void mv_segment_commit(mv_segment *h)
    void mv_segment_set_owner(mv_segment *h, uint32_t pid, uint64_t start)
    void mv_segment_take_over(mv_segment *h)
    void mv_segment_close(mv_segment *h)
    void *mv_segment_closed_word(mv_segment *h)

cdef extern from "sharing/segment/platform.h" nogil:
    enum:
        MV_SEAL_SIZE
        MV_SEAL_NOW
    int mv_os_anonymous(const char *label, const char *directory)
    int mv_os_nameless(const char *directory, const char *path, int mode, char *hidden, size_t hidden_bytes)
    int mv_os_link(int fd, const char *path, const char *hidden)
    int mv_os_reopen(int fd, int writable)
    int mv_os_allocate(int fd, int64_t *done, int64_t end)
    int mv_os_seal(int fd, int contents)
    void mv_os_prefault(void *address, size_t bytes)
    int mv_os_lock(int fd, int64_t byte, int exclusive)
    int mv_os_locked(int fd, int64_t byte)
    int mv_os_claim(int any, int64_t byte)
    void mv_futex_wake(void *word)

cdef extern from "sharing/segment/byte_lock.h" nogil:
    """
    static inline uint64_t mv_fork_count(void) { return atomic_load_explicit(&mv_forks, memory_order_relaxed); }
    """
    uint64_t mv_fork_count()
    int mv_byte_locks_watch_forks()
    int mv_byte_lock_acquire(mv_byte_lock *o, int any, int64_t byte)
    void mv_byte_lock_release(mv_byte_lock *o)

cdef extern from "<sys/mman.h>" nogil:
    void *mmap(void *address, size_t bytes, int prot, int flags, int fd, off_t offset)
    int munmap(void *address, size_t bytes)
    void *MAP_FAILED
    enum:
        PROT_READ
        PROT_WRITE
        MAP_SHARED

if mv_byte_locks_watch_forks() < 0:
    raise SegmentError(errno.ENOMEM, "pthread_atfork: out of memory")


cdef uint64_t forks() noexcept:
    return mv_fork_count()


cdef int fail(str operation, int code) except -1:
    """Raise the exception of a negative errno."""
    raise SegmentError(-code, f"{operation}: {os.strerror(-code)}")


@cython.final
cdef class Mapping:
    """Mapping()

    A mapped part of a segment; unmapped when the last view of it is deallocated.
    """

    def __cinit__(self):
        self.base = NULL

    def __dealloc__(self):
        if self.base is not NULL:
            with nogil:
                munmap(self.base, self.size)

    @property
    def nbytes(self):
        """Size of the mapping."""
        return self.size

    def __repr__(self):
        return f"<mojoview mapping: {self.size} bytes, {'writable' if self.writable else 'read-only'}>"


cdef Mapping map_file(int fd, int64_t offset, size_t size, bint writable):
    """Map a part of a file."""
    cdef Mapping self = Mapping.__new__(Mapping)
    cdef void *base
    with nogil:
        base = mmap(NULL, size, PROT_READ | PROT_WRITE if writable else PROT_READ, MAP_SHARED, fd, offset)
    if base is MAP_FAILED:
        raise SegmentError(errno.ENOMEM, f"mapping {size} bytes: mmap() failed")
    self.base = <char *>base
    self.size = size
    self.writable = writable
    return self


# no_gc_clear: __dealloc__ closes descriptors and releases the lock; there is nothing that a cycle could keep alive.
@cython.final
@cython.no_gc_clear
cdef class Segment:
    """Segment()

    A handle on shared memory with a header, made by `create` and `adopt_fd`.

    Notes
    -----
    Thread safety: reading and `close()` in any thread. In a forked child the handle only reads.
    """

    def __cinit__(self):
        self.fd = -1
        self.owner_lock.fd = -1
        self.hidden = b""

    def __dealloc__(self):
        if self.hidden and not self.committed:
            unlink_quietly(self.hidden)
        mv_byte_lock_release(&self.owner_lock)
        if self.fd >= 0:
            close(self.fd)

    def __repr__(self):
        what = KINDS.get(self.facts["kind"], "unknown") if self.facts else "new"
        state = "closed" if self.mapping is None else "owner" if self.owner_lock.fd >= 0 else "attached"
        return f"<mojoview segment {self.name!r}: {what}, {state}>"

    cdef char *address(self, int64_t offset, int64_t bytes) except NULL:
        """Return the address of `bytes` at `offset`, after checking the extent."""
        cdef int64_t size
        if self.mapping is None:
            raise ClosedError(f"segment {self.name!r}: used after close()")
        size = <int64_t>self.mapping.size
        if offset < 0 or bytes < 0 or offset > size or bytes > size - offset:
            raise ArgumentError(f"segment {self.name!r}: {bytes} bytes at {offset} are outside its {size}")
        return self.mapping.base + offset

    cdef int require_owner(self, str operation) except -1:
        """Raise unless this handle is the owner's."""
        if self.owner_lock.fd >= 0:
            return 0
        if self.mapping is None:
            raise ClosedError(f"{operation}: {self.name!r} was closed")
        if self.owner_lock.forked:
            raise NotOwnerError(
                f"{operation}: {self.name!r} is owned by the process that forked this one; a child only reads"
            )
        pid = self.owner_pid
        owner = f"process {pid}" if self.owner_alive() else f"none (process {pid} has exited)"
        raise NotOwnerError(f"{operation}: this handle only reads {self.name!r}; its owner is {owner}")

    # -- properties ----------------------------------------------------------------------------------------------------

    @property
    def anonymous(self):
        """True if the segment has no name."""
        return self.path is None

    @property
    def closed(self):
        """True once this handle is closed."""
        return self.mapping is None

    @property
    def owned(self):
        """True if this handle is the owner's."""
        return self.owner_lock.fd >= 0

    @property
    def writer_closed(self):
        """True once the owner has closed the segment."""
        return self.address(0, 0) is not NULL and mv_segment_closed(self.header) != 0

    @property
    def epoch(self):
        """Number of takeovers from dead owners."""
        return mv_segment_epoch(self.header) if self.address(0, 0) is not NULL else 0

    @property
    def owner_pid(self):
        """Process id of the owner."""
        return mv_segment_owner_pid(self.header) if self.address(0, 0) is not NULL else 0

    def owner_alive(self):
        """owner_alive()

        Return whether the owner holds its lock, or its process (pid and start time) exists and has not closed the
        segment.
        """
        if self.owner_lock.fd >= 0:
            return True
        self.address(0, 0)
        return alive(self.fd, mv_segment_owner_state(self.header), mv_segment_owner_pid(self.header),
                     mv_segment_owner_start(self.header), self.facts["boot_id"])

    def fileno(self):
        """fileno()

        Return the descriptor of the memory, borrowed.
        """
        if self.fd < 0:
            raise ClosedError(f"segment {self.name!r}: used after close()")
        return self.fd

    def others_attached(self):
        """others_attached()

        Return whether any process has another handle or mapping of this memory; always true without file locks.
        """
        return mv_os_locked(self.fileno(), MV_LOCK_ATTACHED) != 0

    # -- views and mappings --------------------------------------------------------------------------------------------

    def view(self, int64_t offset, shape, dtype, *, bint writable=False, bint fortran=False):
        """view(offset, shape, dtype, *, writable=False, fortran=False)

        Return a View of part of the memory; it keeps the mapping alive, also after `close()`.
        """
        cdef int64_t extents[8]
        cdef int64_t strides[8]
        cdef int64_t step
        cdef int k, ndim = len(shape)
        dtype = as_dtype(dtype, f"segment {self.name!r}")
        if ndim > 8:
            raise ArgumentError(f"segment {self.name!r}: a view has at most 8 dimensions, got {ndim}")
        if writable and (self.mapping is None or not self.mapping.writable):
            raise NotOwnerError(f"segment {self.name!r}: a writable view of a read-only mapping")
        nbytes = dtype.itemsize  # a Python integer cannot overflow, whatever a header claims
        for extent in shape:
            nbytes *= extent
        if nbytes > 2**62 or any(extent < 0 or extent > 2**62 for extent in shape):
            raise ArgumentError(
                f"segment {self.name!r}: shape {tuple(shape)} of {dtype} does not fit an address space"
            )
        step = dtype.itemsize
        for k in (range(ndim) if fortran else reversed(range(ndim))):
            extents[k] = shape[k]
            strides[k] = step
            step *= max(1, extents[k])
        return make_view(
            lease_owner(self.mapping), self.address(offset, nbytes), ndim, extents, strides, dtype, not writable
        )

    cdef Mapping map_part(self, int64_t offset, int64_t bytes, bint writable):
        """Map whole pages again, for the part that readers may write to."""
        cdef int fd
        self.address(offset, bytes)
        fd = mv_os_reopen(self.fd, writable)
        if fd < 0:
            fail(f"segment {self.name!r}: opening it for {'writing' if writable else 'reading'}", fd)
        try:
            return map_file(fd, offset, bytes, writable)
        finally:
            close(fd)

    def reopen(self, *, bint writable=False):
        """reopen(*, writable=False)

        Return another handle on the same memory, with its own mapping.
        """
        return adopt_fd(self.fileno(), self.name, self.path, self.facts, writable)

    def prefault(self, int64_t offset, int64_t nbytes):
        """prefault(offset, nbytes)

        Populate the pages now; releases the GIL.
        """
        cdef char *where = self.address(offset, nbytes)
        cdef int64_t lead = (<int64_t>where) & 4095
        cdef Mapping mapping = self.mapping  # keep it if another thread closes the handle
        if nbytes:
            with nogil:
                mv_os_prefault(where - lead, nbytes + lead)
        mapping.size

    # -- creation, ownership, end --------------------------------------------------------------------------------------

    def allocate(self, int64_t start, int64_t end):
        """allocate(start, end)

        Allocate a range of bytes; `OSError` ENOSPC or ENOMEM if there is not enough memory.
        """
        cdef int64_t done = start
        # A duplicate: if another thread closes the handle, the number may be reused for another file.
        cdef int rc = -EINTR, fd = os.dup(self.fileno())
        try:
            while rc == -EINTR:
                with nogil:
                    rc = mv_os_allocate(fd, &done, end)
                PyErr_CheckSignals()
        finally:
            close(fd)
        if rc < 0:
            fail(f"segment {self.name!r}: allocating {end - start} bytes", rc)

    def commit(self):
        """commit()

        Finish creation: seal the size, store the magic, link the file to its name.
        """
        cdef int rc
        self.require_owner("commit()")
        mv_segment_commit(self.header)
        if self.path is None:
            rc = mv_os_seal(self.fd, MV_SEAL_SIZE)
        else:
            rc = mv_os_link(self.fd, os.fsencode(self.path), self.hidden)
        self.committed = rc == 0
        if rc == -errno.EEXIST:
            raise SegmentExists(errno.EEXIST, f"segment {self.name!r}: the name is taken")
        if rc < 0:
            fail(f"segment {self.name!r}: committing it", rc)

    def seal(self, int contents):
        """seal(contents)

        Make the contents of an anonymous segment final: SEAL_FUTURE = writable only through this mapping, SEAL_NOW =
        through none.
        """
        cdef int rc
        if contents == MV_SEAL_NOW:
            size = self.mapping.size
            self.header = NULL
            self.mapping = None  # Linux refuses the seal while a writable mapping exists
            rc = mv_os_seal(self.fd, contents)
            self.mapping = map_file(self.fd, 0, size, False)
            self.header = <mv_segment *>self.mapping.base
        else:
            rc = mv_os_seal(self.fd, contents)
        if rc < 0:
            fail(f"segment {self.name!r}: sealing it", rc)

    def take_ownership(self):
        """take_ownership()

        Become the owner of a segment whose owner is dead. The handle must be writable.

        Returns
        -------
        bool
            False if the owner is alive.
        """
        cdef int rc
        self.address(0, 0)
        if self.owner_lock.fd >= 0:
            return True
        if not self.mapping.writable:
            raise NotOwnerError(f"segment {self.name!r}: a read-only handle cannot become the owner")
        if self.owner_alive():
            return False
        rc = mv_byte_lock_acquire(&self.owner_lock, self.fd, MV_LOCK_OWNER)
        if rc == -errno.EBUSY:
            return False
        if rc < 0:
            fail(f"segment {self.name!r}: taking over", rc)
        mv_segment_take_over(self.header)
        set_owner(self)
        return True

    def release_ownership(self):
        """release_ownership()

        Mark the segment as closed by its owner and wake the readers. Does nothing on other handles.
        """
        if self.owner_lock.fd >= 0:
            if self.mapping is not None and self.mapping.writable:
                mv_segment_close(self.header)
                mv_futex_wake(mv_segment_closed_word(self.header))
            mv_byte_lock_release(&self.owner_lock)

    def renew(
        self, int64_t payload_bytes, uint32_t flags, bytes dtype_text, uint32_t itemsize, tuple shape, tuple strides,
        uint64_t schema_hash, bytes uuid,
    ):
        """renew(payload_bytes, flags, dtype_text, itemsize, shape, strides, schema_hash, uuid)

        Turn anonymous memory into another segment, unless other handles are attached; fill the payload, then
        `recommit()`.

        Returns
        -------
        bool
            False, and nothing has changed, if another handle is attached.
        """
        cdef mv_segment *h = self.header
        cdef int rc
        self.require_owner("renew()")
        rc = mv_os_lock(self.fd, MV_LOCK_ATTACHED, 1)
        if rc < 0:
            fail(f"segment {self.name!r}: locking it", rc)
        if rc == 0:
            return False
        memset(h, 0, 128)  # the order does not matter: no handle is attached, and attaching fails while locked
        memset(<char *>h + 256, 0, MV_SEGMENT_HEADER - 256)
        self.uuid, self.name = uuid, f"anonymous-{uuid.hex()}"
        fill_header(
            h, self.facts["kind"], flags, self.mapping.size, MV_SEGMENT_HEADER, payload_bytes, schema_hash, uuid,
            itemsize, shape, strides, (), self.name.encode(), dtype_text, b"",
        )
        self.facts = header_facts(h)
        return True

    def recommit(self):
        """recommit()

        Finish `renew()`.
        """
        self.address(0, 0)
        mv_segment_commit(self.header)
        mv_os_lock(self.fd, MV_LOCK_ATTACHED, 0)

    def disown(self):
        """disown()

        Release the owner's lock without closing the segment: final contents need no owner, and no descriptor for its
        lock.
        """
        mv_byte_lock_release(&self.owner_lock)

    def close(self):
        """close()

        Close the handle and, if it is the owner's, the segment. Existing views stay valid.
        """
        self.release_ownership()
        self.header = NULL
        self.mapping = None
        if self.fd >= 0:
            close(self.fd)
            self.fd = -1


@cython.final
cdef class ByteLock:
    """ByteLock()

    A lock on one byte of a segment, made by `lock_byte`: proof that its holder is running. A forked
    child does not hold it.
    """

    def __cinit__(self):
        self.lock.fd = -1

    def __dealloc__(self):
        mv_byte_lock_release(&self.lock)

    def release(self):
        """release()

        Release the lock.
        """
        mv_byte_lock_release(&self.lock)


def lock_byte(Segment segment, int64_t byte):
    """lock_byte(segment, byte)

    Lock a byte of a segment's file; None if it is locked already.
    """
    cdef ByteLock self = ByteLock.__new__(ByteLock)
    cdef int rc = mv_byte_lock_acquire(&self.lock, segment.fileno(), byte)
    if rc == -errno.EBUSY:
        return None
    if rc < 0:
        fail(f"segment {segment.name!r}: locking byte {byte}", rc)
    return self


def byte_locked(Segment segment, int64_t byte):
    """byte_locked(segment, byte)

    Return whether a byte is locked, by this process or another; true if the system has no such locks.
    """
    return mv_os_locked(segment.fileno(), byte) != 0


cdef int set_owner(Segment self) except -1:
    """Write this process into the header as the owner."""
    mv_segment_set_owner(self.header, getpid(), process_start())
    return 0


cdef int unlink_quietly(bytes path) except -1:
    """Remove a file that may not exist."""
    try:
        os.unlink(path)
    except OSError:  # removed already
        return 0
    return 0


def create(
    int kind, int64_t payload_bytes, *, str name, str path, str directory, int mode, int64_t payload_off,
    int64_t reserve, uint32_t flags, bytes dtype_text, bytes tag, uint32_t itemsize, tuple shape, tuple strides,
    tuple params, uint64_t schema_hash, bytes uuid,
):
    """create(kind, payload_bytes, **header)

    Create a segment that no process can find yet; fill its payload, then `commit()`. `segments.create_segment` has
    checked the arguments.
    """
    cdef Segment self = Segment.__new__(Segment)
    cdef char hidden[4200]
    cdef mv_segment *h
    cdef int64_t total = (payload_off + payload_bytes + 4095) & ~4095
    cdef int rc
    hidden[0] = 0
    self.name, self.path, self.uuid = name, path, uuid
    if path is None:
        self.fd = mv_os_anonymous(b"mojoview", os.fsencode(directory))
    else:
        self.fd = mv_os_nameless(os.fsencode(directory), os.fsencode(path), mode, hidden, sizeof(hidden))
    self.hidden = hidden
    if self.fd < 0:
        fail(f"segment {name!r}: creating it", self.fd)
    if ftruncate(self.fd, total) < 0:
        raise SegmentError(errno.EFBIG, f"segment {name!r}: {total} bytes are more than a file can have")
    self.allocate(0, reserve)
    self.mapping = map_file(self.fd, 0, total, True)
    self.header = h = <mv_segment *>self.mapping.base
    rc = mv_os_lock(self.fd, MV_LOCK_ATTACHED, 0)
    if rc < 0:
        fail(f"segment {name!r}: locking it", rc)
    rc = mv_byte_lock_acquire(&self.owner_lock, self.fd, MV_LOCK_OWNER)
    if rc < 0:
        fail(f"segment {name!r}: locking it as its owner", rc)
    fill_header(
        h, kind, flags, total, payload_off, payload_bytes, schema_hash, uuid, itemsize, shape, strides, params,
        name.encode(), dtype_text, tag,
    )
    set_owner(self)
    self.facts = header_facts(h)
    return self


def claim_owner_lock(int fd):
    """claim_owner_lock(fd)

    Lock the owner's byte of a file, for cleanup: a descriptor that holds the lock, which the caller closes; None if it
    is locked already.
    """
    cdef int rc = mv_os_claim(fd, MV_LOCK_OWNER)
    if rc == -errno.EBUSY:
        return None
    if rc < 0:
        fail("claiming the owner's lock", rc)
    return rc


def adopt_fd(int fd, str name, str path, dict facts, bint writable, bint own=False):
    """adopt_fd(fd, name, path, facts, writable, own=False)

    Attach to a checked file through a description of its own. `fd` stays the caller's unless `own` is true: then it is
    that description, and belongs to the segment even if attaching fails.
    """
    cdef Segment self = Segment.__new__(Segment)
    cdef int rc
    self.name, self.path, self.uuid, self.facts, self.committed = name, path, facts["uuid"], facts, True
    rc = fd if own else mv_os_reopen(fd, writable)
    if rc < 0:
        fail(f"segment {name!r}: opening it for {'writing' if writable else 'reading'}", rc)
    self.fd = rc
    rc = mv_os_lock(self.fd, MV_LOCK_ATTACHED, 0)
    if rc == 0:
        raise SegmentLost(f"segment {name!r}: its creator is reusing the memory for another segment")
    if rc < 0:
        fail(f"segment {name!r}: attaching", rc)
    self.mapping = map_file(self.fd, 0, facts["segment_bytes"], writable)
    self.header = <mv_segment *>self.mapping.base
    # Only anonymous memory is ever reused (`renew`).
    if path is None and memcmp(self.header.uuid, <const char *>self.uuid, 16) != 0:
        raise SegmentLost(f"segment {name!r}: its memory was reused for another segment while this process attached")
    return self
