"""sin, cos, tan.

Below a million the argument is reduced with pi/2 in four parts (Cody and Waite 1980); above, with the bits of 2/pi
that matter for its exponent (Payne and Hanek 1983), lane by lane. The rest of at most pi/4 is a sum of two numbers.
"""
from std.bit import count_leading_zeros
from std.collections import Array
from std.memory import Pointer, bitcast

from .pairs import Lanes, Pair, divide, fast_two_sum, multiply_add, two_product, two_sum
from .types import narrow, wide

comptime TWO_OVER_PI = 0.6366197723675814
# pi/2 in parts of 33 bits, so that up to 2**20 times each of the first three is exact
comptime PI2_1 = 1.5707963267341256
comptime PI2_2 = 6.077100506303966e-11
comptime PI2_3 = 2.0222662487111665e-21
comptime PI2_4 = 8.4784276603689e-32
comptime PI2_HI = 1.5707963267948966
comptime PI2_LO = 6.123233995736766e-17
comptime SHIFTER = 6755399441055744.0
comptime CODY_WAITE = 1e6
comptime TINY = 1e-9


struct Reduced[w: SIMDLength](TrivialRegisterPassable):
    """x = quadrant pi/2 + rest, with abs(rest) slightly above pi/4 at most."""

    var rest: Pair[Self.w]
    var quadrant: SIMD[DType.int64, Self.w]

    @always_inline
    def __init__(out self, rest: Pair[Self.w], quadrant: SIMD[DType.int64, Self.w]):
        self.rest = rest
        self.quadrant = quadrant


