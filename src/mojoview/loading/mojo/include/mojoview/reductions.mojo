"""Sums, means, variances and extremes of 1-D array arguments and of lines of tables.

Sums of floats are compensated (Neumaier 1974) and use vectors; integers are added in 64 bits and wrap around. Missing
elements of `masked=True` arguments are skipped.
"""
from std.sys import simd_width_of

from .lines import Elements
from .math.pairs import Lanes, two_product, two_sum
from .math.types import NAN


struct CompensatedSum[w: SIMDLength = 1](TrivialRegisterPassable):
    """A running sum of float64 with its rounding errors (Neumaier 1974)."""

    var sum: Lanes[Self.w]
    var lost: Lanes[Self.w]

    @always_inline
    def __init__(out self):
        self.sum = Lanes[Self.w](0)
        self.lost = Lanes[Self.w](0)

    @always_inline
    def add(mut self, value: Lanes[Self.w]):
        """Adds one number to each lane."""
        var s = two_sum(self.sum, value)
        self.sum = s.hi
        self.lost += s.lo

    @always_inline
    def add_product(mut self, x: Lanes[Self.w], y: Lanes[Self.w]):
        """Adds x * y and the rounding error of the product (Ogita, Rump and Oishi 2005)."""
        var p = two_product(x, y)
        self.add(p.hi)
        self.lost += p.lo

    @always_inline
    def total(self) -> Float64:
        """The sum over all lanes; inf and NaN as in plain addition."""
        var all = CompensatedSum[1]()
        comptime for k in range(Int(Self.w)):
            all.add(self.sum[k])
        comptime for k in range(Int(Self.w)):
            all.lost += self.lost[k]
        var finite = all.sum - all.sum == 0
        return all.sum + all.lost if finite else all.sum


struct Moments(TrivialRegisterPassable):
    """Count, mean and sum of squared deviations, updated one number at a time (Welford 1962)."""

    var count: Int
    var mean: Float64
    var squares: Float64

    @always_inline
    def __init__(out self):
        self.count = 0
        self.mean = 0
        self.squares = 0

    @always_inline
    def add(mut self, value: Float64):
        """Adds a number."""
        self.count += 1
        var step = value - self.mean
        self.mean += step / Float64(self.count)
        self.squares += step * (value - self.mean)

    @always_inline
    def merge(mut self, other: Moments):
        """Adds all numbers of another `Moments` (Chan, Golub and LeVeque 1983)."""
        if other.count == 0:
            return
        var count = self.count + other.count
        var step = other.mean - self.mean
        var share = Float64(other.count) / Float64(count)
        self.mean += step * share
        self.squares += other.squares + step * step * share * Float64(self.count)
        self.count = count

    @always_inline
    def variance(self, ddof: Int = 1) -> Float64:
        """Sum of squared deviations divided by count - ddof; NaN unless that is positive."""
        return self.squares / Float64(self.count - ddof) if self.count > ddof else NAN


struct Extreme[dt: DType](TrivialRegisterPassable):
    """A smallest or largest element and its index; index -1 if there are no elements."""

    var value: Scalar[Self.dt]
    var index: Int

    @always_inline
    def __init__(out self, value: Scalar[Self.dt], index: Int):
        self.value = value
        self.index = index


