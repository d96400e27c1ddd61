"""The checked call: foreign functions of every shape, what it checks, what it takes, what it gives back."""

from __future__ import annotations

import array as stdlib_array
import ctypes
import doctest
import inspect
import pickle
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.foreign import array, kernel, library, value
from support.process import run_isolated

import mojoview as mv
from mojoview import kernels
from mojoview.kernels import Kernel, Param, Signature
from mojoview.memory._lease import live_leases
from mojoview.memory.errors import (
    AlignmentError,
    ArgumentError,
    DTypeError,
    ExportedError,
    KernelError,
    KernelOverflowError,
    KernelValueError,
    LayoutError,
    MaskError,
    MojoViewError,
    OverlapError,
    ReadOnlyError,
    ReleasedError,
    ShapeError,
    ZeroCopyError,
)


@pytest.fixture(scope="module")
def add_to():
    return kernel("add_to", array("x"), array("y", "inout"))


def test_registers_and_stack():
    out = np.zeros(13)
    mixed = kernel(
        "mixed",
        value("a", "int8"),
        value("b", "float64"),
        value("c", "uint16"),
        value("d", "float32"),
        array("out", "out"),
        value("e", "int64"),
        value("f", "uint64"),
        value("g", "float32"),
        value("h", "float64"),
        value("i", "bool"),
        value("j", "int32"),
        value("k", "float64"),
        value("l", "uint32"),
        value("m", "float32"),
    )
    sent = [-128, 1.25, 65535, 0.5, -(2**62), 2**63, 1e10, -2.5, True, -(2**31), 3.75, 2**32 - 1, 7.0]
    assert mixed(*sent[:4], out, *sent[4:]) is None
    assert out.tolist() == [float(np.float32(v)) if k == 6 else float(v) for k, v in enumerate(sent)]
    kinds = ["float64", "float32"] * 6 + ["int8"]
    floats = kernel("many_floats", array("out", "out"), *[value(f"v{k}", kind) for k, kind in enumerate(kinds)])
    sent = [1.5, 2.5, -3.5, 4.25, 5.0, 6.5, 7.5, 8.5, 9.5, 10.25, 11.5, 12.5, -7]
    floats(out, *sent)
    assert out.tolist() == sent


@pytest.mark.parametrize(
    ("name", "param", "result", "sent", "got"),
    [
        ("as_f32", "float64", "float32", 0.1, float(np.float32(0.1))),
        ("as_f64", "float32", "float64", 0.1, float(np.float32(0.1))),
        ("as_i8", "int64", "int8", 200, -56),
        ("as_i8", "int64", "int8", -1, -1),
        ("as_u16", "uint64", "uint16", 70_000, 4464),
        ("as_i64", "int64", "int64", -(2**63), -(2**63)),
        ("as_u64", "uint64", "uint64", 2**64 - 1, 2**64 - 1),
        ("as_bool", "bool", "bool", False, True),
        ("as_bool", "bool", "bool", np.True_, False),
    ],
)
def test_scalar_results(name, param, result, sent, got):
    came = kernel(name, value("x", param), result=result)(sent)
    assert came == got
    assert type(came) is type(got)


def test_pointers_and_nothing():
    dot = kernel(
        "dot_pointers",
        array("x", passing="pointer"),
        array("y", passing="pointer"),
        value("n", "int64"),
        result="float64",
    )
    x = np.arange(5.0)
    assert dot(x, x + 1, 5) == 40.0
    with pytest.raises(LayoutError, match="argument 'y': expected C order"):
        dot(x, np.arange(10.0)[::2], 5)
    touch = kernel("touch", array("x", "inout"), result="none")
    assert touch(x) is None
    assert x[0] == 1.0


