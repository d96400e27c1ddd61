"""Scripts that run in a process of their own: because they may crash it, measure it, or end it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

ISOLATED = Path(__file__).parents[1] / "isolated"


def heed_interrupts() -> None:
    """Let this process and all that it starts react to SIGINT, which a shell ignores for what it runs with `&`.

    Python installs its handler only where SIGINT is not ignored; a handler, unlike SIG_IGN, is not inherited.
    """
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def run_isolated(script: str, *args: str, timeout: float = 280) -> str:
    """Runs ``tests/isolated/<script>``; its output, or an AssertionError that shows it."""
    return run_code(str(ISOLATED / script), *args, timeout=timeout)


def run_code(*command: str, timeout: float = 280) -> str:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ISOLATED.parent), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        [sys.executable, "-W", "error", *command],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, f"status {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert not done.stderr, done.stderr
    return done.stdout
