"""The threads of asynchronous calls: who waits for work, who for room, and how results come to an event loop.

The GIL is the lock here: between two calls into Python no other thread sees half a change. A thread that waits, for a
job or at the doorbell of a loop, does so without it; what wakes a loop is done after the thread has let go of it, so
that the loop does not wake up to wait for it.
"""

cimport cython
from libc.stdint cimport uint64_t
from posix.unistd cimport close, read, write

import os
import threading
import time
import traceback
from collections import deque

import numpy as np

from mojoview.memory.errors import KernelError, QueueFull


cdef extern from "flow/asynchronous/parker.h" nogil:
    ctypedef struct mv_seat:
        pass
    void mv_seat_call(mv_seat *seat)
    void mv_seat_wait(mv_seat *seat, uint64_t seen, bint alone)

SMALL = 4096  # elements below which a kernel keeps the interpreter's lock: GIL_WORTH of kernels/_call
BRIEF = 1 << 16  # elements below which a built-in kernel takes less time than handing it over
FAREWELL = 1.0  # seconds that the end of the interpreter waits for calls that run
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
cdef bint ALONE = CORES == 1
cdef object NDARRAY = np.ndarray


def is_small(kernel, tuple args, dict options):
    """is_small(kernel, args, options)

    Whether nothing is gained on another thread.

    Parameters
    ----------
    kernel : Kernel or KernelFamily
    args : tuple
    options : dict

    Returns
    -------
    bool
    """
    most = BRIEF if getattr(kernel, "owner", SMALL) is None else SMALL  # a family is of a library
    if options:
        if options.get("threads") is not None:
            return False
        args = (*args, *options.values())
    for value in args:
        if type(value) is NDARRAY:
            if value.size >= most:
                return False
        elif value is not None and type(value) not in (float, int, bool, str):
            return False
    return True


cdef class Job:
    """Job(kernel, args, options)

    A call that waits or runs. It holds kernel and arguments until it has ended.
    """
    cdef readonly object kernel, args, options

    def __init__(self, kernel, tuple args, dict options):
        self.kernel, self.args, self.options = kernel, args, options

    def begin(self):
        """begin()

        False where it was cancelled.
        """

    def end(self, value, error):
        """end(value, error)

        Hands the result over, or the exception. Returns the mailbox whose bell is to be rung, or None.
        """

    def cancel(self):
        """cancel()

        Nobody wants the result any more; a call that has not begun will not.
        """

    def abandon(self):
        """abandon()

        In a forked child: the thread that has it is the parent's.
        """

    cpdef run(self):
        """run()

        The call, from begin to end. Returns what `end()` returns.
        """
        if not self.begin():
            return None
        try:
            value = self.kernel(*self.args, **self.options)
        except BaseException as error:
            return self.end(None, error)
        return self.end(value, None)


@cython.final
cdef class Mailbox:
    """Mailbox(loop)

    Results on their way to one event loop: however many come, its bell is rung once until it has looked.

    Parameters
    ----------
    loop : asyncio.AbstractEventLoop
        The running one. It holds the mailbox from now on; the mailbox does not hold it.
    """
    cdef object results         # deque of (future, value, error)
    cdef bint rung
    cdef int ours, theirs       # the two ends of a pipe
    cdef public double turn     # when others had their turn last, by time.perf_counter()

    def __cinit__(self):
        self.ours = self.theirs = -1

    def __init__(self, loop):
        self.results = deque()
        self.ours, self.theirs = os.pipe()
        os.set_blocking(self.ours, False)
        os.set_blocking(self.theirs, False)
        loop.add_reader(self.ours, self.deliver)

    def __dealloc__(self):
        if self.ours >= 0:
            close(self.ours)
            close(self.theirs)

    def post(self, future, value, error):
        """post(future, value, error)

        For the loop: the result of a future of its own. Thread safety: any thread.
        """
        if self.put(future, value, error):
            self.ring()

    def deliver(self):
        """deliver()

        Hands out what is there; the loop calls it.
        """
        cdef char bytes[64]
        read(self.ours, bytes, sizeof(bytes))
        self.rung = False  # before it looks: nothing is left lying
        while self.results:
            future, value, error = self.results.popleft()
            if future.done():  # cancelled meanwhile
                continue
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(value)

    cdef bint put(self, object future, object value, object error):
        """Whether the bell is to be rung, by the caller."""
        self.results.append((future, value, error))
        if self.rung:
            return False
        self.rung = True
        return True

    cdef void ring(self) noexcept nogil:
        write(self.theirs, b"", 1)


@cython.final
cdef class LoopJob(Job):
    """LoopJob(kernel, args, options, mailbox, future)

    A call whose result goes to a future of an event loop.
    """
    cdef Mailbox mailbox
    cdef object future
    cdef public bint dropped

    def __init__(self, kernel, tuple args, dict options, Mailbox mailbox not None, future):
        self.kernel, self.args, self.options = kernel, args, options
        self.mailbox, self.future = mailbox, future

    def begin(self):
        return not self.dropped

    def end(self, value, error):
        return self.mailbox if self.mailbox.put(self.future, value, error) else None

    def cancel(self):
        self.dropped = True


