"""Sources of `load` (packages, files, text, debug); outputs, lists, families and errors of its kernels."""

import gc
import inspect
import signal
import subprocess
import sys
import traceback
import weakref
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import mojoview as mv
from mojoview.calls.errors import ErrorTable
from mojoview.loading.mojo import compilation
from mojoview.loading.mojo.compiler import find_compiler
from mojoview.loading.mojo.inputs import root_of
from mojoview.memory import errors

HERE = Path(__file__).parents[2] / "mojo"
ADD = '@export("add")\ndef add(a: Float64, b: Float64) abi("C") -> Float64:\n    return a + b\n'


# ---- sources of load(), with a fake compiler
def test_source_text_is_kept_for_messages_and_debuggers(fake):
    module = mv.load(source=ADD, name="sums")
    assert (module.add(1, 2), module.name, module.path.name) == (3, "sums", "sums.mojo")
    assert module.path.read_text() == ADD
    assert fake.cache.parent in module.path.parents
    assert mv.load(source=ADD, name="sums").path == module.path
    assert len(fake.builds) == 1
    assert mv.load(source=ADD + "\n", name="sums").path != module.path
    assert mv.load(source=ADD).name == "source"


def test_changed_source_text_is_written_again(fake):
    path = mv.load(source=ADD).path
    path.write_text("something else")
    assert mv.load(source=ADD).path.read_text() == ADD


def test_source_text_without_a_place_for_it(fake, monkeypatch):
    monkeypatch.setenv("MOJOVIEW_CACHE_DIR", str(fake.source))  # a file
    with pytest.warns(RuntimeWarning, match="cannot be written"):
        module = mv.load(source=ADD)
    assert module.add(1, 2) == 3
    assert module.path.read_text() == ADD


def test_the_name_is_the_caller_s_to_choose(fake):
    assert (mv.load(fake.source).name, mv.load(fake.source, name="other").name) == ("fake", "other")


def test_debug_is_another_build_with_symbols_and_unoptimised(fake, monkeypatch):
    runs = []
    real = compilation.run_together
    monkeypatch.setattr(compilation, "run_together", lambda given, *a, **k: runs.append(given) or real(given, *a, **k))
    mv.load(fake.source)
    mv.load(fake.source, debug=True, flags=["-D", "X=1"])
    assert "--debug-level" not in runs[0]["build"]
    assert runs[1]["build"][4:9] == ["--debug-level", "full", "--no-optimization", "-D", "X=1"]
    assert "--debug-level" not in runs[1]["doc"]
    assert len(fake.builds) == 2


@pytest.mark.parametrize(
    ("path", "options", "words"),
    [
        (None, {}, "path: expected a str or path-like"),
        ("fake.mojo", {"source": ADD}, "expected either a path or source=, got both"),
        (None, {"source": 3}, "source: expected a str, got int"),
        (None, {"source": ADD, "name": "no name"}, "name: expected an identifier other than 'mojoview', got 'no name'"),
        (None, {"source": ADD, "name": "mojoview"}, "name: expected an identifier"),
        (None, {"source": ADD, "debug": 1}, "debug: expected a bool, got int"),
        ("folder", {}, "expected a package .* ends in .mojo, got 'folder'"),
        ([], {}, "at least one file"),
        (["fake.mojo", 3], {}, "path: expected a str or path-like, got int"),
        (["fake.mojo", "folder/fake.mojo"], {}, "two files are called fake.mojo"),
        (["fake.mojo", "not-a-name.mojo"], {}, "not-a-name.mojo is not a name that Mojo can import"),
        (["fake.mojo", "gone.mojo"], {}, "cannot read .*gone.mojo: No such file"),
        (["fake.mojo", "again.mojo"], {}, "fake.mojo and again.mojo both export 'add'; rename one"),
        ("bad-name", {}, "the package directory 'bad-name' is not a name that Mojo can import"),
    ],
)
def test_invalid_sources_are_rejected(fake, monkeypatch, path, options, words):
    monkeypatch.chdir(fake.source.parent)
    Path("folder").mkdir()
    Path("bad-name").mkdir()
    Path("bad-name/__init__.mojo").touch()
    Path("again.mojo").write_text(ADD)
    with pytest.raises(errors.ArgumentError, match=words):
        mv.load(path, **options)
    assert fake.lines == []


