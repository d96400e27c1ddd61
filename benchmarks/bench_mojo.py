"""Time of a checked call of a Mojo kernel on two arrays, compared with Modular's binding, ctypes and a built-in kernel.

All of them compute y += x. Modular's binding is an extension module in Mojo that reads `__array_interface__`.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from peers import compare

import mojoview as mv
from mojoview import kernels
from mojoview.loading.mojo.compiler import find_compiler

KERNEL = """from mojoview import E_SHAPE, OK, In, InOut, Status, apply


@export("add_to")
def add_to(x: In[DType.float64], y: InOut[DType.float64]) abi("C") -> Status:
    if len(x) != len(y):
        return E_SHAPE
    for i in range(len(x)):
        y[i] = y[i] + x[i]
    return OK


def plus[dt: DType, w: SIMDLength, //](a: SIMD[dt, w], b: SIMD[dt, w]) -> SIMD[dt, w]:
    return a + b


@export("add_lanes")
def add_lanes(x: In[DType.float64], y: InOut[DType.float64]) abi("C") -> Status:
    return apply[plus](x, y, y)


@export("add_plain")
def add_plain(x: Pointer[Float64, ImmutAnyOrigin], y: Pointer[Float64, MutAnyOrigin], n: Int) abi("C"):
    for i in range(n):
        y[unsafe_offset=i] = y[unsafe_offset=i] + x[unsafe_offset=i]
"""
BINDING = """from std.os import abort
from std.python import PythonObject
from std.python.bindings import PythonModuleBuilder


@export
def PyInit_modular_add() abi("C") -> PythonObject:
    try:
        var m = PythonModuleBuilder("modular_add")
        m.def_function[add_to]("add_to")
        m.def_function[add_addresses]("add_addresses")
        return m.finalize()
    except e:
        abort(String(e))


def add_to(x: PythonObject, y: PythonObject) raises -> PythonObject:
    return add_addresses(x.__array_interface__["data"][0], y.__array_interface__["data"][0], x.size)


def add_addresses(x: PythonObject, y: PythonObject, n: PythonObject) raises -> PythonObject:
    var source = Pointer[Float64, MutAnyOrigin](unsafe_from_address=Int(py=x))
    var target = Pointer[Float64, MutAnyOrigin](unsafe_from_address=Int(py=y))
    for i in range(Int(py=n)):
        target[unsafe_offset=i] = target[unsafe_offset=i] + source[unsafe_offset=i]
    return PythonObject(None)
"""

pytestmark = pytest.mark.skipif(find_compiler(required=False) is None, reason="no Mojo compiler: mojoview[mojo]")


@pytest.fixture(scope="module")
def ways(tmp_path_factory):
    """(module of kernels, ctypes function on addresses, Modular's binding)"""
    folder = tmp_path_factory.mktemp("mojo")
    (folder / "add.mojo").write_text(KERNEL)
    (folder / "modular_add.mojo").write_text(BINDING)
    subprocess.run(
        [find_compiler().path, "build", "--emit", "shared-lib", "modular_add.mojo", "-o", "modular_add.so"],
        cwd=folder,
        check=True,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOJOVIEW_CACHE_DIR", str(folder / "cache"))
        module = mv.load(folder / "add.mojo")
        patch.syspath_prepend(str(folder))
        import modular_add
    for name in ("PYTHONEXECUTABLE", "MOJO_PYTHON_LIBRARY", "PYTHONPATH"):  # it sets them for child processes
        if name in os.environ:
            os.putenv(name, os.environ[name])
        else:
            os.unsetenv(name)
    plain = ctypes.CDLL(str(module.library)).add_plain
    plain.restype, plain.argtypes = None, (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_ssize_t)
    yield module, plain, modular_add
    sys.modules.pop("modular_add")


def take_addresses(function, x, y):
    function(x.ctypes.data, y.ctypes.data, x.size)


def asserted(calls, x, y):
    for call in calls.values():
        y[:] = 1
        call()
        assert (y == x + 1).all()


def test_two_arrays(ways, benchmark):
    module, plain, binding = ways
    x, y = np.arange(8.0), np.zeros(8)
    calls = {
        "mojoview, a Mojo kernel (checked)": partial(module.add_to, x, y),
        "Modular's binding, __array_interface__": partial(binding.add_to, x, y),
        "Modular's binding, addresses at hand": partial(binding.add_addresses, x.ctypes.data, y.ctypes.data, 8),
        "ctypes, x.ctypes.data": partial(take_addresses, plain, x, y),
        "ctypes, addresses at hand": partial(plain, x.ctypes.data, y.ctypes.data, 8),
        "kernels.add, built in": partial(kernels.add, x, y, y),
        "kernels.axpy, built in": partial(kernels.axpy, 1.0, x, y),
    }
    asserted(calls, x, y)
    table = compare(
        "a Mojo kernel on two arrays of 8 float64, y += x",
        calls,
        rounds=200,
        number=500,
        targets={
            "Modular's binding, __array_interface__": 40,
            "ctypes, x.ctypes.data": 10,
            "ctypes, addresses at hand": 10,
            "kernels.add, built in": 1 / 1.1,
            "kernels.axpy, built in": 1 / 1.1,
        },
    )
    table.record(benchmark)
    benchmark(module.add_to, x, y)


def test_long_arrays(ways, benchmark):
    """Where the loop counts and not the call."""
    module, _, _ = ways
    x, y = np.arange(100_000.0), np.zeros(100_000)
    calls = {
        "mojoview, a Mojo kernel with apply()": partial(module.add_lanes, x, y),
        "mojoview, a Mojo kernel element by element": partial(module.add_to, x, y),
        "kernels.add, built in": partial(kernels.add, x, y, y, threads=1),
        "np.add(x, y, y)": partial(np.add, x, y, y),
    }
    asserted(calls, x, y)
    table = compare(
        "a Mojo kernel on two arrays of 100,000 float64, y += x",
        calls,
        rounds=60,
        targets={"kernels.add, built in": 1 / 1.1},
    )
    table.record(benchmark)
    benchmark(module.add_to, x, y)
