"""Polling with a deadline, for conditions that no event announces."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], timeout: float = 60.0) -> None:
    """Return as soon as the condition is true; fail if it is not within `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"the condition did not become true within {timeout} s"
        time.sleep(0.001)
