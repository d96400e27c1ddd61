"""The thread pool of `native/thread_pool.h`: the `threads=` argument, signals while a job runs, shutdown at exit."""

from libc.stdint cimport int64_t

from mojoview.calls._thread_pool cimport mv_run, mv_task

import atexit
import os
from operator import index

from mojoview.memory.errors import ArgumentError, KernelError, KernelValueError


cdef extern from "Python.h":
    # Both leave the exception set; the caller of the job raises it.
    int PyErr_CheckSignals()
    void PyErr_SetString(object kind, const char *message)

cdef extern from "calls/native/thread_pool.h" nogil:
    ctypedef int (*mv_poll)(int forked) noexcept nogil
    int64_t mv_pool_run(int threads, int64_t chunks, mv_task task, void *state, mv_poll poll)
    void mv_pool_stop()
    ctypedef struct pool_t:
        int limit
    pool_t mv_pool

cdef enum:
    MAX_THREADS = 1024


cdef int poll_signals(int forked) noexcept with gil:
    """Return nonzero, with an exception set, to stop the job."""
    if forked:
        PyErr_SetString(KernelError, b"the process was forked while a kernel ran: the child has no worker threads")
        return 1
    return PyErr_CheckSignals()


cdef int64_t run_parallel(const mv_run *run, int64_t chunks, mv_task task, void *state) noexcept nogil:
    return mv_pool_run(run.threads, chunks, task, state, poll_signals)


cdef int thread_count(object threads) except -1:
    """Return the `threads=` argument as an int; 0 if the pool is to choose."""
    if threads is None:
        return 0
    if not hasattr(threads, "__index__") or isinstance(threads, bool):
        raise ArgumentError(f"threads: expected None or an int, got {type(threads).__name__}")
    number = index(threads)
    if number < 1:
        raise KernelValueError(f"threads: expected at least 1, got {number}")
    return min(number, MAX_THREADS)


def _stop():
    """Stop the pool threads while the interpreter still runs: one of them may have to take the GIL for a signal."""
    with nogil:
        mv_pool_stop()


def _configure():
    """Read MOJOVIEW_THREADS and register the shutdown."""
    setting = os.environ.get("MOJOVIEW_THREADS", "")
    if setting:
        if not setting.isdecimal() or int(setting) < 1:
            raise KernelValueError(f"environment variable MOJOVIEW_THREADS: expected an integer of at least 1, "
                                   f"got {setting!r}")
        mv_pool.limit = min(int(setting), MAX_THREADS)
    atexit.register(_stop)


_configure()
