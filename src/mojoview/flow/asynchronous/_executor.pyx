"""The executor of asynchronous calls: threads, a bounded queue, and delivery of results to event loops.

The GIL protects the state: no other thread runs between two calls into Python. A thread that waits for a job, or wakes
an event loop, releases the GIL first, so that the loop does not wake up only to wait for it.
"""

cimport cython
from libc.stdint cimport uint64_t
from posix.unistd cimport close, read, write

from mojoview.calls._kernel cimport GIL_WORTH

import atexit
import os
import threading
import time
import traceback
from collections import deque

import numpy as np

from mojoview.memory.errors import KernelError, KernelValueError, QueueFull


cdef extern from "flow/asynchronous/parker.h" nogil:
    ctypedef struct mv_parker:
        pass
    void mv_parker_notify(mv_parker *parker)
    void mv_parker_wait(mv_parker *parker, uint64_t seen, bint one_core)

INLINE_MAX = GIL_WORTH  # elements below which a kernel keeps the GIL, so that a thread would gain nothing
INLINE_MAX_BUILTIN = 1 << 16  # elements below which a built-in kernel is faster than a thread hand-over
SHUTDOWN_GRACE_S = 1.0  # that the end of the interpreter waits for running calls
MAX_WAITING = 1024
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
cdef bint ONE_CORE = CORES == 1
cdef object NDARRAY = np.ndarray


def runs_inline(kernel, tuple args, dict options):
    """runs_inline(kernel, args, options)

    Return whether a call is too small to gain from another thread.

    Parameters
    ----------
    kernel : Kernel or KernelFamily
    args : tuple
    options : dict

    Returns
    -------
    bool
    """
    # a family has no `owner`: its kernels are from a library
    most = INLINE_MAX_BUILTIN if getattr(kernel, "owner", INLINE_MAX) is None else INLINE_MAX
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

        Return false if it was cancelled.
        """

    def end(self, value, error):
        """end(value, error)

        Deliver the result or the exception. Returns the CompletionQueue to notify, or None.
        """

    def cancel(self):
        """cancel()

        Drop the result, and the call if it has not begun.
        """

    def fail_after_fork(self):
        """fail_after_fork()

        In a forked child: fail, because the thread of the call belongs to the parent.
        """

    cpdef run(self):
        """run()

        Make the call, from `begin()` to `end()`. Returns what `end()` returns.
        """
        if not self.begin():
            return None
        try:
            value = self.kernel(*self.args, **self.options)
        except BaseException as error:
            return self.end(None, error)
        return self.end(value, None)


@cython.final
cdef class CompletionQueue:
    """CompletionQueue(loop)

    Results on their way to one event loop, which is woken once for all that are there.

    Parameters
    ----------
    loop : asyncio.AbstractEventLoop
        The running one. It holds the queue from then on; the queue does not hold it.
    """
    cdef object results         # deque of (future, value, error)
    cdef bint notified
    cdef int read_fd, wakeup_fd     # the two ends of a pipe
    cdef public double last_yield   # time.perf_counter() when inline calls last let other tasks run

    def __cinit__(self):
        self.read_fd = self.wakeup_fd = -1

    def __init__(self, loop):
        self.results = deque()
        self.read_fd, self.wakeup_fd = os.pipe()
        os.set_blocking(self.read_fd, False)
        os.set_blocking(self.wakeup_fd, False)
        loop.add_reader(self.read_fd, self.deliver)

    def __dealloc__(self):
        if self.read_fd >= 0:
            close(self.read_fd)
            close(self.wakeup_fd)

    def complete(self, future, value, error):
        """complete(future, value, error)

        Deliver a result to a future of the loop. Thread safety: any thread.
        """
        if self.push(future, value, error):
            self.notify()

    def deliver(self):
        """deliver()

        Settle the futures whose results are there. The loop calls it.
        """
        cdef char bytes[64]
        read(self.read_fd, bytes, sizeof(bytes))
        self.notified = False  # before the loop below: a later result notifies again
        while self.results:
            future, value, error = self.results.popleft()
            if future.done():  # it was cancelled
                continue
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(value)

    cdef bint push(self, object future, object value, object error):
        """Add a result. Returns whether the caller has to notify the loop."""
        self.results.append((future, value, error))
        if self.notified:
            return False
        self.notified = True
        return True

    cdef void notify(self) noexcept nogil:
        write(self.wakeup_fd, b"", 1)


@cython.final
cdef class LoopJob(Job):
    """LoopJob(kernel, args, options, completions, future)

    A call whose result goes to a future of an event loop.
    """
    cdef CompletionQueue completions
    cdef object future
    cdef public bint dropped

    def __init__(self, kernel, tuple args, dict options, CompletionQueue completions not None, future):
        self.kernel, self.args, self.options = kernel, args, options
        self.completions, self.future = completions, future

    def begin(self):
        return not self.dropped

    def end(self, value, error):
        return self.completions if self.completions.push(self.future, value, error) else None

    def cancel(self):
        self.dropped = True


cdef class _Parker:
    """The waiting place of one thread, and the job that was handed to it."""
    cdef mv_parker parker
    cdef uint64_t seen
    cdef Job job

    cdef void hand_over(self, Job job):
        self.job = job
        mv_parker_notify(&self.parker)

    cdef Job wait(self, CompletionQueue completions):
        """Notify the queue of the last job's result, then wait for the next job."""
        with nogil:
            if completions is not None:
                completions.notify()
            mv_parker_wait(&self.parker, self.seen, ONE_CORE)
        self.seen += 1
        job, self.job = self.job, None
        return job


