"""`from_function`: pointers of ctypes, cffi, Numba, Cython and SciPy as kernels."""

import ctypes
import gc
import importlib.util
import inspect
import subprocess
import sys
import sysconfig
import weakref

import numpy as np
import pytest
from native import build
from support.foreign import compiled

import mojoview as mv
from mojoview.memory.errors import ArgumentError, DeclarationError, ShapeError

DOT = "double dot(size_t n, const double *x, const double *y)"


@pytest.fixture
def plain():
    """A handle whose functions have no types yet."""
    return ctypes.CDLL(str(compiled("plain_library")))


# ---- ctypes
def test_ctypes_function(plain):
    dot = mv.from_function(plain.dot, DOT)
    assert dot(np.arange(3.0), np.ones(3)) == 3
    assert dot.owner is plain.dot
    assert dot.name == "dot"
    with pytest.raises(ArgumentError, match="this pointer has no types"):
        mv.from_function(plain.dot)
    plain.dot.argtypes, plain.dot.restype = [ctypes.c_size_t, *[ctypes.POINTER(ctypes.c_double)] * 2], ctypes.c_double
    assert mv.from_function(plain.dot, DOT)(np.ones(4), np.ones(4)) == 4
    assert mv.from_function(plain.dot, DOT, name="inner").name == "inner"
    own = mv.from_function(plain.dot, sizes={"x0": ("x1", "x2")})
    assert own(np.ones(4), np.ones(4)) == 4
    assert [p.role for p in own.signature.params] == ["inout", "inout"]
    for wrong in (
        "float dot(size_t, const double *, const double *)",
        "double dot(int n, const double *, const double *)",
        "double dot(size_t n, const float *, const double *)",
        "double dot(size_t n, const double *x)",
        "double dot(size_t n, double x, const double *y)",
    ):
        with pytest.raises(DeclarationError, match="but the object is"):
            mv.from_function(plain.dot, wrong)


def test_callback_of_ctypes():
    seen = []
    kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_double, ctypes.c_bool, ctypes.c_uint8, ctypes.c_float)

    def note(*args):
        seen.append(args)
        return 7

    kernel = mv.from_function(kind(note))
    gc.collect()  # the kernel keeps the callback
    assert kernel(1.5, True, 255, 0.5) == 7
    assert seen == [(1.5, True, 255, 0.5)]


@pytest.mark.parametrize(
    "kind",
    [
        ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p),
        ctypes.CFUNCTYPE(ctypes.py_object),
        ctypes.CFUNCTYPE(ctypes.c_longdouble),
        ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.POINTER(ctypes.c_int))),
    ],
)
def test_ctypes_types_that_are_no_numbers(kind):
    with pytest.raises(DeclarationError, match="other than numbers"):
        mv.from_function(kind(1234))


def test_ctypes_functions_that_need_the_gil():
    with pytest.raises(ArgumentError, match="need the GIL"):
        mv.from_function(ctypes.pythonapi.PyErr_Clear, "void PyErr_Clear(void)")
    with pytest.raises(ArgumentError, match="NULL"):
        mv.from_function(ctypes.CFUNCTYPE(ctypes.c_int)(), "int f(void)")


# ---- capsules
@pytest.fixture(scope="module")
def cython_module(tmp_path_factory):
    pytest.importorskip("Cython", reason="Cython is not installed")
    directory = tmp_path_factory.mktemp("capi")
    source = directory / "exported.pyx"
    source.write_text("""
cdef api double total(Py_ssize_t n, const double *x) noexcept nogil:
    cdef double sum = 0
    for i in range(n):
        sum += x[i]
    return sum

cdef api double shifted(double x, void *user) noexcept nogil:
    return x + ((<double *>user)[0] if user is not NULL else -1)

cdef api object thing(object x):
    return x
""")
    for command in (
        [sys.executable, "-m", "cython", "-3", source],
        [
            build.COMPILERS[0],
            "-shared",
            "-fPIC",
            "-O0",
            f"-I{sysconfig.get_path('include')}",
            directory / "exported.c",
            "-o",
            directory / f"exported{sysconfig.get_config_var('EXT_SUFFIX')}",
        ],
    ):
        subprocess.run(command, check=True, timeout=200, env=build.environment())
    (binary,) = directory.glob("exported*.so")
    spec = importlib.util.spec_from_file_location("exported", binary)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_capsules_of_cython(cython_module):
    capi = cython_module.__pyx_capi__
    total = mv.from_function(capi["total"], "double total(Py_ssize_t n, const double *x)")
    assert total(np.arange(4.0)) == 6
    plain = mv.from_function(capi["total"], name="total")
    assert str(inspect.signature(plain)) == "(x0, x1, *, threads=None)"
    assert plain(3, np.arange(4.0)) == 3
    with pytest.raises(DeclarationError, match="but the object is"):
        mv.from_function(capi["total"], "double total(int n, const double *x)")
    with pytest.raises(DeclarationError, match="PyObject is not known"):
        mv.from_function(capi["thing"])


