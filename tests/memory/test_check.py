"""Timeouts of every kind that callers give: one float, or one ArgumentError, wherever they go."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import mojoview as mv
from mojoview import kernels
from mojoview.loading.mojo.aot import compile_library
from mojoview.memory import errors
from mojoview.memory.check import LONGEST, deadline_after, seconds_of

X = np.arange(4.0)
TAKERS = {
    "load": lambda timeout: mv.load(source="no kernel", timeout=timeout),
    "enable_hook": lambda timeout: mv.enable_hook(timeout=timeout),
    "python_callable": lambda timeout: mv.python_callable(len, timeout=timeout),
    "compile": lambda timeout: compile_library("missing.mojo", "missing.so", timeout=timeout),
    "safe_call": lambda timeout: mv.safe_call(kernels.sum, X, timeout=timeout),
}


@pytest.mark.parametrize(
    ("timeout", "seconds"),
    [
        (0, 0.0),
        (2, 2.0),
        (0.25, 0.25),
        (Fraction(1, 4), 0.25),
        (np.float32(0.25), 0.25),
        (np.float16(0.5), 0.5),
        (np.int8(3), 3.0),
        (1e300, LONGEST),
        (10**400, LONGEST),
        (Fraction(10**400), LONGEST),
        (float("inf"), LONGEST),
        (np.longdouble(10), 10.0),
    ],
    ids=lambda v: repr(v)[:12],
)
def test_what_is_taken(timeout, seconds):
    found = seconds_of(timeout, "wait()")
    assert (type(found), found) == (float, seconds)
    if seconds:
        assert seconds_of(timeout, "wait()", positive=True) == seconds


UNUSABLE = [
    -1,
    -1e-9,
    Fraction(-1, 2),
    -(10**400),
    float("nan"),
    np.float32("nan"),
    float("-inf"),
    True,
    np.True_,
    "1",
    b"1",
    1j,
    Decimal("0.5"),
    np.ones(1),
    np.array(1.0),
    [1],
    object,
]


@pytest.mark.parametrize("timeout", UNUSABLE, ids=lambda v: repr(v)[:12])
@pytest.mark.parametrize("taker", TAKERS.values(), ids=TAKERS)
def test_what_is_refused(taker, timeout):
    with pytest.raises(errors.ArgumentError, match="timeout: expected a"):
        taker(timeout)


def test_where_nothing_would_be_waited_for():
    with pytest.raises(errors.ArgumentError, match=r"safe_call\(sum\): timeout: expected a positive number.*got 0"):
        mv.safe_call(kernels.sum, X, timeout=0)


def test_a_fraction_of_a_second_where_it_is_told():
    """A message may format it: only floats have every format on every Python."""
    with mv.enable_hook(timeout=Fraction(1, 2)) as hook:
        assert hook._timeout == 0.5
    member = mv.python_callable(len, timeout=np.float32(0.5))
    assert f"{member.timeout:g}" == "0.5"


@pytest.mark.parametrize("seconds", [0, 0.25, 2.5, 3600])
def test_deadlines_are_in_nanoseconds(seconds):
    assert deadline_after("wait()", seconds, 100) == 100 + int(seconds * 10**9)
    assert deadline_after("wait()", None, 100) is None


WAITS = {
    "State.wait_newer": lambda state, snapshot, ring: state.wait_newer(0.05),
    "Snapshot.wait_newer": lambda state, snapshot, ring: snapshot.wait_newer(0.05),
    "Ring.read": lambda state, snapshot, ring: ring.read(1, 0.05),
    "Ring.read_into": lambda state, snapshot, ring: ring.read_into(bytearray(64), 0.05),
}


@pytest.mark.timeout(25)  # a timeout in the wrong unit would last a thousand times as long
@pytest.mark.parametrize("wait", WAITS)
def test_waits_for_nothing_end_at_their_timeout(wait):
    with (
        mv.State.create(None, "f8") as state,
        mv.Snapshot.create(None, 3, "f8") as snapshot,
        mv.Ring.create(None, 4096) as ring,
        suppress(errors.WaitTimeout),
    ):
        assert not WAITS[wait](state, snapshot, ring)
