"""A kernel that reports the element at which it failed."""
from mojoview import E_SHAPE, E_VALUE, OK, In, Out, Status
from std.math import sqrt


@export("roots")
def roots(x: In[DType.float64], y: Out[DType.float64]) abi("C") -> Status:
    """Square roots; for a negative element, the call raises a KernelValueError that names it."""
    if len(x) != len(y):
        return E_SHAPE
    for i in range(len(x)):
        if x[i] < 0:
            return E_VALUE.at(i)
        y[i] = sqrt(x[i])
    return OK
