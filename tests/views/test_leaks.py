"""Leaks: the script runs every public function many times in a process of its own."""

from __future__ import annotations

import os
import shutil
import sys

import numpy as np
import pytest
from support.process import run_isolated

import mojoview as mv


def test_nothing_grows_over_many_calls():
    assert "ok" in run_isolated("leaks_views.py", "2000")


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.skipif(not os.environ.get("MOJOVIEW_LONG"), reason="takes minutes: set MOJOVIEW_LONG=1")
def test_nothing_grows_over_a_hundred_thousand_calls():
    assert "ok" in run_isolated("leaks_views.py", "100000", timeout=1100)


def test_slicing_keeps_the_reference_count_of_none():
    view = mv.view(np.arange(100.0).reshape(10, 10))
    array = view.owner
    before, base = sys.getrefcount(None), sys.getrefcount(array)
    for _ in range(2000):
        view[1:, None, ::2]
        view.T[None]
        mv.view(array)[:, 3]
        view.mask  # noqa: B018
    assert abs(sys.getrefcount(None) - before) < 500
    assert sys.getrefcount(array) == base


def test_the_leak_script_itself_can_fail(tmp_path):
    from support.process import ISOLATED, run_code

    source = (ISOLATED / "leaks_views.py").read_text()
    planted = source.replace("flat.check(GOOD,", "LEAK = []\nflat.check([lambda: LEAK.append(mv.view(ARRAY)), *GOOD],")
    assert planted != source
    script = tmp_path / "planted.py"
    script.write_text(planted)
    shutil.copy(ISOLATED / "flat.py", tmp_path)
    with pytest.raises(AssertionError, match="AssertionError"):
        run_code(str(script), "100")
