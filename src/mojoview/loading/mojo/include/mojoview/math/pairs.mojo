"""Numbers kept as a sum of two float64: about 106 bits (Dekker 1971, Knuth TAOCP 2, 4.2.2)."""
from std.math import fma
from std.sys import CompilationTarget

comptime Lanes[w: SIMDLength] = SIMD[DType.float64, w]


struct Pair[w: SIMDLength](TrivialRegisterPassable):
    """The sum of `hi` and `lo`, where `lo` is below half a unit in the last place of `hi`."""

    var hi: Lanes[Self.w]
    var lo: Lanes[Self.w]

    @always_inline
    def __init__(out self, hi: Lanes[Self.w], lo: Lanes[Self.w]):
        self.hi = hi
        self.lo = lo


@always_inline
def two_sum[w: SIMDLength, //](a: Lanes[w], b: Lanes[w]) -> Pair[w]:
    """The exact sum of `a` and `b` (Knuth)."""
    var s = a + b
    var t = s - a
    return {s, (a - (s - t)) + (b - t)}


@always_inline
def fast_two_sum[w: SIMDLength, //](a: Lanes[w], b: Lanes[w]) -> Pair[w]:
    """The exact sum of `a` and `b` if abs(a) >= abs(b) or a = 0 (Dekker)."""
    var s = a + b
    return {s, b - (s - a)}


comptime FUSED = not CompilationTarget.is_x86() or CompilationTarget.has_fma()


@always_inline
def multiply_add[w: SIMDLength, //](a: Lanes[w], b: Lanes[w], c: Lanes[w]) -> Lanes[w]:
    """a * b + c, rounded once if the CPU supports it, for polynomials."""
    comptime if FUSED:
        return fma(a, b, c)
    else:  # fma would be a call of libm
        return a * b + c


@always_inline
def two_product[w: SIMDLength, //](a: Lanes[w], b: Lanes[w]) -> Pair[w]:
    """The exact product of `a` and `b`, unless it underflows.

    Without fused multiply-add, factors above 1e300 give NaN.
    """
    var p = a * b
    comptime if FUSED:
        return {p, fma(a, b, -p)}
    else:
        var x = a * 134217729.0  # 2**27 + 1
        var y = b * 134217729.0
        var ah = x - (x - a)
        var bh = y - (y - b)
        var al = a - ah
        var bl = b - bh
        return {p, ((ah * bh - p) + ah * bl + al * bh) + al * bl}


@always_inline
def add[w: SIMDLength, //](a: Pair[w], b: Pair[w]) -> Pair[w]:
    """The sum, if abs(a) >= abs(b) or both have the same sign."""
    var s = two_sum(a.hi, b.hi)
    return fast_two_sum(s.hi, s.lo + (a.lo + b.lo))


@always_inline
def multiply[w: SIMDLength, //](a: Pair[w], b: Pair[w]) -> Pair[w]:
    """The product, to about 2**-102."""
    var p = two_product(a.hi, b.hi)
    return fast_two_sum(p.hi, p.lo + (a.hi * b.lo + a.lo * b.hi))


@always_inline
def divide[w: SIMDLength, //](a: Pair[w], b: Pair[w]) -> Pair[w]:
    """The quotient, to about 2**-100."""
    var q = a.hi / b.hi
    var p = two_product(q, b.hi)
    return fast_two_sum(q, (((a.hi - p.hi) - p.lo) + (a.lo - q * b.lo)) / b.hi)
