"""The thread pool (`pool.h`) as kernels reach it: `threads=`, signals while a job runs, the end of the interpreter."""

from libc.stdint cimport int32_t, int64_t

from mojoview.calls._pool cimport mv_run, mv_task

import atexit
import os
from operator import index

from mojoview.memory.errors import ArgumentError, KernelError, KernelValueError


cdef extern from "Python.h":
    int PyErr_CheckSignals()  # both leave the exception set, for the caller of the job to raise
    void PyErr_SetString(object kind, const char *message)

cdef extern from "calls/pool.h" nogil:
    ctypedef int (*mv_poll)(int forked) noexcept nogil
    int64_t mv_pool_run(int threads, int64_t chunks, mv_task task, void *state, mv_poll poll)
    void mv_pool_stop()
    ctypedef struct pool_t:
        int limit
    pool_t mv_pool

cdef enum:
    MOST_THREADS = 1024


cdef int poll_signals(int forked) noexcept with gil:
    """Nonzero, with an exception set, to stop the job."""
    if forked:
        PyErr_SetString(KernelError, b"the process was forked while a kernel ran: in the child its workers are gone")
        return 1
    return PyErr_CheckSignals()


cdef int64_t run_parallel(const mv_run *run, int64_t chunks, mv_task task, void *state) noexcept nogil:
    return mv_pool_run(run.threads, chunks, task, state, poll_signals)


cdef int thread_count(object threads) except -1:
    """The `threads=` argument; 0 leaves the choice to the pool."""
    if threads is None:
        return 0
    if not hasattr(threads, "__index__") or isinstance(threads, bool):
        raise ArgumentError(f"threads: expected None or an int, got {type(threads).__name__}")
    number = index(threads)
    if number < 1:
        raise KernelValueError(f"threads: expected at least 1, got {number}")
    return min(number, MOST_THREADS)


def _stop():
    with nogil:
        mv_pool_stop()


def _open():
    setting = os.environ.get("MOJOVIEW_THREADS", "")
    if setting:
        if not setting.isdecimal() or int(setting) < 1:
            raise KernelValueError(f"environment variable MOJOVIEW_THREADS: expected an int from 1, got {setting!r}")
        mv_pool.limit = min(int(setting), MOST_THREADS)
    atexit.register(_stop)


_open()
