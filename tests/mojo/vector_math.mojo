"""The vector math over whole arrays, once for each dtype."""
from mojoview import OK, In, Out, Status, apply, math

comptime F32 = DType.float32
comptime F64 = DType.float64


@export("exp_float32")
def exp_float32(x: In[F32], y: Out[F32]) abi("C") -> Status:
    return apply[math.exp](x, y)


@export("exp_float64")
def exp_float64(x: In[F64], y: Out[F64]) abi("C") -> Status:
    return apply[math.exp](x, y)


@export("exp2_float32")
def exp2_float32(x: In[F32], y: Out[F32]) abi("C") -> Status:
    return apply[math.exp2](x, y)


@export("exp2_float64")
def exp2_float64(x: In[F64], y: Out[F64]) abi("C") -> Status:
    return apply[math.exp2](x, y)


@export("expm1_float32")
def expm1_float32(x: In[F32], y: Out[F32]) abi("C") -> Status:
    return apply[math.expm1](x, y)


@export("expm1_float64")
def expm1_float64(x: In[F64], y: Out[F64]) abi("C") -> Status:
    return apply[math.expm1](x, y)


@export("log_float32")
def log_float32(x: In[F32], y: Out[F32]) abi("C") -> Status:
    return apply[math.log](x, y)


@export("log_float64")
def log_float64(x: In[F64], y: Out[F64]) abi("C") -> Status:
    return apply[math.log](x, y)


@export("log2_float32")
def log2_float32(x: In[F32], y: Out[F32]) abi("C") -> Status:
    return apply[math.log2](x, y)


@export("log2_float64")
def log2_float64(x: In[F64], y: Out[F64]) abi("C") -> Status:
    return apply[math.log2](x, y)


@export("log10_float32")
def log10_float32(x: In[F32], y: Out[F32]) abi("C") -> Status:
    return apply[math.log10](x, y)


@export("log10_float64")
def log10_float64(x: In[F64], y: Out[F64]) abi("C") -> Status:
    return apply[math.log10](x, y)


@export("log1p_float32")
def log1p_float32(x: In[F32], y: Out[F32]) abi("C") -> Status:
    return apply[math.log1p](x, y)


@export("log1p_float64")
def log1p_float64(x: In[F64], y: Out[F64]) abi("C") -> Status:
    return apply[math.log1p](x, y)


@export("sin_float32")
def sin_float32(x: In[F32], y: Out[F32]) abi("C") -> Status:
    return apply[math.sin](x, y)


@export("sin_float64")
def sin_float64(x: In[F64], y: Out[F64]) abi("C") -> Status:
    return apply[math.sin](x, y)


@export("cos_float32")
def cos_float32(x: In[F32], y: Out[F32]) abi("C") -> Status:
    return apply[math.cos](x, y)


@export("cos_float64")
def cos_float64(x: In[F64], y: Out[F64]) abi("C") -> Status:
    return apply[math.cos](x, y)


@export("tan_float32")
def tan_float32(x: In[F32], y: Out[F32]) abi("C") -> Status:
    return apply[math.tan](x, y)


@export("tan_float64")
def tan_float64(x: In[F64], y: Out[F64]) abi("C") -> Status:
    return apply[math.tan](x, y)


@export("sinh_float32")
def sinh_float32(x: In[F32], y: Out[F32]) abi("C") -> Status:
    return apply[math.sinh](x, y)


@export("sinh_float64")
def sinh_float64(x: In[F64], y: Out[F64]) abi("C") -> Status:
    return apply[math.sinh](x, y)


@export("cosh_float32")
def cosh_float32(x: In[F32], y: Out[F32]) abi("C") -> Status:
    return apply[math.cosh](x, y)


@export("cosh_float64")
def cosh_float64(x: In[F64], y: Out[F64]) abi("C") -> Status:
    return apply[math.cosh](x, y)


@export("tanh_float32")
def tanh_float32(x: In[F32], y: Out[F32]) abi("C") -> Status:
    return apply[math.tanh](x, y)


@export("tanh_float64")
def tanh_float64(x: In[F64], y: Out[F64]) abi("C") -> Status:
    return apply[math.tanh](x, y)


@export("sqrt_float32")
def sqrt_float32(x: In[F32], y: Out[F32]) abi("C") -> Status:
    return apply[math.sqrt](x, y)


@export("sqrt_float64")
def sqrt_float64(x: In[F64], y: Out[F64]) abi("C") -> Status:
    return apply[math.sqrt](x, y)


@export("pow_float32")
def pow_float32(x: In[F32], y: In[F32], z: Out[F32]) abi("C") -> Status:
    return apply[math.pow](x, y, z)


@export("pow_float64")
def pow_float64(x: In[F64], y: In[F64], z: Out[F64]) abi("C") -> Status:
    return apply[math.pow](x, y, z)


@export("one_by_one")
def one_by_one(x: In[F64], which: Int, y: Out[F64]) abi("C") -> Status:
    for i in range(len(x)):
        if which == 0:
            y[i] = math.exp(x[i])
        elif which == 1:
            y[i] = math.log(x[i])
        elif which == 2:
            y[i] = math.sin(x[i])
        else:
            y[i] = math.tanh(x[i])
    return OK