def sum[A: Elements, //, into: DType = DType.float64](x: A) -> Scalar[into]:
    """The sum: floats compensated into float64, integers and bools modulo 2**64 into int64 or uint64."""
    comptime w = simd_width_of[DType.float64]()
    var n = len(x)
    var i = 0
    comptime if A.dtype.is_floating_point():
        comptime assert into == DType.float64, "sum: floats add up to float64"
        var sums = CompensatedSum[w]()
        while i < n:
            sums.add(_present[w](x, i, n).cast[DType.float64]())
            i += w
        return sums.total().cast[into]()
    else:
        comptime assert into == DType.int64 or into == DType.uint64, "sum: integers need sum[DType.int64] or uint64"
        var sums = SIMD[into, w](0)
        while i < n:
            sums += _present[w](x, i, n).cast[into]()
            i += w
        return sums.reduce_add()


def pairwise_sum[A: Elements, //](x: A) -> Float64:
    """The pairwise sum of floats: as fast as a plain loop; the error grows with the logarithm of the length."""
    comptime assert A.dtype.is_floating_point(), "pairwise_sum is for floats: sum() is exact for integers"
    return _pairwise(x, 0, len(x))


def _pairwise[A: Elements, //](x: A, start: Int, stop: Int) -> Float64:
    comptime w = simd_width_of[DType.float64]()
    comptime BLOCK = 32 * w
    var n = stop - start
    if n > BLOCK:
        # Halves end at whole vectors.
        var half = start + n // (2 * w) * w
        return _pairwise(x, start, half) + _pairwise(x, half, stop)
    var sums = Lanes[w](0)
    var i = start
    while i < stop:
        sums += _present[w](x, i, stop).cast[DType.float64]()
        i += w
    return sums.reduce_add()


def dot[A: Elements, B: Elements, //](x: A, y: B) -> Float64:
    """The sum of x[i] * y[i] for floats, as if in twice the precision, up to the shorter length; masks are ignored."""
    comptime assert A.dtype.is_floating_point() and B.dtype.is_floating_point(), "dot is for floats"
    comptime w = simd_width_of[DType.float64]()
    var n = min(len(x), len(y))
    var sums = CompensatedSum[w]()
    var i = 0
    while i < n:
        sums.add_product(
            x.get_lanes[w](i, n - i).cast[DType.float64](), y.get_lanes[w](i, n - i).cast[DType.float64]()
        )
        i += w
    return sums.total()


def count[A: Elements, //, *, skip_nan: Bool = False](x: A) -> Int:
    """Number of elements that are not missing and, with `skip_nan`, not NaN."""
    var n = len(x)
    comptime if A.takes_mask or (skip_nan and A.dtype.is_floating_point()):
        var found = 0
        for i in range(n):
            found += 1 if _counts[skip_nan](x, i) else 0
        return found
    return n


def moments[A: Elements, //, *, skip_nan: Bool = False](x: A) -> Moments:
    """Count, mean and squared deviations of the elements, in two passes, the second corrected (Chan, Golub and LeVeque
    1983).

    A NaN makes mean and variance NaN, unless it is skipped. Without elements the mean is NaN.
    """
    comptime w = simd_width_of[DType.float64]()
    var n = len(x)
    var result = Moments()
    result.count = count[skip_nan=skip_nan](x)
    if result.count == 0:
        result.mean = NAN
        return result
    var sums = CompensatedSum[w]()
    var i = 0
    while i < n:
        sums.add(_kept[w, skip_nan](x, i, n, 0))
        i += w
    result.mean = sums.total() / Float64(result.count)
    var squares = CompensatedSum[w]()
    var rest = CompensatedSum[w]()
    i = 0
    while i < n:
        var d = _kept[w, skip_nan](x, i, n, result.mean) - result.mean
        squares.add(d * d)
        rest.add(d)
        i += w
    var r = rest.total()
    result.squares = squares.total() - r * r / Float64(result.count)
    return result


def mean[A: Elements, //, *, skip_nan: Bool = False](x: A) -> Float64:
    """The arithmetic mean of the elements; NaN if there are none."""
    comptime w = simd_width_of[DType.float64]()
    var n = len(x)
    var sums = CompensatedSum[w]()
    var i = 0
    while i < n:
        sums.add(_kept[w, skip_nan](x, i, n, 0))
        i += w
    var counted = count[skip_nan=skip_nan](x)
    return sums.total() / Float64(counted) if counted > 0 else NAN


def variance[A: Elements, //, *, skip_nan: Bool = False](x: A, ddof: Int = 1) -> Float64:
    """The variance of the elements; NaN unless there are more than `ddof`."""
    return moments[skip_nan=skip_nan](x).variance(ddof)


def smallest[A: Elements, //, *, skip_nan: Bool = False](x: A) -> Extreme[A.dtype]:
    """The smallest element and the index of its first occurrence.

    The result is the first NaN, as in numpy.min, unless NaN is skipped, as in numpy.nanmin. Both zeros are equal.
    """
    return _extreme[False, skip_nan](x)


def largest[A: Elements, //, *, skip_nan: Bool = False](x: A) -> Extreme[A.dtype]:
    """The largest element and the index of its first occurrence; NaN as in `smallest`."""
    return _extreme[True, skip_nan](x)


def _extreme[A: Elements, //, upward: Bool, skip_nan: Bool](x: A) -> Extreme[A.dtype]:
    comptime assert A.dtype != DType.bool, "smallest and largest are for numbers"
    var n = len(x)
    var best = Extreme[A.dtype](0, -1)
    var i = 0
    comptime if not A.takes_mask:
        # Vectors find the value, then a search finds its index; min and max ignore NaN.
        comptime w = simd_width_of[A.dtype]()
        if n >= 2 * w:
            var lanes = x.get_lanes[w](0, w)
            while i + w <= n:
                var v = x.get_lanes[w](i, w)
                comptime if A.dtype.is_floating_point() and not skip_nan:
                    if not v.eq(v).reduce_and():
                        break  # the first NaN is the result
                lanes = max(lanes, v) if upward else min(lanes, v)
                i += w
            var value = lanes.reduce_max() if upward else lanes.reduce_min()
            best = {value, _first(x, value, i)}
            if best.index >= 0:
                best.value = x.get(best.index)  # the sign of a zero is that of the element
    while i < n:
        if _counts[skip_nan](x, i):
            var value = x.get(i)
            comptime if A.dtype.is_floating_point():
                if value != value:
                    return {value, i}
            if best.index < 0 or (value > best.value if upward else value < best.value):
                best = {value, i}
        i += 1
    return best


def _first[A: Elements, //](x: A, value: Scalar[A.dtype], stop: Int) -> Int:
    """Index of the first occurrence below `stop`, a multiple of the vector width; -1 for NaN."""
    comptime w = simd_width_of[A.dtype]()
    var i = 0
    while i < stop:
        if x.get_lanes[w](i, w).eq(SIMD[A.dtype, w](value)).reduce_or():
            while x.get(i) != value:
                i += 1
            return i
        i += w
    return -1


@always_inline
def _counts[A: Elements, //, skip_nan: Bool](x: A, i: Int) -> Bool:
    if x.is_missing(i):
        return False
    comptime if skip_nan and A.dtype.is_floating_point():
        return x.get(i) == x.get(i)
    return True


@always_inline
def _present[A: Elements, //, w: SIMDLength](x: A, i: Int, n: Int) -> SIMD[A.dtype, w]:
    """Elements i, i + 1, …; 0 beyond n and for missing ones."""
    comptime if A.takes_mask:
        var lanes = SIMD[A.dtype, w](0)
        comptime for k in range(Int(w)):
            if i + k < n and not x.is_missing(i + k):
                lanes[k] = x.get(i + k)
        return lanes
    return x.get_lanes[w](i, n - i)


@always_inline
def _kept[A: Elements, //, w: SIMDLength, skip_nan: Bool](x: A, i: Int, n: Int, other: Float64) -> Lanes[w]:
    """Elements i, i + 1, …; `other` beyond n, for missing ones and for a skipped NaN."""
    comptime if not A.takes_mask:
        if i + Int(w) <= n:
            var lanes = x.get_lanes[w](i, Int(w)).cast[DType.float64]()
            comptime if skip_nan:
                return lanes.eq(lanes).select(lanes, Lanes[w](other))
            return lanes
    var lanes = Lanes[w](other)
    comptime for k in range(Int(w)):
        if i + k < n:
            if _counts[skip_nan](x, i + k):
                lanes[k] = x.get(i + k).cast[DType.float64]()
    return lanes
