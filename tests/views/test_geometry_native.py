"""geometry.h without Python: compared with brute force, under both compilers and their sanitizers."""

from __future__ import annotations

import pytest
from native import build


@pytest.mark.parametrize(
    ("compiler", "flavour"),
    [
        pytest.param(compiler, flavour, marks=[] if flavour == "sanitized" and not number else [pytest.mark.slow])
        for number, compiler in enumerate(build.COMPILERS)
        for flavour in ("plain", "sanitized")
    ],
)
def test_layout_against_brute_force(compiler, flavour, tmp_path):
    assert build.run_c("geometry_test.c", tmp_path, compiler, flavour) == "ok\n"


def test_there_is_a_compiler():
    assert build.COMPILERS, "neither gcc nor clang is installed: the C tests would not run"


FAULTS = [
    build.Fault(
        "views/geometry.h",
        "__builtin_mul_overflow(shape[k] - 1, strides[k], &reach)",
        "__builtin_mul_overflow(shape[k], strides[k], &reach)",
    ),
    build.Fault("views/geometry.h", "old_strides[k] != old_strides[k + 1] * old_shape[k + 1]", "0"),
    build.Fault("views/geometry.h", "step < reach", "step + 1 < reach", context="if (step < reach)"),
    build.Fault("views/geometry.h", "strides[k] != step", "strides[k] > step", context="if (strides[k] != step)"),
]


@pytest.fixture(scope="module")
def faulty(tmp_path_factory):
    folder = tmp_path_factory.mktemp("geometry")
    package = build.faulty_copy(folder / "package", FAULTS)
    return build.compile_c("geometry_test.c", folder, build.COMPILERS[0], "plain", package=package)


@pytest.mark.parametrize("fault", range(len(FAULTS) + 1))
def test_the_c_test_finds_faults(faulty, fault):
    if fault == 0:
        assert build.run([faulty]) == "ok\n"
        return
    with pytest.raises(AssertionError, match=r"geometry_test\.c:\d+: "):
        build.run([faulty], fault)
