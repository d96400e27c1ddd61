"""Native functions on arrays: the checked call (`_call`), the built-in kernels, and what compiles and loads Mojo files.

Must not know pandas or shared memory. Loops live in plain C headers, which know descriptors and nothing of Python;
`ndarray.h` and `plain.h` are the only places that read NumPy's structs. The built-in kernels are attributes here:
`kernels.sum(x)`.
"""

from mojoview.kernels._call import Kernel
from mojoview.kernels.builtin import BUILTIN as _BUILTIN
from mojoview.kernels.describe import Description, FrameDescription
from mojoview.kernels.signature import Param, Signature

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
    "Kernel",
    "Param",
    "Signature",
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
