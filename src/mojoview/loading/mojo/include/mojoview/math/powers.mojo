"""sqrt, pow."""
from std.math import sqrt as _machine_sqrt
from std.memory import bitcast

from .exponentials import exp_of
from .logarithms import log_pair
from .pairs import Lanes, Pair, two_product
from .types import INF, NAN, narrow, wide


@always_inline
def sqrt[dt: DType, w: SIMDLength, //](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """Square root, correctly rounded: NaN below zero, -0.0 stays -0.0."""
    comptime assert dt == DType.float64 or dt == DType.float32, "mojoview.math takes float32 and float64"
    return _machine_sqrt(x)


@always_inline
def pow[dt: DType, w: SIMDLength, //](x: SIMD[dt, w], y: SIMD[dt, w]) -> SIMD[dt, w]:
    """x to the power y, with the special cases of C: pow(x, 0) and pow(1, y) are 1 for every x and y, NaN included."""
    comptime L = Lanes[w]
    var b = wide(x)
    var e = wide(y)
    var a = abs(b)
    # Beyond 1e20 every power of a number other than 1 is 0 or inf.
    var c = min(max(e, L(-1e20)), L(1e20))
    var l = log_pair(a)
    var p = two_product(c, l.hi)
    var r = exp_of(Pair(p.hi, abs(p.hi).lt(1e4).select(p.lo + c * l.lo, L(0))))
    r = a.eq(0).select(e.lt(0).select(L(INF), L(0)), r)
    r = a.eq(INF).select(e.lt(0).select(L(0), L(INF)), r)
    # A negative base: NaN for a fractional exponent, -r for an odd one.
    var bits = bitcast[DType.int64, w](e)
    var exponent = ((bits >> 52) & 2047) - 1023
    var m = (bits & 0xFFFFFFFFFFFFF) | 0x10000000000000
    var inside = max(min(exponent, SIMD[DType.int64, w](52)), SIMD[DType.int64, w](0))
    var broken = exponent.lt(0) | (exponent.lt(53) & ~((m << (11 + inside)) << 1).eq(0))
    var odd = exponent.ge(0) & exponent.lt(53) & ((m >> (52 - inside)) & 1).eq(1)
    var negative = bitcast[DType.int64, w](b).lt(0)
    r = (negative & broken & a.gt(0) & a.lt(INF)).select(L(NAN), r)
    r = (negative & odd & ~broken).select(-r, r)
    r = (b.eq(b) & e.eq(e)).select(r, L(NAN))
    return narrow[dt]((e.eq(0) | b.eq(1)).select(L(1), r))
