"""Several exports of one generic function as one kernel: which belong together, and what they are called."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mojoview.calls._kernel import Kernel
    from mojoview.calls._overloads import KernelFamily

__all__ = ["families_of"]

SHORT = {"bool": "bool", **{f"{k}{bits}": f"{name}{bits}" for k, name in (("i", "int"), ("u", "uint"), ("f", "float"))
                            for bits in (8, 16, 32, 64) if (k, bits) != ("f", 8)}}
# a stem, and one or more dtypes: scale_f32, scale_float32, cast_i64_f32
NAME = re.compile(rf"(\w+?)((?:_(?:{'|'.join([*SHORT, *sorted(set(SHORT.values()))])}))+)")


def families_of(kernels: Mapping[str, Kernel], taken: Container[str]) -> dict[str, KernelFamily]:
    """The kernels whose names differ in nothing but the dtypes at their end.

    They are a family where there are at least two, their parameters have the same names, roles and dimensions, and the
    dtypes of their arrays tell them apart.
    """
    from mojoview.calls._overloads import KernelFamily

    stems: dict[str, list[Kernel]] = {}
    for name, kernel in kernels.items():
        if match := NAME.fullmatch(name):
            stems.setdefault(match[1], []).append(kernel)
    return {stem: KernelFamily(stem, tuple(found)) for stem, found in stems.items()
            if stem not in kernels and stem not in taken and len(found) > 1 and alike(found)}


def alike(found: list[Kernel]) -> bool:
    shapes = {tuple((p.name, p.role, p.ndim, p.passing) for p in k.signature.params) for k in found}
    dtypes = {tuple(p.dtype for p in k.signature.params if p.role != "value") for k in found}
    return len(shapes) == 1 and len(dtypes) == len(found)
