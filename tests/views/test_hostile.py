"""A short run of the fuzz runner: every hostile exporter is viewed or refused, and nothing is left over."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_hostile_exporters_are_viewed_or_refused(tmp_path):
    last = tmp_path / "seed"
    done = subprocess.run(
        [sys.executable, ROOT / "tests" / "fuzz_exchange.py", "--inputs", "5000", "--last", last],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    assert done.returncode == 0, f"seed {last.read_text()}: {done.stderr}"
    assert "viewed" in done.stdout
