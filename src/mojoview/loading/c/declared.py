"""Meaning of a declaration: `Argument`, `Declaration` and `Header`, and the types of C that are numbers of NumPy."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["NAMED", "SPECIFIED", "Argument", "Declaration", "Header"]

LONG = "int64" if sys.maxsize > 2**32 else "int32"
# Sorted specifiers of a C type: NumPy name of the type.
SPECIFIED = {
    "char signed": "int8",
    "char unsigned": "uint8",
    "short": "int16",
    "short signed": "int16",
    "int short": "int16",
    "int short signed": "int16",
    "short unsigned": "uint16",
    "int short unsigned": "uint16",
    "int": "int32",
    "signed": "int32",
    "int signed": "int32",
    "unsigned": "uint32",
    "int unsigned": "uint32",
    "long": LONG,
    "long signed": LONG,
    "int long": LONG,
    "int long signed": LONG,
    "long unsigned": f"u{LONG}",
    "int long unsigned": f"u{LONG}",
    "long long": "int64",
    "long long signed": "int64",
    "int long long": "int64",
    "int long long signed": "int64",
    "long long unsigned": "uint64",
    "int long long unsigned": "uint64",
    "float": "float32",
    "double": "float64",
    "_Bool": "bool",
    "void": "void",
}
# Type names that have a meaning unless the text declares them.
NAMED = {
    "size_t": "uint64",
    "ssize_t": "int64",
    "ptrdiff_t": "int64",
    "intptr_t": "int64",
    "uintptr_t": "uint64",
    "Py_ssize_t": "int64",
    "npy_intp": "int64",
    "npy_uintp": "uint64",
    "bool": "bool",
    "npy_bool": "bool",
    "mv_status": "status",
    **{
        f"{prefix}int{bits}{suffix}": f"{'u' if 'u' in prefix else ''}int{bits}"
        for bits in (8, 16, 32, 64)
        for prefix in ("", "u", "npy_", "npy_u")
        for suffix in ("", "_t")
    },
    **{
        f"{prefix}float{bits}{suffix}": f"float{bits}"
        for bits in (32, 64)
        for prefix in ("", "npy_")
        for suffix in ("", "_t")
    },
}


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a function.

    Attributes
    ----------
    name : str
        Empty if the declaration has none.
    dtype : str
        NumPy name of the number or of the elements of an array; "void" for `void *`.
    pointer : bool
    const : bool
        Whether the function only reads through the pointer.
    extents : tuple of str, int or None
        Contents of the brackets of an array argument.
    """

    name: str
    dtype: str
    pointer: bool = False
    const: bool = False
    extents: tuple[str | int | None, ...] = ()

    def __str__(self) -> str:
        star = "*" if self.pointer and not self.extents else ""
        words = [*(["const"] if self.const else []), self.dtype, star + self.name]
        return " ".join(filter(None, words)) + "".join(f"[{'' if e is None else e}]" for e in self.extents)


@dataclass(frozen=True, slots=True)
class Declaration:
    """A function: name, NumPy name of the result ("void"; "status" is an int32 status), arguments."""

    name: str
    result: str
    arguments: tuple[Argument, ...]

    def __str__(self) -> str:
        result = "mv_status" if self.result == "status" else self.result
        return f"{result} {self.name}({', '.join(map(str, self.arguments)) or 'void'})"


@dataclass(frozen=True, slots=True)
class Header:
    """The functions of a header by name, and the reasons why others cannot be called."""

    functions: Mapping[str, Declaration]
    refused: Mapping[str, str]
