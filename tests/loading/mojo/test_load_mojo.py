"""Real Mojo kernels: locations of compile errors, checked calls on arrays and pandas objects, processes."""

import platform
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.mojo import SOURCES, TOGETHER

import mojoview as mv
from mojoview.loading.elf import read_elf
from mojoview.memory import errors

pytestmark = pytest.mark.mojo

REPOSITORY = Path(__file__).parents[3]
EXAMPLES = REPOSITORY / "docs" / "examples"
HEADER = "from mojoview import In, InOut, Out, OK, Status\n\n\n"


@pytest.fixture
def compile_error(mojo_cache, tmp_path):
    def get(text, **keywords):
        file = tmp_path / "broken.mojo"
        file.write_text(text, newline="")
        with pytest.raises(errors.KernelCompileError) as caught:
            mv.load(file, **keywords)
        return caught.value

    return get


# ---- compile errors
@pytest.mark.parametrize(
    ("body", "line", "column", "words"),
    [
        ("def f(:\n    pass\n", 4, 7, "expected"),
        ("def f() -> Int:\n    return undefined_name\n", 5, 12, "undefined_name"),
        ("def f(x: Int) -> Int:\n    var y = 1; return (x\n", 5, 25, "expected ')'"),
        ("def f(x: Float64) -> Int:\n\t\treturn x\n", 5, 10, "Int"),
        ('def f():\n    var s = "äöü日本" + unknown\n', 5, 23, "unknown"),
        ("def f():\r\n    return missing\r\n", 5, 12, "missing"),
        (
            '@export("f")\ndef f(x: In[DType.float64]) abi("C") -> Status:\n    x[0] = 1\n    return OK\n',
            6,
            6,
            "mutable",
        ),
        ('@export("f")\ndef f[T: DType](x: Int) abi("C"):\n    pass\n', 4, 8, "parametric"),
        ("import no_such_module\n", 4, 8, "no_such_module"),
        ("let x = 1\n", 4, 1, ""),
    ],
)
def test_compile_error_at_its_line_and_column(compile_error, body, line, column, words):
    error = compile_error(HEADER + body)
    first = next(d for d in error.diagnostics if d.severity == "error")
    assert (Path(first.file).name, first.line, first.column) == ("broken.mojo", line, column)
    assert words in first.message
    assert f"broken.mojo:{line}:{column}: error: {first.message}\n{first.text.rstrip()}\n" in str(error)
    assert (HEADER + body).splitlines()[line - 1].startswith(first.text.rstrip())
    assert first.text


def test_all_errors_of_a_file_are_reported(compile_error):
    error = compile_error("def f() -> Int:\n    return one\n\n\ndef g() -> Int:\n    return two\n")
    assert [(d.line, d.column) for d in error.diagnostics if d.severity == "error"] == [(2, 12), (6, 12)]


@pytest.mark.slow  # a compilation for one assertion
def test_a_library_of_another_layout_does_not_compile(compile_error, tmp_path, monkeypatch):
    shutil.copytree(mv.get_mojo_include(), tmp_path / "include")
    desc = tmp_path / "include" / "mojoview" / "desc.mojo"
    text, one, other = desc.read_text(), "    var flags: UInt64\n", "    var generation: UInt64\n"
    assert one + other in text
    desc.write_text(text.replace(one + other, other + one))
    monkeypatch.setattr("mojoview.loading.mojo.compilation.get_mojo_include", lambda: tmp_path / "include")
    error = compile_error(f'{HEADER}@export("f")\ndef f(x: In[DType.int8]) abi("C") -> Int:\n    return len(x)\n')
    assert "Desc: flags" in str(error)


@pytest.mark.slow  # a compilation of its own
def test_a_file_without_exports_is_an_empty_module(mojo_cache, tmp_path):
    file = tmp_path / "none.mojo"
    file.write_text('"""Nothing."""\n\n\ndef f() -> Int:\n    return 1\n')
    module = mv.load(file)
    assert (len(module), dict(module.refused), module.__doc__) == (0, {}, "Nothing.")
    assert mv.load(file).library == module.library


