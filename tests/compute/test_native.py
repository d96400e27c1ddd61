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


LOOPS_FAULTS = [
    build.Fault("compute/walk.h", "missing[i] |= m[i] != 0;", "missing[i] |= 0;"),
    build.Fault("compute/walk.h", "nest->shape[kept] *= outer;", ""),
    build.Fault("compute/walk.h", "at[d - 1]++;", "at[d - 1] += 2;"),
    build.Fault("memory/numeric.h", "0xfff + odd", "0x1000"),
    build.Fault("calls/native/checks.h", "mv_regions_share(&x, &y)", "0"),
    build.Fault("compute/reduce_loops.h", "x[i] == best", "1", context="MV_FIRST(x, n, i, x[i] == best);"),
]
POOL_FAULTS = [
    build.Fault("calls/native/thread_pool.h", "job->inside > 0", "false", context="while (job->inside > 0) {"),
    build.Fault("calls/native/thread_pool.h", "chunk < job->failed", "false", context="if (chunk < job->failed) {"),
]


@pytest.fixture(scope="module")
def faulty_loops(tmp_path_factory):
    folder = tmp_path_factory.mktemp("loops")
    package = build.faulty_copy(folder / "package", LOOPS_FAULTS)
    return build.compile_c("kernels_test.c", folder, build.COMPILERS[0], "mutant", LOOPS, package)


@pytest.mark.parametrize("fault", range(len(LOOPS_FAULTS) + 1))
def test_the_loops_test_finds_faults(faulty_loops, fault):
    if fault == 0:
        assert build.run([faulty_loops]) == "ok\n"
        return
    with pytest.raises(AssertionError, match=r"kernels_test\.c:\d+"):
        build.run([faulty_loops], fault)


@pytest.fixture(scope="module")
def faulty_pool(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pool")
    package = build.faulty_copy(folder / "package", POOL_FAULTS)
    return build.compile_c("thread_pool_test.c", folder, build.COMPILERS[0], "sanitized", package=package)


@pytest.mark.parametrize("fault", range(len(POOL_FAULTS) + 1))
def test_the_pool_test_finds_faults(faulty_pool, fault):
    if fault == 0:
        assert build.run([faulty_pool]) == "ok\n"
        return
    # A check fails, or the program dies.
    with pytest.raises(AssertionError, match=r"thread_pool_test\.c:\d+: |^\S*thread_pool_test_\w+_sanitized"):
        build.run([faulty_pool], fault)
