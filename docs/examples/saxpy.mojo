"""The smallest useful kernel: y += a * x, in place."""
from mojoview import E_SHAPE, OK, In, InOut, Status


@export("saxpy")
def saxpy(a: Float64, x: In[DType.float64], y: InOut[DType.float64]) abi("C") -> Status:
    """Adds a * x to y in place."""
    if len(x) != len(y):
        return E_SHAPE
    for i in range(len(x)):
        y[i] = y[i] + a * x[i]
    return OK
