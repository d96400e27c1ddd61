"""Reference counts, memory blocks and live leases are flat over many good and bad kernel calls.

Usage: leaks_kernels.py CALLS
"""

import array
import sys

import flat
import numpy as np
from support.foreign import array as taken
from support.foreign import kernel, value

import mojoview as mv
from mojoview import kernels
from mojoview.kernels import Kernel, Signature

X, Y, OUT, MASK = np.arange(8.0), np.ones(8), np.empty(8), np.empty(8, bool)
TABLE, BIG = np.arange(12.0).reshape(3, 4), np.arange(6000.0)
STDLIB, RAW = array.array("d", range(8)), bytearray(8)
MASKED, VIEW, WRITABLE = (
    mv.view(np.ma.array(np.arange(8.0), mask=[1] + [0] * 7)),
    mv.view(X),
    mv.view(OUT, writable=True),
)
TIMES = np.array(["2024-01-01", "NaT"], "M8[ns]")
FRAME = {"a": X, "b": VIEW, "c": STDLIB}
RELEASED = mv.view(np.ones(8))
RELEASED.release()
ADD_TO = kernel("add_to", taken("x"), taken("y", "inout"))
FAILS = kernel("fails", taken("x"), value("status", "int32"))
ROOTS = kernel("roots", taken("x"), taken("y", "out"), result="status_index")
AS_I64 = kernel("as_i64", value("x", "int64"), result="int64")

GOOD = [
    lambda: kernels.sum(X),
    lambda: kernels.sum(VIEW),
    lambda: kernels.sum(STDLIB),
    lambda: kernels.sum(MASKED),
    lambda: kernels.sum(TABLE, axis=0),
    lambda: kernels.min(TIMES),
    lambda: kernels.var(X, ddof=1),
    lambda: kernels.argmax(TABLE, axis=1),
    lambda: kernels.dot(X, STDLIB),
    lambda: kernels.mean(BIG, threads=2),
    lambda: kernels.add(X, Y, OUT),
    lambda: kernels.add(X, 2.0, WRITABLE),
    lambda: kernels.axpy(2, X, OUT),
    lambda: kernels.compare(X, 1.0, MASK, op="ge"),
    lambda: kernels.clip(X, 0, 1, OUT),
    lambda: kernels.copy(b"12345678", RAW),
    lambda: kernels.describe(X),
    lambda: kernels.describe(FRAME),
    lambda: kernels.describe(MASKED),
    lambda: ADD_TO(X, OUT),
    lambda: ADD_TO(STDLIB, WRITABLE),
    lambda: ADD_TO(X, y=OUT),
    lambda: ADD_TO(X, OUT, threads=2),
    lambda: AS_I64(3),
    lambda: repr(kernels.sum),
    lambda: (kernels.sum.name, kernels.sum.__doc__, kernels.sum.__signature__, kernels.sum.address, ADD_TO.owner),
    lambda: Kernel.from_address(Signature("k", (taken("x"),)), ADD_TO.address, owner=ADD_TO),
    lambda: repr(kernels.describe(FRAME)),
]
BAD = [
    lambda: kernels.sum(None),
    lambda: kernels.sum([1]),
    lambda: kernels.sum(X, axis=3),
    lambda: kernels.sum(X, axis="a"),
    lambda: kernels.sum(),
    lambda: kernels.sum(X, hold=1),
    lambda: kernels.sum(TIMES),
    lambda: kernels.sum(RELEASED),
    lambda: kernels.min(X[:0]),
    lambda: kernels.sum(X.astype(">f8")),
    lambda: kernels.add(X, Y[:3], OUT),
    lambda: kernels.add(STDLIB, X[:3], OUT),
    lambda: kernels.add(X, Y, VIEW),
    lambda: kernels.add(X, "1", OUT),
    lambda: kernels.add(OUT[1:], OUT[1:], OUT[:-1]),
    lambda: kernels.scale("a", X, OUT),
    lambda: kernels.scale(10**400, X, OUT),
    lambda: kernels.compare(X, Y, MASK, op="?"),
    lambda: kernels.describe({"a": X, "b": None}),
    lambda: kernels.describe({"a": STDLIB, "b": np.zeros(3, "S2")}),
    lambda: ADD_TO(X),
    lambda: ADD_TO(MASKED, OUT),
    lambda: ADD_TO(STDLIB, VIEW),
    lambda: ADD_TO(VIEW, OUT[:2]),
    lambda: FAILS(X, 64),
    lambda: FAILS(VIEW, 5),
    lambda: FAILS(X, 2**40),
    lambda: ROOTS(-X, OUT),
    lambda: ROOTS(mv.view(-X), WRITABLE, threads=2),
    lambda: AS_I64(1.5),
    lambda: AS_I64(2**70),
    lambda: ADD_TO(X, OUT, threads=0),
    lambda: AS_I64(1, threads=2),
    Kernel,
    lambda: kernels.sum.__reduce_ex__(2),
    lambda: Kernel.from_address(Signature("k", (taken("x"),)), 0, owner=X),
    lambda: Kernel.from_address(Signature("k", (taken("x", dtype="O"),)), 8, owner=X),
]


COUNTED = (
    X,
    Y,
    OUT,
    MASK,
    TABLE,
    STDLIB,
    RAW,
    MASKED,
    VIEW,
    WRITABLE,
    TIMES,
    FRAME,
    ADD_TO,
    FAILS,
    Kernel,
    np.float64,
    X.dtype,
)

flat.check(GOOD, BAD, COUNTED, int(sys.argv[1]))
STDLIB.append(1.0)  # nobody holds an export
RAW.append(1)
