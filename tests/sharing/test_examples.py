"""The examples of docs/ run."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


@pytest.mark.skipif(not EXAMPLES.exists(), reason="the documentation is not here")
def test_attitude():
    """Everybody read something, and nothing that anybody read was inconsistent."""
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / "attitude.py", "0.3"], capture_output=True, text=True, timeout=200
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert done.stdout.count(" 0 inconsistent") == 3
