"""Hostile arguments of `load`, `load_library` and `from_function`: a documented error, without delay."""

from __future__ import annotations

import copy
import ctypes
import os
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.foreign import compiled
from support.process import run_code

import mojoview as mv
from mojoview.calls._overloads import KernelFamily
from mojoview.kernels import Kernel
from mojoview.loading.c.declaration import read_declaration, read_header
from mojoview.loading.c.preprocessor import MAX_LENGTH
from mojoview.memory.errors import (
    ArgumentError,
    DeclarationError,
    DTypeError,
    KernelAttributeError,
    KernelOverflowError,
)

DOT = "double dot(size_t n, const double *x, const double *y)"


@pytest.fixture(scope="module")
def plain():
    return compiled("plain_library")


# -- paths -----------------------------------------------------------------------------------------------------------
PATHS = ["n" * 5000, "/none/" + "n" * 5000, "a\0b", "a\ud800b", "/none/a\ud800b", "", 3, None]


@pytest.mark.mojo
@pytest.mark.parametrize("path", PATHS, ids=ascii)
def test_a_path_that_no_file_can_have(path, plain):
    with pytest.raises(ArgumentError, match="load_library"):
        mv.load_library(path, DOT)
    with pytest.raises(ArgumentError, match="load"):
        mv.load([f"{path}.mojo"] if isinstance(path, str) else path)
    with pytest.raises(ArgumentError, match="load"):
        mv.load(f"{path}.mojo" if path else path)
    if isinstance(path, str) and path:
        with pytest.raises(ArgumentError, match="load_library"):
            mv.load_library(plain, Path(path))


def test_links_in_a_circle(tmp_path):
    (tmp_path / "loop.so").symlink_to(tmp_path / "loop.so")
    with pytest.raises(ArgumentError, match="cannot read"):
        mv.load_library(tmp_path / "loop.so", DOT)


class Named:
    def __init__(self, name):
        self.name = name

    def __fspath__(self):
        return self.name


def test_a_header_that_is_a_pipe_is_not_waited_for(plain, tmp_path):
    os.mkfifo(tmp_path / "pipe.h")
    with pytest.raises(ArgumentError, match="regular file"):
        mv.load_library(plain, tmp_path / "pipe.h")
    with pytest.raises(ArgumentError, match="regular file"):
        mv.load_library(plain, Path("/dev/zero"))


def test_paths_in_bytes_and_of_no_kind(plain, tmp_path):
    (tmp_path / "dot.h").write_text(DOT + ";")
    assert mv.load_library(os.fsencode(plain), Named(os.fsencode(tmp_path / "dot.h"))).dot([1.0], [2.0]) == 2.0
    with pytest.raises(ArgumentError, match="declarations"):
        mv.load_library(plain, Named(7))


@pytest.mark.parametrize("name", ["a" * 300, "é" * 120])
def test_a_name_longer_than_files_have(name, fake):
    with pytest.raises(ArgumentError, match="at most 200 bytes"):
        mv.load(source="", name=name)


# -- names -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["_handle", "_name", "_FuncPtr", "__init__", "__class__", "__getitem__"])
def test_a_function_called_like_an_attribute_of_ctypes(name, plain):
    with pytest.raises(KernelAttributeError, match="no function"):
        mv.load_library(plain, f"int {name}(int x)")
    with pytest.raises(ArgumentError, match="the name of a function"):
        mv.load_library(plain, {name + "\0": "int function(int x)"})
    with pytest.raises(ArgumentError, match="the name of a function"):
        mv.load_library(plain, {name + "\ud800": "int function(int x)"})


def test_a_function_that_is_called_so_is_found():
    names = ("_handle", "_name", "_FuncPtr", "__init__")
    module = mv.load_library(compiled("odd_names"), "".join(f"int {name}(int x);" for name in names))
    assert [module[name](1) for name in names] == [1, 2, 3, 4]


def test_a_module_is_not_copied(plain):
    module = mv.load_library(plain, DOT)
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(ArgumentError, match="cannot be pickled or copied"):
            attempt(module)


