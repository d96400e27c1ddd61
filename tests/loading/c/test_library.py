"""`load_library`: functions of any C library, with sizes filled in and arguments checked."""

import ctypes
import inspect
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.foreign import compiled
from support.process import run_code

import mojoview as mv
from mojoview.calls.signature import Size
from mojoview.kernels import Kernel, Param, Signature
from mojoview.memory.errors import (
    ArgumentError,
    DeclarationError,
    DTypeError,
    KernelAttributeError,
    KernelError,
    KernelOverflowError,
    KernelValueError,
    LayoutError,
    OverlapError,
    ReadOnlyError,
    ShapeError,
)

DOT = "double dot(size_t n, const double *x, const double *y)"


@pytest.fixture(scope="module")
def plain():
    return compiled("plain_library")


def test_sizes_are_filled_in(plain):
    lib = mv.load_library(plain, DOT + "; void scale(double a, const double *x, int n, double *y);")
    x, y = np.arange(5.0), np.zeros(5)
    assert lib.dot(x, x) == x @ x
    assert lib.scale(2.0, x, y) is None
    assert y.tolist() == (2 * x).tolist()
    assert str(inspect.signature(lib.scale)) == "(a, x, y, *, threads=None)"
    assert lib.dot(pd.Series(x), mv.view(x)) == 30
    assert lib.dot(np.ones((2, 3)), np.ones(6)) == 6  # the number of elements counts
    assert lib.dot(np.zeros(0), np.zeros(0)) == 0
    assert isinstance(lib.dot, Kernel)
    assert lib.dot.__doc__ == "float64 dot(uint64 n, const float64 *x, const float64 *y)\n\nFilled in: n."
    assert lib.library == plain
    assert sorted(lib) == ["dot", "scale"]


@pytest.mark.parametrize(
    ("x", "y", "error", "text"),
    [
        (np.ones(5), np.ones(4), ShapeError, "argument 'y': expected 5 elements like argument 'x', got 4"),
        (np.ones(5, "f4"), np.ones(5), DTypeError, "expected dtype float64, got float32"),
        (np.ones(10)[::2], np.ones(5), LayoutError, "expected C order"),
        (np.ones((2, 3)).T, np.ones(6), LayoutError, "expected C order"),
        (5.0, np.ones(5), ArgumentError, "float"),
    ],
)
def test_what_the_checked_call_refuses(plain, x, y, error, text):
    with pytest.raises(error, match=text):
        mv.load_library(plain, DOT).dot(x, y)


def test_what_is_written_is_checked(plain):
    scale = mv.load_library(plain, "void scale(double a, const double *x, int32_t n, double *y)").scale
    x = np.arange(4.0)
    with pytest.raises(ReadOnlyError):
        scale(1.0, x, pd.Series(x))
    with pytest.raises(OverlapError):
        scale(1.0, x, x)
    with pytest.raises(ArgumentError, match=r"scale\(a, x, y, \*, threads=None\)"):
        scale(1.0, x, 4, x)
    with pytest.raises(KernelValueError, match="threads"):
        scale(1.0, x, np.zeros(4), threads=2)


RECEIVED = (
    "void received(size_t n, int8_t a, double b, ptrdiff_t rows, int c, float d, size_t cols, const double x[n],"
    " const double table[rows][cols], int64_t e, uint16_t f, double g, int64_t out_n, double out[out_n])"
)


@pytest.mark.parametrize(
    ("declaration", "sizes"),
    [
        (RECEIVED, None),
        (
            RECEIVED.replace("x[n]", "*x").replace("table[rows][cols]", "*table").replace("out[out_n]", "*out"),
            {"n": "x", "rows": "table.shape[0]", "cols": "table.shape[1]", "out_n": "out.size"},
        ),
    ],
)
def test_sizes_between_scalars_and_on_the_stack(plain, declaration, sizes):
    received = mv.load_library(plain, declaration, sizes=sizes).received
    out, table = np.full(14, -1.0), np.arange(6.0).reshape(2, 3)
    assert list(inspect.signature(received).parameters)[:9] == ["a", "b", "c", "d", "x", "table", "e", "f", "g"]
    received(-7, 1.5, 9, 0.25, np.array([4.0, 5.0]), table, -(2**40), 65535, 2.5, out)
    assert out.tolist() == [2, -7, 1.5, 2, 9, 0.25, 3, 5, 5, -(2.0**40), 65535, 2.5, 14, -1]
    with pytest.raises(ShapeError, match=r"argument 'table': expected 2 dimension\(s\), got 1"):
        received(0, 0, 0, 0, out[:1], np.ones(6), 0, 0, 0, out)


