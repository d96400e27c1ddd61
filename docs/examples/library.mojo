"""Examples of the Mojo library."""
from mojoview import E_EMPTY, E_SHAPE, OK, Chunks, In, InOut, Out, Status, apply, math, reductions, share_of
from mojoview import atomics
from mojoview.atomics import Ordering
from std.sys import simd_width_of


# ---- loops
@always_inline
def logistic[dt: DType, w: SIMDLength, //](x: SIMD[dt, w]) -> SIMD[dt, w]:
    return 1 / (1 + math.exp(-x))


@export("logistic")
def logistic_of(x: In[DType.float64], y: Out[DType.float64]) abi("C") -> Status:
    """1 / (1 + exp(-x)), element by element."""
    return apply[logistic](x, y)


# ---- rows
@export("standardize")
def standardize(table: InOut[DType.float64, 2]) abi("C") -> Status:
    """Scales every column to mean 0 and standard deviation 1, ignoring NaN."""
    for j in range(table.shape(1)):
        var column = table.column(j)
        var seen = reductions.moments[skip_nan=True](column)
        if seen.count < 2:
            return E_EMPTY.at(j)
        var scale = 1 / math.sqrt(seen.variance())
        for i in range(len(column)):
            column[i] = (column[i] - seen.mean) * scale
    return OK


# ---- masks
@export("largest_gap")
def largest_gap(x: In[DType.float64, masked=True], gap: Out[DType.float64]) abi("C") -> Status:
    """The range of the elements that are not missing."""
    if len(gap) != 1:
        return E_SHAPE
    var high = reductions.largest(x)
    if high.index < 0:
        return E_EMPTY
    gap[0] = high.value - reductions.smallest(x).value
    return OK


# ---- tails
@export("clip")
def clip(low: Float32, high: Float32, x: InOut[DType.float32]) abi("C") -> Status:
    """Limits every element, in vectors and a partial vector; NaN becomes `low`."""
    comptime w = simd_width_of[DType.float32]()
    var i = 0
    while i < len(x):
        var left = len(x) - i
        x.put_lanes(i, min(max(x.get_lanes[w](i, left), low), high), left)
        i += w
    return OK


# ---- chunks
@export("block_means")
def block_means(x: In[DType.float64], size: Int, means: Out[DType.float64]) abi("C") -> Status:
    """The mean of every `size` elements; the last block may be shorter."""
    var blocks = Chunks(len(x), size)
    if len(means) != len(blocks):
        return E_SHAPE
    for k in range(len(blocks)):
        means[k] = reductions.mean(x.line().slice(blocks[k].start, blocks[k].stop))
    return OK


# ---- atomics
@export("histogram")
def histogram(x: In[DType.uint8], parts: Int, k: Int, counts: InOut[DType.int64]) abi("C") -> Status:
    """Counts the k-th of `parts` shares of x; several threads may add to the same counts."""
    if len(counts) != 256:
        return E_SHAPE
    var share = share_of(len(x), parts, k, multiple=64)
    for i in range(share.start, share.stop):
        _ = atomics.fetch_add[order=Ordering.RELAXED](counts, Int(x[i]), 1)
    return OK
