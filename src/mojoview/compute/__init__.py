"""Hot loops: the built-in kernels as attributes, `compute.sum(x)`.

Must not know pandas or shared memory. Read `catalogue` (name, signature, documentation), `_builtin` (the objects and
their drivers, with `builtin.h`) and `descriptions` (results of `describe`). The loops are C that uses descriptors and
not Python: `walk.h` (any strides and masks), `elementwise.c`, `reduce.c` with the steps in `reduce_loops.h` and their
state in `accumulator.h`, `extent.h` (sum and extremes in one pass), `simd.h` (builds for several CPUs).
"""

from mojoview.compute.catalogue import BUILTIN as _BUILTIN
from mojoview.compute.descriptions import Description, FrameDescription

add = _BUILTIN["add"]
all = _BUILTIN["all"]
any = _BUILTIN["any"]
argmax = _BUILTIN["argmax"]
argmin = _BUILTIN["argmin"]
axpy = _BUILTIN["axpy"]
clip = _BUILTIN["clip"]
compare = _BUILTIN["compare"]
copy = _BUILTIN["copy"]
count = _BUILTIN["count"]
describe = _BUILTIN["describe"]
dot = _BUILTIN["dot"]
max = _BUILTIN["max"]
mean = _BUILTIN["mean"]
min = _BUILTIN["min"]
multiply = _BUILTIN["multiply"]
scale = _BUILTIN["scale"]
std = _BUILTIN["std"]
subtract = _BUILTIN["subtract"]
sum = _BUILTIN["sum"]
var = _BUILTIN["var"]

__all__ = [
    "Description",
    "FrameDescription",
    "add",
    "all",
    "any",
    "argmax",
    "argmin",
    "axpy",
    "clip",
    "compare",
    "copy",
    "count",
    "describe",
    "dot",
    "max",
    "mean",
    "min",
    "multiply",
    "scale",
    "std",
    "subtract",
    "sum",
    "var",
]
