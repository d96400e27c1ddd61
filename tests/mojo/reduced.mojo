"""Reductions, chunks, rows, tails and atomics."""
from std.sys import simd_width_of

from mojoview import E_INTERRUPTED, E_SHAPE, OK, Chunks, Elements, In, InOut, Out, Status, apply, math, share_of
from mojoview import atomics, reductions
from mojoview.atomics import Ordering
from mojoview.reductions import CompensatedSum, Moments

comptime F64 = DType.float64


# ---- reductions: everything that a float array has, in one row
def reduced[A: Elements, //, skip_nan: Bool](x: A, y: Out[F64]) -> Status:
    if len(y) != 9:
        return E_SHAPE
    comptime if A.dtype.is_floating_point():
        y[0] = reductions.sum(x)
    else:
        y[0] = reductions.sum[DType.int64](x).cast[F64]()
    y[1] = reductions.mean[skip_nan=skip_nan](x)
    y[2] = reductions.variance[skip_nan=skip_nan](x)
    y[3] = reductions.variance[skip_nan=skip_nan](x, ddof=0)
    y[4] = Float64(reductions.count[skip_nan=skip_nan](x))
    var low = reductions.smallest[skip_nan=skip_nan](x)
    var high = reductions.largest[skip_nan=skip_nan](x)
    y[5] = low.value.cast[F64]()
    y[6] = Float64(low.index)
    y[7] = high.value.cast[F64]()
    y[8] = Float64(high.index)
    return OK


@export("reduce_float64")
def reduce_float64(x: In[DType.float64], y: Out[F64]) abi("C") -> Status:
    return reduced[False](x, y)


@export("reduce_float32")
def reduce_float32(x: In[DType.float32], y: Out[F64]) abi("C") -> Status:
    return reduced[False](x, y)


@export("reduce_int16")
def reduce_int16(x: In[DType.int16], y: Out[F64]) abi("C") -> Status:
    return reduced[False](x, y)


@export("reduce_skipping_float64")
def reduce_skipping_float64(x: In[DType.float64], y: Out[F64]) abi("C") -> Status:
    return reduced[True](x, y)


@export("reduce_masked_float64")
def reduce_masked_float64(x: In[DType.float64, masked=True], y: Out[F64]) abi("C") -> Status:
    return reduced[True](x, y)


@export("reduce_masked_int16")
def reduce_masked_int16(x: In[DType.int16, masked=True], y: Out[F64]) abi("C") -> Status:
    return reduced[True](x, y)


@export("sum_uint64")
def sum_uint64(x: In[DType.uint64], y: Out[DType.uint64]) abi("C") -> Status:
    y[0] = reductions.sum[DType.uint64](x)
    return OK


@export("sum_int64")
def sum_int64(x: In[DType.int64], y: Out[DType.int64]) abi("C") -> Status:
    y[0] = reductions.sum[DType.int64](x)
    return OK


@export("sum_bool")
def sum_bool(x: In[DType.bool], y: Out[DType.uint64]) abi("C") -> Status:
    y[0] = reductions.sum[DType.uint64](x)
    return OK


@export("pairwise")
def pairwise(x: In[DType.float64]) abi("C") -> Float64:
    return reductions.pairwise_sum(x)


@export("pairwise32")
def pairwise32(x: In[DType.float32]) abi("C") -> Float64:
    return reductions.pairwise_sum(x)


@export("dot")
def dot(x: In[DType.float64], y: In[DType.float64]) abi("C") -> Float64:
    return reductions.dot(x, y)


@export("running")
def running(x: In[DType.float64], chunk: Int, y: Out[F64]) abi("C") -> Status:
    """Moments of chunks, merged; and the compensated sum one by one."""
    var all = Moments()
    var total = CompensatedSum()
    var chunks = Chunks(len(x), chunk)
    for k in range(len(chunks)):
        var part = Moments()
        for i in range(chunks[k].start, chunks[k].stop):
            part.add(x[i])
            total.add(x[i])
        all.merge(part)
    y[0] = Float64(all.count)
    y[1] = all.mean
    y[2] = all.variance()
    y[3] = total.total()
    return OK


# ---- chunks
@export("chunk_list")
def chunk_list(count: Int, size: Int, y: Out[DType.int64]) abi("C") -> Int64:
    var chunks = Chunks(count, size)
    for k in range(min(len(chunks), len(y) // 2)):
        y[2 * k] = Int64(chunks[k].start)
        y[2 * k + 1] = Int64(chunks[k].start + len(chunks[k]))
    return Int64(len(chunks))


@export("share_list")
def share_list(count: Int, parts: Int, multiple: Int, y: Out[DType.int64, 2]) abi("C") -> Status:
    for k in range(parts):
        var part = share_of(count, parts, k, multiple)
        y[k, 0] = Int64(part.start)
        y[k, 1] = Int64(part.stop)
    return OK


# ---- rows, columns, tails, masks
@export("transposed_by_lines")
def transposed_by_lines(x: In[DType.float64, 2], y: Out[DType.float64, 2]) abi("C") -> Status:
    """Every row of x becomes a column of y, in vectors and a part of one."""
    comptime w = simd_width_of[F64]()
    if len(x) != y.shape(1) or x.shape(1) != len(y):
        return E_SHAPE
    for i in range(len(x)):
        var source = x.row(i)
        var target = y.column(i)
        var j = 0
        while j + w <= len(source):
            target.store(j, source.load[w](j))
            j += w
        target.store_part(j, source.load_part[w](j, len(source) - j), len(source) - j)
    return OK


@export("doubled_in_place")
def doubled_in_place(x: InOut[DType.float32, 2]) abi("C") -> Status:
    comptime w = 4
    for i in range(len(x)):
        var j = 0
        while j + w <= x.shape(1):
            x.store(i, j, 2 * x.load[w](i, j))
            j += w
        while j < x.shape(1):
            x.row(i)[j] = 2 * x.row(i)[j]
            j += 1
    return OK


@export("parts")
def parts(x: In[DType.int32], count: Int, y: Out[DType.int32]) abi("C") -> Status:
    """Loads `count` lanes of 8 with a fill of -1, stores all 8, then the first `count` again, negated."""
    var lanes = x.load_part[8](0, count, -1)
    y.store(0, lanes)
    y.store_part(8, -lanes, count)
    return OK


@export("missing_lanes")
def missing_lanes(x: In[DType.float64, masked=True], y: Out[DType.bool]) abi("C") -> Int64:
    var i = 0
    while i + 4 <= len(x):
        y.store(i, x.missing_lanes[4](i))
        i += 4
    while i < len(x):
        y[i] = x.missing(i)
        i += 1
    return Int64(x.missing_count())


# ---- atomics
@export("count_up")
def count_up(x: InOut[DType.int64], times: Int) abi("C") -> Status:
    for _ in range(times):
        _ = atomics.fetch_add[order=Ordering.RELAXED](x, 0, 1)
    return OK


@export("count_up_float")
def count_up_float(x: InOut[DType.float64], times: Int) abi("C") -> Status:
    for _ in range(times):
        _ = atomics.fetch_add[order=Ordering.ACQUIRE_RELEASE](x, 0, 0.5)
    return OK


@export("count_up_exchanging")
def count_up_exchanging(x: InOut[DType.uint8], times: Int) abi("C") -> Status:
    for _ in range(times):
        var seen = atomics.load[order=Ordering.RELAXED](x, 0)
        while not atomics.compare_exchange[order=Ordering.ACQUIRE_RELEASE, failure_order=Ordering.RELAXED](
            x, 0, seen, seen + 1
        ):
            pass
    return OK


@export("atomic_values")
def atomic_values(x: InOut[DType.int32], y: In[DType.int32], z: Out[DType.int32]) abi("C") -> Status:
    """Each operation once, on strided elements."""
    z[0] = atomics.load[order=Ordering.ACQUIRE](y, 1)
    atomics.store[order=Ordering.RELEASE](x, 1, 7)
    atomics.store(x, 2, 2147483647)
    z[1] = atomics.fetch_add(x, 1, -3)
    z[2] = atomics.fetch_add(x, 2, 1)
    var expected = Int32(9)
    z[3] = 1 if atomics.compare_exchange(x, 1, expected, 100) else 0
    z[4] = expected
    z[5] = 1 if atomics.compare_exchange(x, 1, expected, 100) else 0
    atomics.fence[ordering=Ordering.SEQUENTIAL]()
    return OK


comptime PATIENCE = 4000000000


def waited(flag: InOut[DType.int32], value: Int32) -> Bool:
    for _ in range(PATIENCE):
        if atomics.load[order=Ordering.ACQUIRE](flag, 0) == value:
            return True
    return False


@export("publish")
def publish(data: InOut[DType.int64], flag: InOut[DType.int32], rounds: Int) abi("C") -> Status:
    """Hands each round's number over: writes it plainly, raises the flag, waits until it is down again."""
    for k in range(1, rounds + 1):
        data[0] = Int64(k)
        atomics.store[order=Ordering.RELEASE](flag, 0, 1)
        if not waited(flag, 0):
            return E_INTERRUPTED
    return OK


@export("receive")
def receive(data: InOut[DType.int64], flag: InOut[DType.int32], rounds: Int) abi("C") -> Int64:
    """How many numbers did not come, or not in order."""
    for k in range(1, rounds + 1):
        if not waited(flag, 1) or data[0] != Int64(k):
            return Int64(rounds - k + 1)
        atomics.store[order=Ordering.RELEASE](flag, 0, 0)
    return 0


@export("columns_reduced")
def columns_reduced(x: In[F64, 2], y: Out[F64, 2]) abi("C") -> Status:
    """Mean, variance, smallest and pairwise sum of every column, exp of every row."""
    for j in range(x.shape(1)):
        y[0, j] = reductions.mean(x.column(j))
        y[1, j] = reductions.variance(x.column(j))
        y[2, j] = reductions.smallest(x.column(j)).value
        y[3, j] = reductions.pairwise_sum(x.column(j))
    for i in range(len(x)):
        var status = apply[math.exp](x.row(i), y.row(4 + i))
        if status.failed():
            return status
    return OK


@export("dot_line")
def dot_line(x: In[F64]) abi("C") -> Float64:
    """The sum of squares, by way of a line and a slice of it."""
    return reductions.dot(x.line().slice(1, len(x)), x.line().slice(1, len(x)))