def test_descriptor_is_complete():
    sees = kernel("sees", array("x", ndim=None), array("out", "out", "int64"), shapes="free")
    out = np.zeros(22, "i8")

    def seen(x):
        sees(x, out)
        return out.tolist()

    dense = np.arange(8.0)
    flags = 2 | 4 | 8  # C order, Fortran order, aligned
    expected = [8, 1, 0, 1, 2, 64, 1, flags, 0, 8, 256, 1, 8, 8, 0, 0, 0, 0, 0, 0, 0, 0]
    assert seen(dense) == seen(stdlib_array.array("d", dense)) == seen(mv.view(dense, writable=True)) == expected
    read_only = [*expected[:7], flags | 1, *expected[8:]]
    assert (
        seen(dense.tobytes() and np.frombuffer(dense.tobytes()))
        == seen(mv.view(dense))
        == seen(memoryview(dense.tobytes()).cast("d"))
        == read_only
    )
    assert (
        seen(dense[::-2])
        == seen(mv.view(dense, writable=True)[::-2])
        == [4, -2, 0, 1, 2, 64, 1, 8, 0, 8, 256, 1, 4, -16, *expected[14:]]
    )
    table = np.arange(6.0).reshape(2, 3)
    assert seen(table)[:4] == [6, 3, 1, 2]
    assert seen(table.T)[:4] == [6, 1, 3, 2]
    assert seen(np.zeros((2, 3, 4)))[:4] == [24, 4, 1, 3]
    assert seen(np.array(5.0))[:4] == [1, 0, 0, 0]
    masked = np.ma.array(dense, mask=np.zeros(8, bool))
    assert seen(mv.view(masked))[14] == 0  # nothing is missing: the kernel sees no mask
    aware = kernel("sees", array("x", ndim=None), array("out", "out", "int64"), shapes="free", masks=True)
    aware(mv.view(np.ma.array(dense, mask=[1] + [0] * 7)), out)
    assert (out[14], out[18], out[7]) == (1, 1, read_only[7] | 16)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x,
        mv.view,
        lambda x: stdlib_array.array("d", x),
        lambda x: bytearray(x.tobytes()),
        memoryview,
        pd.Series,
        lambda x: np.ma.array(x),
        lambda x: (ctypes.c_double * 8)(*x),
        lambda x: x.reshape(8, 1)[:, 0],
    ],
)
def test_every_kind_of_array_is_taken(make, add_to):
    x, y = np.arange(8.0), np.ones(8)
    source = make(x)
    if isinstance(source, bytearray):
        source = memoryview(source).cast("d")
    before, leases = sys.getrefcount(source), live_leases()
    add_to(source, y)
    assert y.tolist() == (x + 1).tolist()
    assert (sys.getrefcount(source), live_leases()) == (before, leases)


@pytest.mark.parametrize(
    "make", [lambda y: y, lambda y: mv.view(y, writable=True), lambda y: memoryview(y), lambda y: y.reshape(8, 1)[:, 0]]
)
def test_every_kind_of_output_is_taken(make, add_to):
    y = np.ones(8)
    add_to(np.arange(8.0), make(y))
    assert y.tolist() == list(range(1, 9))
    frozen = pd.Series(np.ones(8))
    with pytest.raises(ReadOnlyError):
        add_to(np.arange(8.0), frozen)
    assert frozen.tolist() == [1.0] * 8


SWAPPED = np.arange(8.0).astype(">f8")
UNALIGNED = np.frombuffer(bytearray(65), "u1")[1:].view("f8")
FIELD = np.zeros(8, np.dtype({"names": ["i", "d"], "formats": ["i4", "f8"], "offsets": [0, 4], "itemsize": 12}))["d"]
RELEASED = mv.view(np.ones(8))
RELEASED.release()


