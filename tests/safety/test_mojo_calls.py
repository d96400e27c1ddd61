"""Safe calls of faulty Mojo kernels: an abort, an index, a pointer, a loop, an allocation."""

from __future__ import annotations

import signal

import numpy as np
import pytest

import mojoview as mv
from mojoview.loading.mojo.compiler import find_compiler

pytestmark = [
    pytest.mark.mojo,
    pytest.mark.skipif(find_compiler(required=False) is None, reason="no Mojo compiler: pip install 'mojoview[mojo]'"),
]


@pytest.fixture(scope="module")
def hostile(compiled):
    return compiled("hostile")


@pytest.mark.unsanitized
@pytest.mark.parametrize(
    ("name", "more", "options", "kind", "words"),
    [
        ("spins", (), {"timeout": 0.2}, mv.KernelTimeout, "it was in spins"),
        ("gives_up", (), {"isolate": True}, mv.KernelCrashed, "nothing to be done"),
        ("out_of_range", (3,), {"isolate": True}, mv.KernelCrashed, r"hostile\.mojo:25:27"),
        (
            "past_the_end",
            (4,),
            {"isolate": True, "safety": "strict"},
            mv.KernelCrashed,
            "writing beyond .* argument 'p'",
        ),
        ("hoards", (1 << 38,), {"memory_limit": 1 << 24}, mv.KernelMemoryError, "refused"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_fault_is_an_exception(hostile, name, more, options, kind, words, y):
    assert not hostile.refused
    with pytest.raises(kind, match=words) as caught:
        mv.safe_call(hostile[name], y, *more, **options)
    if kind is mv.KernelCrashed:
        assert caught.value.signal in (signal.SIGILL, signal.SIGSEGV, signal.SIGTRAP)
        assert any(name in line for line in caught.value.stack)
    assert y.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("options", [{}, {"isolate": True}, {"isolate": True, "safety": "strict"}])
def test_valid_calls_return_results(hostile, options):
    y = np.zeros(4)
    mv.safe_call(hostile.out_of_range, y, 2, **options)
    mv.safe_call(hostile.past_the_end, y, 3, **options)
    assert y.tolist() == [-1, 3, 0, 7]
    mv.safe_call(hostile.hoards, y, 1000, **options)
    assert y[1] == 1
