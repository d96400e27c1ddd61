"""Arguments and signatures that nobody means well: each ends as one error of the tree, or as NumPy has it."""

from __future__ import annotations

import ctypes

import numpy as np
import pandas as pd
import pytest
from support.process import run_code

import mojoview as mv
from mojoview import kernels
from mojoview.kernels import Kernel, Param, Signature
from mojoview.memory.errors import ArgumentError, DTypeError, KernelOverflowError, KernelValueError, MojoViewError


class Index:
    def __init__(self, number):
        self.number = number

    def __index__(self):
        return self.number


# -- options ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["var", "std"])
@pytest.mark.parametrize(
    ("ddof", "error"),
    [("1", ArgumentError), (None, ArgumentError), (1j, ArgumentError), (10**400, KernelOverflowError)],
)
def test_a_refused_ddof_is_called_by_its_name(name, ddof, error):
    with pytest.raises(error, match=rf"{name}\(\): argument 'ddof'"):
        getattr(kernels, name)(np.ones(3), ddof=ddof)


def test_integers_of_other_types_count_as_integers():
    x = np.arange(6.0).reshape(2, 3)
    assert kernels.sum(x, threads=Index(2)) == 15.0
    assert kernels.sum(x, threads=Index(2**70)) == 15.0
    assert kernels.sum(x, axis=Index(1), threads=Index(1)).tolist() == [3.0, 12.0]
    with pytest.raises(KernelValueError, match="at least 1, got 0"):
        kernels.sum(x, threads=Index(0))


@pytest.mark.parametrize(
    "number", [0.1, 1 / 3, 1e-8, 70000.0, -1e300, 2**63, 65519.9, float("inf"), float("nan"), np.float32(0.1)]
)
@pytest.mark.filterwarnings("error")
def test_scalars_for_float16_are_rounded_to_float16(number):
    x = np.array([-157.6, 0.0, -0.0, 3.5, np.inf, np.nan, 6e-8], "f2")
    with np.errstate(all="ignore"):
        a = np.float16(number)
        scaled, summed = a * x, x + a
        fused = (np.float32(a) * x.astype("f4") + x.astype("f4")).astype("f2")
    out = np.empty_like(x)
    kernels.scale(number, x, out)
    np.testing.assert_array_equal(out, scaled)
    kernels.add(x, number, out)
    np.testing.assert_array_equal(out, summed)
    y = x.copy()
    kernels.axpy(number, x, y)
    np.testing.assert_array_equal(y, fused)


# -- objects ---------------------------------------------------------------------------------------------------------
class Unrelated:
    """Has an attribute `mojo` that is not ours, and memory of its own."""

    mojo = 5

    def __init__(self):
        self.array = np.arange(3.0)
        self.__array_interface__ = self.array.__array_interface__


def test_an_attribute_named_mojo_does_not_make_a_pandas_object():
    obj = Unrelated()
    assert mv.view(obj).ptr == obj.array.ctypes.data
    assert kernels.sum(obj) == 3.0
    assert mv.view(obj, copy="always").shape == (3,)
    empty = type("Empty", (), {"mojo": property(lambda self: 1 / 0)})()
    for take in (mv.view, kernels.sum, kernels.describe):
        with pytest.raises(ArgumentError, match="expected an ndarray"):
            take(empty)


@pytest.mark.parametrize("pairs", [[(1, 2, 3)], [None], ["ab"], [()]])
def test_describe_wants_pairs(pairs):
    frame = type("Frame", (), {"items": lambda self: pairs})()
    with pytest.raises(ArgumentError, match=r"describe\(\): items\(\): expected \(label, array\) pairs"):
        kernels.describe(frame)


def test_a_kernel_made_past_its_constructors_refuses_calls():
    code = """
from mojoview.kernels import Kernel
for args in ((), (1,), (1, 2, 3)):
    try:
        Kernel.__new__(Kernel)(*args)
    except TypeError as error:
        print(type(error).__name__)
"""
    assert run_code("-c", code).split() == ["ArgumentError"] * 3


# -- signatures ------------------------------------------------------------------------------------------------------
def x(**changes):
    return Param(**{"name": "x", "role": "in", "dtype": "float64", **changes})


def value(name="a", **changes):
    return Param(**{"name": name, "role": "value", "dtype": "float64", "passing": "value", **changes})


@pytest.mark.parametrize(
    ("signature", "error"),
    [
        (None, ArgumentError),
        ("k", ArgumentError),
        (Signature, ArgumentError),
        (Signature(None, ()), ArgumentError),
        (Signature("k", None), ArgumentError),
        (Signature("k", ("x",)), ArgumentError),
        (Signature("k", (x(), x())), ArgumentError),
        (Signature("k", (x(name="threads"),)), ArgumentError),
        (Signature("k", (x(name="a b"),)), ArgumentError),
        (Signature("k", (x(name="for"),)), ArgumentError),
        (Signature("k", (x(name=3),)), ArgumentError),
        (Signature("k", (x(role="reads"),)), ArgumentError),
        (Signature("k", (x(passing="mail"),)), ArgumentError),
        (Signature("k", (x(passing="value"),)), ArgumentError),
        (Signature("k", (value(passing="descriptor"),)), ArgumentError),
        (Signature("k", (value(passing="pointer"),)), ArgumentError),
        (Signature("k", (x(dtype=None),)), ArgumentError),
        (Signature("k", (x(dtype=np.float64),)), ArgumentError),
        (Signature("k", (x(dtype=">f8"),)), DTypeError),
        (Signature("k", (x(ndim=-1),)), ArgumentError),
        (Signature("k", (x(ndim=9),)), ArgumentError),
        (Signature("k", (x(ndim=300),)), ArgumentError),
        (Signature("k", (x(ndim="1"),)), ArgumentError),
        (Signature("k", (x(ndim=True),)), ArgumentError),
        (Signature("k", (x(),), result=None), ArgumentError),
        (Signature("k", (x(),), result="T"), DTypeError),
        (Signature("k", (x(),), shapes="any"), ArgumentError),
        (Signature("k", (value(default=1.0), value("b"))), ArgumentError),
    ],
)
def test_contradictory_signatures_are_refused(signature, error):
    with pytest.raises(error) as caught:
        Kernel.from_address(signature, 8, owner=ctypes)
    assert isinstance(caught.value, MojoViewError)


def test_a_bool_is_no_address():
    with pytest.raises(ArgumentError, match="address"):
        Kernel.from_address(Signature("k", (x(),)), True, owner=ctypes)


# -- pandas' arrays --------------------------------------------------------------------------------------------------
def test_an_extension_array_carries_values_and_mask():
    x = pd.array([1, None, 3], dtype="Int64")
    for obj in (x, pd.Series(x), pd.Index(x)):
        v = mv.view(obj)
        assert (v.dtype, v.masked) == (np.dtype("i8"), True)
        assert np.asarray(v.mask).tolist() == [False, True, False]
        with pytest.raises(MojoViewError):
            np.asarray(v)
        for seen in (obj, v):
            assert (kernels.sum(seen), kernels.min(seen), kernels.count(seen)) == (4, 1, 2)
            assert kernels.describe(seen).count == 2
    assert mv.view(x).ptr == x._data.__array_interface__["data"][0]
    assert mv.view(x).mask.ptr == x._mask.__array_interface__["data"][0]
