"""Signatures: parameters and result of a kernel, as the loaders, the catalogue and the checked call share them."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, Literal, get_args

from mojoview.memory._status import MAX_NDIM
from mojoview.memory.errors import ArgumentError

__all__ = ["Param", "Signature", "Size", "check_signature"]

Role = Literal["in", "inout", "out", "value"]
Passing = Literal["descriptor", "pointer", "value"]
Shapes = Literal["equal", "free"]
ROLES, PASSINGS, SHAPES = map(get_args, (Role, Passing, Shapes))  # as tuples


@dataclass(frozen=True, slots=True)
class Param:
    """One argument of a kernel.

    Attributes
    ----------
    name : str
    role : {"in", "inout", "out", "value"}
        Arrays that are read, updated or overwritten; "value" is a scalar.
    dtype : str
        NumPy name of the element or scalar type ("float64", "bool", ...). "T" stands for the common dtype of a kernel
        that has several variants.
    ndim : int or None
        Dimensions an array must have; None takes any. 0, with a pointer: one number that the kernel updates (`mut` in
        Mojo).
    passing : {"descriptor", "pointer", "value"}
        How an array is passed: as `const mv_desc *`, or as a bare element pointer (then it must be C-contiguous).
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

    @property
    def is_number(self) -> bool:
        """Return whether it is one number that is passed by reference."""
        return self.ndim == 0 and self.passing == "pointer"

    @property
    def is_message(self) -> bool:
        """Return whether it is `message: Out[DType.uint8]`, to which a kernel writes its error message.

        It is the last parameter, and callers do not pass it.
        """
        return (self.name, self.role, self.dtype, self.ndim) == ("message", "out", "uint8", 1)


@dataclass(frozen=True, slots=True)
class Size:
    """An argument that the checked call fills in: the number of elements of arrays, or the length of one of their axes.

    Attributes
    ----------
    name : str
    dtype : str
        The integer type of the argument.
    place : int or None
        Its place among all arguments of the function; None for an extent that is checked and not passed.
    extents : tuple of (str, int or None)
        Arrays and axes that must all be of this size; None stands for the number of elements.
    value : int or None
        The size that the function demands, if it is fixed. Without extents: an address that is passed along.
    """

    name: str
    dtype: str
    place: int | None
    extents: tuple[tuple[str, int | None], ...] = ()
    value: int | None = None


@dataclass(frozen=True, slots=True)
class Signature:
    """Name, parameters and result of a kernel.

    Attributes
    ----------
    result : str
        "none"; "status" (an int32 status code: 0 is success, else an exception); "status_index" (int64: code in the low
        byte, failing element + 1 above it); or the NumPy name of the scalar that is returned.
    masks : bool
        Whether the kernel understands masks. One that does not refuses arrays with missing elements.
    shapes : {"equal", "free"}
        "equal": all arrays must have one shape, so that a kernel may rely on the size of the first. "free": the kernel
        reads every size.
    sizes : tuple of Size
        Arguments beside `params` that the call fills in. Only arrays that are passed as pointers have such sizes.
    """

    name: str
    params: tuple[Param, ...]
    result: str = "status"
    doc: str = ""
    masks: bool = False
    text: str = ""
    shapes: Shapes = "equal"
    sizes: tuple[Size, ...] = ()

    def __str__(self) -> str:
        return self.text or f"{self.name}({', '.join(p.name for p in self.params)})"


def check_signature(signature: Any) -> None:
    """Raise ArgumentError if a signature contradicts itself. Limits of the calling convention are checked later."""
    if not isinstance(signature, Signature) or not isinstance(signature.name, str):
        raise ArgumentError(f"kernel: expected a Signature with a name, got {signature!r}")
    where = signature.name
    if not isinstance(signature.params, tuple | list) or not all(isinstance(p, Param) for p in signature.params):
        raise ArgumentError(f"{where}: params: expected a tuple of Param, got {signature.params!r}")
    if not isinstance(signature.result, str):
        raise ArgumentError(f"{where}: result: expected a str, got {signature.result!r}")
    if signature.shapes not in SHAPES:
        raise ArgumentError(f"{where}: shapes: expected one of {SHAPES}, got {signature.shapes!r}")
    for param in signature.params:
        of = f"{where}: parameter {param.name!r}"
        if not isinstance(param.name, str) or not isinstance(param.dtype, str):
            raise ArgumentError(f"{of}: expected name and dtype to be str, got dtype {param.dtype!r}")
        if param.role not in ROLES or param.passing not in PASSINGS:
            raise ArgumentError(
                f"{of}: expected a role of {ROLES} and passing of {PASSINGS}, got {param.role!r} and {param.passing!r}"
            )
        if (param.role == "value") != (param.passing == "value"):
            raise ArgumentError(f"{of}: a {param.role!r} argument cannot be passed as a {param.passing}")
        if param.ndim is not None and (type(param.ndim) is not int or not 0 <= param.ndim <= MAX_NDIM):
            raise ArgumentError(f"{of}: ndim: expected None or an int from 0 to {MAX_NDIM}, got {param.ndim!r}")
