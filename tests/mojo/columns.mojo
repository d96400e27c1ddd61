"""Any number of columns through a table of pointers: to their elements, or to their descriptors."""
from std.memory import Pointer

from mojoview import E_DTYPE, E_SHAPE, OK, Desc, In, Out, Status
from mojoview.desc import DescPointer, check_layout


@export("sum_columns")
def sum_columns(columns: In[DType.uint64], rows: Int, sums: Out[DType.float64]) abi("C") -> Status:
    if len(columns) != len(sums):
        return E_SHAPE
    for c in range(len(columns)):
        var column = Pointer[Float64, MutAnyOrigin](unsafe_from_address=Int(columns[c]))
        var total = Float64(0)
        for i in range(rows):
            total += column[unsafe_offset=i]
        sums[c] = total
    return OK


@export("sum_described")
def sum_described(columns: In[DType.uint64], sums: Out[DType.float64]) abi("C") -> Status:
    check_layout()
    if len(columns) != len(sums):
        return E_SHAPE
    for c in range(len(columns)):
        ref d = DescPointer(unsafe_from_address=Int(columns[c]))[]
        if d.ndim != 1 or d.dtype_code != 2 or d.dtype_bits != 64:
            return E_DTYPE
        var column = Pointer[Float64, MutAnyOrigin](unsafe_from_address=Int(d.data))
        var total = Float64(0)
        for i in range(Int(d.size)):
            total += column[unsafe_offset=i * Int(d.stride[0])]
        sums[c] = total
    return OK
