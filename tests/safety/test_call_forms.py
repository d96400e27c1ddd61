"""Every form of a call, made in every way: results, arrays and exceptions are those of the plain call."""

from __future__ import annotations

import asyncio
import functools
import traceback
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.foreign import compiled

import mojoview as mv
from mojoview import native
from mojoview.calls._kernel import handled_kernel
from mojoview.calls.signature import Size
from mojoview.kernels import Kernel, Param, Signature
from mojoview.loading.mojo.compiler import find_compiler
from mojoview.memory import errors

MOJO = Path(__file__).parents[1] / "mojo"
DECLARED = """double dot(size_t n, const double *x, const double *y);
void scale(double a, const double *x, int n, double *y);"""
needs_compiler = pytest.mark.skipif(
    find_compiler(required=False) is None, reason="no Mojo compiler: pip install 'mojoview[mojo]'"
)
WAYS = {
    "standard": lambda kernel, *args, **options: mv.safe_call(kernel, *args, **options),
    "strict": lambda kernel, *args, **options: mv.safe_call(kernel, *args, safety="strict", **options),
    "isolated": lambda kernel, *args, **options: mv.safe_call(kernel, *args, isolate=True, **options),
    "isolated-strict": lambda k, *args, **options: mv.safe_call(k, *args, isolate=True, safety="strict", **options),
    "submit": lambda kernel, *args, **options: kernel.submit(*args, **options).result(60),
    "aio": lambda kernel, *args, **options: asyncio.run(_awaited(kernel, args, options)),
}


async def _awaited(kernel, args, options):
    return await kernel.aio(*args, **options)


@pytest.fixture(scope="module")
def bench(mojo_cache):
    """The kernels of two modules, in one namespace."""
    modules = [mv.load(MOJO / "outcomes.mojo"), mv.load(MOJO / "parcel")]
    found = {name: getattr(module, name) for module in modules for name in (*module, *module.families)}
    found |= {"outcomes": modules[0], "parcel": modules[1]}
    return found


def assert_same(found, expected, where):
    assert type(found) is type(expected), where
    if isinstance(expected, tuple):
        assert len(found) == len(expected), where
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other, where)
    elif isinstance(expected, np.ndarray):
        assert found.flags.owndata, where
        assert found.dtype == expected.dtype, where
        np.testing.assert_array_equal(found, expected, where)
    else:
        assert found == expected or (found != found and expected != expected), where


def outcome_of(call, args, options):
    """Return the result of a call, and the facts of its exception."""
    try:
        result = call(*args, **options)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = (last.filename, last.lineno) if last.filename.endswith(".mojo") else None
        facts = [getattr(error, name, None) for name in ("kernel", "code", "index")]
        return None, (type(error), str(error), facts, where, getattr(error, "__notes__", None))
    return result, None


def compare_with_plain(kernel, make, options=None):
    """Compare every way with the plain call, twice: the second call uses the plan of the first."""
    options = options or {}
    for name, way in WAYS.items():
        for attempt in ("first", "second"):
            where = f"{name}, {attempt} call"
            plain, safe = make(), make()
            result, error = outcome_of(kernel, plain, options)
            found, raised = outcome_of(functools.partial(way, kernel), safe, options)
            assert raised == error, where
            assert_same(found, result, where)
            for one, other in zip(safe, plain, strict=True):
                if isinstance(other, np.ndarray):
                    np.testing.assert_array_equal(one, other, where)


