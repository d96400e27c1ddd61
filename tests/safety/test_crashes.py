"""Every way in which a kernel can end its worker: the program and its arrays stay unharmed."""

from __future__ import annotations

import pickle
import signal

import numpy as np
import pytest
from safety.hostile import safe

import mojoview as mv
from mojoview import kernels

STRICT = {"isolate": True, "safety": "strict"}
HUGE = 1 << 42

FAULTS = [
    # kernel, further arguments, options, exception, message, attributes
    ("spin", (), {"timeout": 0.2}, mv.KernelTimeout, "did not finish within 0.2 s", {}),
    ("aborts", (), {"isolate": True}, mv.KernelCrashed, "SIGABRT.*\n.*kernel.mojo:7:5", {"signal": signal.SIGABRT}),
    ("calls_null", (), {"isolate": True}, mv.KernelCrashed, "SIGSEGV", {"signal": signal.SIGSEGV, "address": 0}),
    ("hoards", (HUGE,), {"memory_limit": 1 << 24}, mv.KernelMemoryError, f"refused {HUGE} bytes", {"refused": HUGE}),
    ("gobbles", (), {"memory_limit": 1 << 26}, mv.KernelMemoryError, "limit: 67108864", {"refused": 1 << 20}),
    ("asks", (1 << 30,), {"memory_limit": 1 << 24}, mv.KernelMemoryError, "out of memory", {}),
]
BUILTINS = {mv.KernelTimeout: TimeoutError, mv.KernelMemoryError: MemoryError, mv.KernelCrashed: RuntimeError}


@pytest.mark.unsanitized
@pytest.mark.parametrize(("name", "more", "options", "kind", "words", "facts"), FAULTS, ids=lambda v: str(v)[:20])
def test_a_fault_is_an_exception(name, more, options, kind, words, facts, y):
    with pytest.raises(kind, match=words) as caught:
        safe(name, y, *more, **options)
    error = caught.value
    assert isinstance(error, mv.MojoSafetyError)
    assert isinstance(error, BUILTINS[kind])
    assert error.kernel == name
    for attribute, value in facts.items():
        assert getattr(error, attribute) == value
    if kind is not mv.KernelMemoryError:
        assert any(line.startswith(name) for line in error.stack), error.stack
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
    assert y.tolist() == [0, 1, 2, 3]


@pytest.mark.unsanitized
def test_the_stack_ends_at_the_kernel(x):
    with pytest.raises(mv.KernelCrashed, match=r"SIGSEGV in inner.*, reading at 0x18") as caught:
        safe("null_read", x, isolate=True)
    inner, outer = caught.value.stack
    assert inner.startswith("inner")
    assert outer.startswith("null_read")
    assert "hostile.so" in inner


@pytest.mark.unsanitized
def test_a_stack_overflow_has_a_short_stack():
    with pytest.raises(mv.KernelCrashed, match="SIGSEGV in deeper") as caught:
        safe("overflows_stack", 1, isolate=True)
    assert len(caught.value.stack) < 5


def test_an_exit_status_is_reported():
    with pytest.raises(mv.KernelCrashed, match="exited with status 3") as caught:
        safe("exits", 3, isolate=True)
    assert caught.value.signal == 0


@pytest.mark.unsanitized
@pytest.mark.parametrize(
    ("name", "more", "argument", "words"),
    [
        ("writes_at", (4,), "y", "writing beyond the memory of argument 'y'"),
        ("writes_at", (-520,), "x", "writing beyond the memory of argument 'x'"),
        ("writes_input", (), "x", "writing in argument 'x', which is an input"),
    ],
)
def test_guard_pages_name_the_argument(name, more, argument, words, x, y):
    with pytest.raises(mv.KernelCrashed, match=words) as caught:
        safe(name, x, y, *more, **STRICT)
    assert caught.value.argument == argument
    assert (x.tolist(), y.tolist()) == ([1, 2, 3, 4], [0, 1, 2, 3])


@pytest.mark.unsanitized
def test_a_read_beyond_an_array_is_caught(x):
    assert safe("reads_at", x, 3, **STRICT) == 4
    with pytest.raises(mv.KernelCrashed, match="reading beyond the memory of argument 'x'"):
        safe("reads_at", x, 4, **STRICT)


def test_a_write_before_an_array_is_caught(x, y):
    with pytest.raises(mv.MojoSafetyError, match="wrote before the memory of argument 'y'"):
        safe("writes_at", x, y, -1, **STRICT)
    assert y.tolist() == [0, 1, 2, 3]


@pytest.mark.unsanitized
def test_a_memory_limit_holds_for_one_call(y):
    safe("hoards", y, 1 << 20, memory_limit=1 << 24)
    assert y[0] == 1
    safe("hoards", y, 1 << 26, isolate=True)
    assert mv.safe_call(kernels.sum, np.ones(1_000_000), memory_limit=0) == 1_000_000
