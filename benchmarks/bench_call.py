"""What a checked call costs beside an empty call and the usual ways to native code (8 float64, y += x)."""

from __future__ import annotations

import array
import ctypes
import subprocess
import sys
import sysconfig
from functools import partial
from pathlib import Path

import numba
import numpy as np
import pytest
from peers import compare

import mojoview
from mojoview import kernels
from mojoview.kernels import Kernel, Param, Signature

NATIVE = """
#include "abi.h"
#ifdef EXTENSION
#include <Python.h>
static PyObject *empty(PyObject *self, PyObject *const *args, Py_ssize_t n) { Py_RETURN_NONE; }
static PyMethodDef methods[] = {{"empty", (PyCFunction)(void (*)(void))empty, METH_FASTCALL, NULL}, {NULL}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "floor_call", NULL, -1, methods};
PyMODINIT_FUNC PyInit_floor_call(void) { return PyModule_Create(&module); }
#else
int32_t add_to(const mv_desc *x, const mv_desc *y) {
    for (int64_t i = 0; i < x->size; i++)
        ((double *)y->data)[i] += ((const double *)x->data)[i];
    return 0;
}
void add_plain(const double *x, double *y, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        y[i] += x[i];
}
#endif
"""
MEMORYVIEWS = """# cython: language_level=3, boundscheck=False, wraparound=False
def add_views(const double[::1] x, double[::1] y):
    cdef Py_ssize_t i
    for i in range(x.shape[0]):
        y[i] += x[i]
def empty(x, y):
    pass
"""


@pytest.fixture(scope="module")
def native(tmp_path_factory):
    """(kernel, ctypes library, C floor, Cython module)"""
    folder = tmp_path_factory.mktemp("native")
    include = ["-I" + str(Path(mojoview.__file__).parent / "memory"), "-I" + sysconfig.get_path("include")]
    (folder / "native.c").write_text(NATIVE)
    (folder / "views.pyx").write_text(MEMORYVIEWS)
    build = ["cc", "-O3", "-shared", "-fPIC", "-w", *include]
    subprocess.run([*build, str(folder / "native.c"), "-o", str(folder / "native.so")], check=True)
    subprocess.run([*build, "-DEXTENSION", str(folder / "native.c"), "-o", str(folder / "floor_call.so")], check=True)
    subprocess.run([sys.executable, "-m", "cython", "-3", str(folder / "views.pyx")], check=True)
    subprocess.run([*build, str(folder / "views.c"), "-o", str(folder / "views.so")], check=True)
    library = ctypes.CDLL(str(folder / "native.so"))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        import floor_call
        import views
    signature = Signature("add_to", (Param("x", "in", "float64"), Param("y", "inout", "float64")))
    kernel = Kernel.from_address(signature, ctypes.cast(library.add_to, ctypes.c_void_p).value, owner=library)
    return kernel, library, floor_call.empty, views


def python_empty(x, y):
    pass


def test_two_arrays(native, benchmark):
    kernel, library, floor, views = native

    @numba.njit
    def add_numba(x, y):
        for i in range(x.shape[0]):
            y[i] += x[i]

    x, y = np.arange(8.0), np.zeros(8)
    for call in (
        partial(kernel, x, y),
        partial(add_numba, x, y),
        partial(np.add, x, y, y),
        partial(views.add_views, x, y),
        partial(kernels.add, x, y, y),
        partial(kernels.axpy, 1.0, x, y),
    ):
        y[:] = 1
        call()
        assert (y == x + 1).all()
    library.add_plain.restype = None
    table = compare(
        "two arrays of 8 float64, y += x",
        {
            "mojoview Kernel (checked)": partial(kernel, x, y),
            "empty C function that looks at nothing": partial(floor, x, y),
            "empty Cython function": partial(views.empty, x, y),
            "empty Python function": partial(python_empty, x, y),
            "kernels.add": partial(kernels.add, x, y, y),
            "kernels.axpy": partial(kernels.axpy, 1.0, x, y),
            "numba.njit": partial(add_numba, x, y),
            "np.add(x, y, y)": partial(np.add, x, y, y),
            "Cython typed memoryview": partial(views.add_views, x, y),
            "ctypes, addresses at hand": partial(
                library.add_plain, ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data), 8
            ),
        },
        rounds=300,
        number=1000,
        targets={"empty Cython function": 1 / 1.5, "numba.njit": 6, "np.add(x, y, y)": 6},
    )
    table.record(benchmark)
    benchmark(kernel, x, y)


def test_any_buffer(native, benchmark):
    kernel, _, _, views = native
    x, y = array.array("d", range(8)), array.array("d", bytes(64))
    kernel(x, y)
    assert y == x
    views.add_views(x, y)
    assert y[3] == 6
    table = compare(
        "two array.array of 8 float64, y += x",
        {
            "mojoview Kernel (checked)": partial(kernel, x, y),
            "Cython typed memoryview": partial(views.add_views, x, y),
        },
        rounds=300,
        number=1000,
        targets={"Cython typed memoryview": 2.5},
    )
    table.record(benchmark)
    benchmark(kernel, x, y)


def test_gil_is_let_go_only_where_it_pays(native, benchmark):
    kernel, _, _, _ = native
    arrays = {n: (np.zeros(n), np.zeros(n)) for n in (8, 512, 4095, 4096, 65536)}
    table = compare(
        "y += x over sizes: the GIL is let go from 4096 elements on",
        {f"n = {n}": partial(kernel, *pair) for n, pair in arrays.items()},
        rounds=100,
        number=100,
    )
    table.record(benchmark)
    benchmark(kernel, *arrays[4096])
