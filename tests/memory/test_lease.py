"""Leases count themselves and say whom they keep."""

from __future__ import annotations

import numpy as np
import pytest

import mojoview as mv
from mojoview.memory._lease import Lease, live_leases
from mojoview.memory.errors import ArgumentError


def test_the_count_follows_every_lease():
    before = live_leases()
    views = [mv.view(np.arange(3)) for _ in range(5)]
    assert live_leases() == before + 5
    parts = [view[1:] for view in views]
    assert live_leases() == before + 5
    views.clear()
    assert live_leases() == before + 5
    parts.pop().release()
    assert live_leases() == before + 4
    parts.clear()
    assert live_leases() == before


def test_refusals_leave_no_lease():
    before = live_leases()
    for bad in (None, 5, np.zeros((1,) * 9), np.array([None])):
        with pytest.raises(mv.memory.errors.MojoViewError):
            mv.view(bad)
    with pytest.raises(mv.memory.errors.MojoViewError):
        mv.view(b"abc", writable=True)
    assert live_leases() == before


def test_leases_are_made_by_the_package_only():
    with pytest.raises(ArgumentError, match=r"mojoview\.view"):
        Lease()
    empty = Lease.__new__(Lease)
    assert repr(empty).startswith("<mojoview lease: reference to NoneType")
    del empty
