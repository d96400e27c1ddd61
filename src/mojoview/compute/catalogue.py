"""Catalogue of the built-in kernels: names, signatures and documentation. The native code is in `_builtin`."""

from __future__ import annotations

from mojoview.calls._kernel import Kernel, handled_kernel
from mojoview.calls.signature import Param, Signature
from mojoview.compute._builtin import builtin_kernel
from mojoview.compute.descriptions import DESCRIBE, describe

__all__ = ["BUILTIN"]

_X = Param("x", "in", "T", None)
_Y = Param("y", "in", "T", None)
_OUT = Param("out", "out", "T", None)

_ARRAY = """x : array_like, any shape, bool, integer, float16 to float64{temporal}
        ndarray, view, Series or anything else that `mojoview.view` takes; any strides, may be
        read-only. Borrowed for the call."""
_THREADS = """threads : int, optional
        Maximum number of threads, the caller included. By default, for large arrays, as many as the
        process has CPUs. The result has the same bits for every number of threads."""
_RAISES = """DTypeError
        The dtype or its byte order is not one of those above.
    MaskError
        A mask has more than two dimensions."""
_SAFETY = """Thread safety: any thread; releases the GIL for arrays of 4096 elements and more.
    Ctrl-C takes effect within 0.5 s."""


def _reduction(
    name: str,
    what: str,
    returns: str,
    *,
    notes: str = "",
    example: str,
    temporal: bool = False,
    ddof: bool = False,
    second: bool = False,
    raises: str = "",
) -> tuple[Signature, str]:
    parameters = "\n    ".join(
        filter(
            None,
            (
                _ARRAY.format(temporal=", datetime64, timedelta64" if temporal else ""),
                "y : array_like, as x\n        Same shape and dtype." if second else "",
                "axis : int, optional\n        Axis to reduce; by default all axes.",
                "ddof : float, default 0\n        The divisor is the number of elements minus this; if it is not "
                "positive the result is NaN."
                if ddof
                else "",
                _THREADS,
            ),
        )
    )
    form = f"{name}(x{', y' if second else ''}, axis=None{', ddof=0' if ddof else ''}, threads=None)"
    doc = f"""{form}

    {what} Elements that are missing (masked) are skipped.

    Parameters
    ----------
    {parameters}

    Returns
    -------
    {returns}
        With `axis`: a new ndarray, owned by the caller.

    Raises
    ------
    {_RAISES}
    ShapeError
        `axis` is out of range{", or the shapes differ" if second else ""}.{raises}

    Notes
    -----
    {notes}{_SAFETY}

    Examples
    --------
    {example}
    """
    return Signature(name, (_X, _Y) if second else (_X,), result="T", doc=doc, masks=True), doc


_ACCUMULATORS = """Integers are summed in 64 bits (unsigned ones in unsigned 64) and wrap like NumPy's; bools count
    as 0 and 1. float16 and float32 are accumulated in float64, float64 in lanes within blocks of 2048 and compensated
    across them (Neumaier, ZAMM 54, 1974), along every axis; without `axis` the result is not rounded to the array's
    dtype. NaN propagates.
    """
_EMPTY = """
    KernelValueError
        There is no element that is not missing."""
_FIRST = """As in NumPy, NaN and NaT are extreme: the first one is the result. Otherwise the first of equal elements is;
    zeros of both signs are equal.
    """


def _example(call: str, result: str) -> str:
    return f""">>> import numpy as np
    >>> from mojoview import kernels
    >>> {call}
    {result}"""


def _elementwise(
    name: str, form: str, params: tuple[Param, ...], what: str, parameters: str, example: str, notes: str = ""
) -> Signature:
    doc = f"""{name}({form}, threads=None)

    {what}

    Parameters
    ----------
    {parameters}
    {_THREADS}

    Returns
    -------
    None
        The result is in the output, which is borrowed for the call and written in place.

    Raises
    ------
    DTypeError
        The dtypes of the arrays differ, or the kernel has no loop for them.
    ShapeError
        The shapes differ: there is no broadcasting.
    ReadOnlyError
        The output is read-only.
    OverlapError
        The output overlaps an input without being exactly the same elements, or overlaps itself.
    KernelOverflowError
        A scalar does not fit the dtype.

    Notes
    -----
    Elements that are missing in any argument are left unchanged in the output. After an interrupt the output is
    partly written.
    {notes}{_SAFETY}

    Examples
    --------
    {example}
    """
    return Signature(name, params, result="none", doc=doc, masks=True)


