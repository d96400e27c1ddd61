"""Counts of references, blocks, leases and resident memory are flat over many calls, good and bad, of every function.

Usage: leaks_views.py CALLS
"""

import sys
from typing import ClassVar

import flat
import numpy as np

import mojoview as mv
from mojoview.memory._dtype import as_dtype, dtype_info, dtype_of_code
from mojoview.memory._lease import live_leases
from mojoview.memory._status import error_for_status
from mojoview.views._construct import alias, rebind, with_mask


class Liar:
    __array_interface__: ClassVar = {"version": 3, "shape": (9,), "typestr": "<f8", "data": bytearray(64)}


class Honest:
    __array_interface__: ClassVar = {"version": 3, "shape": (8,), "typestr": "<f8", "data": bytearray(64)}


ARRAY = np.arange(12.0).reshape(3, 4)
FIXED = np.broadcast_to(ARRAY, (2, 3, 4))
TIMES = np.zeros(4, "M8[ns]")
RECORD = np.zeros(3, [("a", "i4"), ("b", "f8", (2,)), ("t", "M8[s]")])
ODD = np.zeros(2, np.dtype({"names": ["a", "b"], "formats": ["u4", "u2"], "offsets": [0, 0]}))
NINE, OBJECTS = np.ones((1,) * 9), np.array([None])
MASKED = np.ma.array([1, 2, 3], mask=[0, 1, 0])
VIEW, WRITABLE = mv.view(ARRAY), mv.view(ARRAY, writable=True)
MASKED_VIEW, RECORD_VIEW, TIMES_VIEW, ODD_VIEW = mv.view(MASKED), mv.view(RECORD), mv.view(TIMES), mv.view(ODD)
RELEASED = mv.view(ARRAY)
RELEASED.release()
MEMORY = bytearray(64)
F8, I8 = np.dtype("f8"), np.dtype("i8")


def cancelled():
    view = mv.view(MEMORY)
    window = memoryview(view)
    try:
        view.release()
    finally:
        window.release()


def borrowed(writable):
    with mv.borrow_check(True), mv.view(MEMORY):
        return mv.view(MEMORY, writable=writable)


def mapped(count):
    return mv.map_file(__file__, "u1", count)


def entered():
    with mv.view(MEMORY) as view:
        return view.size


