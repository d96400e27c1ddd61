"""Every way to reach the elements of a typed argument, for every dtype."""
from std.reflection import reflect
from std.sys import align_of, simd_width_of, size_of

from mojoview import E_SHAPE, OK, Desc, In, InOut, Out, Status


def copy[dt: DType](x: In[dt], y: Out[dt]) -> Status:
    if len(x) != len(y):
        return E_SHAPE
    for i in range(len(x)):
        y[i] = x[i]
    return OK


def copy_lanes[dt: DType](x: In[dt], y: Out[dt]) -> Status:
    comptime w = simd_width_of[dt]()
    if len(x) != len(y):
        return E_SHAPE
    var i = 0
    while i + w <= len(x):
        y.store(i, x.load[w](i))
        i += w
    while i < len(x):
        y[i] = x[i]
        i += 1
    return OK


def copy_table[dt: DType](x: In[dt, 2], y: Out[dt, 2]) -> Status:
    if len(x) != len(y) or x.shape(1) != y.shape(1):
        return E_SHAPE
    for i in range(len(x)):
        for j in range(x.shape(1)):
            y[i, j] = x[i, j]
    return OK


@export("copy_bool")
def copy_bool(x: In[DType.bool], y: Out[DType.bool]) abi("C") -> Status:
    return copy(x, y)


@export("copy_int8")
def copy_int8(x: In[DType.int8], y: Out[DType.int8]) abi("C") -> Status:
    return copy(x, y)


@export("copy_int16")
def copy_int16(x: In[DType.int16], y: Out[DType.int16]) abi("C") -> Status:
    return copy(x, y)


@export("copy_int32")
def copy_int32(x: In[DType.int32], y: Out[DType.int32]) abi("C") -> Status:
    return copy(x, y)


@export("copy_int64")
def copy_int64(x: In[DType.int64], y: Out[DType.int64]) abi("C") -> Status:
    return copy(x, y)


@export("copy_uint8")
def copy_uint8(x: In[DType.uint8], y: Out[DType.uint8]) abi("C") -> Status:
    return copy(x, y)


@export("copy_uint16")
def copy_uint16(x: In[DType.uint16], y: Out[DType.uint16]) abi("C") -> Status:
    return copy(x, y)


@export("copy_uint32")
def copy_uint32(x: In[DType.uint32], y: Out[DType.uint32]) abi("C") -> Status:
    return copy(x, y)


@export("copy_uint64")
def copy_uint64(x: In[DType.uint64], y: Out[DType.uint64]) abi("C") -> Status:
    return copy(x, y)


@export("copy_float16")
def copy_float16(x: In[DType.float16], y: Out[DType.float16]) abi("C") -> Status:
    return copy(x, y)


@export("copy_float32")
def copy_float32(x: In[DType.float32], y: Out[DType.float32]) abi("C") -> Status:
    return copy(x, y)


@export("copy_float64")
def copy_float64(x: In[DType.float64], y: Out[DType.float64]) abi("C") -> Status:
    return copy(x, y)


@export("lanes_bool")
def lanes_bool(x: In[DType.bool], y: Out[DType.bool]) abi("C") -> Status:
    return copy_lanes(x, y)


@export("lanes_int8")
def lanes_int8(x: In[DType.int8], y: Out[DType.int8]) abi("C") -> Status:
    return copy_lanes(x, y)


@export("lanes_int16")
def lanes_int16(x: In[DType.int16], y: Out[DType.int16]) abi("C") -> Status:
    return copy_lanes(x, y)


@export("lanes_int32")
def lanes_int32(x: In[DType.int32], y: Out[DType.int32]) abi("C") -> Status:
    return copy_lanes(x, y)


@export("lanes_int64")
def lanes_int64(x: In[DType.int64], y: Out[DType.int64]) abi("C") -> Status:
    return copy_lanes(x, y)


@export("lanes_uint8")
def lanes_uint8(x: In[DType.uint8], y: Out[DType.uint8]) abi("C") -> Status:
    return copy_lanes(x, y)


@export("lanes_uint16")
def lanes_uint16(x: In[DType.uint16], y: Out[DType.uint16]) abi("C") -> Status:
    return copy_lanes(x, y)


@export("lanes_uint32")
def lanes_uint32(x: In[DType.uint32], y: Out[DType.uint32]) abi("C") -> Status:
    return copy_lanes(x, y)


@export("lanes_uint64")
def lanes_uint64(x: In[DType.uint64], y: Out[DType.uint64]) abi("C") -> Status:
    return copy_lanes(x, y)


@export("lanes_float16")
def lanes_float16(x: In[DType.float16], y: Out[DType.float16]) abi("C") -> Status:
    return copy_lanes(x, y)


@export("lanes_float32")
def lanes_float32(x: In[DType.float32], y: Out[DType.float32]) abi("C") -> Status:
    return copy_lanes(x, y)


