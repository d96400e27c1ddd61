"""mojoview for authors of Mojo kernels: array arguments in the memory of NumPy and pandas.

    from mojoview import E_SHAPE, OK, In, Out, Status

    @export("double")
    def double(x: In[DType.float64], y: Out[DType.float64]) abi("C") -> Status:
        if len(x) != len(y):
            return E_SHAPE
        for i in range(len(x)):
            y[i] = 2 * x[i]
        return OK

The caller, `mojoview.load`, has checked dtype, dimensions, alignment, writability and overlap before the kernel runs.
The kernel compares sizes that must agree. Nothing here needs a runtime library.

`mojoview.math`: vector math; `mojoview.reductions`: sums, means, variances and extremes; `mojoview.atomics`: atomic
access.
"""
from .arrays import ArrayArgument, In, InOut, Out, Writable
from .chunks import Chunk, Chunks, share_of
from .desc import Desc, DescPointer
from .lines import Elements, Line, WritableElements
from .loops import apply
from .status import (
    Status,
    OK,
    E_NULL,
    E_ABI,
    E_NDIM,
    E_DTYPE,
    E_SHAPE,
    E_STRIDE,
    E_ALIGN,
    E_READONLY,
    E_MASK,
    E_DEVICE,
    E_OVERLAP,
    E_MEMORY,
    E_OVERFLOW,
    E_VALUE,
    E_INDEX,
    E_DIVIDE,
    E_EMPTY,
    E_INTERRUPTED,
    E_USER,
)
