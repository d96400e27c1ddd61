"""Sizes that the checked call fills in: from the sizes of a signature to the numbers that C works with."""

from __future__ import annotations

from mojoview.calls.signature import Signature
from mojoview.memory.errors import ArgumentError, KernelValueError

__all__ = ["INTEGERS", "plan_sizes"]

# The largest size that each integer type can hold; extents themselves never exceed int64.
INTEGERS = {
    f"{kind}{bits}": min(2 ** (bits - (kind == "int")) - 1, 2**63 - 1)
    for kind in ("int", "uint")
    for bits in (8, 16, 32, 64)
}

# Place among all arguments and among the scalars (-1: not passed), value (-1: that of the first extent), largest value,
# and (number of the array, axis or -1) of each extent.
SizeRule = tuple[int, int, int, int, tuple[tuple[int, int], ...]]


def plan_sizes(signature: Signature, most: int) -> list[SizeRule]:
    """Return a rule for each size of a signature.

    Raises
    ------
    ArgumentError, KernelValueError
        The sizes contradict the parameters, or both together exceed `most` arguments.
    """
    if not signature.sizes and len(signature.params) <= most:
        return []
    arrays = {p.name: k for k, p in enumerate(p for p in signature.params if p.role != "value")}
    params = {p.name: p for p in signature.params}
    passed = {size.place for size in signature.sizes if size.place is not None}
    total = len(signature.params) + len(passed)
    if len(passed) != sum(size.place is not None for size in signature.sizes) or passed - set(range(total)):
        raise ArgumentError(f"{signature.name}: sizes: expected places of their own among {total} arguments")
    if total > most or len(signature.sizes) > most:
        raise KernelValueError(f"{signature.name}: expected at most {most} arguments and sizes, got {total}")
    rest = iter(signature.params)
    scalars = [place for place in range(total) if place in passed or next(rest).role == "value"]
    plans = []
    for size in sorted(signature.sizes, key=lambda size: total if size.place is None else size.place):
        if size.dtype not in INTEGERS:
            raise ArgumentError(f"{signature.name}: size {size.name!r}: expected an integer type, got {size.dtype!r}")
        if (size.value is None and not size.extents) or len(size.extents) > most:
            raise ArgumentError(f"{signature.name}: size {size.name!r}: expected 1 to {most} arrays of this size")
        if size.value is not None and not 0 <= size.value <= INTEGERS[size.dtype]:
            raise ArgumentError(f"{signature.name}: size {size.name!r}: {size.value} does not fit {size.dtype}")
        extents = []
        for name, axis in size.extents:
            param = params.get(name)
            if param is None or param.passing != "pointer":
                raise ArgumentError(f"{signature.name}: size {size.name!r}: there is no pointer argument {name!r}")
            if axis is not None and (param.ndim is None or not 0 <= axis < param.ndim):
                raise ArgumentError(f"{signature.name}: size {size.name!r}: argument {name!r} has no axis {axis}")
            extents.append((arrays[name], -1 if axis is None else axis))
        plans.append(
            (
                -1 if size.place is None else size.place,
                -1 if size.place is None else scalars.index(size.place),
                -1 if size.value is None else size.value,
                INTEGERS[size.dtype],
                tuple(extents),
            )
        )
    return plans
