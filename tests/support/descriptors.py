"""Open files of this process, for tests that must leave none behind."""

from __future__ import annotations

import os


def open_files(*words: str) -> list[str]:
    """What descriptors point at, where one of the words is in it; sorted."""
    found = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{fd}")
        except FileNotFoundError:  # the one that lists them
            continue
        if any(word in target for word in words):
            found.append(target)
    return sorted(found)
