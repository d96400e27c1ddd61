"""NumPy arrays of every dtype and layout for hypothesis, and the comparison of a view with its array."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

import mojoview as mv
from mojoview.memory.errors import MojoViewError

PLAIN = [np.dtype(code) for code in "?bBhHiIlLqQefdgFDG"]
SWAPPED = [np.dtype(code).newbyteorder() for code in "hIqefdFDg"]
TIMES = [np.dtype(text) for text in ("M8", "M8[D]", "M8[ns]", "m8[s]", "m8[25us]", "M8[7D]", ">M8[ms]", "m8", "M8[as]")]
STRINGS = [np.dtype(text) for text in ("S1", "S5", "U1", "U3", ">U2", "V1", "V7", "V16")]
RECORDS = [
    np.dtype([("a", "i4"), ("b", "f8")]),
    np.dtype([("a", "i1"), ("b", "f8"), ("c", "i2")], align=True),
    np.dtype({"names": ["i", "d"], "formats": ["i4", "f8"], "offsets": [0, 4], "itemsize": 12}),
    np.dtype({"names": ["i", "d"], "formats": ["i4", "f8"], "offsets": [0, 4], "itemsize": 20}),  # trailing padding
    np.dtype({"names": ["whole", "low"], "formats": ["u4", "u2"], "offsets": [0, 0]}),  # overlapping
    np.dtype({"names": ["late", "early"], "formats": ["i4", "i4"], "offsets": [4, 0]}),  # out of order
    np.dtype([("x", "f4", (2, 3)), ("y", "u1", (2,))]),
    np.dtype([("in", [("p", "i2"), ("q", "S3")]), ("t", "M8[ns]")]),
    np.dtype([("in", [("deep", [("z", ">f8")])], (2,))]),
    np.dtype([(("title", "name"), "i8")]),
    np.dtype((np.record, [("a", "i4"), ("b", "?")])),
]
DTYPES = PLAIN + SWAPPED + TIMES + STRINGS + RECORDS


def filled(
    shape: tuple[int, ...], dtype: np.dtype[Any], order: str = "C", shift: int = 0, seed: int = 0
) -> np.ndarray[Any, Any]:
    """An array of reproducible bytes, `shift` bytes off the allocation's alignment."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape, dtype=int)) * dtype.itemsize
    raw = np.random.default_rng(seed).integers(0, 256, size + shift + 1, np.uint8)
    if dtype.kind == "?" or dtype.kind == "b":
        raw &= 1
    if dtype.names is not None and any(np.dtype(d[0]).kind == "b" for d in dtype.fields.values()):
        raw &= 1
    if dtype.kind == "U" or (dtype.names is not None and "U" in str(dtype)):
        raw &= 0
    return np.ndarray(shape, dtype, buffer=raw.data, offset=shift, order=order)


@st.composite
def arrays(draw: st.DrawFn, dtypes: Any = None, max_dims: int = 4, max_side: int = 4) -> np.ndarray[Any, Any]:
    """Any array that NumPy can make by slicing, reversing, transposing, broadcasting and misaligning."""
    dtype = draw(dtypes if dtypes is not None else st.sampled_from(DTYPES))
    shape = tuple(draw(st.lists(st.integers(0, max_side), max_size=max_dims)))
    array = filled(
        shape, dtype, draw(st.sampled_from("CF")), draw(st.sampled_from([0, 0, 0, 1, 4])), draw(st.integers(0, 3))
    )
    for operation in draw(
        st.lists(st.sampled_from(["slice", "transpose", "broadcast", "axis", "reverse"]), max_size=3)
    ):
        if operation == "slice" and array.ndim:
            array = array[tuple(draw(slices(n)) for n in array.shape)]
        elif operation == "transpose":
            array = array.transpose(draw(st.permutations(range(array.ndim))))
        elif operation == "broadcast" and array.ndim < 7:
            array = np.broadcast_to(array, (draw(st.integers(0, 3)), *array.shape))
        elif operation == "axis" and array.ndim < 7:
            array = array[None] if draw(st.booleans()) else array[..., None]
        elif operation == "reverse" and array.ndim:
            array = array[..., ::-1]
    return array


def slices(n: int) -> st.SearchStrategy[slice]:
    """Slices with any bounds and steps, those far outside included."""
    bound = st.none() | st.integers(-n - 2, n + 2) | st.sampled_from([2**62, -(2**62), 2**63 - 1, -(2**63), 10**30])
    step = st.none() | st.sampled_from([1, 2, 3, -1, -2, 7, -7, 2**62, -(2**63), 2**63 - 1])
    return st.builds(slice, bound, bound, step)


def indices(shape: tuple[int, ...]) -> st.SearchStrategy[Any]:
    """Basic indices, valid and not."""
    side = max(shape, default=1)
    part = st.one_of(
        st.integers(-side - 1, side),
        slices(side),
        st.none(),
        st.just(Ellipsis),
        st.integers(-side, side).map(np.int8),
        st.just(2**70),
    )
    return part | st.lists(part, max_size=len(shape) + 2).map(tuple)


def used_strides(array: Any) -> tuple[int, ...]:
    """The strides that say something: those of an axis of one element, or of an empty array, are never used."""
    return tuple(s for n, s in zip(array.shape, array.strides, strict=True) if n > 1) if 0 not in array.shape else ()


def assert_same(view: mv.View, array: np.ndarray[Any, Any], *, readonly: bool | None = None) -> None:
    """The view is a window on just this array: address, geometry, dtype, flags and, through NumPy, every byte."""
    assert view.shape == array.shape
    assert used_strides(view) == used_strides(array)
    assert view.dtype == array.dtype
    assert (view.ndim, view.size, view.itemsize, view.nbytes) == (array.ndim, array.size, array.itemsize, array.nbytes)
    assert view.contiguous == array.flags.c_contiguous
    assert view.f_contiguous == array.flags.f_contiguous
    assert view.aligned == array.flags.aligned
    assert readonly is None or view.readonly == readonly
    if array.size:
        assert view.ptr == array.__array_interface__["data"][0]
    back = np.asarray(view)
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert used_strides(back) == used_strides(array)
    assert back.flags.writeable == (not view.readonly)
    assert raw_bytes(back) == raw_bytes(array)
    if array.size:
        assert back.__array_interface__["data"][0] == view.ptr


def raw_bytes(array: np.ndarray[Any, Any]) -> bytes:
    """Every byte in C order, the padding of records included (which NumPy leaves out when it copies them)."""
    return np.asarray(array).view(np.dtype(("V", array.itemsize))).tobytes()


def outcome(function: Any, *args: Any) -> tuple[str, Any]:
    """("value", result) or ("error", exception)."""
    try:
        return "value", function(*args)
    except Exception as error:
        return "error", error


def assert_error_like(ours: Exception, theirs: Exception) -> None:
    """Our error is of the tree, and whoever expects NumPy's catches it."""
    assert isinstance(ours, MojoViewError), repr(ours)
    expected = next(
        kind
        for kind in (IndexError, KeyError, TypeError, ValueError, OverflowError, BufferError)
        if isinstance(theirs, kind)
    )
    assert isinstance(ours, expected), (repr(ours), repr(theirs))