@pytest.mark.parametrize(
    ("x", "y", "error", "text"),
    [
        (
            np.arange(8.0, dtype="f4"),
            np.ones(8),
            DTypeError,
            r"add_to\(\): argument 'x': expected dtype float64, got float32",
        ),
        (np.arange(8), np.ones(8), DTypeError, "got int64"),
        (np.arange(8).astype("M8[s]"), np.ones(8), DTypeError, r"got datetime64\[s\]"),
        (SWAPPED, np.ones(8), DTypeError, r"native byte order, got swapped float64"),
        (np.arange(8.0)[None], np.ones(8), ShapeError, r"argument 'x': expected 1 dimension\(s\), got 2"),
        (np.float64(1), np.ones(8), ShapeError, "got 0"),
        (np.arange(7.0), np.ones(8), ShapeError, r"argument 'y': expected shape \(7,\) like argument 'x', got \(8,\)"),
        (FIELD, np.ones(8), LayoutError, "multiples of the item size"),
        (UNALIGNED, np.ones(8), AlignmentError, "aligned"),
        (np.ones(8), UNALIGNED, AlignmentError, "aligned"),
        (
            np.ones(8),
            mv.view(np.ones(8)),
            ReadOnlyError,
            "argument 'y': it is written to, expected writable memory, got a read-only View",
        ),
        (np.ones(8), np.frombuffer(bytes(64)), ReadOnlyError, "read-only ndarray"),
        (np.ones(8), np.broadcast_to(np.ones(1), (8,)), MojoViewError, "argument 'y'"),
        (
            mv.view(np.ma.array(np.ones(8), mask=[1] + [0] * 7)),
            np.ones(8),
            MaskError,
            "does not support missing values",
        ),
        (RELEASED, np.ones(8), ReleasedError, "released"),
        (np.array([None] * 8), np.ones(8), DTypeError, "object"),
        ({"x": 1.0}, np.ones(8), ArgumentError, "dict"),
        (np.ones(8), [1.0] * 8, ArgumentError, "'y': it is written to, expected an array, got a list"),
        ("text", np.ones(8), ArgumentError, "str"),
        (None, np.ones(8), ArgumentError, "None"),
    ],
)
def test_refusals(x, y, error, text, add_to):
    y_before = np.array(y)
    leases = live_leases()
    with pytest.raises(error, match=text):
        add_to(x, y)
    np.testing.assert_array_equal(np.array(y), y_before)
    assert live_leases() == leases


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_a_call_sees_overlap_where_numpy_does(data):
    """Slices of one array as input and output: refused if, and only if, they share a byte."""
    base = np.arange(144.0).reshape(12, 12)
    rows, columns = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5))

    def part():
        row, column = data.draw(st.integers(0, 7)), data.draw(st.integers(0, 7))
        down, across = data.draw(st.integers(1, 2)), data.draw(st.integers(1, 2))
        found = base[row : row + down * rows : down, column : column + across * columns : across]
        return found.T if data.draw(st.booleans()) and found.shape[0] == found.shape[1] else found

    x, out = part(), part()
    if x.shape != out.shape:
        return
    steps = [pair for pair, n in zip(zip(x.strides, out.strides, strict=True), x.shape, strict=True) if n > 1]
    same = x.ctypes.data == out.ctypes.data and all(a == b for a, b in steps)
    expected = x.copy()
    if np.shares_memory(x, out) and not same:
        with pytest.raises(OverlapError):
            kernels.copy(x, out)
    else:
        kernels.copy(x, out)
        np.testing.assert_array_equal(out, expected)


def test_overlap(add_to):
    d = np.arange(10.0)
    for x, y in [(d, d), (d[1:], d[:-1]), (d[::2], d[:5]), (d[::-1], d)]:
        with pytest.raises(OverlapError, match="shares memory with argument 'x'"):
            add_to(x, y)
    add_to(d[::2], d[1::2])
    add_to(d[:5], d[5:])
    table = np.ones((4, 3))
    add_to(table[:, 0], table[:, 2])
    assert table[:, 2].tolist() == [2.0] * 4
    shared = bytearray(80)
    with pytest.raises(OverlapError):
        add_to(np.frombuffer(shared)[2:], mv.view(shared, writable=True).cast("f8")[:-2])


@pytest.mark.parametrize(
    ("args", "keywords"), [((), {}), ((1,), {}), ((1, 2, 3), {}), ((), {"x": 1}), ((1, 2), {"z": 3}), ((1,), {"x": 2})]
)
def test_wrong_numbers_of_arguments(args, keywords, add_to):
    with pytest.raises(ArgumentError, match=r"add_to\(x, y, \*, threads=None\)"):
        add_to(*args, **keywords)


def test_keywords_and_defaults(add_to):
    y = np.ones(3)
    add_to(y=y, x=np.arange(3.0))
    add_to(np.arange(3.0), y=y)
    assert y.tolist() == [1, 3, 5]
    plain = kernel("as_i64", Param("x", "value", "int64", passing="value", default=7), result="int64")
    assert (plain(), plain(3), plain(x=4)) == (7, 3, 4)


@pytest.mark.parametrize("bad", [1.0, 2**63, -(2**63) - 1, "1", None, 1j, np.float64(2)])
def test_scalars_are_checked(bad):
    with pytest.raises((ArgumentError, KernelOverflowError), match=r"as_i64\(\): argument 'x'"):
        kernel("as_i64", value("x", "int64"), result="int64")(bad)
    assert kernel("as_i64", value("x", "int64"), result="int64")(np.uint8(3)) == 3


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (4, DTypeError),
        (9, MaskError),
        (12, MemoryError),
        (13, OverflowError),
        (16, ZeroDivisionError),
        (17, ValueError),
        (18, KernelError),
        (64, KernelError),
        (255, KernelError),
        (-1, KernelError),
        (256, KernelError),
    ],
)
def test_statuses_become_exceptions(status, error):
    fails = kernel("fails", array("x"), value("status", "int32"))
    assert fails(np.ones(3), 0) is None
    with pytest.raises(error, match=r"fails\(\)") as caught:
        fails(np.ones(3), status)
    assert isinstance(caught.value, MojoViewError)
    if isinstance(caught.value, KernelError):
        assert caught.value.kernel == "fails"
        assert caught.value.code == (status if 0 < status < 256 else 255)


