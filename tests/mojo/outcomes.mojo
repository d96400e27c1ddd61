"""Outputs, numbers by reference, the author's own statuses, raised errors, and lists."""
from std.memory import Pointer
from std.os import abort

from mojoview import E_INDEX, E_SHAPE, E_USER, E_VALUE, In, InOut, OK, Out, Status

comptime E_COLD = Status(E_USER + 1)
"""ValueError: the sample is too cold."""
comptime E_ODD = Status(66)
"""An odd sample."""
comptime E_BARE = Status(E_USER + 3)


@export("minmax")
def minmax(x: In[DType.float64], mut low: Float64, mut high: Float64, mut count: Int32) abi("C") -> Status:
    """Smallest, largest and number of elements."""
    if len(x) == 0:
        return E_VALUE
    low = x[0]
    high = x[0]
    for i in range(len(x)):
        low = min(low, x[i])
        high = max(high, x[i])
    count += Int32(len(x))
    return OK


@export("double_of")
def double_of(x: In[DType.float64], y: Out[DType.float64]) abi("C") -> Status:
    if len(x) != len(y):
        return E_SHAPE
    for i in range(len(x)):
        y[i] = 2 * x[i]
    return OK


@export("halves")
def halves(x: In[DType.int32], whole: Out[DType.int32], rest: Out[DType.uint8], by: Int32 = 2) abi("C") -> Int64:
    """Quotients, remainders and the sum of the quotients."""
    var s = Int64(0)
    for i in range(len(x)):
        whole[i] = x[i] // by
        rest[i] = UInt8(x[i] % by)
        s += Int64(whole[i])
    return s


@export("flags")
def flags(x: In[DType.bool], y: In[DType.float32, 2]) abi("C") -> Int:
    var n = 0
    for i in range(len(x)):
        n += 1 if x[i] else 0
    return 100 * y.shape(0) + 10 * y.shape(1) + n


@export("row_sums")
def row_sums(x: In[DType.float64, 2], y: Out[DType.float64]) abi("C") -> Status:
    return OK


@export("fails")
def fails(x: In[DType.float64], code: Int) abi("C") -> Status:
    if code == 1:
        return E_COLD.at(3)
    if code == 2:
        return E_ODD
    if code == 3:
        return E_BARE
    return Status(code)


@export("crash")
def crash(address: Int) abi("C") -> Float64:
    """Reads from an address, whatever it is; 1 ends by abort."""
    if address == 1:
        abort("on purpose")
    return Pointer[Float64, ImmutAnyOrigin](unsafe_from_address=address)[unsafe_offset=0]


def risky(x: In[DType.float64], limit: Float64) raises -> Float64:
    if x[0] > limit:
        raise Error("more than the limit, ", limit)
    return x[0]


def say(error: Error, message: Out[DType.uint8]):
    var text = String(error)
    var bytes = text.as_bytes()
    for i in range(min(len(bytes), len(message))):
        message[i] = bytes[i]


@export("raising")
def raising(x: In[DType.float64], limit: Float64, mut first: Float64, message: Out[DType.uint8]) abi("C") -> Status:
    """Raises within Mojo."""
    try:
        first = risky(x, limit)
    except error:
        say(error, message)
        return E_COLD
    return OK


def element(x: In[DType.float64, 2], i: Int, j: Int) raises -> Float64:
    if not (0 <= i < len(x) and 0 <= j < x.shape(1)):
        raise Error("out of range")
    return x[i, j]


@export("touch")
def touch(x: In[DType.float64, 2], i: Int, j: Int) abi("C") -> Status:
    try:
        _ = element(x, i, j)
    except:
        return E_INDEX.at(i)
    return OK