def test_arrays_that_share_a_size(plain):
    text = "double dot(size_t n, const double x[n], const double y[n])"
    lib = mv.load_library(plain, text)
    with pytest.raises(ShapeError, match="'y': expected 2 elements like argument 'x', got 3"):
        lib.dot(np.ones(2), np.ones(3))
    same = mv.load_library(plain, DOT, sizes={"n": ("x", "y")})
    assert same.dot.signature.sizes == lib.dot.signature.sizes
    square = mv.load_library(plain, "double dot(int64_t n, const double x[n][n], const double *y)")
    with pytest.raises(ShapeError, match="'x': expected 2 along axis 1 like argument 'x', got 3"):
        square.dot(np.ones((2, 3)), np.ones(2))


def test_arrays_of_a_fixed_size(plain):
    f = mv.load_library(plain, "void mean_and_size(const double x[n], size_t n, double out[2])").mean_and_size
    out = np.zeros(2)
    f(np.array([1.0, 3.0, 8.0]), out)
    assert out.tolist() == [4, 3]
    with pytest.raises(ShapeError, match="argument 'out': expected 2 elements, got 3"):
        f(np.ones(3), np.zeros(3))


def test_sizes_that_do_not_fit(plain):
    narrow = mv.load_library(plain, "uint8_t narrow(uint8_t n, const int16_t *x)").narrow
    assert narrow(np.zeros(255, "i2")) == 255
    with pytest.raises(KernelOverflowError, match="argument 'x': its size 256 does not fit 'n', which is uint8"):
        narrow(np.zeros(256, "i2"))


def test_a_size_that_is_none(plain):
    free = mv.load_library(plain, DOT, sizes={"n": None}).dot
    assert free(2, np.ones(5), np.ones(7)) == 2
    assert str(inspect.signature(free)) == "(n, x, y, *, threads=None)"


@pytest.mark.parametrize(
    ("text", "sizes", "why"),
    [
        (DOT, {"m": "x"}, "no function has an argument 'm'"),
        (DOT, {"n": "z"}, "expected an array such as"),
        (DOT, {"n": "x.length"}, "expected an array such as"),
        (DOT, {"n": 3}, "expected an array such as"),
        (DOT, {"x": "y"}, "'x' is used as a size, but is not an integer argument"),
        ("double dot(double n, const double x[n])", None, "'n' is used as a size"),
        ("double dot(size_t n, const double x[m])", None, "'m' is used as a size"),
        ("double dot(size_t n, const double *x, const double *x)", None, "two arguments are called 'x'"),
        ("double dot(size_t n, void *x)", None, "does not name the type of its elements"),
    ],
)
def test_sizes_and_declarations_that_contradict_each_other(plain, text, sizes, why):
    with pytest.raises((DeclarationError, ArgumentError), match=why):
        mv.load_library(plain, text, sizes=sizes)


def test_status_and_scalar_results(plain):
    lib = mv.load_library(plain, "mv_status check(const double *x, size_t n); float half(float)")
    assert lib.check(np.ones(3)) is None
    with pytest.raises(KernelValueError, match="kernel check"):
        lib.check(-np.ones(3))
    assert lib.half(3.0) == 1.5
    assert mv.load_library(plain, "int check(const double *x, size_t n)").check(-np.ones(3)) == 14


def test_tables(plain):
    lib = mv.load_library(
        plain,
        {
            "dot": ("double", "size_t n", "const double *x", "const double *y"),
            "half": "float (float)",
            "scale": "void scale(double a, const double *x, int n, double *y)",
            "check": Signature(
                "check",
                (Param("x", "in", "float64", 1, "pointer"),),
                shapes="free",
                sizes=(Size("n", "uint64", 1, (("x", None),)),),
            ),
        },
    )
    assert sorted(lib) == ["check", "dot", "half", "scale"]
    assert (lib.dot(np.ones(3), np.ones(3)), lib.half(1), lib.check(np.ones(2))) == (3, 0.5, None)
    for table, why in [
        ({"dot": "double tod(int)"}, "the declaration of dot declares tod"),
        ({"dot": ()}, "expected"),
        ({"dot": ("double", "int) (")}, "one type per item"),
        ({1: DOT}, "the name of a function"),
        ({}, "no callable function"),
        ({"dot": 3}, "expected a declaration"),
    ]:
        with pytest.raises((DeclarationError, ArgumentError), match=why):
            mv.load_library(plain, table)


def test_header_files(plain, tmp_path):
    header = tmp_path / "plain.h"
    header.write_text(
        "#pragma once\n#include <stddef.h>\n" + DOT + ";\nvoid later(int);\nint print(char *, ...);\n"
        "extern int a_variable;\nfloat half(float x);\nint a_variable(int);\nvoid opaque(void *p);\n"
    )
    lib = mv.load_library(plain, header)
    assert sorted(lib) == ["dot", "half"]
    assert lib.refused["later"] == "libplain_library.so has no such function"
    assert lib.refused["a_variable"] == "it is declared as something else"
    assert "plain char" in lib.refused["print"]
    assert "void *" in lib.refused["opaque"]
    with pytest.raises(KernelAttributeError, match=r"the export print is not a kernel: line 5, column 11"):
        _ = lib.print
    with pytest.raises(ArgumentError, match="cannot read"):
        mv.load_library(plain, tmp_path / "none.h")
    header.write_text("/" * (1 << 20) + "\n")
    with pytest.raises(DeclarationError, match="longer than"):
        mv.load_library(plain, header)


