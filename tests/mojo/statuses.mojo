"""Status codes on their way to the caller, and results of every type."""
import mojoview
from mojoview import *

comptime Outcome = Status
comptime Sum = Int64


@export("fail")
def fail(x: In[DType.float64], code: Int) abi("C") -> Status:
    """Fails with any code."""
    return Status(code)


@export("fail_at")
def fail_at(x: In[DType.float64], code: Int, index: Int = 5) abi("C") -> mojoview.Status:
    return Status(code).at(index)


@export("first_negative")
def first_negative(x: In[DType.float64]) abi("C") -> Outcome:
    for i in range(len(x)):
        if x[i] < 0:
            return E_VALUE.at(i)
    return OK


@export("plain_code")
def plain_code(x: In[DType.float64], code: Int32) abi("C") -> Int32:
    return code


@export("value_i32")
def value_i32(code: Int32) abi("C") -> Int32:
    return code


@export("nothing")
def nothing(x: InOut[DType.float64]) abi("C"):
    x[0] = 1


@export("total")
def total(x: In[DType.int64]) abi("C") -> Sum:
    var s = Int64(0)
    for i in range(len(x)):
        s += x[i]
    return s


@export("half")
def half(x: Float32 = 3.0, flip: Bool = True) abi("C") -> Float32:
    return -x / 2 if flip else x / 2


@export("narrow")
def narrow(a: Int8, b: UInt8, c: Int16, d: UInt16, e: Int32, f: UInt32, g: UInt64) abi("C") -> Int8:
    return a


@export("codes")
def codes(y: Out[DType.int64]) abi("C") -> Status:
    """The constants, in the order of abi.h."""
    if len(y) != 20:
        return E_SHAPE
    y[0] = OK.bits
    y[1] = E_NULL.bits
    y[2] = E_ABI.bits
    y[3] = E_NDIM.bits
    y[4] = E_DTYPE.bits
    y[5] = E_SHAPE.bits
    y[6] = E_STRIDE.bits
    y[7] = E_ALIGN.bits
    y[8] = E_READONLY.bits
    y[9] = E_MASK.bits
    y[10] = E_DEVICE.bits
    y[11] = E_OVERLAP.bits
    y[12] = E_MEMORY.bits
    y[13] = E_OVERFLOW.bits
    y[14] = E_VALUE.bits
    y[15] = E_INDEX.bits
    y[16] = E_DIVIDE.bits
    y[17] = E_EMPTY.bits
    y[18] = E_INTERRUPTED.bits
    y[19] = E_USER
    return OK
