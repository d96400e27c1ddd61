"""Signatures of the kernels in a compiled Mojo file.

Four sources are compared: the symbols of the shared object, the source text (the function of a symbol), `mojo doc` (the
Mojo types) and the lowered LLVM text (the machine types). A symbol becomes a kernel only if all agree; any other is
refused with the reason. Nothing is guessed: a wrong signature would be a crash or wrong numbers.
"""

from __future__ import annotations

import ast
import inspect
import json
import keyword
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mojoview.calls.signature import Param, Signature
from mojoview.loading.exports import Exports
from mojoview.loading.mojo.source import Outline
from mojoview.memory.errors import KernelCompileError

__all__ = ["Part", "examine", "examine_parts", "machine_types"]

# Mojo name: (NumPy name, LLVM type)
INTEGERS = {f"{k}{bits}": (f"{k.lower()}{bits}", f"i{bits}") for k in ("Int", "UInt") for bits in (8, 16, 32, 64)}
SCALARS = {
    "Int": ("int64", "i64"),
    "UInt": ("uint64", "i64"),
    "Bool": ("bool", "i1"),
    "Float32": ("float32", "float"),
    "Float64": ("float64", "double"),
    **INTEGERS,
}
# Mojo dtype: NumPy name
ELEMENTS = {
    "int": "int64",
    "uint": "uint64",
    **{name: name for name in ("bool", "float16", "float32", "float64", *(n for n, _ in INTEGERS.values()))},
}
ROLES = {"In": "in", "InOut": "inout", "Out": "out"}
# (offset, size) of the fields in the first line of the descriptor, which an author's own struct may declare
FIRST_LINE = {
    (0, 8),
    (8, 8),
    (16, 8),
    (24, 8),
    (32, 4),
    (36, 4),
    (36, 1),
    (37, 1),
    (38, 2),
    (40, 8),
    (48, 8),
    (56, 8),
    (56, 4),
    (60, 4),
    (60, 2),
    (62, 2),
}
ZERO = {"Bool": False, "Float32": 0.0, "Float64": 0.0}

REQUIRED = inspect.Parameter.empty
DEFINE = re.compile(r'^define (?:dso_local )?(?!internal |private )(.+?) @(?:"([^"]+)"|([\w.$]+))\((.*)', re.M)


class Refused(Exception):
    """The reason why an export is not a kernel; never leaves this module. `argument`: the one that causes it."""

    argument = ""


def examine(symbols: set[str], source: Outline, doc_json: str, llvm: str) -> Exports:
    """Compare the four sources and return the kernels.

    Parameters
    ----------
    symbols : set of str
        Functions in the shared object's dynamic symbol table.
    source : Outline
    doc_json : str
        Output of `mojo doc`.
    llvm : str
        Output of `mojo build --emit llvm`.

    Returns
    -------
    Exports

    Raises
    ------
    KernelCompileError
        The output of `mojo doc` has an unknown form.
    """
    return examine_parts(symbols, [Part(source, doc_json)], llvm)


@dataclass(frozen=True, slots=True)
class Part:
    """A file of a library.

    Attributes
    ----------
    source : Outline
    doc_json : str
        Output of `mojo doc` for the file or for its package.
    dotted : str
        Its dotted name, package included; "" for a file outside of a package.
    """

    source: Outline
    doc_json: str
    dotted: str = ""


def examine_parts(symbols: set[str], parts: Sequence[Part], llvm: str) -> Exports:
    """Return the kernels of a library made of several files; see `examine`."""
    try:
        docs = {text: json.loads(text)["decl"] for text in {part.doc_json for part in parts}}
        modules = [Module(within(docs[part.doc_json], part.dotted), part.source) for part in parts]
        machine = machine_types(llvm)
        kernels, refused = dict[str, Signature](), dict[str, str]()
        for symbol in sorted(symbols.union(*({e.symbol for e in part.source.exports} for part in parts))):
            module = next((m for m in modules if symbol in m.by_symbol), modules[0])
            try:
                if symbol not in symbols:
                    raise Refused("it is in the source, but the compiled library does not export it")
                kernels[symbol] = module.signature(symbol, machine.get(symbol))
            except Refused as reason:
                export = module.by_symbol.get(symbol)
                line = export and export.lines.get(reason.argument, export.line)
                refused[symbol] = f"line {line}: {reason}" if line else str(reason)
        return Exports(kernels, refused, modules[0].text)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, StopIteration) as error:
        raise KernelCompileError(
            f"load(): cannot read the output of `mojo doc` ({error!r});"
            " this version of the compiler may be newer than mojoview"
        ) from error


