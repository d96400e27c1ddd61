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


@pytest.mark.parametrize(
    ("function", "replacement"),
    [
        (
            "__builtin_mul_overflow(shape[k] - 1, strides[k], &reach)",
            "__builtin_mul_overflow(shape[k], strides[k], &reach)",
        ),
        ("old_strides[k] != old_strides[k + 1] * old_shape[k + 1]", "0"),
        ("if (step < reach)", "if (step + 1 < reach)"),
        ("if (strides[k] != step)", "if (strides[k] > step)"),
    ],
)
def test_the_c_test_can_fail(function, replacement, tmp_path):
    package = build.changed_copy(tmp_path / "package", {"views/geometry.h": {function: replacement}})
    with pytest.raises(AssertionError, match=r"geometry_test\.c:\d+: "):
        build.run_c("geometry_test.c", tmp_path, build.COMPILERS[0], package=package)