def test_every_module_of_a_package_counts_for_its_key(fake):
    package = fake.root / "pack"
    for name in ("__init__", "one", "inner/__init__", "inner/two", "no_package/three"):
        file = package / f"{name}.mojo"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(ADD.replace("add", name.replace("/", "_")) if "__init__" not in name else "")
    given = compilation.Build.of(package, (), find_compiler())
    assert [dotted for _, dotted in given.inputs.members] == [
        "pack.__init__",
        "pack.inner.__init__",
        "pack.inner.two",
        "pack.one",
    ]
    root = given.inputs.file.read_text()
    assert root.startswith("from pack.inner.two import `inner_two` as e0\nfrom pack.one import `one` as e1\n\n@export(")
    keys = {given.key()}
    for name in ("one", "inner/two", "__init__"):
        (package / f"{name}.mojo").write_text("# something else")
        keys.add(compilation.Build.of(package, (), find_compiler()).key())
    assert len(keys) == 4


def test_the_root_of_several_files_refers_to_possible_kernels(tmp_path):
    file = tmp_path / "m.mojo"
    file.write_text(
        ADD + '@export("x")\ndef x():\n    pass\n@export("o1")\ndef o(a: Int) abi("C"):\n    pass\n'
        '@export("o2")\ndef o(a: Bool) abi("C"):\n    pass\nstruct S:\n    @export("m")\n'
        '    def m() abi("C"):\n        pass\n'
    )
    assert [line for line in root_of([(file, "m")]).splitlines() if line.startswith("from")] == [
        "from m import `add` as e0"
    ]


# ---- the compiler itself
@pytest.fixture(scope="session")
def parcel(mojo_cache):
    return mv.load(HERE / "parcel")


@pytest.mark.mojo
def test_a_package_is_one_module(parcel):
    assert set(parcel) == {
        "total",
        "scale_f32",
        "scale_f64",
        "scale_i16",
        "convert_f64_f32",
        "convert_i64_f32",
        "convert_i64_f64",
    }
    assert parcel.total(np.arange(5)) == 20
    assert (parcel.path, parcel.name) == (HERE / "parcel", "parcel")
    assert parcel.__doc__ == "A package: what its modules export becomes one module of kernels."
    assert parcel.scale_f32.__doc__ == "Multiplies x by a."
    assert mv.load(str(HERE / "parcel") + "/").library == parcel.library


@pytest.mark.mojo
def test_refusals_name_the_line_and_the_file(parcel):
    lines = (HERE / "parcel/inner/scale.mojo").read_text().splitlines()
    line = 1 + lines.index('def words(x: String) abi("C") -> Int:')
    with pytest.raises(
        errors.KernelAttributeError,
        match=f"scale.mojo: the export words is not a kernel: line {line}: argument x has the type String",
    ):
        _ = parcel.words
    assert "leading underscore" in parcel.refused["_under"]


@pytest.mark.mojo
def test_several_files_that_import_each_other(compiled):
    module = compiled("importing")
    assert {"thrice", "value_i32", "sum_columns"} <= set(module)
    assert (module.thrice(2), module.value_i32(-5), module.thrice.__doc__) == (6, -5, "Three times a.")
    assert (module.path, module.name) == (HERE / "typed.mojo", "typed")