# ---- checked calls
@pytest.mark.parametrize("take", [slice(None), slice(None, None, -1), slice(1, None, 3), slice(0, 0)])
def test_saxpy_on_any_stride(examples, rng, take):
    x, y = rng.normal(size=1000)[take], rng.normal(size=1000)[take]
    right = y + 2.5 * x
    assert examples.saxpy(2.5, x, y) is None
    np.testing.assert_array_equal(y, right)  # to the last bit: products and sums are not fused


def test_saxpy_on_the_memory_of_a_frame(examples):
    frame = pd.DataFrame({"a": [1.0, 2, 3], "b": [4, 5, 6]})
    out = np.zeros(3)
    examples.saxpy(2, frame["a"], out)
    np.testing.assert_array_equal(out, [2, 4, 6])


@pytest.mark.parametrize(
    ("x", "y", "error", "words"),
    [
        (np.zeros(3), np.zeros(4), errors.ShapeError, "sizes of the arguments do not agree"),
        (np.zeros(3, "f4"), np.zeros(3), errors.DTypeError, "expected dtype float64, got float32"),
        (np.zeros(3, ">f8"), np.zeros(3), errors.DTypeError, "byte order"),
        (np.zeros((3, 3)), np.zeros(3), errors.ShapeError, "'x'"),
        ({1.0}, np.zeros(1), errors.ArgumentError, "set"),
    ],
)
def test_invalid_arguments_raise_before_the_kernel_runs(examples, x, y, error, words):
    before = y.copy()
    with pytest.raises(error, match=words):
        examples.saxpy(1.0, x, y)
    np.testing.assert_array_equal(y, before)


def test_out_of_another_dtype_is_refused(examples):
    out = np.full(8, 5, "i1")
    for wrong in (out, out.view("u1"), out.astype("f4")):
        before = wrong.copy()
        with pytest.raises(TypeError, match="expected dtype float64"):
            examples.roots(np.zeros(8), wrong)
        np.testing.assert_array_equal(wrong, before)


def test_written_arrays_must_be_writable_and_apart(examples):
    x, y = np.zeros(3), np.zeros(3)
    y.flags.writeable = False
    with pytest.raises(errors.ReadOnlyError):
        examples.saxpy(1.0, x, y)
    with pytest.raises(errors.OverlapError):
        examples.saxpy(1.0, x, x)


def test_failure_in_a_kernel_is_one_exception_with_its_element(examples):
    x = np.array([1.0, 4, 9, 16, 25, -36, 49, -64, 81, 100])
    for threads in (None, 1, 2):
        options = {} if threads is None else {"threads": threads}
        with pytest.raises(errors.KernelValueError, match="at element 5") as caught:
            examples.roots(x, np.empty(10), **options)
        assert (caught.value.index, caught.value.code) == (5, 14)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (1, errors.KernelError),
        (3, errors.ShapeError),
        (4, errors.DTypeError),
        (5, errors.ShapeError),
        (6, errors.LayoutError),
        (7, errors.AlignmentError),
        (8, errors.ReadOnlyError),
        (9, errors.MaskError),
        (10, errors.DeviceError),
        (11, errors.OverlapError),
        (12, errors.KernelMemoryError),
        (13, errors.KernelOverflowError),
        (14, errors.KernelValueError),
        (15, errors.KernelIndexError),
        (16, errors.KernelDivisionError),
        (17, errors.KernelValueError),
        (64, errors.KernelError),
        (200, errors.KernelError),
        (255, errors.KernelError),
    ],
)
def test_every_status_becomes_its_exception(compiled, code, error):
    module, x = compiled("statuses"), np.zeros(1)
    for kernel in (module.fail, module.plain_code, module.fail_at):
        with pytest.raises(error):
            kernel(x, code)
    assert module.fail(x, 0) is None
    assert module.plain_code(x, 0) is None


def test_results_of_every_kind(compiled):
    module, x = compiled("statuses"), np.zeros(2)
    assert module.nothing(x) is None
    assert x[0] == 1
    assert module.value_i32(-5) == -5
    assert module.total(np.array([2**62, 5, -7])) == 2**62 - 2
    assert (module.half(), module.half(5), module.half(5, False), module.half(flip=False)) == (-1.5, -2.5, 2.5, 1.5)
    for a in (-128, -1, 0, 127):
        assert module.narrow(a, 255, -(2**15), 2**16 - 1, -(2**31), 2**32 - 1, 2**64 - 1) == a


