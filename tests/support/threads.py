"""Threads that start together."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


def run_threaded(function: Callable[[int], Any], threads: int = 8) -> list[Any]:
    """Calls ``function(number)`` in every thread, from a barrier on; the results in order, or the first exception."""
    barrier = threading.Barrier(threads)
    results: list[Any] = [None] * threads
    errors: list[BaseException] = []

    def body(number: int) -> None:
        barrier.wait()
        try:
            results[number] = function(number)
        except BaseException as error:
            errors.append(error)

    workers = [threading.Thread(target=body, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if errors:
        raise errors[0]
    return results
