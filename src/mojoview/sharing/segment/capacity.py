"""How much shared memory the system can still give: what is not there must be an error, not a bus error."""

from __future__ import annotations

import errno
import os

from mojoview.memory.errors import ShmFullError

__all__ = ["free_bytes", "require_room", "shm_full"]


def free_bytes(directory: str | None) -> int:
    """Bytes that a new segment can take: of memory, of control groups, and of the file system where it has a name."""
    limits = [2**62, *_memory(), *_control_groups()]
    if directory is not None:
        try:
            space = os.statvfs(directory)
        except OSError:  # the directory's absence is reported by the creation itself, with its name
            return min(limits)
        limits.append(space.f_bavail * space.f_frsize)
    return max(0, min(limits))


def require_room(operation: str, nbytes: int, directory: str | None) -> None:
    """Raises `ShmFullError` where `nbytes` cannot fit.

    A memfd has no size limit of its own: without this the system would look for memory until it kills a process.
    """
    free = free_bytes(directory)
    if nbytes > free:
        raise shm_full(operation, nbytes, free, directory)


def shm_full(operation: str, nbytes: int, free: int, directory: str | None) -> ShmFullError:
    hint = ""
    if directory:
        hint = f"; cleanup() removes what dead processes left in {directory}, docker's --shm-size enlarges it"
    return ShmFullError(f"{operation}: needs {nbytes} bytes, {free} are free{hint}", nbytes, free)


def is_full(error: OSError) -> bool:
    """Whether the system refused for want of room."""
    return error.errno in (errno.ENOSPC, errno.ENOMEM, errno.EFBIG, errno.EDQUOT)


def _memory() -> list[int]:
    """Physical memory and swap that programs can have without killing others."""
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
    """Room in each control group (v2) that this process is in, from its own to the root."""
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