@always_inline
def sin[dt: DType, w: SIMDLength, //](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """Sine of x radians, of any size."""
    var c = wide(x)
    var at = _reduced(c)
    var s = _sine(at.rest)
    var r = _turned((at.quadrant & 1).eq(0).select(s.hi + s.lo, _cosine_sum(at.rest)), at.quadrant)
    return narrow[dt](_kept(r, c))


@always_inline
def cos[dt: DType, w: SIMDLength, //](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """Cosine of x radians, of any size."""
    var c = wide(x)
    var at = _reduced(c)
    var s = _sine(at.rest)
    var r = _turned((at.quadrant & 1).eq(0).select(_cosine_sum(at.rest), s.hi + s.lo), at.quadrant + 1)
    return narrow[dt](r + (c - c))


@always_inline
def tan[dt: DType, w: SIMDLength, //](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """Tangent of x radians, of any size."""
    var c = wide(x)
    var at = _reduced(c)
    var s = _sine(at.rest)
    var k = _cosine(at.rest)
    var even = (at.quadrant & 1).eq(0)
    var q = divide(
        Pair[w](even.select(s.hi, -k.hi), even.select(s.lo, -k.lo)),
        Pair[w](even.select(k.hi, s.hi), even.select(k.lo, s.lo)),
    )
    return narrow[dt](_kept(q.hi + q.lo, c))


@always_inline
def _kept[w: SIMDLength, //](result: Lanes[w], x: Lanes[w]) -> Lanes[w]:
    """The argument itself if it is tiny, with the sign of its zero; NaN unless it is finite."""
    return abs(x).lt(TINY).select(x, result + (x - x))


@always_inline
def _turned[w: SIMDLength, //](value: Lanes[w], quadrant: SIMD[DType.int64, w]) -> Lanes[w]:
    """The negative in the third and fourth quadrant."""
    return bitcast[DType.float64, w](bitcast[DType.int64, w](value) ^ ((quadrant & 2) << 62))


@always_inline
def _sine[w: SIMDLength, //](r: Pair[w]) -> Pair[w]:
    var z = r.hi * r.hi
    var q = Lanes[w](-7.578526455659719e-13)
    q = multiply_add(q, z, 1.6058362890077537e-10)
    q = multiply_add(q, z, -2.5052104879729218e-08)
    q = multiply_add(q, z, 2.7557319214056837e-06)
    q = multiply_add(q, z, -0.00019841269841254784)
    q = multiply_add(q, z, 0.008333333333333323)
    q = multiply_add(q, z, -0.16666666666666666)
    return fast_two_sum(r.hi, r.hi * z * q + (r.lo - 0.5 * z * r.lo))


@always_inline
def _cosine[w: SIMDLength, //](r: Pair[w]) -> Pair[w]:
    var z = two_product(r.hi, r.hi)
    var q = Lanes[w](4.7377424640136794e-14)
    q = multiply_add(q, z.hi, -1.1470284658813299e-11)
    q = multiply_add(q, z.hi, 2.0876754285453298e-09)
    q = multiply_add(q, z.hi, -2.7557319214992537e-07)
    q = multiply_add(q, z.hi, 2.4801587301570534e-05)
    q = multiply_add(q, z.hi, -0.0013888888888888872)
    q = multiply_add(q, z.hi, 0.041666666666666664)
    var one = fast_two_sum(Lanes[w](1), -0.5 * z.hi)
    return fast_two_sum(one.hi, one.lo + (z.hi * z.hi * q - (0.5 * z.lo + r.hi * r.lo)))


@always_inline
def _cosine_sum[w: SIMDLength, //](r: Pair[w]) -> Lanes[w]:
    var c = _cosine(r)
    return c.hi + c.lo


@always_inline
def _reduced[w: SIMDLength, //](x: Lanes[w]) -> Reduced[w]:
    var shifted = x * TWO_OVER_PI + SHIFTER
    var n = shifted - SHIFTER
    var a = two_sum(x - n * PI2_1, -n * PI2_2)
    var b = two_sum(a.hi, -n * PI2_3)
    var rest = fast_two_sum(b.hi, b.lo + a.lo - n * PI2_4)
    var quadrant = bitcast[DType.int64, w](shifted) & 3
    if abs(x).ge(CODY_WAITE).reduce_or():
        var copy = x
        var lanes = Pointer(to=copy).unsafe_bitcast[Float64]()
        var his = Pointer(to=rest.hi).unsafe_bitcast[Float64]()
        var los = Pointer(to=rest.lo).unsafe_bitcast[Float64]()
        var quadrants = Pointer(to=quadrant).unsafe_bitcast[Int64]()
        for k in range(Int(w)):
            if abs(lanes[unsafe_offset=k]) >= CODY_WAITE:
                var lane = _payne_hanek(lanes[unsafe_offset=k])
                his[unsafe_offset=k] = lane.rest.hi
                los[unsafe_offset=k] = lane.rest.lo
                quadrants[unsafe_offset=k] = lane.quadrant
    return {rest, quadrant}


@no_inline
def _payne_hanek(x: Float64) -> Reduced[1]:
    """Reduces a number from 1e6 on with 192 bits of 2/pi: after the worst cancellation, 61 bits, 1.5 times the bits of
    a float64 remain."""
    # 64 zeros, then 2/pi
    var digits: Array[UInt64, 20] = [
        0x0000000000000000, 0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041, 0xFE5163ABDEBBC561,
        0xB7246E3A424DD2E0, 0x06492EEA09D1921C, 0xFE1DEB1CB129A73E, 0xE88235F52EBB4484, 0xE99C7026B45F7E41,
        0x3991D639835339F4, 0x9C845F8BBDF9283B, 0x1FF897FFDE05980F, 0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7,
        0x4F463F669E5FEA2D, 0x7527BAC7EBE5F17B, 0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08, 0x56033046FC7B6BAB,
    ]
    var bits = bitcast[DType.uint64, 1](x)
    var exponent = Int((bits >> 52) & 2047)
    if exponent == 2047:
        return Reduced[1](Pair[1](0, 0), 0)
    # abs(x) = m * 2**(exponent - 1075). Bits of 2/pi that give multiples of 4 turns are dropped; `at` is the first that
    # matters.
    var m = ((bits & 0xFFFFFFFFFFFFF) | 0x10000000000000).cast[DType.uint128]()
    var at = exponent - 1075 + 62
    var word = Pointer(to=digits).unsafe_bitcast[UInt64]().unsafe_offset(at >> 6)
    var shift = UInt64(at & 63)
    var w0 = _window(word[unsafe_offset=0], word[unsafe_offset=1], shift).cast[DType.uint128]()
    var w1 = _window(word[unsafe_offset=1], word[unsafe_offset=2], shift).cast[DType.uint128]()
    var w2 = _window(word[unsafe_offset=2], word[unsafe_offset=3], shift).cast[DType.uint128]()
    # the 128 upper of the 192 bits of m * window: two bits of quadrant, then a fraction of a quadrant
    var product = ((m * w0) << 64) + m * w1 + ((m * w2) >> 64)
    var quadrant = (product >> 126).cast[DType.int64]()
    var fraction = product << 2
    var below = Float64(1)
    if fraction >> 127 != 0:
        quadrant += 1
        fraction = ~fraction
        below = -1
    var zeros = count_leading_zeros((fraction >> 64).cast[DType.uint64]())
    fraction = fraction << zeros.cast[DType.uint128]()
    var hi = (fraction >> 75).cast[DType.uint64]().cast[DType.float64]() * 1.1102230246251565e-16
    var lo = ((fraction >> 22) & 0x1FFFFFFFFFFFFF).cast[DType.uint64]().cast[DType.float64]() * 1.232595164407831e-32
    var scale = below * bitcast[DType.float64, 1]((1023 - zeros) << 52)
    if bits >> 63 != 0:
        quadrant = -quadrant
        scale = -scale
    var r = two_product(hi, Float64(PI2_HI))
    r = fast_two_sum(r.hi, r.lo + (hi * PI2_LO + lo * PI2_HI))
    return Reduced[1](Pair[1](r.hi * scale, r.lo * scale), quadrant & 3)


@always_inline
def _window(first: UInt64, second: UInt64, shift: UInt64) -> UInt64:
    return (first << shift) | ((second >> 1) >> (63 - shift))
