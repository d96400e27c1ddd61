"""The ring's protocols on the AArch64 memory model, with mutants that must fail: exhaustively, and by herd7 if it is
installed.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from native import weak_memory

FOLDER = Path(__file__).parent.parent / "native" / "ring_litmus"
EXPECTED = dict(line.split() for line in (FOLDER / "expected.txt").read_text().splitlines())


def test_every_shape_has_an_outcome_and_a_mutant():
    assert {path.stem for path in FOLDER.glob("*.litmus")} == set(EXPECTED)
    for name, outcome in EXPECTED.items():
        if outcome == "Never":
            assert any(other.startswith(name + "_") and EXPECTED[other] == "Sometimes" for other in EXPECTED), (
                f"{name} has no mutant"
            )


@pytest.mark.parametrize("name", EXPECTED)
def test_every_outcome(name):
    assert weak_memory.verdict(FOLDER / f"{name}.litmus") == EXPECTED[name]


@pytest.mark.skipif(
    shutil.which("herd7") is None, reason="herd7 is not installed: the memory orders were not checked here"
)
@pytest.mark.parametrize("name", EXPECTED)
def test_herd7(name):
    done = subprocess.run(
        ["herd7", "-model", "aarch64.cat", str(FOLDER / f"{name}.litmus")], capture_output=True, text=True, timeout=120
    )
    found = re.search(r"^Observation \S+ (\w+)", done.stdout, re.MULTILINE)
    assert found, done.stdout + done.stderr
    assert found[1] == EXPECTED[name]