MANY = f"double dot({', '.join(f'double a{k}' for k in range(15))})"


STRINGS = mv.Signature("dot", (mv.Param("x", "in", "str"),))


@pytest.mark.parametrize("declarations", [MANY, {"dot": MANY}, {"dot": STRINGS}], ids=["text", "table", "signature"])
def test_what_was_declared_and_cannot_be_called(plain, declarations):
    with pytest.raises(DeclarationError, match=r"dot cannot be called: dot: "):
        mv.load_library(plain, declarations)


def test_what_a_header_declares_and_cannot_be_called(plain, tmp_path):
    header = tmp_path / "many.h"
    header.write_text(f"{MANY};\nfloat half(float x);\n")
    lib = mv.load_library(plain, header)
    assert (list(lib), "at most 14" in lib.refused["dot"]) == (["half"], True)


@pytest.mark.parametrize("text", ["int missing(int)", "int a_variable(int)"])
def test_what_is_no_function_of_the_library(plain, text):
    with pytest.raises(KernelAttributeError, match=r"libplain_library\.so has no function"):
        mv.load_library(plain, text)


def test_libraries_that_are_not_loaded(plain, tmp_path):
    copy = tmp_path / "lib.so"
    copy.write_bytes(plain.read_bytes())
    copy.chmod(0o646)
    shared = Path("/dev/shm") / f"mojoview-test-{id(copy)}.so"
    shared.write_bytes(plain.read_bytes())
    text = tmp_path / "text.so"
    text.write_text("no library")
    try:
        for path, error, why in [
            (copy, ArgumentError, "other users may write to"),
            (shared, ArgumentError, "is in a file system without executable files"),
            (tmp_path, ArgumentError, "regular file"),
            (text, KernelError, "cannot be loaded"),
            (tmp_path / "gone.so", ArgumentError, "cannot read"),
            (7, ArgumentError, "path-like"),
            ("libsurely-not-here.so.9", KernelError, "cannot be loaded"),
            ("", ArgumentError, "the name"),
            ("a\0b", ArgumentError, "the name"),
        ]:
            with pytest.raises(error, match=why):
                mv.load_library(path, DOT)
    finally:
        shared.unlink()
    for bad in (3, [DOT], b"int f(int)"):
        with pytest.raises(ArgumentError, match="expected C declarations"):
            mv.load_library(plain, bad)
    with pytest.raises(ArgumentError, match="expected a mapping of argument names"):
        mv.load_library(plain, DOT, sizes=["x"])


def test_a_library_of_the_system_by_its_name():
    libm = mv.load_library("libm.so.6", "double hypot(double x, double y)")
    assert libm.hypot(3.0, 4.0) == 5.0
    assert libm.hypot(x=3, y=4) == 5.0
    assert libm.library is None


@pytest.mark.parametrize(
    ("sizes", "why"),
    [
        ((Size("n", "float64", 0, (("x", None),)),), "expected an integer type"),
        ((Size("n", "int64", 5, (("x", None),)),), "places of their own"),
        ((Size("n", "int64", 0, (("x", None),)), Size("m", "int64", 0, (("x", None),))), "places of their own"),
        ((Size("n", "int64", 0),), "expected 1 to 14 arrays"),
        ((Size("n", "int64", 0, (("y", None),)),), "no pointer argument 'y'"),
        ((Size("n", "int64", 0, (("x", 1),)),), "has no axis 1"),
        ((Size("n", "int8", 0, (), 300),), "does not fit int8"),
        (tuple(Size(f"n{k}", "int64", k, (("x", None),)) for k in range(14)), "at most 14"),
    ],
)
def test_sizes_of_a_signature_are_checked(sizes, why):
    signature = Signature("f", (Param("x", "in", "float64", 1, "pointer"),), sizes=sizes)
    address = ctypes.cast(ctypes.CDLL("libm.so.6").hypot, ctypes.c_void_p).value
    with pytest.raises((ArgumentError, KernelValueError), match=why):
        Kernel.from_address(signature, address, owner=address)


def test_import_of_the_package_brings_none_of_it():
    run_code(
        "-c",
        "import sys, mojoview; assert not [m for m in sys.modules if m.startswith('mojoview.loading')]\n"
        "assert mojoview.load_library and mojoview.from_function and 'mojoview.loading.c.library' in sys.modules",
    )