GOOD = [
    lambda: borrowed(False),
    lambda: mapped(10),
    lambda: mv.PointerTable([ARRAY, VIEW]),
    lambda: mv.PointerTable([ARRAY, MASKED], to="descriptors"),
    lambda: mv.view(ARRAY),
    lambda: mv.view(ARRAY, writable=True),
    lambda: mv.view(ARRAY, copy="if_needed"),
    lambda: mv.view(MEMORY),
    lambda: mv.view(b"abc"),
    lambda: mv.view(memoryview(MEMORY)[::2]),
    lambda: mv.view(Honest()),
    lambda: mv.view(TIMES),
    lambda: mv.view(RECORD),
    lambda: mv.view(MASKED),
    lambda: mv.view(ODD),
    lambda: mv.view(np.float64(1)),
    lambda: mv.view(VIEW),
    lambda: mv.view(ARRAY, copy="always"),
    lambda: mv.view(MASKED, copy="always"),
    lambda: mv.view([1, 2], copy="if_needed"),
    lambda: mv.view(memoryview(MEMORY).cast("d")),
    lambda: mv.from_ptr(ARRAY.ctypes.data, (3, 4), F8, owner=ARRAY),
    lambda: VIEW[0],
    lambda: VIEW[1:, ::-2],
    lambda: VIEW[..., None],
    lambda: VIEW[1, 2],
    lambda: MASKED_VIEW[1],
    lambda: MASKED_VIEW[0],
    lambda: RECORD_VIEW["b"],
    lambda: RECORD_VIEW[["a", "t"]],
    lambda: RECORD_VIEW[0],
    lambda: TIMES_VIEW[0],
    lambda: ODD_VIEW[0],
    lambda: VIEW.T,
    lambda: VIEW.reshape(12),
    lambda: VIEW.reshape((2, -1)),
    lambda: VIEW.cast(I8),
    lambda: VIEW.cast("u1"),
    lambda: np.asarray(VIEW),
    lambda: np.asarray(TIMES_VIEW),
    lambda: np.asarray(ODD_VIEW),
    lambda: memoryview(VIEW),
    lambda: VIEW.__array_interface__,
    lambda: VIEW.__array__(),
    lambda: list(VIEW),
    lambda: len(VIEW),
    lambda: repr(VIEW),
    lambda: VIEW._repr_html_(),
    lambda: MASKED_VIEW.mask,
    lambda: MASKED_VIEW.data,
    lambda: WRITABLE.__setitem__((0, 0), 1.0),
    entered,
    lambda: (
        VIEW.ptr,
        VIEW.shape,
        VIEW.strides,
        VIEW.ndim,
        VIEW.size,
        VIEW.nbytes,
        VIEW.itemsize,
        VIEW.dtype,
        VIEW.readonly,
        VIEW.contiguous,
        VIEW.f_contiguous,
        VIEW.aligned,
        VIEW.device,
        VIEW.mask,
        VIEW.owner,
        VIEW.closed,
    ),
    lambda: mv.view(MEMORY).release(),
    lambda: with_mask(mv.view(MASKED.data), mv.view(MASKED.mask)),
    lambda: alias(VIEW, True),
    lambda: rebind(mv.View.__new__(mv.View), VIEW, pin=MEMORY),
    lambda: as_dtype("f4", "x"),
    lambda: dtype_info(F8),
    lambda: dtype_of_code(0, 64),
    lambda: error_for_status(7, "x"),
    live_leases,
]
BAD = [
    lambda: borrowed(True),
    lambda: mapped(10**9),
    lambda: mv.PointerTable([VIEW, ARRAY, RECORD]),
    lambda: mv.PointerTable([VIEW, RELEASED]),
    lambda: mv.view(FIXED, writable=True),
    lambda: mv.view(b"abc", writable=True),
    lambda: mv.view(None),
    lambda: mv.view(Liar()),
    lambda: mv.view(OBJECTS),
    lambda: mv.view(NINE),
    lambda: mv.view(ARRAY, copy="no"),
    lambda: mv.view(ARRAY, writable=2),
    lambda: mv.view(VIEW, writable=True),
    lambda: mv.view(RELEASED),
    lambda: mv.view([object()], copy="always"),
    lambda: mv.view(np.ma.masked),
    lambda: mv.from_ptr(0, 3, "f8", owner=ARRAY),
    lambda: mv.from_ptr(8, (1.5,), "f8", owner=ARRAY),
    lambda: mv.from_ptr(8, 1, "O", owner=ARRAY),
    lambda: mv.from_ptr(8, 2, "f8", owner=ARRAY, strides=(0,), readonly=False),
    lambda: VIEW[7],
    lambda: VIEW[0, 0, 0],
    lambda: VIEW[True],
    lambda: VIEW[[0, 1]],
    lambda: VIEW[1.5],
    lambda: VIEW["a"],
    lambda: VIEW[::0],
    lambda: VIEW[(None,) * 7],
    lambda: RECORD_VIEW["zz"],
    lambda: RECORD_VIEW[["a", "a"]],
    lambda: VIEW.reshape(5),
    lambda: VIEW.reshape("x"),
    lambda: VIEW.T.reshape(12),
    lambda: VIEW.cast("O"),
    lambda: VIEW.cast(None),
    lambda: VIEW.T.cast("u1"),
    lambda: memoryview(TIMES_VIEW),
    lambda: np.asarray(MASKED_VIEW),
    lambda: memoryview(MASKED_VIEW),
    lambda: MASKED_VIEW.reshape(3, 1),
    lambda: MASKED_VIEW.cast("u1"),
    lambda: VIEW.__setitem__(0, 1),
    lambda: WRITABLE.__setitem__(9, 1),
    lambda: WRITABLE.__setitem__(0, "x"),
    lambda: RELEASED.shape,
    lambda: RELEASED[0],
    lambda: ODD_VIEW.__array_interface__,
    lambda: VIEW.__reduce_ex__(2),
    mv.View,
    lambda: rebind(VIEW, VIEW),
    cancelled,
    lambda: with_mask(VIEW, VIEW),
    lambda: VIEW.__array__("no dtype"),
    lambda: len(mv.view(np.array(1))),
    lambda: as_dtype(None, "x"),
    lambda: dtype_of_code(3, 64),
]


COUNTED = (
    ARRAY,
    FIXED,
    TIMES,
    RECORD,
    MASKED,
    VIEW,
    WRITABLE,
    MASKED_VIEW,
    RECORD_VIEW,
    F8,
    I8,
    MEMORY,
    mv.View,
    np.dtype("M8[ns]"),
)

flat.check(GOOD, BAD, COUNTED, int(sys.argv[1]))