@pytest.mark.mojo
@pytest.mark.slow  # a compilation of its own
def test_source_text_with_debug_symbols(mojo_cache):
    text = (
        'from mojoview import E_VALUE, InOut, Status\n\n\n@export("boom")\n'
        'def boom(x: InOut[DType.float64]) abi("C") -> Status:\n    x[0] = 1\n    return E_VALUE.at(1)\n'
    )
    module = mv.load(source=text, name="inline", debug=True)
    assert b".debug_line" in module.library.read_bytes()
    assert str(module.path.name).encode() in module.library.read_bytes()
    with pytest.raises(errors.KernelValueError, match=r"kernel boom\(x\): .*, at element 1") as caught:
        module.boom(np.zeros(2))
    *_, last = traceback.extract_tb(caught.value.__traceback__)
    assert (last.filename, last.lineno, last.name) == (str(module.path), 5, "boom")
    assert last.line == text.splitlines()[4]
    assert "^" not in "".join(traceback.format_tb(caught.value.__traceback__)[-1:])
    with pytest.raises(errors.KernelCompileError, match=r"broken.mojo:2:12: error: use of unknown declaration 'nope'"):
        mv.load(source="def f() -> Int:\n    return nope\n", name="broken")


# ---- families of dtypes
@pytest.mark.mojo
@pytest.mark.parametrize("dtype", ["f4", "f8", "i2"])
def test_a_family_takes_the_kernel_of_the_dtype(parcel, dtype):
    x = np.arange(4, dtype=dtype)
    parcel.scale(3, x)
    assert x.tolist() == [0, 3, 6, 9]
    parcel.scale(x=x[::2], a=2)
    assert x.tolist() == [0, 3, 12, 9]
    name = {"f4": "scale_f32", "f8": "scale_f64", "i2": "scale_i16"}[dtype]
    for same in (x, mv.view(x), memoryview(x), pd.Series(x)):
        assert parcel.scale.kernel_for(1, same) is parcel[name]


@pytest.mark.mojo
def test_a_family_of_two_dtypes(parcel):
    x = np.arange(3)
    for dtype in ("f4", "f8"):
        y = np.zeros(3, dtype)
        parcel.convert(x, y)
        assert y.tolist() == [0, 1, 2]
    assert parcel.convert(x.astype("f8")).dtype == "f4"
    assert parcel.convert([1.5, 2]).tolist() == [1.5, 2]
    assert parcel.convert.kernel_for(pd.Series([1, None], dtype="Int64")) is parcel.convert_i64_f32
    assert dict(parcel.convert.loops)["int64", "float64"] is parcel.convert_i64_f64


@pytest.mark.mojo
@pytest.mark.parametrize(
    "x", [np.arange(3, dtype="i4"), np.arange(3, dtype=">f8"), [1, 2], np.array([None]), np.arange(3).astype("M8[s]")]
)
def test_a_family_that_has_no_such_kernel_says_which_there_are(parcel, x):
    with pytest.raises(
        errors.DTypeError,
        match=r"scale\(\): no kernel for x: .*; there are: scale_f32\(a: Float32, x: "
        r"InOut\[float32\]\) -> Status; scale_f64",
    ):
        parcel.scale(1, x)


@pytest.mark.mojo
@pytest.mark.parametrize("arguments", [(), (1,), (1, np.zeros(3), 3, 4), (1, None)])
def test_calls_of_a_family_that_cannot_be_decided(parcel, arguments):
    with pytest.raises(errors.ArgumentError, match=r"scale(_f64)?\(a, x, \*, threads=None\): "):
        parcel.scale(*arguments)


@pytest.mark.mojo
def test_a_canary_of_a_real_family(parcel):
    def scale(a, x):
        x *= x.dtype.type(a)

    canary = parcel.scale.canary(scale, sample=1, on_mismatch="raise")
    for dtype in ("f4", "f8", "i2"):
        x = np.arange(4, dtype=dtype)
        canary(3, x)
        assert x.tolist() == [0, 3, 6, 9]
    assert (canary.checked, canary.unchecked, canary.mismatches) == (3, 0, 0)
    canary = parcel.convert.canary(lambda x, y: np.copyto(y, x), sample=1, on_mismatch="raise")
    assert canary(np.arange(3.0)).tolist() == [0, 1, 2]  # the output is left out
    assert (canary.checked, canary.unchecked, canary.mismatches) == (1, 0, 0)
    canary = parcel.convert.canary(lambda x, y: None, sample=1, on_mismatch="raise")
    with pytest.raises(errors.CanaryError, match="argument 'y'"):
        canary(np.arange(3.0))


