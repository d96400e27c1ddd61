"""The kernels of the package."""
from mojoview import OK, In, Out, Status

from sizes import sizes_differ


@export("running_total")
def running_total(x: In[DType.float64], total: Out[DType.float64]) abi("C") -> Status:
    """Writes the sums of x up to each element."""
    if len(x) != len(total):
        return sizes_differ()
    var sum = Float64(0)
    for i in range(len(x)):
        sum += x[i]
        total[i] = sum
    return OK
