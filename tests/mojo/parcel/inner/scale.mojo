"""One generic function, an export for each dtype."""
from mojoview import In, InOut, OK, Out, Status, E_SHAPE

from ..helper import E_SHARED


def scale[dt: DType](a: Scalar[dt], x: InOut[dt]) -> Status:
    for i in range(len(x)):
        if x[i] > 1000:
            return E_SHARED.at(i)
        x[i] = a * x[i]
    return OK


@export("scale_f32")
def scale_f32(a: Float32, x: InOut[DType.float32]) abi("C") -> Status:
    """Multiplies x by a."""
    return scale(a, x)


@export("scale_f64")
def scale_f64(a: Float64, x: InOut[DType.float64]) abi("C") -> Status:
    return scale(a, x)


@export("scale_i16")
def scale_i16(a: Int16, x: InOut[DType.int16]) abi("C") -> Status:
    return scale(a, x)


def convert[d1: DType, d2: DType](x: In[d1], y: Out[d2]) -> Status:
    if len(x) != len(y):
        return E_SHAPE
    for i in range(len(x)):
        y[i] = x[i].cast[d2]()
    return OK


@export("convert_f64_f32")
def convert_f64_f32(x: In[DType.float64], y: Out[DType.float32]) abi("C") -> Status:
    return convert(x, y)


@export("convert_i64_f64")
def convert_i64_f64(x: In[DType.int64], y: Out[DType.float64]) abi("C") -> Status:
    return convert(x, y)


@export("convert_i64_f32")
def convert_i64_f32(x: In[DType.int64], y: Out[DType.float32]) abi("C") -> Status:
    return convert(x, y)


@export("words")
def words(x: String) abi("C") -> Int:
    return 0


@export("_under")
def _under(x: Int) abi("C") -> Int:
    return 0
