"""Atomic access to single elements, for kernels that several threads or processes run on one array.

Every function takes the memory order as a parameter; the default is sequential consistency. The caller has checked the
alignment of the elements. Integers of 8 to 64 bits; additions to floats are a loop of compare and exchange.
"""
from std.atomic import Atomic, Ordering, fence

from .arrays import ArrayArgument, Writable


@always_inline
def load[A: ArrayArgument, //, order: Ordering = Ordering.SEQUENTIAL](x: A, i: Int) -> Scalar[A.dtype]:
    """Element i. Orders: RELAXED, ACQUIRE, SEQUENTIAL."""
    return Atomic[Scalar[A.dtype]].load[ordering=order](x._element(i))


@always_inline
def store[A: Writable, //, order: Ordering = Ordering.SEQUENTIAL](x: A, i: Int, value: Scalar[A.dtype]):
    """Writes element i. Orders: RELAXED, RELEASE, SEQUENTIAL."""
    Atomic[Scalar[A.dtype]].store[ordering=order](x._element(i), value)


@always_inline
def fetch_add[
    A: Writable, //, order: Ordering = Ordering.SEQUENTIAL
](x: A, i: Int, value: Scalar[A.dtype]) -> Scalar[A.dtype]:
    """Adds to element i, and returns its previous value; integers wrap around."""
    return Atomic[Scalar[A.dtype]].fetch_add[ordering=order](x._element(i), value)


@always_inline
def compare_exchange[
    A: Writable, //, order: Ordering = Ordering.SEQUENTIAL, failure_order: Ordering = Ordering.SEQUENTIAL
](x: A, i: Int, mut expected: Scalar[A.dtype], desired: Scalar[A.dtype]) -> Bool:
    """Writes `desired` if element i is `expected`; otherwise writes element i to `expected` and returns False."""
    return Atomic[Scalar[A.dtype]].compare_exchange[success_ordering=order, failure_ordering=failure_order](
        x._element(i), expected, desired
    )
