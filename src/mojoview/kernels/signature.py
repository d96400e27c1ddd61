"""What a kernel takes and gives: the words that the loader, the registry and the checked call share."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["Param", "Signature"]

Role = Literal["in", "inout", "out", "value"]
Passing = Literal["descriptor", "pointer", "value"]


@dataclass(frozen=True, slots=True)
class Param:
    """One argument of a kernel.

    Attributes
    ----------
    name : str
    role : {"in", "inout", "out", "value"}
        Arrays that are read, updated or overwritten; "value" is a scalar.
    dtype : str
        NumPy name of the element or scalar type ("float64", "bool", ...). "T" stands for the common dtype of a kernel that has
        several variants.
    ndim : int or None
        Dimensions an array must have; None takes any.
    passing : {"descriptor", "pointer", "value"}
        How an array travels: as `const mv_desc *`, or as a bare element pointer (then it must be C-contiguous).
    default : object
        Default of a scalar; `inspect.Parameter.empty` when there is none.
    """

    name: str
    role: Role
    dtype: str
    ndim: int | None = 1
    passing: Passing = "descriptor"
    default: Any = inspect.Parameter.empty

    @property
    def writes(self) -> bool:
        return self.role in ("inout", "out")


@dataclass(frozen=True, slots=True)
class Signature:
    """Name, parameters and result of a kernel.

    Attributes
    ----------
    result : str
        "none"; "status" (an int32 status code: 0 is success, else an exception); "status_index" (int64: code in the low byte, failing
        element + 1 above it); or the NumPy name of the scalar that comes back.
    masks : bool
        Whether the kernel understands masks. One that does not refuses arrays with a set mask bit.
    shapes : {"equal", "free"}
        "equal": all arrays must have one shape, so that a kernel may trust the size of the first. "free": it looks at every size.
    """

    name: str
    params: tuple[Param, ...]
    result: str = "status"
    doc: str = ""
    masks: bool = False
    text: str = ""
    shapes: Literal["equal", "free"] = "equal"

    def __str__(self) -> str:
        return self.text or f"{self.name}({', '.join(p.name for p in self.params)})"