# -- declarations ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("sizes", [5, ["n"], {1: "x"}, {1: "x", "q": "x"}, "n"])
def test_sizes_that_are_no_table(sizes, plain):
    with pytest.raises(ArgumentError, match="expected a mapping"):
        mv.load_library(plain, DOT, sizes=sizes)
    with pytest.raises(ArgumentError, match="expected a mapping"):
        mv.from_function(ctypes.CDLL(str(plain)).dot, DOT, sizes=sizes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("/* " * (MAX_LENGTH // 3), "line 1, column 1: a comment is not closed"),
        ("int f(int x); /*/", "line 1, column 15: a comment is not closed"),
        (" " * (MAX_LENGTH + 1), "at most"),
        ("a" + " " * (MAX_LENGTH - 1), "not known|unexpected 'a'"),
        ("double f(" + ", ".join(["double"] * 50_000) + ")", "at most 127 arguments"),
        ("double f(" + "," * 200 + ")", "an argument is missing|at most 127|unexpected ','"),
    ],
    ids=["comments", "comment", "long", "spaces", "arguments", "commas"],
)
def test_texts_made_to_take_long(text, message):
    for read in (read_declaration, read_header):
        with pytest.raises(DeclarationError, match=message):
            read(text)


def test_lines_are_not_counted_for_every_refusal():
    text = "\n" * 200_000 + "struct a f(void);\n" * 20_000  # a gigabyte of lines to count, were it so
    header = read_header(text, tolerant=True)
    assert header.refused["f"].startswith("line 200001, column 8: structs")


def test_a_pointer_to_a_type_that_is_not_made_yet(plain):
    function = ctypes.CDLL(str(plain)).dot
    pending = ctypes.POINTER(type("Later", (ctypes.Structure,), {}))
    function.argtypes = [type("LP_Pending", (ctypes._Pointer,), {}), pending]
    with pytest.raises(DeclarationError, match="other than numbers"):
        mv.from_function(function)


def test_an_integer_too_long_to_be_written_out():
    hypot = mv.from_function(ctypes.CDLL("libm.so.6").hypot, "double hypot(double x, double y)")
    ldexp = mv.load_library("libm.so.6", "double ldexp(double x, int exponent)").ldexp
    for call in (lambda: hypot(10**5000, 1.0), lambda: ldexp(1.0, -(10**5000))):
        with pytest.raises(KernelOverflowError, match="got an int of 16610 bits"):
            call()


# -- families --------------------------------------------------------------------------------------------------------
def kernels_for(plain, *dtypes):
    function = ctypes.CDLL(str(plain)).dot
    return tuple(
        mv.from_function(function, f"double f(size_t n, const {d} *x, const {d} *y)", name=f"f_{d}") for d in dtypes
    )


def test_a_family_of_nothing_or_of_strangers(plain):
    two = kernels_for(plain, "double", "float")
    for bad in ((), (5,), (*two, None), two[:1], (two[0], mv.kernels.sum)):
        with pytest.raises(ArgumentError):
            KernelFamily("f", bad)
    unmade = KernelFamily.__new__(KernelFamily)
    assert unmade.signatures == ()
    assert "KernelFamily" not in repr(unmade)
    assert unmade.__doc__ is None
    with pytest.raises(ArgumentError, match="not called by hand"):
        unmade(np.ones(3), np.ones(3))


def test_a_family_that_could_not_be_made_is_called(plain):
    code = f"""if True:
        import ctypes, numpy as np, mojoview as mv
        from mojoview.calls._overloads import KernelFamily
        from mojoview.memory.errors import ArgumentError
        function = ctypes.CDLL({str(plain)!r}).dot
        kernels = tuple(mv.from_function(function, f"double f(size_t n, const {{d}} *x, const {{d}} *y)")
                        for d in ("double", "float"))
        made = KernelFamily.__new__(KernelFamily)
        for bad in (kernels + (5,), (5,), ()):
            try:
                made.__init__("f", bad)
            except ArgumentError:
                pass
            else:
                raise AssertionError(bad)
            try:
                made(np.ones(3), np.ones(3))
            except ArgumentError as error:
                print(error)
        made.__init__("f", kernels)
        print(made(np.ones(3), np.ones(3)))
    """
    assert run_code("-c", code).split()[-1] == "3.0"


@pytest.mark.parametrize(
    ("x", "error"),
    [
        ([[1], [1, 2]], ArgumentError),
        (pd.DataFrame({"x": [1.0]}), DTypeError),
        (pd.DataFrame({"x": [1.0], "y": [2.0]}), DTypeError),
        (pd.Series(["a"], dtype="string"), DTypeError),
        (pd.Series(pd.arrays.SparseArray([1.0])), DTypeError),
        (pd.Series(["a"], dtype="category"), (DTypeError, ArgumentError)),
        (np.ones(3, ">f8"), DTypeError),
        (np.zeros(3, "M8[ns]"), DTypeError),
        ([10**400], DTypeError),
    ],
    ids=lambda x: type(x).__name__,
)
def test_what_a_family_has_no_kernel_for(x, error, plain):
    family = KernelFamily("f", kernels_for(plain, "double", "float"))
    with pytest.raises(error):
        family(x, x)
    assert family(np.ones(3), np.ones(3)) == 3.0
    assert isinstance(family.kernel_for(np.ones(3), np.ones(3)), Kernel)