def _value(name: str) -> Param:
    return Param(name, "value", "T", passing="value")


def _arrays(outs: str = "out", scalar: bool = True) -> str:
    second = "y : array_like, as x, or a number\n    " if scalar else ""
    return _ARRAY.format(temporal="") + "\n    " + second + f"{outs} : writable array_like, same shape as x"


def _binary(name: str, what: str, result: str) -> Signature:
    example = f""">>> import numpy as np
    >>> from mojoview import kernels
    >>> out = np.empty(3)
    >>> kernels.{name}(np.arange(3.0), np.full(3, 2.0), out)
    >>> out
    {result}"""
    return _elementwise(
        name,
        "x, y, out",
        (_X, _Y, _OUT),
        what,
        _arrays() + " and of its dtype",
        example,
        "Integers wrap; float16 is computed in float32 and rounded once.\n    ",
    )


_REDUCTIONS = [
    _reduction(
        "sum",
        "Sum of the elements.",
        "int or float",
        notes=_ACCUMULATORS,
        example=_example("kernels.sum(np.full(300, 100, np.int8))", "30000"),
    ),
    _reduction(
        "mean",
        "Arithmetic mean.",
        "float\n        NaN if there is no element.",
        notes=_ACCUMULATORS + "Integers are summed exactly, in 128 bits.\n    ",
        example=_example("kernels.mean(np.arange(4))", "1.5"),
    ),
    _reduction(
        "var",
        "Variance.",
        "float",
        ddof=True,
        notes="""Two passes over each block in the cache, about the block's mean; blocks are merged as in Chan,
    Golub and LeVeque (Stanford CS-TR-79-773, 1979). NaN propagates.
    """,
        example=_example("kernels.var(np.array([1.0, 2.0, 3.0]), ddof=1)", "1.0"),
    ),
    _reduction(
        "std",
        "Standard deviation.",
        "float",
        ddof=True,
        notes="The square root of `var`.\n    ",
        example=_example("kernels.std(np.array([1.0, 3.0]))", "1.0"),
    ),
    _reduction(
        "min",
        "Smallest element.",
        "int, float, bool, datetime64 or timedelta64",
        temporal=True,
        notes=_FIRST,
        raises=_EMPTY,
        example=_example("kernels.min(np.array([3, 1, 2]))", "1"),
    ),
    _reduction(
        "max",
        "Largest element.",
        "int, float, bool, datetime64 or timedelta64",
        temporal=True,
        notes=_FIRST,
        raises=_EMPTY,
        example=_example("kernels.max(np.array([3, 1, 2]))", "3"),
    ),
    _reduction(
        "argmin",
        "Position of the smallest element, in C order.",
        "int",
        temporal=True,
        notes=_FIRST,
        raises=_EMPTY,
        example=_example("kernels.argmin(np.array([3, 1, 2]))", "1"),
    ),
    _reduction(
        "argmax",
        "Position of the largest element, in C order.",
        "int",
        temporal=True,
        notes=_FIRST,
        raises=_EMPTY,
        example=_example("kernels.argmax(np.array([3.0, np.nan, 2.0]))", "1"),
    ),
    _reduction(
        "count",
        "Number of elements that are not missing: neither masked nor NaN or NaT, as in pandas.",
        "int",
        temporal=True,
        example=_example("kernels.count(np.array([3.0, np.nan, 2.0]))", "2"),
    ),
    _reduction(
        "any",
        "Whether any element is not zero (NaN is not zero).",
        "bool",
        example=_example("kernels.any(np.array([0, 2]))", "True"),
    ),
    _reduction(
        "all",
        "Whether all elements are not zero (NaN is not zero).",
        "bool",
        example=_example("kernels.all(np.array([0, 2]))", "False"),
    ),
    _reduction(
        "dot",
        "Sum of the products of the elements of two arrays.",
        "int or float",
        second=True,
        notes=_ACCUMULATORS,
        example=_example("kernels.dot(np.arange(3.0), np.arange(3.0))", "5.0"),
    ),
]

