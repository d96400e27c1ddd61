"""Overload sets: which exports of a library are dtypes of one generic function, by their names and parameters."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from typing import TYPE_CHECKING

from mojoview.calls._overloads import KernelFamily

if TYPE_CHECKING:
    from mojoview.calls._kernel import Kernel

__all__ = ["families_of"]

SHORT = {
    "bool": "bool",
    **{
        f"{k}{bits}": f"{name}{bits}"
        for k, name in (("i", "int"), ("u", "uint"), ("f", "float"))
        for bits in (8, 16, 32, 64)
        if (k, bits) != ("f", 8)
    },
}
# a stem, and one or more dtypes: scale_f32, scale_float32, cast_i64_f32
NAME = re.compile(rf"(\w+?)((?:_(?:{'|'.join([*SHORT, *sorted(set(SHORT.values()))])}))+)")


def families_of(kernels: Mapping[str, Kernel], taken: Container[str]) -> dict[str, KernelFamily]:
    """Return a family for each set of kernels whose names differ only in the dtypes at their end.

    Two or more kernels are a family if their parameters have the same names, roles and dimensions, and the dtypes of
    their arrays differ.
    """
    stems: dict[str, list[Kernel]] = {}
    for name, kernel in kernels.items():
        if match := NAME.fullmatch(name):
            stems.setdefault(match[1], []).append(kernel)
    return {
        stem: KernelFamily(stem, tuple(found))
        for stem, found in stems.items()
        if stem not in kernels and stem not in taken and len(found) > 1 and compatible(found)
    }


def compatible(found: list[Kernel]) -> bool:
    """Return whether kernels take the same parameters and no two the same dtypes."""
    shapes = {tuple((p.name, p.role, p.ndim, p.passing) for p in k.signature.params) for k in found}
    dtypes = {tuple(p.dtype for p in k.signature.params if p.role != "value") for k in found}
    return len(shapes) == 1 and len(dtypes) == len(found)
