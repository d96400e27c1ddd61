"""exp, exp2, expm1 and the hyperbolic functions.

The argument is cut into k ln 2 + r with abs(r) <= ln 2 / 2 (Cody and Waite 1980); exp(r) is a minimax polynomial of
degree 13 whose relative error is 2**-70, and what r and 1 + r lose in rounding is carried along.
"""
from std.memory import bitcast

from .pairs import Lanes, Pair, add, divide, fast_two_sum, multiply_add, two_product, two_sum
from .types import narrow, nan_kept, wide, with_sign_of

comptime LOG2E = 1.4426950408889634
# ln 2 = LN2_HI + LN2_LO: the last 21 bits of LN2_HI are zero, so k * LN2_HI is exact for abs(k) < 2**21
comptime LN2_HI = 0.6931471803691238
comptime LN2_LO = 1.9082149292705877e-10
# ln 2 to 106 bits
comptime LN2 = 0.6931471805599453
comptime LN2_REST = 2.3190468138462996e-17
# 1.5 * 2**52: adding it rounds to an integer in the low bits of the sum
comptime SHIFTER = 6755399441055744.0


@always_inline
def exp[dt: DType, w: SIMDLength, //](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """e to the power x: inf above 709.78, gradual underflow, NaN stays NaN."""
    var c = wide(x)
    return narrow[dt](nan_kept(exp_of(c), c))


@always_inline
def exp2[dt: DType, w: SIMDLength, //](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """2 to the power x: exact for integers, inf from 1024 on, gradual underflow."""
    var c = wide(x)
    # inf above and 0 below, so the clamp changes no result
    var b = min(max(c, Lanes[w](-1080)), Lanes[w](1025))
    var k = (b + SHIFTER) - SHIFTER
    var r = two_product(b - k, Lanes[w](LN2))
    r.lo += (b - k) * LN2_REST
    return narrow[dt](nan_kept(_scaled(_exp_of_rest(r), k), c))


@always_inline
def expm1[dt: DType, w: SIMDLength, //](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """exp(x) - 1, accurate for small x."""
    var c = wide(x)
    var e = expm1_pair(c)
    var sum = (e.hi + e.lo) * 2.0
    sum = abs(c).lt(5.551115123125783e-17).select(c, sum)
    return narrow[dt](nan_kept(sum, c))


@always_inline
def sinh[dt: DType, w: SIMDLength, //](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """Hyperbolic sine."""
    var c = wide(x)
    var a = abs(c)
    # (e + e / (1 + e)) / 2 with e = exp(a) - 1, of which expm1_pair has the half
    var e = expm1_pair(min(a, Lanes[w](40)))
    var d = two_sum(Lanes[w](1), 2.0 * e.hi)
    var sum = add(e, divide(e, {d.hi, d.lo + 2.0 * e.lo}))
    var result = a.lt(40.0).select(sum.hi + sum.lo, exp_of(a, -1))
    result = a.lt(1e-10).select(a, result)
    return narrow[dt](nan_kept(with_sign_of(result, c), c))


@always_inline
def cosh[dt: DType, w: SIMDLength, //](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """Hyperbolic cosine."""
    var c = wide(x)
    var half = exp_of(abs(c), -1)
    return narrow[dt](nan_kept(half + 0.25 / half, c))


@always_inline
def tanh[dt: DType, w: SIMDLength, //](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """Hyperbolic tangent."""
    var c = wide(x)
    var a = abs(c)
    # e / (e + 2) with e = exp(2 a) - 1; from 22 on the result is 1
    var e = expm1_pair(2.0 * min(a, Lanes[w](22)))
    var d = two_sum(Lanes[w](1), e.hi)
    var q = divide(e, {d.hi, d.lo + e.lo})
    var result = a.lt(1e-10).select(a, q.hi + q.lo)
    return narrow[dt](nan_kept(with_sign_of(result, c), c))


@always_inline
def expm1_pair[w: SIMDLength, //](x: Lanes[w]) -> Pair[w]:
    """Half of exp(x) - 1 as a sum of two numbers; the half overflows only if the result does."""
    var cut = _cut(min(max(x, Lanes[w](-80)), Lanes[w](710)))
    var r = cut.rest.hi
    var square = two_product(r, r)
    var tail = r * square.hi * _third(r) + (cut.rest.lo + cut.rest.lo * r) + 0.5 * square.lo
    var p = fast_two_sum(r, 0.5 * square.hi)
    # s is half of 2**k, and s - 1/2 needs two numbers for large k
    var s = _power(cut.k - 1.0)
    var one = two_sum(s, Lanes[w](-0.5))
    var sum = two_sum(one.hi, s * p.hi)
    return fast_two_sum(sum.hi, sum.lo + (one.lo + s * (p.lo + tail)))


@always_inline
def exp_of[w: SIMDLength, //](x: Lanes[w], scale: Float64 = 0) -> Lanes[w]:
    """exp(x) * 2**scale; NaN becomes a number."""
    var cut = _cut(x)
    return _scaled(_exp_of_rest(cut.rest), cut.k + scale)


@always_inline
def exp_of[w: SIMDLength, //](x: Pair[w]) -> Lanes[w]:
    """exp(x.hi + x.lo); NaN becomes a number."""
    var cut = _cut(x.hi)
    return _scaled(_exp_of_rest(fast_two_sum(cut.rest.hi, cut.rest.lo + x.lo)), cut.k)


struct Cut[w: SIMDLength](TrivialRegisterPassable):
    """A number as k ln 2 + rest."""

    var k: Lanes[Self.w]
    var rest: Pair[Self.w]

    @always_inline
    def __init__(out self, k: Lanes[Self.w], rest: Pair[Self.w]):
        self.k = k
        self.rest = rest


@always_inline
def _cut[w: SIMDLength, //](x: Lanes[w]) -> Cut[w]:
    # exp is inf above and 0 below, so the clamp changes no result
    var c = min(max(x, Lanes[w](-746)), Lanes[w](711))
    var k = (c * LOG2E + SHIFTER) - SHIFTER
    var high = c - k * LN2_HI
    var low = k * LN2_LO
    var r = high - low
    return {k, Pair[w](r, (high - r) - low)}


@always_inline
def _exp_of_rest[w: SIMDLength, //](r: Pair[w]) -> Lanes[w]:
    var one = 1.0 + r.hi
    return one + (((1.0 - one) + r.hi) + (r.hi * r.hi * _second(r.hi) + r.lo))


@always_inline
def _second[w: SIMDLength, //](r: Lanes[w]) -> Lanes[w]:
    """(exp(r) - 1 - r) / r**2."""
    var q = Lanes[w](1.6029259108383098e-10)
    q = multiply_add(q, r, 2.092390660050047e-09)
    q = multiply_add(q, r, 2.505228907682874e-08)
    q = multiply_add(q, r, 2.75572437553184e-07)
    q = multiply_add(q, r, 2.755731893325331e-06)
    q = multiply_add(q, r, 2.4801587360689798e-05)
    q = multiply_add(q, r, 0.00019841269841474446)
    q = multiply_add(q, r, 0.0013888888888865694)
    q = multiply_add(q, r, 0.008333333333333269)
    q = multiply_add(q, r, 0.041666666666666706)
    q = multiply_add(q, r, 0.16666666666666666)
    return multiply_add(q, r, 0.5)


@always_inline
def _third[w: SIMDLength, //](r: Lanes[w]) -> Lanes[w]:
    """(exp(r) - 1 - r - r**2 / 2) / r**3, weighted for the relative error of exp(r) - 1."""
    var q = Lanes[w](1.6056540676454825e-10)
    q = multiply_add(q, r, 2.091969437628806e-09)
    q = multiply_add(q, r, 2.505217620740728e-08)
    q = multiply_add(q, r, 2.7557258562822547e-07)
    q = multiply_add(q, r, 2.7557319111447765e-06)
    q = multiply_add(q, r, 2.4801587341383207e-05)
    q = multiply_add(q, r, 0.00019841269841342046)
    q = multiply_add(q, r, 0.0013888888888877063)
    q = multiply_add(q, r, 0.008333333333333314)
    q = multiply_add(q, r, 0.04166666666666668)
    return multiply_add(q, r, 0.16666666666666666)


@always_inline
def _power[w: SIMDLength, //](k: Lanes[w]) -> Lanes[w]:
    """2**k for integers from -1022 to 1023."""
    return bitcast[DType.float64, w]((bitcast[DType.int64, w](k + SHIFTER) + 1023) << 52)


@always_inline
def _scaled[w: SIMDLength, //](p: Lanes[w], k: Lanes[w]) -> Lanes[w]:
    """`p` times 2**k, in two steps: k exceeds the range of a float64 exponent."""
    var half = (k * 0.5 + SHIFTER) - SHIFTER
    return p * _power(half) * _power(k - half)
