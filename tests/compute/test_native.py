"""The C headers and loops without Python, under both compilers and their sanitizers."""

from __future__ import annotations

import pytest
from native import build

LOOPS = ("compute/elementwise.c", "compute/reduce.c")


@pytest.mark.parametrize(
    ("compiler", "flavour"),
    [
        pytest.param(compiler, flavour, marks=[pytest.mark.slow] if number else [])
        for number, (compiler, flavour) in enumerate(
            [(c, "loops") for c in build.COMPILERS] + [(build.COMPILERS[0], "plain")]
        )
    ],
)
def test_loops_and_engine(compiler, flavour, tmp_path):
    assert build.run_c("kernels_test.c", tmp_path, compiler, flavour, LOOPS) == "ok\n"


@pytest.mark.parametrize("compiler", build.COMPILERS)
def test_pool_under_the_thread_sanitizer(compiler, tmp_path):
    assert build.run_c("thread_pool_test.c", tmp_path, compiler, "threads") == "ok\n"


@pytest.mark.parametrize("compiler", build.COMPILERS)
def test_pool_with_forks(compiler, tmp_path):
    assert build.run_c("thread_pool_test.c", tmp_path, compiler, "sanitized", (), ("forks",)) == "ok\n"


@pytest.mark.parametrize(
    ("header", "text", "replacement"),
    [
        ("compute/walk.h", "missing[i] |= m[i] != 0;", "missing[i] |= 0;"),
        ("compute/walk.h", "nest->shape[kept] *= outer;", ""),
        ("compute/walk.h", "at[d - 1]++;", "at[d - 1] += 2;"),
        ("memory/numeric.h", "+ 0xfff + odd) >> 13", "+ 0x1000) >> 13"),
        ("calls/native/checks.h", "step - rest < (int64_t)b->itemsize", "0"),
        ("compute/reduce_loops.h", "MV_FIRST(x, n, i, x[i] == best);", "const int64_t i = 0;"),
    ],
)
def test_the_loops_test_can_fail(header, text, replacement, tmp_path):
    package = build.changed_copy(tmp_path / "package", {header: {text: replacement}})
    with pytest.raises(AssertionError, match=r"kernels_test\.c:\d+"):
        build.run_c(
            "kernels_test.c",
            tmp_path,
            build.COMPILERS[0],
            "mutant",
            LOOPS,
            package=package,
        )


@pytest.mark.parametrize(
    ("text", "replacement"),
    [
        ("while (job->inside > 0) {", "while (false) {"),
        ("if (chunk < job->failed) {", "if (false) {"),
    ],
)
def test_the_pool_test_can_fail(text, replacement, tmp_path):
    package = build.changed_copy(tmp_path / "package", {"calls/native/thread_pool.h": {text: replacement}})
    # A check fails, or the program dies: not the compiler, whose command would begin the message.
    with pytest.raises(AssertionError, match=r"thread_pool_test\.c:\d+: |^\S*thread_pool_test_\w+_sanitized"):
        build.run_c("thread_pool_test.c", tmp_path, build.COMPILERS[0], "sanitized", package=package)
