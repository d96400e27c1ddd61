"""log, log2, log10, log1p.

x = 2**k m with m in [sqrt(1/2), sqrt(2)); with s = (m - 1) / (m + 1), log(m) = 2 s + s**3 (2/3 + …), a minimax
polynomial in s**2.
"""
from std.memory import bitcast

from .pairs import Lanes, Pair, add, divide, fast_two_sum, multiply, multiply_add, two_product, two_sum
from .types import INF, NAN, narrow, wide

# log 2 = LN2_HI + LN2_LO: k * LN2_HI is exact for every exponent k
comptime LN2_HI = 0.6931471805598903
comptime LN2_LO = 5.497923018708371e-14
comptime LOG10_2_HI = 0.30102999566395283
comptime LOG10_2_LO = 2.8363394551044964e-14
comptime LOG2E_HI = 1.4426950408889634
comptime LOG2E_LO = 2.0355273740931033e-17
comptime LOG10E_HI = 0.4342944819032518
comptime LOG10E_LO = 1.098319650216765e-17
comptime SMALLEST_NORMAL = 2.2250738585072014e-308


struct Cut[w: SIMDLength](TrivialRegisterPassable):
    """A positive number as 2**k (1 + f)."""

    var k: Lanes[Self.w]
    var f: Lanes[Self.w]

    @always_inline
    def __init__(out self, x: Lanes[Self.w]):
        var tiny = x.lt(SMALLEST_NORMAL)
        var bits = bitcast[DType.int64, Self.w](tiny.select(x * 18014398509481984.0, x))  # 2**54
        # the exponent that leaves m in [sqrt(1/2), sqrt(2))
        var e = (bits - 0x3FE6A09E667F3BCD) >> 52
        self.k = e.cast[DType.float64]() - tiny.select(Lanes[Self.w](54), Lanes[Self.w](0))
        self.f = bitcast[DType.float64, Self.w](bits - (e << 52)) - 1.0


@always_inline
def log[dt: DType, w: SIMDLength, //](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """Natural logarithm: -inf at zeros, NaN below."""
    var c = wide(x)
    var cut = Cut(c)
    return narrow[dt](_edges(_log_1p(cut.k, cut.f, Lanes[w](0)), c))


@always_inline
def log1p[dt: DType, w: SIMDLength, //](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """log(1 + x), accurate for small x."""
    var c = wide(x)
    var sum = two_sum(Lanes[w](1), c)
    var cut = Cut(sum.hi)
    # The rounding error of 1 + x, scaled as f; zero beyond 2**64.
    var lost = abs(cut.k).lt(64).select(sum.lo * _inverse_power(cut.k), Lanes[w](0))
    var f = fast_two_sum(cut.f, lost)
    var result = _edges(_log_1p(cut.k, f.hi, f.lo / (1.0 + f.hi)), 1.0 + c)
    return narrow[dt](abs(c).lt(5.551115123125783e-17).select(c, result))


@always_inline
def log2[dt: DType, w: SIMDLength, //](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """Logarithm to the base 2: exact for powers of 2."""
    var c = wide(x)
    var cut = Cut(c)
    var l = multiply(_log_pair(cut.f), Pair[w](Lanes[w](LOG2E_HI), Lanes[w](LOG2E_LO)))
    var sum = fast_two_sum(cut.k, l.hi)
    return narrow[dt](_edges(sum.hi + (sum.lo + l.lo), c))


@always_inline
def log10[dt: DType, w: SIMDLength, //](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """Logarithm to the base 10: exact for powers of 10."""
    var c = wide(x)
    var cut = Cut(c)
    var l = multiply(_log_pair(cut.f), Pair[w](Lanes[w](LOG10E_HI), Lanes[w](LOG10E_LO)))
    var sum = two_sum(cut.k * LOG10_2_HI, l.hi)
    return narrow[dt](_edges(sum.hi + (sum.lo + (l.lo + cut.k * LOG10_2_LO)), c))


@always_inline
def log_pair[w: SIMDLength, //](x: Lanes[w]) -> Pair[w]:
    """The natural logarithm of positive finite numbers, to about 2**-68."""
    var cut = Cut(x)
    var l = _log_pair(cut.f)
    var sum = two_sum(cut.k * LN2_HI, l.hi)
    return fast_two_sum(sum.hi, sum.lo + (l.lo + cut.k * LN2_LO))


@always_inline
def _log_1p[w: SIMDLength, //](k: Lanes[w], f: Lanes[w], rest: Lanes[w]) -> Lanes[w]:
    """k log 2 + log(1 + f) + rest, where rest is tiny beside f."""
    var s = f / (2.0 + f)
    var z = s * s
    var q = Lanes[w](0.12035836142833375)
    q = multiply_add(q, z, 0.11668427718596959)
    q = multiply_add(q, z, 0.13336682697756225)
    q = multiply_add(q, z, 0.15384545542118078)
    q = multiply_add(q, z, 0.18181819076663197)
    q = multiply_add(q, z, 0.22222222215308166)
    q = multiply_add(q, z, 0.2857142857145876)
    q = multiply_add(q, z, 0.39999999999999936)
    q = multiply_add(q, z, 0.6666666666666666)
    # log(1 + f) = f - f**2 / 2 + s (f**2 / 2 + z q), and f**2 / 2 is kept with its rounding error
    var square = two_product(f, f)
    var half = 0.5 * square.hi
    var first = two_sum(k * LN2_HI, f)
    var second = two_sum(first.hi, -half)
    var tail = s * (half + z * q) + (rest - 0.5 * square.lo)
    return second.hi + (second.lo + (first.lo + (k * LN2_LO + tail)))


@always_inline
def _log_pair[w: SIMDLength, //](f: Lanes[w]) -> Pair[w]:
    """log(1 + f)."""
    comptime P = Pair[w]
    var d = two_sum(Lanes[w](2), f)
    var s = divide(P(f, Lanes[w](0)), d)
    var z = multiply(s, s)
    # 2/7 and on: 2**-72 of the result
    var t = Lanes[w](0.1191220983626715)
    t = multiply_add(t, z.hi, 0.11684902935248895)
    t = multiply_add(t, z.hi, 0.1333576939652033)
    t = multiply_add(t, z.hi, 0.15384572753516854)
    t = multiply_add(t, z.hi, 0.18181818607247227)
    t = multiply_add(t, z.hi, 0.22222222220001137)
    t = multiply_add(t, z.hi, 0.2857142857143319)
    var fifth = fast_two_sum(Lanes[w](0.4), t * z.hi)
    fifth.lo += -2.2204460492503132e-17
    var third = multiply(z, fifth)
    third = add(P(Lanes[w](0.6666666666666666), Lanes[w](3.700743415417188e-17)), third)
    var cubic = multiply(multiply(s, z), third)
    return add(P(2.0 * s.hi, 2.0 * s.lo), cubic)


@always_inline
def _inverse_power[w: SIMDLength, //](k: Lanes[w]) -> Lanes[w]:
    """2**-k for integers below 64."""
    return bitcast[DType.float64, w]((1023 - bitcast[DType.int64, w](k + 6755399441055744.0)) << 52)


@always_inline
def _edges[w: SIMDLength, //](result: Lanes[w], x: Lanes[w]) -> Lanes[w]:
    """Sets the values of a logarithm at zero, below, at inf and NaN."""
    var finite = x.lt(INF).select(result, x)
    var positive = x.gt(0).select(finite, x.eq(0).select(Lanes[w](-INF), Lanes[w](NAN)))
    return x.eq(x).select(positive, x)
