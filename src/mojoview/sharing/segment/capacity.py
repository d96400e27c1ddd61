"""Free memory for segments: exhausting it must raise an exception, not a bus error."""

from __future__ import annotations

import errno
import os

from mojoview.memory.errors import ShmFullError

__all__ = ["free_bytes", "require_room", "shm_full"]


def free_bytes(directory: str | None) -> int:
    """Return the bytes available to a new segment: in memory, in control groups, and in the file system of its name."""
    limits = [2**62, *_memory(), *_control_groups()]
    if directory is not None:
        try:
            space = os.statvfs(directory)
        except OSError:  # creating the segment reports the missing directory
            return min(limits)
        limits.append(space.f_bavail * space.f_frsize)
    return max(0, min(limits))


def require_room(operation: str, nbytes: int, directory: str | None) -> None:
    """Raise `ShmFullError` if `nbytes` do not fit.

    A memfd has no size limit of its own: without this check Linux would kill a process to free memory.
    """
    free = free_bytes(directory)
    if nbytes > free:
        raise shm_full(operation, nbytes, free, directory)


def shm_full(operation: str, nbytes: int, free: int, directory: str | None) -> ShmFullError:
    """Return the exception, with a remedy in the message."""
    hint = ""
    if directory:
        hint = f"; cleanup() removes what dead processes left in {directory}, docker's --shm-size enlarges it"
    return ShmFullError(f"{operation}: needs {nbytes} bytes, {free} are free{hint}", nbytes, free)


def is_full(error: OSError) -> bool:
    """Return whether a system call failed for lack of memory."""
    return error.errno in (errno.ENOSPC, errno.ENOMEM, errno.EFBIG, errno.EDQUOT)


def _memory() -> list[int]:
    """Return the memory and swap that can be allocated without killing processes."""
    fields = {}
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                key, _, rest = line.partition(":")
                fields[key] = int(rest.split()[0]) * 1024
    except (OSError, ValueError, IndexError):
        return []
    return [fields["MemAvailable"] + fields.get("SwapFree", 0)] if "MemAvailable" in fields else []


def _control_groups() -> list[int]:
    """Return the free memory in each control group (v2) of this process, from its own to the root."""
    root = "/sys/fs/cgroup"
    try:
        with open("/proc/self/cgroup", encoding="utf-8") as file:
            path = next((line.strip().split(":", 2)[2] for line in file if line.startswith("0::")), None)
    except OSError:
        return []
    rooms = []
    while path is not None:
        place = root + path.rstrip("/")
        try:
            with open(place + "/memory.max", encoding="ascii") as file:
                limit = file.read().strip()
            if limit != "max":
                with open(place + "/memory.current", encoding="ascii") as file:
                    used = int(file.read())
                with open(place + "/memory.stat", encoding="ascii") as file:
                    cached = sum(int(line.split()[1]) for line in file if line.startswith("inactive_file "))
                rooms.append(int(limit) - used + cached)
        except (OSError, ValueError):  # no memory controller at this level: it sets no limit
            rooms += []
        path = os.path.dirname(path) if path not in ("/", "") else None
    return rooms
