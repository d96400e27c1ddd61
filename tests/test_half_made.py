"""Objects that `__new__()` alone has created: each use ends in an answer or in a documented exception."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from isolated.half_made import extension_types, problems
from support.process import ISOLATED


@pytest.fixture(scope="module")
def answers():
    """{type: problems}"""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", str(ISOLATED / "half_made.py")],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return {name: json.loads(found) for name, found in (line.split(" ", 1) for line in done.stdout.splitlines())}


@pytest.mark.parametrize("name", extension_types())
def test_a_half_made_object_is_harmless(name, answers):
    assert answers[name] == []


def test_the_types_are_found():
    found = {name.rpartition(".")[2] for name in extension_types()}
    assert {"Kernel", "KernelFamily", "View", "Lease", "State", "Snapshot", "Segment", "Pin", "Batch"} <= found


def test_a_harmful_type_is_noticed():
    class Harmful:
        @property
        def name(self):
            return self._missing

        def __repr__(self):
            return self.name

        def count(self):
            return 1 / 0

    found = problems(Harmful)
    assert any(one.startswith("name: AttributeError") for one in found)
    assert any(one.startswith("repr: AttributeError") for one in found)
    assert any(one.startswith("count(): ZeroDivisionError") for one in found)
