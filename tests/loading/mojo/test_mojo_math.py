"""Vector math for Mojo kernels: errors in units in the last place, special values, compiled form."""

import ctypes
import ctypes.util
import platform
import re
from pathlib import Path

import numpy as np
import pytest
from support import ulp

from mojoview.loading.elf import read_elf
from mojoview.loading.mojo.include_path import get_mojo_include
from mojoview.loading.mojo.loader import load

HERE = Path(__file__).parents[2]
PAGE = (HERE.parent / "docs/mojo-library.md").read_text()
ROWS = re.findall(r"^\| `(\w+)` \| ([\d.]+) \| ([\d.]+) \|", PAGE, re.M)
BOUNDS = {
    (name, dtype): float(bound)
    for name, wide, narrow in ROWS
    for dtype, bound in (("float64", wide), ("float32", narrow))
}
FUNCTIONS = [name for name, *_ in ROWS]
DTYPES = ["float64", "float32"]
COUNT = 20_000
inf, nan = np.inf, np.nan
C_POW = ctypes.CDLL(ctypes.util.find_library("m")).pow
C_POW.restype, C_POW.argtypes = ctypes.c_double, [ctypes.c_double] * 2


def evaluate(module, name, *arguments):
    y = np.empty_like(arguments[0])
    getattr(module, f"{name}_{y.dtype}")(*arguments, y)
    return y


def reference(name, *arguments):
    with np.errstate(all="ignore"):
        return ulp.REFERENCE[name](*(x.astype(ulp.LD) for x in arguments))


def arguments(name, dtype, count, rng):
    if name == "pow":
        return ulp.pairs(dtype, count // 2, rng)
    return (ulp.arguments(name, dtype, count, rng),)


# ---- the table
def test_the_table_has_every_function_and_promises_two_units():
    package = (get_mojo_include() / "mojoview/math/__init__.mojo").read_text()
    exported = re.findall(r"^from \.\w+ import (.+)", package, re.M)
    assert sorted(FUNCTIONS) == sorted(name for line in exported for name in line.split(", "))
    assert set(FUNCTIONS) == set(ulp.REFERENCE)
    assert all(0.5 <= bound <= 2 for bound in BOUNDS.values())


def test_the_reference_has_a_wider_mantissa():
    assert np.finfo(ulp.LD).nmant >= 63


@pytest.mark.parametrize("dtype", DTYPES)
def test_errors_are_counted_in_units_of_the_last_place(dtype):
    one, info = np.ones(1, dtype), np.finfo(dtype)
    up, down = np.nextafter(one, 2 * one), np.nextafter(one, 0 * one)
    exact = one.astype(ulp.LD)
    assert ulp.errors(one, exact) == 0
    assert ulp.errors(up, exact) == 1
    assert ulp.errors(down, exact) == 0.5  # the unit of 1 is that of the numbers above it
    assert ulp.errors(down, np.nextafter(exact, 0 * exact)) == pytest.approx(1, abs=1e-2)
    least = np.array([info.smallest_subnormal], dtype)
    assert ulp.errors(least, least.astype(ulp.LD) * 0) == 1
    assert ulp.errors(one * inf, np.array([info.max], dtype).astype(ulp.LD)) == 1
    assert ulp.errors(one * inf, exact) > 1e6
    assert ulp.errors(one * nan, exact) == inf == ulp.errors(one, exact * nan)
    assert ulp.errors(one * nan, exact * nan) == 0


@pytest.mark.mojo
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors_stay_within_the_table(compiled, rng, name, dtype):
    x = arguments(name, dtype, COUNT, rng)
    y = evaluate(compiled("vector_math"), name, *x)
    distance = ulp.errors(y, reference(name, *x))
    worst = distance.argmax()
    assert distance[worst] <= BOUNDS[name, dtype], [a[worst] for a in x]
    assert distance[worst] > 0.4  # the samples are not all trivial


@pytest.mark.mojo
@pytest.mark.slow  # compiles all functions a second time
@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors_without_fused_multiply_add_and_optimiser(baseline, rng, name):
    x = arguments(name, "float64", COUNT // 8, rng)
    distance = ulp.errors(evaluate(baseline, name, *x), reference(name, *x))
    assert distance.max() <= BOUNDS[name, "float64"]


# ---- special values
@pytest.mark.mojo
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "pow"])
def test_special_values_are_those_of_numpy(compiled, name, dtype):
    x = np.array([0.0, -0.0, inf, -inf, nan, 1, -1, -2], dtype)
    tiny = np.finfo(dtype).smallest_subnormal * np.array([1, -1, 3], dtype)
    with np.errstate(all="ignore"):
        expected = ulp.REFERENCE[name](x)
        y = evaluate(compiled("vector_math"), name, x)
        special = np.isnan(expected) | np.isinf(expected) | (expected == 0)
        np.testing.assert_array_equal(y[special], expected[special])
        np.testing.assert_array_equal(np.signbit(y[expected == 0]), np.signbit(expected[expected == 0]))
        if name in ("expm1", "log1p", "sin", "tan", "sinh", "tanh"):
            np.testing.assert_array_equal(evaluate(compiled("vector_math"), name, tiny), tiny)


