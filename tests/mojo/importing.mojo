"""A file that imports another one of the same library."""
from statuses import value_i32


@export("thrice")
def thrice(a: Int32) abi("C") -> Int32:
    """Three times a."""
    return 3 * value_i32(a)
