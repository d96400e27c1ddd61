"""The examples of docs/ run."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


pytestmark = pytest.mark.skipif(not EXAMPLES.exists(), reason="the documentation is not here")


def run(*arguments) -> str:
    done = subprocess.run([sys.executable, "-W", "error", *arguments], capture_output=True, text=True, timeout=200)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout


def test_attitude():
    """Everybody read something, and nothing that anybody read was inconsistent."""
    assert run(EXAMPLES / "attitude.py", "0.3").count(" 0 inconsistent") == 3


@pytest.mark.parametrize(
    "kind",
    ["threads", "fork", "spawn"]
    + [pytest.param(kind, marks=pytest.mark.slow) for kind in ("forkserver", "executor", "joblib")],
)
def test_workers_of_every_kind(kind):
    """A frame, an array and a state read by each kind of worker."""
    if kind == "joblib":
        pytest.importorskip("joblib")
    assert run(EXAMPLES / "workers.py", kind).startswith(f"{kind}: ")