F8 = np.arange(1.0, 6.0)
CALLS = {
    "numbers left out": ("minmax", lambda: (F8,)),
    "numbers": ("minmax", lambda: (F8, 0, 1.5, 10)),
    "numbers by name": ("minmax", lambda: (F8,), {"count": 7}),
    "numbers, large": ("minmax", lambda: (np.arange(100_000.0), 0.0, 0.0, 1)),
    "number out of range": ("minmax", lambda: (F8, 0.0, 0.0, 1 << 40)),
    "number of a wrong kind": ("minmax", lambda: (F8, "a")),
    "failure with numbers": ("minmax", lambda: (F8[:0],)),
    "output left out": ("double_of", lambda: (F8,)),
    "output": ("double_of", lambda: (F8, np.zeros(5))),
    "two outputs and a result": ("halves", lambda: (np.arange(5, dtype="i4"),)),
    "one output and a result": ("halves", lambda: (np.arange(5, dtype="i4"), np.zeros(5, "i4")), {"by": 3}),
    "list": ("double_of", lambda: ([1, 2.5, 3],)),
    "tuple": ("flags", lambda: ((True, False, True), [[1, 2, 3], [4, 5, 6]])),
    "uneven list": ("flags", lambda: ([True], [[1], [2, 3]])),
    "list for an output": ("double_of", lambda: ([1.0], [0.0])),
    "dict": ("double_of", lambda: ({"x": [1.0]},)),
    "no array to make an output like": ("row_sums", lambda: (np.ones((2, 2)),)),
    "message": ("raising", lambda: (F8, 0.5)),
    "message of a list's call": ("raising", lambda: ([3.0], 0.5)),
    "no message": ("raising", lambda: (F8, 2.0, 7.0)),
    "a message that is given": ("raising", lambda: (F8, 2.0, 7.0, np.zeros(9, "u1"))),
    "own status": ("fails", lambda: (F8, 1)),
    "own status without words": ("fails", lambda: (F8, 3)),
    "status of the package": ("fails", lambda: (F8, 5)),
    "status of the package, memory": ("fails", lambda: (F8, 14)),
    "unknown status": ("fails", lambda: (F8, 200)),
    "threads": ("fails", lambda: (F8, 0), {"threads": 2}),
    "family": ("scale", lambda: (2, np.arange(4, dtype="f4"))),
    "family, another": ("scale", lambda: (2, np.arange(4, dtype="i2"))),
    "family, none of it": ("scale", lambda: (2, np.arange(4, dtype="u8"))),
    "family without an array": ("scale", lambda: (2,)),
    "family, Series": ("convert", lambda: (pd.Series([1, 2, 3]), np.zeros(3))),
    "too many": ("fails", lambda: (F8, 0, 0)),
    "too few": ("fails", lambda: ()),
}


@pytest.mark.mojo
@needs_compiler
@pytest.mark.parametrize("case", CALLS.values(), ids=CALLS)
def test_call_forms(bench, case):
    name, make, *options = case
    compare_with_plain(bench[name], make, *options)


class Cold(Exception):
    pass


@pytest.mark.mojo
@needs_compiler
def test_exceptions_of_an_error_table(bench):
    bench["outcomes"].errors["E_COLD"] = Cold, "brr"
    try:
        compare_with_plain(bench["fails"], lambda: (F8, 1))
        for name, way in WAYS.items():
            with pytest.raises(Cold, match=r"brr .*, at element 3") as caught:
                way(bench["fails"], F8, 1)
            assert (caught.value.code, caught.value.index) == (65, 3), name
            last = traceback.extract_tb(caught.value.__traceback__)[-1]
            assert last.filename == str(MOJO / "outcomes.mojo"), name
            with pytest.raises(Cold, match=r"more than the limit, 0\.5"):
                way(bench["raising"], F8, 0.5)
    finally:
        del bench["outcomes"].errors["E_COLD"]


@pytest.mark.mojo
@needs_compiler
def test_decorated_functions(bench):
    @native(bench["halves"])
    def halves(x: np.ndarray, whole: np.ndarray, rest: np.ndarray, by: int = 2) -> int:
        raise NotImplementedError

    compare_with_plain(halves, lambda: (np.arange(5, dtype="i4"),), {"by": 3})
    compare_with_plain(halves, lambda: (np.arange(5.0),))


SIZED = {
    "dot": ("dot", lambda: (F8, F8 * 2)),
    "list": ("dot", lambda: ([1.0, 2], (3, 4.5))),
    "scale": ("scale", lambda: (2.0, F8, np.zeros(5))),
    "sizes that differ": ("dot", lambda: (F8, F8[1:].copy())),
    "no output to leave out": ("scale", lambda: (2.0, F8)),
}


@pytest.mark.parametrize("case", SIZED.values(), ids=SIZED)
def test_sizes_that_are_filled_in(case):
    compare_with_plain(getattr(mv.load_library(compiled("plain_library"), DECLARED), case[0]), case[1])


def test_kernels_bound_to_this_process_are_rejected():
    signature = Signature("twice", (Param("x", "in", "T", None),))
    with pytest.raises(errors.ArgumentError, match=r"twice.*neither built in nor from a library"):
        mv.safe_call(handled_kernel(signature, lambda x, threads=None: 2 * x), np.ones(2), isolate=True)
    signature = Signature(
        "told", (Param("x", "in", "float64", None, "pointer"),), sizes=(Size("context", "uint64", 0, value=64),)
    )
    kernel = Kernel.from_address(signature, 4096, owner=object())
    with pytest.raises(errors.ArgumentError, match=r"told.*its argument 'context' is an address in this process"):
        mv.safe_call(kernel, np.ones(2), isolate=True)