@pytest.mark.mojo
def test_introspection_of_a_family(parcel):
    scale = parcel.families["scale"]
    assert scale is parcel.scale is parcel["scale"]
    assert "scale" in parcel
    assert {"scale", "convert"} <= set(dir(parcel))
    assert str(inspect.signature(scale)) == "(a, x, *, threads=None)"
    assert [p.dtype for p in scale.signature.params] == ["T", "T"]
    assert [s.name for s in scale.signatures] == ["scale_f32", "scale_f64", "scale_i16"]
    assert scale.__doc__.startswith("Multiplies x by a.\n\nKernels: scale_f32(")
    assert repr(scale) == "<mojoview kernels scale(a, x, *, threads=None): scale_f32, scale_f64, scale_i16>"
    assert "convert: convert_f64_f32, convert_i64_f32, convert_i64_f64" in repr(parcel)
    gc.collect()
    before = sys.getrefcount(scale)
    for _ in range(50):
        scale(1, np.zeros(3))
        with pytest.raises(errors.DTypeError):
            scale(1, np.zeros(3, "u1"))
    assert sys.getrefcount(scale) == before
    for wrong in (
        lambda: type(scale)("scale", scale.kernels[:1]),
        lambda: scale.__init__("scale", scale.kernels),
        lambda: type(scale).__new__(type(scale))(1),
    ):
        with pytest.raises(errors.ArgumentError):
            wrong()