def test_capsules_that_hold_no_function():
    import datetime

    with pytest.raises(ArgumentError, match="does not hold a function with known types"):
        mv.from_function(datetime.datetime_CAPI)


def test_low_level_callable(cython_module):
    scipy = pytest.importorskip("scipy", reason="SciPy is not installed")
    value = ctypes.c_double(40)
    user = ctypes.cast(ctypes.pointer(value), ctypes.c_void_p)
    given = scipy.LowLevelCallable.from_cython(cython_module, "shifted", user)
    shifted = mv.from_function(given, name="shifted")
    assert shifted(2.0) == 42
    value.value = 1
    assert shifted(2.0) == 3
    assert str(inspect.signature(shifted)) == "(x0, *, threads=None)"
    assert mv.from_function(scipy.LowLevelCallable.from_cython(cython_module, "shifted"))(2.0) == 1
    named = mv.from_function(given, "double shifted(double x, void *user)")
    assert named(x=2.0) == 3
    with pytest.raises(DeclarationError, match="void \\*, which does not name"):
        mv.from_function(cython_module.__pyx_capi__["shifted"])


# ---- Numba
def test_numba_cfunc():
    numba = pytest.importorskip("numba", reason="Numba is not installed")
    double = numba.types.float64
    pointer = numba.types.CPointer(double)

    @numba.cfunc(double(numba.types.intp, pointer))
    def total(n, x):
        result = 0.0
        for i in range(n):
            result += x[i]
        return result

    kernel = mv.from_function(total)
    assert str(kernel.signature) == "float64 total(int64 n, float64 *x)"
    assert kernel(np.arange(5.0)) == 10
    with pytest.raises(mv.ReadOnlyError):
        kernel(mv.view(np.arange(5.0)))
    constant = mv.from_function(total, "double total(int64_t n, const double *x)")
    assert constant(mv.view(np.arange(5.0))) == 10
    with pytest.raises(DeclarationError, match="but the object is"):
        mv.from_function(total, "double total(int64_t n, const float *x)")
    alive = weakref.ref(total)
    del total, constant
    gc.collect()
    assert alive() is not None
    assert kernel(np.ones(3)) == 3


# ---- cffi
def test_cffi_pointer():
    cffi = pytest.importorskip("cffi", reason="cffi is not installed")
    ffi = cffi.FFI()
    ffi.cdef("double dot(size_t n, const double *x, const double *y); float half(float); extern int a_variable;")
    lib = ffi.dlopen(str(compiled("plain_library")))
    dot = mv.from_function(lib.dot, DOT)
    assert dot(np.arange(3.0), np.ones(3)) == 3
    with pytest.raises(ShapeError):
        dot(np.ones(3), np.ones(2))
    half = mv.from_function(ffi.addressof(lib, "half"), name="half")
    assert half(3.0) == 1.5
    with pytest.raises(DeclarationError, match="but the object is"):
        mv.from_function(lib.half, "double half(double)")
    with pytest.raises(ArgumentError, match="expected a cffi function pointer"):
        mv.from_function(ffi.addressof(lib, "a_variable"))


# ---- arguments
@pytest.mark.parametrize("thing", [None, 1234, len, lambda x: x, "dot", object(), (1, 2, 3), b""])
def test_what_is_no_function_pointer(thing):
    with pytest.raises(ArgumentError, match="expected a function pointer"):
        mv.from_function(thing, "int f(int)")


def test_other_arguments(plain):
    for name in ("a b", "", 3):
        with pytest.raises(ArgumentError, match="name: expected an identifier"):
            mv.from_function(plain.dot, DOT, name=name)
    with pytest.raises(ArgumentError, match="declaration: expected a str"):
        mv.from_function(plain.dot, 3)
    with pytest.raises(DeclarationError, match="no function has an argument 'm'"):
        mv.from_function(plain.dot, DOT, sizes={"m": "x"})
