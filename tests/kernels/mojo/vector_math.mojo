"""The vector math over whole arrays, once for each dtype."""
from std.sys import simd_width_of

from mojoview import E_SHAPE, OK, In, Out, Status
from mojoview import math


def over[dt: DType, //, f: def[d: DType, w: SIMDLength, //](SIMD[d, w]) thin -> SIMD[d, w]](x: In[dt], y: Out[dt]) -> Status:
    comptime w = simd_width_of[dt]()
    if len(x) != len(y):
        return E_SHAPE
    var i = 0
    while i + w <= len(x):
        y.store(i, f(x.load[w](i)))
        i += w
    while i < len(x):
        y[i] = f(x[i])
        i += 1
    return OK


@export("exp_float32")
def exp_float32(x: In[DType.float32], y: Out[DType.float32]) abi("C") -> Status:
    return over[math.exp](x, y)


@export("exp_float64")
def exp_float64(x: In[DType.float64], y: Out[DType.float64]) abi("C") -> Status:
    return over[math.exp](x, y)


@export("exp2_float32")
def exp2_float32(x: In[DType.float32], y: Out[DType.float32]) abi("C") -> Status:
    return over[math.exp2](x, y)


@export("exp2_float64")
def exp2_float64(x: In[DType.float64], y: Out[DType.float64]) abi("C") -> Status:
    return over[math.exp2](x, y)


@export("expm1_float32")
def expm1_float32(x: In[DType.float32], y: Out[DType.float32]) abi("C") -> Status:
    return over[math.expm1](x, y)


@export("expm1_float64")
def expm1_float64(x: In[DType.float64], y: Out[DType.float64]) abi("C") -> Status:
    return over[math.expm1](x, y)


@export("log_float32")
def log_float32(x: In[DType.float32], y: Out[DType.float32]) abi("C") -> Status:
    return over[math.log](x, y)


@export("log_float64")
def log_float64(x: In[DType.float64], y: Out[DType.float64]) abi("C") -> Status:
    return over[math.log](x, y)


@export("log2_float32")
def log2_float32(x: In[DType.float32], y: Out[DType.float32]) abi("C") -> Status:
    return over[math.log2](x, y)


@export("log2_float64")
def log2_float64(x: In[DType.float64], y: Out[DType.float64]) abi("C") -> Status:
    return over[math.log2](x, y)


@export("log10_float32")
def log10_float32(x: In[DType.float32], y: Out[DType.float32]) abi("C") -> Status:
    return over[math.log10](x, y)


@export("log10_float64")
def log10_float64(x: In[DType.float64], y: Out[DType.float64]) abi("C") -> Status:
    return over[math.log10](x, y)


@export("log1p_float32")
def log1p_float32(x: In[DType.float32], y: Out[DType.float32]) abi("C") -> Status:
    return over[math.log1p](x, y)


@export("log1p_float64")
def log1p_float64(x: In[DType.float64], y: Out[DType.float64]) abi("C") -> Status:
    return over[math.log1p](x, y)


@export("sin_float32")
def sin_float32(x: In[DType.float32], y: Out[DType.float32]) abi("C") -> Status:
    return over[math.sin](x, y)


@export("sin_float64")
def sin_float64(x: In[DType.float64], y: Out[DType.float64]) abi("C") -> Status:
    return over[math.sin](x, y)


@export("cos_float32")
def cos_float32(x: In[DType.float32], y: Out[DType.float32]) abi("C") -> Status:
    return over[math.cos](x, y)


@export("cos_float64")
def cos_float64(x: In[DType.float64], y: Out[DType.float64]) abi("C") -> Status:
    return over[math.cos](x, y)


@export("tan_float32")
def tan_float32(x: In[DType.float32], y: Out[DType.float32]) abi("C") -> Status:
    return over[math.tan](x, y)


@export("tan_float64")
def tan_float64(x: In[DType.float64], y: Out[DType.float64]) abi("C") -> Status:
    return over[math.tan](x, y)


@export("sinh_float32")
def sinh_float32(x: In[DType.float32], y: Out[DType.float32]) abi("C") -> Status:
    return over[math.sinh](x, y)


@export("sinh_float64")
def sinh_float64(x: In[DType.float64], y: Out[DType.float64]) abi("C") -> Status:
    return over[math.sinh](x, y)


@export("cosh_float32")
def cosh_float32(x: In[DType.float32], y: Out[DType.float32]) abi("C") -> Status:
    return over[math.cosh](x, y)


@export("cosh_float64")
def cosh_float64(x: In[DType.float64], y: Out[DType.float64]) abi("C") -> Status:
    return over[math.cosh](x, y)


@export("tanh_float32")
def tanh_float32(x: In[DType.float32], y: Out[DType.float32]) abi("C") -> Status:
    return over[math.tanh](x, y)


@export("tanh_float64")
def tanh_float64(x: In[DType.float64], y: Out[DType.float64]) abi("C") -> Status:
    return over[math.tanh](x, y)


@export("sqrt_float32")
def sqrt_float32(x: In[DType.float32], y: Out[DType.float32]) abi("C") -> Status:
    return over[math.sqrt](x, y)


@export("sqrt_float64")
def sqrt_float64(x: In[DType.float64], y: Out[DType.float64]) abi("C") -> Status:
    return over[math.sqrt](x, y)



def over_two[dt: DType](x: In[dt], y: In[dt], z: Out[dt]) -> Status:
    comptime w = simd_width_of[dt]()
    if len(x) != len(z) or len(y) != len(z):
        return E_SHAPE
    var i = 0
    while i + w <= len(x):
        z.store(i, math.pow(x.load[w](i), y.load[w](i)))
        i += w
    while i < len(x):
        z[i] = math.pow(x[i], y[i])
        i += 1
    return OK


@export("pow_float32")
def pow_float32(x: In[DType.float32], y: In[DType.float32], z: Out[DType.float32]) abi("C") -> Status:
    return over_two(x, y, z)


@export("pow_float64")
def pow_float64(x: In[DType.float64], y: In[DType.float64], z: Out[DType.float64]) abi("C") -> Status:
    return over_two(x, y, z)