# ---- outputs, numbers by reference, lists
@pytest.mark.mojo
def test_outputs_that_are_left_out_are_made_and_returned(compiled):
    module, x = compiled("outcomes"), np.array([7, 9, -4], "i4")
    assert module.double_of(x.astype("f8")).tolist() == [14, 18, -8]
    assert module.double_of(pd.Series([1.0, 2])).tolist() == [2, 4]
    assert module.double_of(memoryview(np.ones(3))[::2]).tolist() == [2, 2]
    assert module.double_of(np.arange(3.0), None).tolist() == [0, 2, 4]
    assert module.double_of(np.zeros(0)).shape == (0,)
    sums, whole, rest = module.halves(x)
    assert (sums, whole.dtype, rest.dtype) == (5, "int32", "uint8")
    assert (whole.tolist(), rest.tolist()) == ((x // 2).tolist(), (x % 2).tolist())
    mine = np.zeros(3, "i4")
    sums, rest = module.halves(x, mine)
    assert (sums, mine.tolist(), rest.tolist()) == (5, (x // 2).tolist(), [1, 1, 0])
    assert module.halves(x, mine, rest, 3) == (x // 3).sum()
    assert module.halves(x, rest=rest, by=3)[1].tolist() == (x // 3).tolist()
    assert str(inspect.signature(module.halves)) == "(x, whole=None, rest=None, by=2, *, threads=None)"
    with pytest.raises(errors.ArgumentError, match=r"argument 'y': there is no other array of 1 dimension"):
        module.row_sums(np.zeros((2, 2)))
    y = np.full(2, 5.0)
    with pytest.raises(errors.ShapeError, match=r"kernel double_of\(x, y\): the sizes"):
        module.double_of(np.zeros(3), y)


@pytest.mark.mojo
def test_numbers_that_a_kernel_updates_come_back(compiled):
    minmax = compiled("outcomes").minmax
    assert minmax(np.array([3.0, -1, 2])) == (-1, 3, 3)
    assert minmax(np.array([3.0]), count=np.int64(4), low=7) == (3, 3, 5)
    assert [type(v) for v in minmax(np.ones(2), 0, 0.0, 0)] == [float, float, int]
    assert str(inspect.signature(minmax)) == "(x, low=0.0, high=0.0, count=0, *, threads=None)"
    for wrong, error in ((2**31, OverflowError), (1.5, TypeError), ("1", TypeError), (None, TypeError)):
        with pytest.raises(error, match="argument 'count'"):
            minmax(np.ones(2), count=wrong)


@pytest.mark.mojo
@pytest.mark.parametrize(
    ("call", "result"),
    [
        (lambda m: m.double_of([1, 2.5, True]).tolist(), [2, 5, 2]),
        (lambda m: m.double_of(()).tolist(), []),
        (lambda m: m.flags([True, np.bool_(False)], [[1, 2, 3], (4, 5, 6)]), 231),
        (lambda m: m.halves([2**31 - 1, -2])[0], 2**30 - 2),
        (lambda m: m.double_of([1, "2"]), "argument 'x': expected a number for float64, got str"),
        (lambda m: m.double_of([10**400]), "expected a value that fits float64"),
        (lambda m: m.double_of([[1.0]]), "expected 1 dimension"),
        (lambda m: m.halves([1.0]), "argument 'x': expected a number for int32, got float"),
        (lambda m: m.halves([2**31]), "expected a value that fits int32, got 2147483648"),
        (lambda m: m.flags([1], [[1]]), "argument 'x': expected a number for bool, got int"),
        (lambda m: m.flags([True], [[1, 2], [3]]), "argument 'y': expected a number for float32, got list"),
        (lambda m: m.flags([True], [np.zeros((2, 2)), np.zeros((2, 3))]), "uneven parts"),
        (lambda m: m.double_of([1.0], [0.0]), "argument 'y': it is written to, expected an array, got a list"),
        (lambda m: m.double_of({"x": [1.0]}), r"expected an array, got a dict; .* double_of\(\*\*columns\)"),
    ],
)
def test_lists_become_arrays_of_the_declared_dtype(compiled, call, result):
    if isinstance(result, str):
        with pytest.raises(errors.MojoViewError, match=result):
            call(compiled("outcomes"))
    else:
        assert call(compiled("outcomes")) == result


# ---- failures
class Held(np.ndarray):
    """Can be referred to weakly."""


class Cold(Exception):
    pass


class Stubborn(Exception):
    def __init__(self):
        super().__init__("no words")


@pytest.fixture
def outcomes(compiled):
    """With an error table as the source declares it, whatever a test did."""
    module = compiled("outcomes")
    declared = dict(module.errors._entries)
    yield module
    module.errors._entries.clear()
    module.errors._entries.update(declared)


@pytest.mark.mojo
@pytest.mark.parametrize(
    ("code", "kind", "message", "index"),
    [
        (
            1,
            errors.KernelValueError,
            "kernel fails(x, code): the sample is too cold (E_COLD, status 65), at element 3",
            3,
        ),
        (2, errors.KernelError, "kernel fails(x, code): An odd sample (E_ODD, status 66)", None),
        (3, errors.KernelError, "kernel fails(x, code): E_BARE, status 67", None),
        (200, errors.KernelError, "kernel fails(x, code): the kernel returned status 200", None),
    ],
)
def test_statuses_that_the_source_declares(outcomes, code, kind, message, index):
    with pytest.raises(errors.KernelError) as caught:
        outcomes.fails([1.0], code)
    assert type(caught.value) is kind
    assert str(caught.value) == message
    assert (caught.value.kernel, caught.value.index) == ("fails", index)
    *_, last = traceback.extract_tb(caught.value.__traceback__)
    assert (last.filename, last.name) == (str(outcomes.path), "fails")
    assert last.line.startswith("def fails(")


@pytest.mark.mojo
def test_a_status_of_an_imported_module_in_a_package(parcel):
    words = r"kernel scale_f64\(a, x\): too much of it \(E_SHARED, status 73\), at element 1"
    with pytest.raises(OverflowError, match=words):
        parcel.scale(1, np.array([1.0, 5000]))


@pytest.mark.mojo
def test_the_author_s_own_exceptions(outcomes):
    table, x = outcomes.errors, [1.0]
    assert dict(table) == {65: errors.KernelValueError, 66: errors.KernelError, 67: errors.KernelError}
    table["E_COLD"] = Cold
    with pytest.raises(Cold, match=r"the sample is too cold \(E_COLD, status 65\)") as caught:
        outcomes.fails(x, 1)
    assert (caught.value.kernel, caught.value.code, caught.value.index) == ("fails", 65, 3)
    table[200] = Cold, "much too cold"
    with pytest.raises(Cold, match=r"kernel fails\(x, code\): much too cold \(status 200\)"):
        outcomes.fails(x, 200)
    del table[65], table[200]
    with pytest.raises(errors.KernelError, match="the sample is too cold") as caught:
        outcomes.fails(x, 1)
    assert type(caught.value) is errors.KernelError
    assert len(table) == 3
    table[67] = Stubborn
    with pytest.raises(errors.KernelError, match=r"E_BARE, status 67; Stubborn\(message\) raised TypeError"):
        outcomes.fails(x, 3)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (5, Cold),
        (63, Cold),
        (256, Cold),
        ("E_NONE", Cold),
        (True, Cold),
        (1.5, Cold),
        (65, "text"),
        (65, int),
        (65, KeyboardInterrupt),
        (65, (Cold, 3)),
        (65, (Cold, "a", "b")),
        (65, ()),
    ],
)
def test_invalid_entries_of_the_error_table(key, value):
    table = ErrorTable({"E_COLD": (65, "")})
    with pytest.raises(errors.ArgumentError, match="errors"):
        table[key] = value
    assert dict(table) == {65: errors.KernelError}


@pytest.mark.mojo
@pytest.mark.parametrize(
    "call", [lambda m, x: m.fails(x, 1), lambda m, x: m.fails([1.0], 200), lambda m, x: m.raising(x, -1)]
)
def test_a_failure_is_freed_without_the_collector(outcomes, call):
    def fail():
        x = np.zeros(1).view(Held)
        try:
            call(outcomes, x)
        except errors.KernelError as error:
            return [weakref.ref(x), weakref.ref(error)]

    gc.collect()
    gc.disable()
    try:
        assert [r() for r in fail()] == [None, None]
    finally:
        gc.enable()


@pytest.mark.mojo
def test_an_error_raised_in_mojo_brings_its_words(outcomes):
    assert outcomes.raising([1.0], 2) == 1
    assert str(inspect.signature(outcomes.raising)) == "(x, limit, first=0.0, *, threads=None)"
    with pytest.raises(ValueError, match=r"kernel raising\(x, limit, first\): .*: more than the limit, 2.0$"):
        outcomes.raising(np.array([3.0]), 2)
    outcomes.errors[65] = OSError
    with pytest.raises(OSError, match=r"more than the limit, 2\.0$"):
        outcomes.raising(np.array([3.0]), limit=2)
    with pytest.raises(errors.DTypeError, match=r"'x': expected dtype float64, got float32$"):
        outcomes.raising(np.ones(1, "f4"), 2)


@pytest.mark.mojo
@pytest.mark.parametrize(("address", "number"), [(8, signal.SIGSEGV), (1, signal.SIGILL)])
def test_faulthandler_shows_the_call_of_a_crash(compiled, address, number):
    code = f"""
import faulthandler, sys, mojoview as mv
faulthandler.enable()
crash = mv.load(sys.argv[1]).crash
def caller():
    crash({address})
caller()
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(compiled("outcomes").path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == -number
    assert "Fatal Python error: " in done.stderr
    assert 'File "<string>", line 6 in caller' in done.stderr
