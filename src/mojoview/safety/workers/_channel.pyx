"""The channel between a worker process and its parent, and the crash record beside it in the same shared memory."""

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from libc.errno cimport EINTR, ETIMEDOUT
from libc.stdint cimport INT64_MAX, INT64_MIN, UINT64_MAX, int64_t, uint64_t, uintptr_t

import errno
import os

from mojoview.memory.errors import KernelError, PeerGone, SegmentError, WaitTimeout


cdef extern from "safety/workers/channel.h" nogil:
    enum:
        MV_CHANNEL_OUT_OF_LINE
        MV_CHANNEL_NONE
        MV_CHANNEL_FLOAT
        MV_CHANNEL_INT
        MV_CHANNEL_UINT
        MV_CHANNEL_BOOL
        MV_CRASH_FRAMES
        MV_CRASH_MODULE
        MV_CRASH_NAME
    uint64_t MV_ALLOC_CHECK
    int mv_channel_send(mv_message *message, int socket)
    int mv_channel_wait(mv_message *message, int socket, int process, uint64_t seen, mv_spin *spin, uint64_t deadline,
                        int *polling)
    int mv_crash_install(int fd)
    uint64_t mv_monotonic_ns()

cdef extern from "<string.h>" nogil:
    size_t strnlen(const char *text, size_t most)

cdef extern from "<sys/mman.h>" nogil:
    void *mmap(void *address, size_t nbytes, int protection, int flags, int fd, int64_t offset)
    int munmap(void *address, size_t nbytes)
    int mprotect(void *address, size_t nbytes, int protection)
    int msync(void *address, size_t nbytes, int flags)
    void *MAP_FAILED
    enum:
        MAP_SHARED
        PROT_NONE
        PROT_READ
        PROT_WRITE
        MS_ASYNC

cdef extern from "<sys/socket.h>" nogil:
    ssize_t recv(int socket, void *buffer, size_t nbytes, int flags)
    enum:
        MSG_PEEK
        MSG_DONTWAIT

OUT_OF_LINE = MV_CHANNEL_OUT_OF_LINE
CHANNEL_BYTES = sizeof(mv_channel)
NO_ACCESS, READ, READ_WRITE = PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE
# Spinning cannot help on one core.
cdef bint ONE_CORE = (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()) == 1


