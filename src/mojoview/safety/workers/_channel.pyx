"""The post between a worker and its parent: letters in memory that both map (`post.h`)."""

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from libc.errno cimport EINTR, ETIMEDOUT
from libc.stdint cimport INT64_MAX, INT64_MIN, UINT64_MAX, int64_t, uint64_t

import os

from mojoview.memory.errors import KernelError, PeerGone, WaitTimeout


cdef extern from "safety/workers/channel.h" nogil:
    enum:
        MV_POST_VALUES
        MV_POST_LONG
        MV_POST_NOTHING
        MV_POST_FLOAT
        MV_POST_INT
        MV_POST_UINT
        MV_POST_BOOL
    int mv_post_send(mv_letter *letter, int channel)
    int mv_post_wait(mv_letter *letter, int channel, uint64_t seen, mv_spin *spin, uint64_t deadline, int *asleep)
    uint64_t mv_os_monotonic()

cdef extern from "<sys/mman.h>" nogil:
    void *mmap(void *address, size_t nbytes, int protection, int flags, int fd, int64_t offset)
    int munmap(void *address, size_t nbytes)
    void *MAP_FAILED
    enum:
        MAP_SHARED
        PROT_READ
        PROT_WRITE

LONG = MV_POST_LONG
POST_BYTES = sizeof(mv_post)
cdef bint ALONE = (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()) == 1  # to look is in vain then


@cython.final
cdef class Post:
    """Post(fd, channel, worker)

    One side of the post.

    Parameters
    ----------
    fd : int
        A file of POST_BYTES. Borrowed; it may be closed afterwards.
    channel : int
        A connected stream socket, for what does not fit into a letter and for sleeping. Borrowed, while this lives.
    worker : bool
        Whether this is the worker's side.

    Raises
    ------
    KernelError
        The file cannot be mapped.

    Notes
    -----
    Thread safety: one thread at a time. Each side sends in turn.
    """

    def __cinit__(self, int fd, int channel, bint worker):
        cdef void *at = mmap(NULL, sizeof(mv_post), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
        if at == MAP_FAILED:
            raise KernelError("worker: its post cannot be mapped")
        self.post, self.channel = <mv_post *>at, channel
        self.into, self.out = &self.post.answer, &self.post.request
        if worker:
            self.into, self.out = self.out, self.into

    def __dealloc__(self):
        if self.post is not NULL:
            munmap(self.post, sizeof(mv_post))

    def send(self, int64_t word, tuple values=()):
        """send(word, values=())

        Sends a letter, unless a value is of no kind that fits.

        Parameters
        ----------
        word : int
            LONG where a message follows through the socket.
        values : tuple of float, int, bool or None

        Returns
        -------
        bool
            Whether it was sent.

        Raises
        ------
        PeerGone
        """
        cdef mv_letter *letter = self.out
        cdef Py_ssize_t k, count = len(values)
        if count > MV_POST_VALUES:
            return False
        for k in range(count):
            value = values[k]
            if value is None:
                letter.kind[k] = MV_POST_NOTHING
            elif type(value) is float:
                letter.kind[k], letter.value[k].f64 = MV_POST_FLOAT, value
            elif type(value) is bool:
                letter.kind[k], letter.value[k].i64 = MV_POST_BOOL, value is True
            elif type(value) is not int or not INT64_MIN <= value <= UINT64_MAX:
                return False
            elif value <= INT64_MAX:
                letter.kind[k], letter.value[k].i64 = MV_POST_INT, value
            else:
                letter.kind[k], letter.value[k].u64 = MV_POST_UINT, value
        letter.word, letter.count = word, count
        if mv_post_send(letter, self.channel):
            raise PeerGone("the other side of the post is gone")
        return True

    def receive(self, timeout):
        """receive(timeout)

        The next letter's word; its values are `values()`.

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
        The GIL is let go; Ctrl-C is seen.
        """
        cdef int rc = -1
        cdef uint64_t deadline = UINT64_MAX
        if timeout is not None:
            deadline = mv_os_monotonic() + <uint64_t>(<double>timeout * 1e9)
        while rc:
            with nogil:
                rc = mv_post_wait(self.into, self.channel, self.seen, NULL if ALONE else &self.spin, deadline, &self.asleep)
            if rc == -ETIMEDOUT:
                raise WaitTimeout(f"no letter came within {timeout} s")
            if rc == -EINTR:
                PyErr_CheckSignals()
            elif rc:
                raise PeerGone("the other side of the post is gone")
        self.seen += 1
        return self.into.word

    def values(self):
        """values()

        The values of the letter that was received last, in a list.

        Raises
        ------
        PeerGone
            No writer of letters has written them.
        """
        cdef mv_letter *letter = self.into
        cdef list values = []
        cdef uint64_t k, count = letter.count
        if count > MV_POST_VALUES:
            raise PeerGone("a letter without sense")
        for k in range(count):
            kind = letter.kind[k]
            if kind == MV_POST_NOTHING:
                values.append(None)
            elif kind == MV_POST_FLOAT:
                values.append(letter.value[k].f64)
            elif kind == MV_POST_INT:
                values.append(letter.value[k].i64)
            elif kind == MV_POST_UINT:
                values.append(letter.value[k].u64)
            elif kind == MV_POST_BOOL:
                values.append(letter.value[k].i64 != 0)
            else:
                raise PeerGone("a letter without sense")
        return values

    @property
    def begun(self):
        """Calls that the worker has begun."""
        return self.post.crash.begun

    def begin(self):
        """begin()

        The worker begins a call.
        """
        self.post.crash.begun += 1

    def forget_refusals(self):
        """forget_refusals()

        Allocations that the worker was refused before now do not count.
        """
        self.post.crash.refused = 0

    def tell_arena(self, uint64_t address):
        """tell_arena(address)

        Where the worker has mapped the arrays of its calls.
        """
        self.post.crash.arena = address