@cython.final
cdef class CallExecutor:
    """CallExecutor(max_threads, capacity)

    Threads that run jobs, and a bounded queue in front of them.

    Parameters
    ----------
    max_threads : int
        Threads are started when there is work for them.
    capacity : int
        Jobs that may wait.

    Notes
    -----
    Thread safety: any thread. In a forked child it starts empty, and the jobs that waited or ran at the fork fail.
    """
    cdef readonly int max_threads, capacity
    cdef list idle              # parkers, the most recent at the end
    cdef object queue           # jobs that wait while all threads are busy
    cdef object room_waiters    # callbacks of those who wait for space in the queue, in order
    cdef list threads
    cdef int started
    cdef set jobs               # that wait or run
    cdef bint closed

    def __cinit__(self, int max_threads, int capacity):
        self.max_threads, self.capacity = max_threads, capacity
        self.reset()

    cdef reset(self):
        self.idle, self.threads, self.jobs = [], [], set()
        self.queue, self.room_waiters = deque(), deque()
        self.started = 0
        self.closed = False

    @property
    def waiting(self):
        """Calls in the queue."""
        return len(self.queue)

    def try_put(self, Job job not None, when_room=None):
        """try_put(job, when_room=None)

        Queue a job and return True. If the queue is full, return False and call `when_room` as soon as there is space.

        Raises
        ------
        KernelError
            The interpreter shuts down, or no thread can be started.
        """
        if self.closed:
            raise KernelError(f"{job.kernel.name}(): the interpreter is shutting down: no more asynchronous calls")
        if self.idle:
            self.jobs.add(job)
            (<_Parker>self.idle.pop()).hand_over(job)
            return True
        if len(self.queue) >= self.capacity:
            if when_room is not None:
                self.room_waiters.append(when_room)
            return False
        self.jobs.add(job)
        self.queue.append(job)
        if self.started < self.max_threads:
            self.start(job)
        return True

    cdef start(self, Job job):
        """Start one more thread. A failure is an error only if there is no thread."""
        thread = threading.Thread(target=self._work, name=f"mojoview-{self.started}", daemon=True)
        self.started += 1
        try:
            thread.start()
        except RuntimeError as error:
            self.started -= 1
            if self.started == 0 and job in self.queue:
                self.queue.remove(job)
                self.jobs.discard(job)
                raise KernelError(
                    f"{job.kernel.name}(): no thread for asynchronous calls can be started: {error}"
                ) from error
        else:
            self.threads.append(thread)

    def cancel_wait(self, when_room):
        """cancel_wait(when_room)

        Stop waiting for space in the queue. If `when_room` was called already, the next in line is called instead.
        """
        if when_room in self.room_waiters:
            self.room_waiters.remove(when_room)
        elif self.room_waiters and len(self.queue) < self.capacity:
            self.room_waiters.popleft()()

    def _work(self):
        cdef _Parker parker = _Parker.__new__(_Parker)
        cdef CompletionQueue completions = None
        cdef Job job
        while not self.closed:
            if self.queue:
                job = self.queue.popleft()
                if completions is not None:
                    completions.notify()
            else:
                self.idle.append(parker)
                job = parker.wait(completions)
                if job is None:
                    return
            completions = None
            if self.room_waiters:
                self.room_waiters.popleft()()
            try:
                completions = job.run()
            except BaseException as error:  # raised by a callback of the result's receiver; the thread goes on
                traceback.print_exception(error)
            self.jobs.discard(job)
            job = None  # the thread holds neither job nor arrays while it waits
        if completions is not None:
            completions.notify()

    def put(self, Job job not None, double timeout):
        """put(job, timeout)

        Queue a job, waiting for space at most `timeout` seconds.

        Raises
        ------
        QueueFull
            The queue stayed full until the timeout.
        KernelError
        """
        if self.try_put(job):
            return
        deadline = time.monotonic() + timeout
        while True:
            room = threading.Event()
            if self.try_put(job, room.set):
                return
            try:
                has_room = room.wait(max(0.0, deadline - time.monotonic()))
            except BaseException:
                self.cancel_wait(room.set)
                raise
            if not has_room:
                self.cancel_wait(room.set)
                raise QueueFull(
                    f"{job.kernel.name}(): {self.capacity} asynchronous calls wait, and none has begun for {timeout} s"
                )

    def close(self, double grace=SHUTDOWN_GRACE_S):
        """close(grace=1.0)

        Cancel the jobs that wait, and wait at most `grace` seconds for those that run.
        """
        self.closed = True
        for job in list(self.jobs):
            job.cancel()
        while self.idle:
            (<_Parker>self.idle.pop()).hand_over(None)
        deadline = time.monotonic() + grace
        for thread in list(self.threads):
            thread.join(max(0.0, deadline - time.monotonic()))

    def after_fork_in_child(self):
        """after_fork_in_child()

        Start empty, without the threads, which belong to the parent.
        """
        jobs = self.jobs
        self.reset()
        for job in jobs:
            job.fail_after_fork()


def max_threads():
    """max_threads()

    Return MOJOVIEW_CALL_THREADS, or the number of CPUs that the process may run on; 2 at least.

    Raises
    ------
    KernelValueError
        The variable is not an integer of at least 1.
    """
    setting = os.environ.get("MOJOVIEW_CALL_THREADS", "")
    if not setting:
        return max(2, CORES)
    if not setting.isdecimal() or int(setting) < 1:
        raise KernelValueError(f"environment variable MOJOVIEW_CALL_THREADS: expected an integer of at least 1, "
                               f"got {setting!r}")
    return int(setting)


EXECUTOR = CallExecutor(max_threads(), MAX_WAITING)
atexit.register(EXECUTOR.close)
os.register_at_fork(after_in_child=EXECUTOR.after_fork_in_child)