@pytest.mark.mojo
@pytest.mark.parametrize("dtype", DTYPES)
def test_special_values_of_pow_are_those_of_c(compiled, dtype):
    info = np.finfo(dtype)
    limits = [info.max, info.tiny, info.smallest_subnormal]
    edge = np.array([0, 1, 2, 3, 0.5, 1.5, inf, *limits, 2.0**24 - 1, 2.0**30, 1e30])
    edge = np.concatenate([edge, -edge, [nan]]).astype(dtype)
    x, y = (part.ravel() for part in np.meshgrid(edge, edge))
    with np.errstate(all="ignore"):
        expected = np.array([C_POW(a, b) for a, b in zip(x, y, strict=True)]).astype(dtype)
    got = evaluate(compiled("vector_math"), "pow", x, y)
    special = ~np.isfinite(expected) | (expected == 0) | (np.abs(expected) == 1)
    assert special.sum() > x.size // 2
    np.testing.assert_array_equal(got[special], expected[special])
    np.testing.assert_array_equal(np.signbit(got[expected == 0]), np.signbit(expected[expected == 0]))


@pytest.mark.mojo
def test_exact_results_are_exact(compiled):
    module, k = compiled("vector_math"), np.arange(-1074.0, 1024)
    powers, tens = np.ldexp(1.0, k.astype(int)), np.array([float(f"1e{n}") for n in range(23)])
    np.testing.assert_array_equal(evaluate(module, "exp2", k), powers)
    np.testing.assert_array_equal(evaluate(module, "log2", powers), k)
    np.testing.assert_array_equal(evaluate(module, "log10", tens), np.arange(23.0))
    whole = np.arange(-200.0, 200)
    for exponent in (0, 1, 2, 3, 5):
        np.testing.assert_array_equal(evaluate(module, "pow", whole, np.full(400, exponent * 1.0)), whole**exponent)
    np.testing.assert_array_equal(evaluate(module, "sqrt", whole[200:] ** 2), whole[200:])


@pytest.mark.mojo
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_angles_closest_to_a_multiple_of_a_right_angle(compiled, name):
    """Where nothing but the reduction of the argument can go wrong: the worst of all float64 among them."""
    x = ulp.neighbours(np.concatenate([ulp.WORST, np.ldexp(1.0, np.arange(1023)), -np.ldexp(1.0, np.arange(1023))]))
    distance = ulp.errors(evaluate(compiled("vector_math"), name, x), reference(name, x))
    assert distance.max() <= BOUNDS[name, "float64"]


@pytest.mark.mojo
def test_a_known_digit_of_the_worst_angle(compiled):
    """6381956970095103 * 2**797 is within 4.7e-19 of an odd multiple of pi/2 (Muller, Elementary Functions)."""
    x = np.array([6381956970095103 * 2.0**797])
    assert evaluate(compiled("vector_math"), "cos", x)[0] == -4.6871659242546277e-19
    assert evaluate(compiled("vector_math"), "sin", x)[0] == 1.0


# ---- form
@pytest.mark.mojo
@pytest.mark.parametrize(("which", "name"), list(enumerate(["exp", "log", "sin", "tanh"])))
def test_one_lane_computes_what_many_do(compiled, rng, which, name):
    x = np.concatenate([rng.normal(0, 30, 500), 10 ** rng.uniform(-300, 300, 500)])
    y = np.empty_like(x)
    compiled("vector_math").one_by_one(x, which, y)
    np.testing.assert_array_equal(y, evaluate(compiled("vector_math"), name, x))


@pytest.mark.mojo
@pytest.mark.parametrize("length", [0, 1, 2, 3, 5, 7, 8, 9, 31, 33])
def test_every_length_and_stride(compiled, rng, length):
    x, room = rng.normal(size=200), np.full(200, 9.0)
    for take in (slice(0, length), slice(0, 3 * length, 3), slice(length, 0, -1) if length else slice(0, 0)):
        y = room.copy()
        compiled("vector_math").exp_float64(x[take], y[take])
        whole = np.empty_like(x)
        compiled("vector_math").exp_float64(x, whole)
        expected = room.copy()
        expected[take] = whole[take]
        np.testing.assert_array_equal(y, expected)  # and nothing beside


@pytest.mark.mojo
def test_lengths_that_differ_are_refused(compiled):
    from mojoview.memory.errors import ShapeError

    with pytest.raises(ShapeError):
        compiled("vector_math").exp_float64(np.zeros(3), np.zeros(4))
    with pytest.raises(ShapeError):
        compiled("vector_math").pow_float64(np.zeros(3), np.zeros(4), np.zeros(3))


@pytest.fixture(scope="session")
def baseline(mojo_cache):
    """The same kernels for the oldest CPU of this kind (no fused multiply-add on x86-64), and not optimised."""
    cpu = {"x86_64": "x86-64", "aarch64": "generic"}[platform.machine()]
    return load(HERE / "mojo" / "vector_math.mojo", flags=["--target-cpu", cpu, "-O0"])


@pytest.mark.mojo
def test_no_library_is_needed(compiled):
    elf = read_elf(compiled("vector_math").library)
    assert (elf.needed, elf.imports) == ([], set())


@pytest.mark.mojo
@pytest.mark.slow
def test_no_library_is_needed_without_the_optimiser(baseline):
    elf = read_elf(baseline.library)
    assert (elf.needed, elf.imports) == ([], set())