def test_a_view_in_use_cannot_be_released():
    view = mv.view(np.zeros(4), writable=True)
    seen = []

    @ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
    def callback(_):
        try:
            view.release()
        except ExportedError as error:
            seen.append(error)
        return 0

    address = ctypes.cast(callback, ctypes.c_void_p).value
    k = Kernel.from_address(Signature("callback", (array("x", "inout"),)), address, owner=callback)
    k(view)
    assert len(seen) == 1
    view.release()


def test_calls_may_nest():
    x, y = np.ones(4), np.zeros(4)
    add = kernel("add_to", array("x"), array("y", "inout"))

    @ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
    def callback(_):
        add(x, y)
        return 0

    outer = Kernel.from_address(
        Signature("outer", (array("x"),)), ctypes.cast(callback, ctypes.c_void_p).value, owner=callback
    )
    outer(x)
    assert y.tolist() == [1.0] * 4


def test_what_a_kernel_says_of_itself(add_to):
    assert add_to.name == add_to.__name__ == "add_to"
    assert str(inspect.signature(add_to)) == "(x, y, *, threads=None)"
    assert repr(add_to) == "<mojoview kernel add_to(x, y, *, threads=None)>"
    assert add_to.address == ctypes.cast(library().add_to, ctypes.c_void_p).value
    assert add_to.owner is library()
    assert add_to.signature.params[1].writes
    assert callable(add_to)
    with pytest.raises(ArgumentError, match="pickled"):
        pickle.dumps(add_to)
    with pytest.raises(ArgumentError, match="not called by hand"):
        Kernel()
    for name in sorted(set(kernels.__all__) & set(dir(kernels))):
        thing = getattr(kernels, name)
        if isinstance(thing, Kernel):
            assert thing.name == name
            assert thing.__doc__.startswith(f"{name}(")
            assert "threads" in inspect.signature(thing).parameters
            assert (
                thing.__doc__.split("\n")[0].split("(")[1].split(")")[0].count(",")
                == len(inspect.signature(thing).parameters) - 1
            )
    assert kernels.__all__ == sorted(kernels.__all__)


@pytest.mark.parametrize("name", [name for name in kernels.__all__ if isinstance(getattr(kernels, name), Kernel)])
def test_examples_of_the_builtin_kernels(name):
    example = doctest.DocTestParser().get_doctest(getattr(kernels, name).__doc__, {}, name, None, None)
    assert len(example.examples) >= 3
    assert doctest.DocTestRunner().run(example).failed == 0


@pytest.mark.parametrize(
    ("signature", "address", "owner", "error"),
    [
        (Signature("k", (array("x"),)), 0, 1, ArgumentError),
        (Signature("k", (array("x"),)), "8", 1, ArgumentError),
        (Signature("k", (array("x"),)), 8, None, ArgumentError),
        (Signature("k", (array("x", dtype="complex128"),)), 8, 1, DTypeError),
        (Signature("k", (array("x", dtype="nonsense"),)), 8, 1, DTypeError),
        (Signature("k", (value("x", "float16"),)), 8, 1, DTypeError),
        (Signature("k", (array("x"),), result="float16"), 8, 1, DTypeError),
        (Signature("k", (array("x"),), result="str"), 8, 1, DTypeError),
        (Signature("k", tuple(array(f"x{k}") for k in range(15))), 8, 1, KernelValueError),
    ],
)
def test_signatures_that_cannot_be_called(signature, address, owner, error):
    with pytest.raises(error):
        Kernel.from_address(signature, address, owner=owner)


def test_common_dtype():
    sees = kernel("sees", array("x", dtype="T", ndim=None), array("out", "out", "int64"), shapes="free")
    out = np.zeros(22, "i8")
    for dtype in ("f4", "i2", "?", "M8[ns]"):
        sees(np.zeros(3, dtype), out)
        assert out[5] == np.dtype(dtype).itemsize * 8


def test_datetimes_are_never_plain_integers():
    a = np.array(["2024-01-01", "NaT"], "M8[ns]")
    touch = kernel("touch", array("x", "inout", "int64"), result="none")
    with pytest.raises(DTypeError, match=r"expected dtype int64, got datetime64\[ns\]"):
        touch(a)
    with pytest.raises(ZeroCopyError):
        memoryview(mv.view(a))
    touch(mv.view(a.copy(), writable=True).cast("i8"))


def test_references_are_flat():
    assert run_isolated("leaks_kernels.py", "2000").endswith("ok\n")
