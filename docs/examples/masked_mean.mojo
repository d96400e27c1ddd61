"""A kernel that takes arrays with missing values, over one column or over the rows of a table."""
from mojoview import E_EMPTY, E_SHAPE, OK, In, Out, Status


@export("masked_mean")
def masked_mean(x: In[DType.float64, masked=True], mean: Out[DType.float64]) abi("C") -> Status:
    """Mean of the elements that are not missing."""
    if len(mean) != 1:
        return E_SHAPE
    var total = Float64(0)
    var count = 0
    for i in range(len(x)):
        if not x.missing(i):
            total += x[i]
            count += 1
    if count == 0:
        return E_EMPTY
    mean[0] = total / Float64(count)
    return OK


@export("row_sums")
def row_sums(table: In[DType.float32, 2], sums: Out[DType.float64]) abi("C") -> Status:
    """Sum of every row, accumulated in float64."""
    if len(sums) != len(table):
        return E_SHAPE
    for i in range(len(table)):
        var total = Float64(0)
        for j in range(table.shape(1)):
            total += table[i, j].cast[DType.float64]()
        sums[i] = total
    return OK