@export("lanes_float64")
def lanes_float64(x: In[DType.float64], y: Out[DType.float64]) abi("C") -> Status:
    return copy_lanes(x, y)


@export("table_bool")
def table_bool(x: In[DType.bool, 2], y: Out[DType.bool, ndim=2]) abi("C") -> Status:
    return copy_table(x, y)


@export("table_int8")
def table_int8(x: In[DType.int8, 2], y: Out[DType.int8, ndim=2]) abi("C") -> Status:
    return copy_table(x, y)


@export("table_int16")
def table_int16(x: In[DType.int16, 2], y: Out[DType.int16, ndim=2]) abi("C") -> Status:
    return copy_table(x, y)


@export("table_int32")
def table_int32(x: In[DType.int32, 2], y: Out[DType.int32, ndim=2]) abi("C") -> Status:
    return copy_table(x, y)


@export("table_int64")
def table_int64(x: In[DType.int64, 2], y: Out[DType.int64, ndim=2]) abi("C") -> Status:
    return copy_table(x, y)


@export("table_uint8")
def table_uint8(x: In[DType.uint8, 2], y: Out[DType.uint8, ndim=2]) abi("C") -> Status:
    return copy_table(x, y)


@export("table_uint16")
def table_uint16(x: In[DType.uint16, 2], y: Out[DType.uint16, ndim=2]) abi("C") -> Status:
    return copy_table(x, y)


@export("table_uint32")
def table_uint32(x: In[DType.uint32, 2], y: Out[DType.uint32, ndim=2]) abi("C") -> Status:
    return copy_table(x, y)


@export("table_uint64")
def table_uint64(x: In[DType.uint64, 2], y: Out[DType.uint64, ndim=2]) abi("C") -> Status:
    return copy_table(x, y)


@export("table_float16")
def table_float16(x: In[DType.float16, 2], y: Out[DType.float16, ndim=2]) abi("C") -> Status:
    return copy_table(x, y)


@export("table_float32")
def table_float32(x: In[DType.float32, 2], y: Out[DType.float32, ndim=2]) abi("C") -> Status:
    return copy_table(x, y)


@export("table_float64")
def table_float64(x: In[DType.float64, 2], y: Out[DType.float64, ndim=2]) abi("C") -> Status:
    return copy_table(x, y)


@export("missing")
def missing(x: In[DType.float64, masked=True], y: Out[DType.uint8]) abi("C") -> Status:
    for i in range(len(x)):
        y[i] = 1 if x.missing(i) else 0
    return OK


@export("missing_table")
def missing_table(x: In[DType.float64, 2, masked=True], y: Out[DType.uint8, 2]) abi("C") -> Status:
    for i in range(len(x)):
        for j in range(x.shape(1)):
            y[i, j] = 1 if x.missing(i, j) else 0
    return OK


@export("facts")
def facts(x: InOut[DType.int32, 3], y: Out[DType.int64]) abi("C") -> Status:
    """size, len, shape, byte strides, contiguity, first element."""
    y[0] = Int64(x.size())
    y[1] = Int64(len(x))
    for axis in range(3):
        y[2 + axis] = Int64(x.shape(axis))
        y[5 + axis] = Int64(x.byte_stride(axis))
    y[8] = 1 if x.is_contiguous() else 0
    y[9] = x.data()[].cast[DType.int64]()
    return OK


@export("strides")
def strides(x: In[DType.int32, 2], y: Out[DType.int64]) abi("C") -> Status:
    y[0] = Int64(x.stride(0))
    y[1] = Int64(x.stride(1))
    return OK


@export("offsets")
def offsets(y: Out[DType.int64]) abi("C") -> Status:
    """Offset of every field of the descriptor, then its size and alignment."""
    comptime r = reflect[Desc]
    comptime n = r.field_count()
    if len(y) != n + 2:
        return E_SHAPE
    comptime for k in range(n):
        y[k] = Int64(r.field_offset[index=k]())
    y[n] = Int64(size_of[Desc]())
    y[n + 1] = Int64(align_of[Desc]())
    return OK


@export("fill")
def fill(x: InOut[DType.uint8]) abi("C") -> Status:
    """Writes another number into every field and element of the descriptor itself."""
    ref d = x.desc()[]
    d.data = 1
    d.size = -2
    comptime for k in range(2):
        d.stride[k] = Int64(-10 - k)
        d.mask_stride[k] = Int64(-400 - k)
    d.ndim = -3
    d.dtype_code = 4
    d.dtype_bits = 5
    d.dtype_lanes = 6
    d.flags = 7
    d.generation = 8
    d.itemsize = 9
    d.struct_bytes = 10
    d.abi_version = 11
    comptime for k in range(8):
        d.shape[k] = Int64(100 + k)
        d.strides[k] = Int64(-200 - k)
    d.mask = 12
    d.mask_offset = -13
    d.device_id = -14
    d.logical = 15
    comptime for k in range(3):
        d.reserved[k] = UInt64(300 + k)
    return OK