_COMPARE = _elementwise(
    "compare",
    'x, y, out, op="lt"',
    (_X, _Y, Param("out", "out", "bool", None)),
    "Compare element by element.",
    _arrays() + ', of dtype bool\n    op : {"lt", "le", "eq", "ne", "ge", "gt"}',
    """>>> import numpy as np
    >>> from mojoview import kernels
    >>> out = np.empty(3, bool)
    >>> kernels.compare(np.arange(3), 1, out, op="ge")
    >>> out
    array([False,  True,  True])""",
    "Comparisons with NaN are false, except ne.\n    ",
)

_ELEMENTWISE = [
    _binary("add", "out = x + y; logical or for bools.", "array([2., 3., 4.])"),
    _binary("subtract", "out = x - y; not for bools.", "array([-2., -1.,  0.])"),
    _binary("multiply", "out = x * y; logical and for bools.", "array([0., 2., 4.])"),
    _COMPARE,
    _elementwise(
        "scale",
        "a, x, out",
        (_value("a"), _X, _OUT),
        "out = a * x; not for bools.",
        "a : number that fits the dtype\n    " + _arrays(scalar=False) + " and of its dtype",
        """>>> import numpy as np
    >>> from mojoview import kernels
    >>> out = np.empty(3)
    >>> kernels.scale(2.0, np.arange(3.0), out)
    >>> out
    array([0., 2., 4.])""",
    ),
    _elementwise(
        "axpy",
        "a, x, y",
        (_value("a"), _X, Param("y", "inout", "T", None)),
        "y += a * x; not for bools.",
        "a : number that fits the dtype\n    " + _arrays("y", scalar=False) + " and of its dtype",
        """>>> import numpy as np
    >>> from mojoview import kernels
    >>> y = np.ones(3)
    >>> kernels.axpy(2.0, np.arange(3.0), y)
    >>> y
    array([1., 3., 5.])""",
        "Product and sum are rounded separately, as in NumPy; float16 is computed in float32, rounded once.\n    ",
    ),
    _elementwise(
        "clip",
        "x, lo, hi, out",
        (_X, _value("lo"), _value("hi"), _OUT),
        "out = minimum(maximum(x, lo), hi).",
        _ARRAY.format(temporal="")
        + "\n    lo, hi : number that fits the dtype\n    out : writable array_like, same shape and dtype as x",
        """>>> import numpy as np
    >>> from mojoview import kernels
    >>> out = np.empty(3)
    >>> kernels.clip(np.array([-1.0, 0.5, np.nan]), 0.0, 1.0, out)
    >>> out
    array([0. , 0.5, nan])""",
        "A NaN in x remains; a NaN bound makes every element NaN.\n    ",
    ),
    _elementwise(
        "copy",
        "x, out",
        (_X, _OUT),
        "out = x; datetime64 and timedelta64 too.",
        _ARRAY.format(temporal=", datetime64, timedelta64")
        + "\n    out : writable array_like, same shape and dtype as x",
        """>>> import numpy as np
    >>> from mojoview import kernels
    >>> out = np.empty(2)
    >>> kernels.copy(np.arange(4.0)[::2], out)
    >>> out
    array([0., 2.])""",
    ),
]

BUILTIN: dict[str, Kernel] = {signature.name: builtin_kernel(signature) for signature, _ in _REDUCTIONS}
BUILTIN |= {signature.name: builtin_kernel(signature) for signature in _ELEMENTWISE}
BUILTIN["describe"] = handled_kernel(DESCRIBE, describe)
