"""What the Mojo library refuses to compile: each function here is one mistake."""
from mojoview import OK, In, Out, Status, apply, math, reductions


@export("writes_to_input")
def writes_to_input(x: In[DType.float64, 2]) abi("C") -> Status:
    x.row(0)[0] = 1
    return OK


@export("half")
def half(x: In[DType.float16], y: Out[DType.float16]) abi("C") -> Status:
    return apply[math.exp](x, y)


@export("integers_as_floats")
def integers_as_floats(x: In[DType.int32]) abi("C") -> Float64:
    return reductions.sum(x)


@export("two_dtypes")
def two_dtypes(x: In[DType.float32], y: Out[DType.float64]) abi("C") -> Status:
    return apply[math.exp](x, y)


@export("one_index")
def one_index(x: In[DType.float64, 2]) abi("C") -> Status:
    _ = x[0]
    return OK


@export("two_indices")
def two_indices(x: In[DType.float32]) abi("C") -> Status:
    _ = x[0, 0]
    return OK


@export("no_mask")
def no_mask(x: In[DType.float64]) abi("C") -> Status:
    _ = x.missing(0)
    return OK


@export("nine_dimensions")
def nine_dimensions(x: In[DType.float64, 9]) abi("C") -> Status:
    _ = len(x)
    return OK


@export("stride_of_three")
def stride_of_three(x: In[DType.float64, 3]) abi("C") -> Status:
    _ = x.stride(0)
    return OK


@export("never_true")
def never_true() abi("C"):
    comptime assert 1 == 2, "not in this world"
