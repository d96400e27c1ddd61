"""A module that the kernels import."""
from mojoview import E_SHAPE, Status


def sizes_differ() -> Status:
    return E_SHAPE