def within(decl: Mapping[str, Any], dotted: str) -> Mapping[str, Any]:
    """Return the declarations of one module of a package: `pack.inner.module`."""
    *packages, name = dotted.split(".")[1:] or [""]
    for inner in packages:
        decl = next(p for p in decl["packages"] if p["name"] == inner)
    return next(m for m in decl["modules"] if m["name"] == name) if name else decl


def machine_types(llvm: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return {symbol: (result, arguments)} of the public functions in LLVM text: ("i32", ("i64", "ptr"))."""
    found = {}
    for result, quoted, plain, rest in DEFINE.findall(llvm):
        # These attributes do not change how an argument is passed; any other makes the type differ from a plain one.
        parts = (re.sub(r" (?:noundef|noalias|nonnull)\b", "", part.rsplit(" %", 1)[0]) for part in split(rest, ")"))
        found[quoted or plain] = (result, tuple(part for part in parts if part))
    return found


def split(text: str, end: str = "") -> list[str]:
    """Split at top-level commas; stop at the first top-level `end`."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        if depth == 0 and c == end:
            text = text[:i]
            break
        depth += (c in "([{<") - (c in ")]}>")
        if c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    return [*parts, text[start:].strip()]


def parametric(type_: str) -> tuple[str, list[str], dict[str, str]]:
    """Return ("In", [".float64", "Int(2)"], {"masked": "True"}) for `In[.float64, Int(2), masked=True]`."""
    head, bracket, rest = type_.partition("[")
    positional, named = [], {}
    for part in split(rest.removesuffix("]")) if bracket else []:
        if match := re.match(r"(\w+) ?= ?(.*)", part, re.S):
            named[match[1]] = match[2]
        else:
            positional.append(part)
    return head, positional, named


def literal(text: str, dtype: str) -> Any:
    """Return the value of a literal as `mojo doc` prints it, `2`, `True` or `Int(2)`; otherwise REQUIRED."""
    match = re.fullmatch(r"(?:\w+\()?([-+.\w]+)\)?", text)
    kind = {"b": bool, "f": float}.get(dtype[0], int)
    try:
        return kind(ast.literal_eval(match[1])) if match else REQUIRED
    except (ValueError, SyntaxError, TypeError):
        return REQUIRED


def element(name: str) -> str:
    """Return the NumPy name of a Mojo dtype, written `.float64` or `DType.float64`."""
    plain = name.removeprefix("DType").removeprefix(".")
    if plain not in ELEMENTS:
        raise Refused(f"NumPy has no dtype for the element type {plain}")
    return ELEMENTS[plain]


class Module:
    """The declarations of a file from `mojo doc`, and the outline of its source."""

    def __init__(self, decl: Mapping[str, Any], source: Outline):
        self.functions = {f["name"]: f["overloads"] for f in decl["functions"]}
        self.aliases = {a["name"]: a["value"] for a in decl["aliases"]}
        self.structs = {s["name"]: s for s in decl["structs"]}
        self.text = prose(decl)
        self.source = source
        self.by_symbol = {e.symbol: e for e in source.exports}

    def signature(self, symbol: str, machine: tuple[str, tuple[str, ...]] | None) -> Signature:
        export = self.by_symbol.get(symbol)
        if export is None:
            raise Refused("it has no @export in this file; it comes from an imported module")
        if export.nested:
            raise Refused("it is exported from inside a struct or a function; export a function of the module")
        if not export.abi_c:
            raise Refused('it has no abi("C")')
        overloads = self.functions.get(export.function, [])
        if not overloads:
            raise Refused("`mojo doc` omits it; remove the leading underscore or @doc_hidden")
        if len(overloads) > 1:
            raise Refused(f"the name {export.function} is overloaded; give every export a function name of its own")
        overload = overloads[0]
        if overload["parameters"] or overload["raises"] or overload["async"]:
            raise Refused("it is parametric, raising or async; export a plain function")

        params, lowered = [], []
        for argument in overload["args"]:
            try:
                param, low = self.param(argument, export.arguments.get(argument["name"], ""))
            except Refused as reason:
                reason.argument = argument["name"].lstrip("*")
                raise
            params.append(param)
            lowered.append(low)
        arrays = [p for p in params if p.passing == "descriptor"]
        returns = overload.get("returns") or {"type": "None"}
        result, result_low = self.result(returns, export.result, bool(arrays))
        if machine != (result_low, tuple(lowered)):
            raise Refused(f"it was compiled as {machine}, but its Mojo types require {(result_low, tuple(lowered))}")
        masked = {a["name"] for a in overload["args"] if parametric(a["type"])[2].get("masked") == "True"}
        bare = {p.name for p in arrays if p.role != "out"} - masked
        if masked and bare:
            raise Refused(
                f"masked=True is set for {', '.join(sorted(masked))} but not for {', '.join(sorted(bare))};"
                " either all input arrays take masks, or none does"
            )
        text = signature_text(symbol, overload["args"], params, self.resolved(returns))
        return Signature(symbol, trailing_defaults(params), result, prose(overload), bool(masked), text, shapes="free")

    def param(self, argument: Mapping[str, Any], written: str) -> tuple[Param, str]:
        name, type_ = argument["name"], argument["type"]
        if name.startswith("*"):
            raise Refused(f"argument {name} is variadic")
        if not name.isidentifier() or keyword.iskeyword(name):
            raise Refused(f"argument {name} is not a valid name in Python")
        if argument["convention"] == "mut" and type_ in SCALARS and self.origin(type_, written) != "here":
            dtype, _ = SCALARS[type_]
            return Param(name, "inout", dtype, 0, "pointer", ZERO.get(type_, 0)), "ptr"
        if argument["convention"] not in ("imm", "var"):
            raise Refused(
                f"argument {name} is passed as '{argument['convention']}'; write InOut, Out or a Pointer;"
                " only numbers can be mut"
            )
        head, positional, named = parametric(type_)
        origin = self.origin(head, written)
        if head in ROLES:
            return self.typed(name, head, positional, named, origin), "ptr"
        if origin == "here" or (origin.endswith(f".{head}") and not origin.startswith("std.")):
            raise Refused(f"argument {name}: {head} is not Mojo's own type but {origin}")
        if type_ in SCALARS:
            dtype, low = SCALARS[type_]
            return Param(name, "value", dtype, None, "value", literal(argument.get("default", ""), dtype)), low
        if head == "Optional" and positional and positional[0].startswith("Pointer["):
            return self.pointer(name, positional[0]), "i64"
        if head == "Pointer":
            return self.pointer(name, type_), "ptr"
        raise Refused(f"argument {name} has the type {type_}, which has no C equivalent or is unknown to mojoview")

    def typed(self, name: str, head: str, positional: Sequence[str], named: Mapping[str, str], origin: str) -> Param:
        if origin == "here":
            self.own_struct(name, head)
        elif origin not in (f"mojoview.{head}", f"mojoview.arrays.{head}"):
            raise Refused(
                f"argument {name}: its type {head} is not mojoview's"
                f" ({origin or 'no import names it'}); write: from mojoview import {head}"
            )
        dt = positional[0] if positional else named.get("dt", "")
        ndim = literal(positional[1] if len(positional) > 1 else named.get("ndim", "1"), "int64")
        if ndim is REQUIRED or not 1 <= ndim <= 8:
            raise Refused(f"argument {name}: {head} has 1 to 8 dimensions")
        return Param(name, ROLES[head], element(dt), ndim, "descriptor")  # type: ignore[arg-type]

    def own_struct(self, name: str, head: str) -> None:
        """Accept an author's own In, InOut or Out: one pointer to a struct with the layout of the first line."""
        struct = self.structs.get(head)
        fields = struct["fields"] if struct else []
        shape = [(p["name"], p["type"], p.get("default")) for p in struct["parameters"]] if struct else []
        target = parametric(fields[0]["type"]) if len(fields) == 1 else ("", [], {})
        pointee = self.structs.get(target[1][0]) if target[0] == "Pointer" and target[1] else None
        known = shape == [("dt", "DType", None), ("ndim", "Int", "Int(1)")]
        if not known or pointee is None or not first_line(pointee["fields"]):
            raise Refused(
                f"argument {name}: the {head} of this file is not {head}[dt: DType, ndim: Int = 1] with one"
                " Pointer to a struct with the layout of the descriptor's first line;"
                f" write: from mojoview import {head}"
            )

    def pointer(self, name: str, type_: str) -> Param:
        _, positional, _ = parametric(type_)
        target, origin = [*positional, "", ""][:2]
        head, inner, _ = parametric(target)
        if target in SCALARS:
            dtype = SCALARS[target][0]
        elif head == "Scalar" and inner:
            dtype = element(inner[0])
        elif target in ("Float16", "BFloat16"):
            dtype = element(target.lower())
        else:
            raise Refused(f"argument {name} points to {target}; only pointers to numbers are arrays")
        role = "in" if origin.startswith("Immut") else "inout" if origin.startswith("Mut") else None
        if role is None:
            raise Refused(
                f"argument {name}: the origin {origin} does not say whether it is written to;"
                " use ImmutAnyOrigin or MutAnyOrigin"
            )
        return Param(name, role, dtype, None, "pointer")  # type: ignore[arg-type]

    def result(self, returns: Mapping[str, Any], written: str, arrays: bool) -> tuple[str, str]:
        name = self.resolved(returns)
        if name == "None":
            return "none", "void"
        if name == "Bool":
            raise Refused("it returns Bool, of which only bit 0 is defined; return Int32")
        # `mojo doc` prints the name of an alias, and an imported alias may be any type.
        origin = self.origin(name, written)
        if name == "Status":
            if origin not in ("mojoview.Status", "mojoview.status.Status"):
                raise Refused("it returns a Status that is not mojoview's; write: from mojoview import Status")
            return "status_index", "i64"
        if name not in SCALARS or origin == "here":
            raise Refused(f"it returns {name}, which has no C equivalent or is unknown to mojoview")
        if origin and not origin.startswith("std."):
            raise Refused(f"it returns {name}, which may be an alias ({origin}); write the type without an import")
        dtype, low = SCALARS[name]
        return ("status" if name == "Int32" and arrays else dtype), low

    def resolved(self, returns: Mapping[str, Any]) -> str:
        return str(self.aliases.get(returns["type"], returns["type"]))

    def origin(self, name: str, written: str) -> str:
        """Return the origin of a type that `mojo doc` calls `name` and the source writes as `written`.

        "here" for a struct of this file, the dotted path of an imported name, "" for a builtin. The path of `mojo doc`
        is a guess from the name: it is wrong if two modules have a type of that name.
        """
        written = written.partition("[")[0]
        seen = set()
        while written in self.source.aliases and written not in seen:
            seen.add(written)
            written = self.source.aliases[written]
        root, dot, rest = written.partition(".")
        if root in self.structs:
            return "here"
        if found := self.source.names.get(root):
            return found + dot + rest
        stars = [m for m in self.source.stars if m.partition(".")[0] != "std"]
        if stars == ["mojoview"]:
            return f"mojoview.{name}" if name in {*ROLES, "Status"} else ""
        return f"{' or '.join(stars)}.{name}" if stars else dot and written


def first_line(fields: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether scalar fields, laid out as in C, match the first line of the descriptor."""
    at = 0
    for f in fields:
        if f["type"] not in SCALARS or f["type"] == "Bool":
            return False
        size = {"i8": 1, "i16": 2, "i32": 4, "float": 4}.get(SCALARS[f["type"]][1], 8)
        at = -(-at // size) * size
        if (at, size) not in FIRST_LINE:
            return False
        at += size
    return at >= 24


def trailing_defaults(params: Sequence[Param]) -> tuple[Param, ...]:
    """Drop defaults before a required argument, which Python does not allow."""
    kept: list[Param] = []
    for p in reversed(params):
        required = any(q.default is REQUIRED for q in kept)
        kept.append(Param(p.name, p.role, p.dtype, p.ndim, p.passing) if required else p)
    return tuple(reversed(kept))


def signature_text(symbol: str, arguments: Sequence[Mapping[str, Any]], params: Sequence[Param], result: str) -> str:
    """Return the signature as text: `saxpy(a: Float64, x: In[float64], y: InOut[float64, 2]) -> Status`."""
    shown = []
    for argument, p in zip(arguments, params, strict=True):
        type_ = re.sub(r"\bInt\((\d+)\)", r"\1", argument["type"]).replace("[.", "[")
        if p is params[-1] and p.is_message:
            continue
        mut = "mut " if argument["convention"] == "mut" else ""
        shown.append(f"{mut}{p.name}: {type_}" + ("" if p.default is REQUIRED or mut else f" = {p.default}"))
    return f"{symbol}({', '.join(shown)})" + ("" if result == "None" else f" -> {result}")


def prose(decl: Mapping[str, Any]) -> str:
    return "\n\n".join(part.strip() for part in (decl.get("summary", ""), decl.get("description", "")) if part.strip())