def test_masked_arrays_need_a_kernel_that_takes_them(examples):
    series = pd.Series([1.0, None, 3, 8], dtype="Float64").mojo.view(na="mask")
    mean = np.zeros(1)
    examples.masked_mean(series, mean)
    assert mean[0] == 4
    with pytest.raises(errors.MaskError):
        examples.roots(series, np.zeros(4))
    with pytest.raises(errors.KernelValueError, match="not missing"):
        examples.masked_mean(series[1:2], mean)


def test_tables(examples, rng):
    table = rng.normal(size=(9, 7)).astype("f4")
    for layout in (table, np.asfortranarray(table), table[::-2, ::3], table.T):
        sums = np.empty(len(layout))
        examples.row_sums(layout, sums)
        np.testing.assert_allclose(sums, layout.sum(1, dtype="f8"), rtol=1e-12)


def test_the_kernels_of_the_demo(examples, rng):
    n = 1003
    flights = pd.DataFrame(
        {
            "distance": rng.integers(80, 5000, n),
            "air_time": rng.uniform(20, 700, n),
            "dep_delay": rng.normal(10, 40, n).round(),
            "arr_delay": rng.normal(5, 40, n).round(),
        }
    )
    flights.loc[rng.choice(n, 50), ["air_time", "arr_delay"]] = np.nan
    mph, total = np.empty(n), np.empty(2)
    examples.ground_speed(flights["distance"], flights["air_time"], mph)
    np.testing.assert_array_equal(mph, flights["distance"] / (flights["air_time"] / 60))
    examples.made_up(flights["dep_delay"], flights["arr_delay"], total)
    gain = flights["dep_delay"] - flights["arr_delay"]
    assert total.tolist() == [gain.sum(), gain.count()]
    elf = read_elf(examples.library)
    assert (elf.needed, elf.imports) == ([], set())


@pytest.mark.slow  # compiles twice for one result
def test_contraction_is_off_unless_asked_for(mojo_cache, tmp_path):
    file = tmp_path / "fused.mojo"
    file.write_text(
        '@export("f")\ndef f(a: Float64, b: Float64, c: Float64) abi("C") -> Float64:\n'
        "    var t = a * b\n    return t + c\n"
    )
    a = 1 + 2.0**-30
    fma = platform.machine() == "aarch64" or " fma " in Path("/proc/cpuinfo").read_text()
    assert mv.load(file).f(a, a, -(a * a)) == 0
    assert mv.load(file, flags=["--fp-mode", "contract=fast"]).f(a, a, -(a * a)) == (2.0**-60 if fma else 0)


# ---- processes and memory
def test_a_warm_load_runs_no_compiler(compiled, monkeypatch):
    paths = [SOURCES / f"{name}.mojo" for name in TOGETHER]
    library = compiled("typed").library
    monkeypatch.setattr(subprocess, "Popen", None)
    module = mv.load(paths)
    assert module.library == library
    x, y = np.arange(5, dtype="u2"), np.zeros(5, "u2")
    module.copy_uint16(x, y)
    assert y.tolist() == x.tolist()


def test_references_are_returned(examples):
    saxpy, x, y, a = examples.saxpy, np.zeros(4), np.zeros(4), 2.5

    def counts():
        return [sys.getrefcount(o) for o in (saxpy, x, y, a)]

    before = counts()
    for _ in range(100):
        saxpy(a, x, y)
        with pytest.raises(errors.OverlapError):
            saxpy(a, x, x)
    assert counts() == before


def test_an_error_in_mojo_does_not_end_the_process(compiled):
    code = """
import sys, numpy as np, mojoview as mv
touch = mv.load([sys.argv[1]]).touch
assert touch(np.zeros((2, 2)), 1, 1) is None
try:
    touch(np.zeros((2, 2)), 5, 0)
except IndexError as error:
    print(type(error).__name__, error.index)
"""
    file = compiled("outcomes").path
    done = subprocess.run([sys.executable, "-c", code, str(file)], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("KernelIndexError 5\n", "", 0)
