"""A worker process watched for its death, and the protection of its pages."""

from libc.stdint cimport int64_t, uint64_t, uintptr_t

import errno
import os

from mojoview.memory.errors import KernelError, SegmentError


cdef extern from "safety/workers/crash.h":
    int mv_crash_watch(int fd)

cdef extern from "<sys/mman.h>" nogil:
    int mprotect(void *address, size_t bytes, int protection)
    enum:
        PROT_NONE
        PROT_READ
        PROT_WRITE

NOTHING, READ, WRITE = PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE


def watch(int fd):
    """watch(fd)

    From now on a fatal signal leaves a record of itself in the file, whose size is that of `mv_crash`.

    Parameters
    ----------
    fd : int
        Borrowed; it may be closed afterwards.

    Raises
    ------
    KernelError
        The file cannot be mapped, or the system takes no handlers.

    Notes
    -----
    Thread safety: once, on the main thread, before others start.
    """
    cdef int rc = mv_crash_watch(fd)
    if rc < 0:
        raise KernelError(f"worker: watching for crashes: {os.strerror(-rc)}")


def protect(uint64_t address, int64_t nbytes, int protection):
    """protect(address, nbytes, protection)

    Gives whole pages of this process NOTHING, READ or WRITE.

    Raises
    ------
    SegmentError
        They are not the process's own, or the system refuses.

    Notes
    -----
    Thread safety: any thread.
    """
    if mprotect(<void *><uintptr_t>address, nbytes, protection) < 0:
        raise SegmentError(errno.ENOMEM, f"protecting {nbytes} bytes at {address:#x}: the system refuses")