@cython.final
cdef class Channel:
    """Channel(fd, socket, worker)

    One end of the channel between a worker and its parent.

    Parameters
    ----------
    fd : int
        A file of CHANNEL_BYTES. Borrowed; it may be closed afterwards.
    socket : int
        A connected stream socket, for payloads out of line and for wake-ups. Borrowed for the life of this object.
    worker : bool
        Whether this is the worker's end.

    Raises
    ------
    KernelError
        The file cannot be mapped.

    Notes
    -----
    Thread safety: one thread at a time. The two ends send in turn.
    """

    def __cinit__(self, int fd, int socket, bint worker):
        cdef void *at = mmap(NULL, sizeof(mv_channel), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
        if at == MAP_FAILED:
            raise KernelError("worker: its channel cannot be mapped")
        self.memory, self.socket, self.process = <mv_channel *>at, socket, -1
        self.incoming, self.outgoing = &self.memory.reply, &self.memory.request
        if worker:
            self.incoming, self.outgoing = self.outgoing, self.incoming

    def __dealloc__(self):
        if self.memory is not NULL:
            munmap(self.memory, sizeof(mv_channel))

    def watch(self, int pidfd):
        """watch(pidfd)

        Notice the death of the other process by its pidfd, also while a child of it keeps the socket open. Borrowed.
        """
        self.process = pidfd

    def send(self, int64_t tag, tuple values=()):
        """send(tag, values=())

        Send a message, unless a value has a type that does not fit into one.

        Parameters
        ----------
        tag : int
            OUT_OF_LINE if a payload follows on the socket.
        values : tuple of float, int, bool or None

        Returns
        -------
        bool
            Whether it was sent.

        Raises
        ------
        PeerGone
        """
        cdef mv_message *message = self.outgoing
        cdef Py_ssize_t k, count = len(values)
        if count > MV_CHANNEL_VALUES:
            return False
        for k in range(count):
            value = values[k]
            if value is None:
                message.kind[k] = MV_CHANNEL_NONE
            elif type(value) is float:
                message.kind[k], message.value[k].f64 = MV_CHANNEL_FLOAT, value
            elif type(value) is bool:
                message.kind[k], message.value[k].i64 = MV_CHANNEL_BOOL, value is True
            elif type(value) is not int or not INT64_MIN <= value <= UINT64_MAX:
                return False
            elif value <= INT64_MAX:
                message.kind[k], message.value[k].i64 = MV_CHANNEL_INT, value
            else:
                message.kind[k], message.value[k].u64 = MV_CHANNEL_UINT, value
        message.tag, message.count = tag, count
        if mv_channel_send(message, self.socket):
            raise PeerGone("the channel to the other process is closed")
        return True

    def receive(self, timeout):
        """receive(timeout)

        Wait for the next message and return its tag; `values()` returns its values.

        Parameters
        ----------
        timeout : float or None
            Seconds.

        Returns
        -------
        int

        Raises
        ------
        WaitTimeout
        PeerGone

        Notes
        -----
        Releases the GIL; Ctrl-C interrupts the wait.
        """
        cdef int rc = -1
        cdef uint64_t deadline = UINT64_MAX
        cdef mv_spin *spin = NULL if ONE_CORE else &self.spin
        if timeout is not None:
            deadline = mv_monotonic_ns() + <uint64_t>(<double>timeout * 1e9)
        while rc:
            with nogil:
                rc = mv_channel_wait(self.incoming, self.socket, self.process, self.seen, spin, deadline,
                                     &self.polling)
            if rc == -ETIMEDOUT:
                raise WaitTimeout(f"no message came within {timeout} s")
            if rc == -EINTR:
                PyErr_CheckSignals()
            elif rc:
                raise PeerGone("the channel to the other process is closed")
        self.seen += 1
        return self.incoming.tag

    def values(self):
        """values()

        Return the values of the message that was received last, in a list.

        Raises
        ------
        PeerGone
            The message is malformed.
        """
        cdef mv_message *message = self.incoming
        cdef list values = []
        cdef uint64_t k, count = message.count
        if count > MV_CHANNEL_VALUES:
            raise PeerGone(f"malformed message from the other process: {count} values")
        for k in range(count):
            kind = message.kind[k]
            if kind == MV_CHANNEL_NONE:
                values.append(None)
            elif kind == MV_CHANNEL_FLOAT:
                values.append(message.value[k].f64)
            elif kind == MV_CHANNEL_INT:
                values.append(message.value[k].i64)
            elif kind == MV_CHANNEL_UINT:
                values.append(message.value[k].u64)
            elif kind == MV_CHANNEL_BOOL:
                values.append(message.value[k].i64 != 0)
            else:
                raise PeerGone(f"malformed message from the other process: a value of kind {kind}")
        return values

    def has_stray_bytes(self):
        """has_stray_bytes()

        Return whether bytes that belong to no message are on the socket, or its other end is closed; between calls.
        """
        cdef char byte
        return recv(self.socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0

    def start_call(self):
        """start_call()

        Count a call that the worker is about to make.
        """
        self.memory.crash.calls_started += 1

    def set_arena(self, uint64_t address):
        """set_arena(address)

        Record the address at which the worker maps the arrays of its calls.
        """
        self.memory.crash.arena = address

    def crash_record(self):
        """crash_record()

        Return the crash record as it is in shared memory.

        Returns
        -------
        tuple
            (failed_alloc, arena, state, signal, code, access, address, pc, frames), with one (pc, base, module, name)
            for each frame. `parse_report()` interprets it.

        Notes
        -----
        A faulty kernel may have overwritten the record: numbers are arbitrary, and `module` and `name` arbitrary bytes
        of bounded length.
        """
        cdef mv_crash *c = &self.memory.crash
        cdef mv_crash_frame *f
        cdef int k
        frames = []
        for k in range(min(c.frames, <uint32_t>MV_CRASH_FRAMES)):
            f = &c.frame[k]
            frames.append((f.pc, f.base, bounded(f.module, MV_CRASH_MODULE), bounded(f.name, MV_CRASH_NAME)))
        refused = c.failed_alloc[0] if c.failed_alloc[0] ^ MV_ALLOC_CHECK == c.failed_alloc[1] else 0
        return refused, c.arena, c.state, c.signal, c.code, c.access, c.address, c.pc, frames


cdef bytes bounded(const char *text, size_t most):
    """Return the text up to its NUL, or its first `most` bytes."""
    return text[:strnlen(text, most)]


def install_crash_handler(int fd):
    """install_crash_handler(fd)

    Make a fatal signal leave a crash record in the file of a channel.

    Parameters
    ----------
    fd : int
        Borrowed; it may be closed afterwards.

    Raises
    ------
    KernelError
        The file cannot be mapped, or a handler cannot be installed.

    Notes
    -----
    Thread safety: once per process, on the main thread, before others start.
    """
    cdef int rc = mv_crash_install(fd)
    if rc < 0:
        raise KernelError(f"worker: installing the crash handler: {os.strerror(-rc)}")


def is_mapped(uint64_t address, int64_t nbytes):
    """is_mapped(address, nbytes)

    Return whether all pages of a range are mapped in this process, whatever their protection.

    Notes
    -----
    Thread safety: any thread.
    """
    return msync(<void *><uintptr_t>address, nbytes, MS_ASYNC) == 0


def protect_pages(uint64_t address, int64_t nbytes, int protection):
    """protect_pages(address, nbytes, protection)

    Set the protection of whole pages of this process to NO_ACCESS, READ or READ_WRITE.

    Raises
    ------
    SegmentError
        They are not mapped, or the system refuses.

    Notes
    -----
    Thread safety: any thread.
    """
    if mprotect(<void *><uintptr_t>address, nbytes, protection) < 0:
        raise SegmentError(errno.ENOMEM, f"protecting {nbytes} bytes at {address:#x}: the system refuses")