cdef class _Seat:
    """Where a thread waits for its next job, which is given to it and to no other."""
    cdef mv_seat seat
    cdef uint64_t seen
    cdef Job job

    cdef void give(self, Job job):
        self.job = job
        mv_seat_call(&self.seat)

    cdef Job take(self, Mailbox mailbox):
        """Rings the mailbox's bell and waits."""
        with nogil:
            if mailbox is not None:
                mailbox.ring()
            mv_seat_wait(&self.seat, self.seen, ALONE)
        self.seen += 1
        job, self.job = self.job, None
        return job


@cython.final
cdef class Threads:
    """Threads(most, capacity)

    The queue and its threads.

    Parameters
    ----------
    most : int
        Threads; they are started when there is work for them.
    capacity : int
        Jobs that may wait.

    Notes
    -----
    Thread safety: any thread. In a forked child it begins anew; what waited or ran at the fork fails there.
    """
    cdef readonly int most, capacity
    cdef list idle              # seats, the one that was left last at the end
    cdef object queue           # jobs, while all threads are busy
    cdef object room            # who waits for room, in turn
    cdef list threads
    cdef int started
    cdef set jobs               # that wait or run
    cdef bint closed

    def __cinit__(self, int most, int capacity):
        self.most, self.capacity = most, capacity
        self.renew()

    cdef renew(self):
        self.idle, self.threads, self.jobs = [], [], set()
        self.queue, self.room = deque(), deque()
        self.started = 0
        self.closed = False

    @property
    def waiting(self):
        """Calls in the queue."""
        return len(self.queue)

    def offer(self, Job job not None, when_room=None):
        """offer(job, when_room=None)

        Queues a job; False where there is no room: then `when_room` is called as soon as there is.

        Raises
        ------
        KernelError
            The interpreter shuts down, or no thread can be started.
        """
        if self.closed:
            raise KernelError(f"{job.kernel.name}(): the interpreter is shutting down: no more asynchronous calls")
        if self.idle:
            self.jobs.add(job)
            (<_Seat>self.idle.pop()).give(job)
            return True
        if len(self.queue) >= self.capacity:
            if when_room is not None:
                self.room.append(when_room)
            return False
        self.jobs.add(job)
        self.queue.append(job)
        if self.started < self.most:
            self.start(job)
        return True

    cdef start(self, Job job):
        """One thread more. Not getting it is an error only where there is none."""
        thread = threading.Thread(target=self._work, name=f"mojoview-{self.started}", daemon=True)
        self.started += 1
        try:
            thread.start()
        except RuntimeError as error:
            self.started -= 1
            if self.started == 0 and job in self.queue:
                self.queue.remove(job)
                self.jobs.discard(job)
                raise KernelError(f"{job.kernel.name}(): no thread for asynchronous calls can be started: {error}") from error
        else:
            self.threads.append(thread)

    def withdraw(self, when_room):
        """withdraw(when_room)

        Somebody waits for room no longer; if the word has been given already, it goes to the next.
        """
        if when_room in self.room:
            self.room.remove(when_room)
        elif self.room and len(self.queue) < self.capacity:
            self.room.popleft()()

    def _work(self):
        cdef _Seat seat = _Seat.__new__(_Seat)
        cdef Mailbox mailbox = None
        cdef Job job
        while not self.closed:
            if self.queue:
                job = self.queue.popleft()
                if mailbox is not None:
                    mailbox.ring()
            else:
                self.idle.append(seat)
                job = seat.take(mailbox)
                if job is None:
                    return
            mailbox = None
            if self.room:
                self.room.popleft()()
            try:
                mailbox = job.run()
            except BaseException as error:  # of who waits for the result: that is none of the next job's business
                traceback.print_exception(error)
            self.jobs.discard(job)
            job = None  # neither job nor arrays are held while the thread waits
        if mailbox is not None:
            mailbox.ring()

    def wait_and_offer(self, Job job not None, double patience):
        """wait_and_offer(job, patience)

        Queues a job, waiting for room at most `patience` seconds.

        Raises
        ------
        QueueFull
            There is none in time.
        KernelError
        """
        if self.offer(job):
            return
        deadline = time.monotonic() + patience
        while True:
            room = threading.Event()
            if self.offer(job, room.set):
                return
            try:
                there_is = room.wait(max(0.0, deadline - time.monotonic()))
            except BaseException:
                self.withdraw(room.set)
                raise
            if not there_is:
                self.withdraw(room.set)
                raise QueueFull(
                    f"{job.kernel.name}(): {self.capacity} asynchronous calls wait, and none has begun for {patience} s")

    def close(self, double farewell=FAREWELL):
        """close(farewell=1.0)

        Cancels what waits, and waits `farewell` seconds at most for what runs.
        """
        self.closed = True
        for job in list(self.jobs):
            job.cancel()
        while self.idle:
            (<_Seat>self.idle.pop()).give(None)
        deadline = time.monotonic() + farewell
        for thread in list(self.threads):
            thread.join(max(0.0, deadline - time.monotonic()))

    def in_child(self):
        """in_child()

        After a fork: the threads are the parent's.
        """
        jobs = self.jobs
        self.renew()
        for job in jobs:
            job.abandon()
