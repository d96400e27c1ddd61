"""From C declarations to signatures: arrays that are read and written, sizes of arrays, scalars."""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping, Sequence

from mojoview.calls.signature import Param, Signature, Size
from mojoview.calls.sizes import INTEGERS
from mojoview.loading.c.declared import Argument, Declaration
from mojoview.memory.errors import ArgumentError, DeclarationError

__all__ = ["Sizes", "check_sizes", "to_signature"]

Sizes = Mapping[str, str | Sequence[str] | None]
SIZE_OF = re.compile(r"(\w+)(?:\.(size|shape\[(\d)\]))?")
CONVENTION = "n"


def to_signature(declaration: Declaration, sizes: Sizes | None = None, user_data: int | None = None) -> Signature:
    """Return the signature of a declared function.

    Parameters
    ----------
    declaration : Declaration
    sizes : mapping, optional
        Argument: the array or arrays whose number of elements ("x") or axis ("x.shape[0]") it is; None for an argument
        that is not a size. Entries for arguments that the function does not have are ignored.
    user_data : int, optional
        Value for the only `void *` argument.

    Returns
    -------
    Signature

    Raises
    ------
    DeclarationError
        `sizes` and the declaration contradict each other.
    """
    names = _names(declaration)
    arguments = dict(zip(names, declaration.arguments, strict=True))
    extents = _extents(declaration, names, dict(sizes or {}))
    filled, params = list[Size](), list[Param]()
    for place, (name, argument) in enumerate(arguments.items()):
        if argument.dtype == "void":
            if user_data is None:
                raise DeclarationError(
                    f"{declaration.name}: '{name}' is a void *, which does not name the type of its elements;"
                    " declare that type"
                )
            filled.append(Size(name, "uint64", place, value=user_data))
            user_data = None
        elif argument.pointer:
            dimensions = len(argument.extents) if len(argument.extents) > 1 else None
            axes = [axis for found in extents.values() for array, axis in found if array == name and axis is not None]
            ndim = max([dimensions or 0, *(axis + 1 for axis in axes)]) or None
            params.append(Param(name, "in" if argument.const else "inout", argument.dtype, ndim, "pointer"))
        elif name in extents:
            filled.append(Size(name, argument.dtype, place, tuple(extents[name])))
        else:
            params.append(Param(name, "value", argument.dtype, None, "value"))
    if user_data is not None:
        raise DeclarationError(f"{declaration.name}: user data was given, but no argument is a void *")
    for name, argument in arguments.items():
        for axis, extent in enumerate(argument.extents):
            if isinstance(extent, int):
                of = ((name, axis if len(argument.extents) > 1 else None),)
                filled.append(Size(f"{name}.shape[{axis}]", "int64", None, of, extent))
    result = {"void": "none"}.get(declaration.result, declaration.result)
    text = str(declaration)
    hidden = [size.name for size in filled if size.place is not None and size.extents]
    doc = text + (f"\n\nFilled in: {', '.join(hidden)}." if hidden else "")
    return Signature(declaration.name, tuple(params), result, doc, text=text, shapes="free", sizes=tuple(filled))


def check_sizes(sizes: Sizes | None, declarations: Sequence[Declaration]) -> None:
    """Reject an entry of `sizes` that matches no argument of any function: almost certainly a typo."""
    if sizes is not None and (not isinstance(sizes, Mapping) or not all(isinstance(name, str) for name in sizes)):
        raise ArgumentError(f"sizes: expected a mapping of argument names, got {sizes!r}")
    known = {name for declaration in declarations for name in _names(declaration)}
    if unknown := sorted(set(sizes or ()) - known):
        raise DeclarationError(f"sizes: no function has an argument {unknown[0]!r}")


def _names(declaration: Declaration) -> list[str]:
    names = []
    for k, argument in enumerate(declaration.arguments):
        name = argument.name or f"x{k}"
        names.append(f"{name}_" if keyword.iskeyword(name) or name == "threads" else name)
    for name in names:
        if names.count(name) > 1:
            raise DeclarationError(f"{declaration.name}: two arguments are called {name!r}")
    return names


def _extents(
    declaration: Declaration, names: Sequence[str], given: dict[str, str | Sequence[str] | None]
) -> dict[str, list[tuple[str, int | None]]]:
    """Return the arrays and axes that each size argument describes."""
    arguments = dict(zip(names, declaration.arguments, strict=True))
    arrays = {name: a for name, a in arguments.items() if a.pointer and a.dtype != "void"}
    found = dict[str, list[tuple[str, int | None]]]()
    for name, argument in arrays.items():
        for axis, extent in enumerate(argument.extents):
            if isinstance(extent, str):
                whole = len(argument.extents) == 1
                found.setdefault(extent, []).append((name, None if whole else axis))
    for name, of in given.items():
        if name not in arguments:
            continue
        found.pop(name, None)
        if of is not None:
            several = of if isinstance(of, Sequence) and not isinstance(of, str) else [of]
            found[name] = [_size_of(declaration, name, text, arrays) for text in several]
    named = bool(found) or any(a.extents for a in arrays.values()) or CONVENTION in given
    n = arguments.get(CONVENTION)
    if arrays and not named and n and n.dtype in INTEGERS and not n.pointer:
        found[CONVENTION] = [(name, None) for name in arrays]
    for name in found:
        size = arguments.get(name)
        if size is None or size.pointer or size.dtype not in INTEGERS:
            raise DeclarationError(f"{declaration.name}: {name!r} is used as a size, but is not an integer argument")
    return found


def _size_of(
    declaration: Declaration, name: str, text: object, arrays: Mapping[str, Argument]
) -> tuple[str, int | None]:
    match = SIZE_OF.fullmatch(text) if isinstance(text, str) else None
    if match is None or match[1] not in arrays:
        raise DeclarationError(
            f"{declaration.name}: sizes: {name!r}: expected an array such as 'x' or 'x.shape[0]',"
            f" one of {', '.join(arrays) or 'none'}; got {text!r}"
        )
    return match[1], int(match[3]) if match[3] else None
