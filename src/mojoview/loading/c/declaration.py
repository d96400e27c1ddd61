"""C declarations of functions on numbers and arrays of numbers: a strict reader of a small part of the language.

    void scale(size_t n, double a, const double *x, double *y);
    double norm(size_t rows, size_t cols, const double x[rows][cols]);

What it does not know, it refuses with line and column; nothing is guessed, since a wrong type would be a crash or
wrong numbers.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, NoReturn

from mojoview.memory.errors import DeclarationError

__all__ = ["Argument", "Declaration", "Header", "read_declaration", "read_header"]

LONG = "int64" if sys.maxsize > 2**32 else "int32"
# The specifiers of a C type, sorted, and the NumPy name of the type.
SPECIFIED = {
    "char signed": "int8", "char unsigned": "uint8",
    "short": "int16", "short signed": "int16", "int short": "int16", "int short signed": "int16",
    "short unsigned": "uint16", "int short unsigned": "uint16",
    "int": "int32", "signed": "int32", "int signed": "int32", "unsigned": "uint32", "int unsigned": "uint32",
    "long": LONG, "long signed": LONG, "int long": LONG, "int long signed": LONG,
    "long unsigned": f"u{LONG}", "int long unsigned": f"u{LONG}",
    "long long": "int64", "long long signed": "int64", "int long long": "int64", "int long long signed": "int64",
    "long long unsigned": "uint64", "int long long unsigned": "uint64",
    "float": "float32", "double": "float64", "_Bool": "bool", "bool": "bool", "void": "void",
}
SPECIFIERS = {word for key in SPECIFIED for word in key.split()} | {"char"}
NAMED = {
    "size_t": "uint64", "ssize_t": "int64", "ptrdiff_t": "int64", "intptr_t": "int64", "uintptr_t": "uint64",
    "Py_ssize_t": "int64", "npy_intp": "int64", "npy_uintp": "uint64", "npy_bool": "bool", "mv_status": "status",
    **{f"{prefix}int{bits}{suffix}": f"{'u' if 'u' in prefix else ''}int{bits}"
       for bits in (8, 16, 32, 64) for prefix in ("", "u", "npy_", "npy_u") for suffix in ("", "_t")},
    **{f"{prefix}float{bits}{suffix}": f"float{bits}"
       for bits in (32, 64) for prefix in ("", "npy_") for suffix in ("", "_t")},
}
IGNORED = {"restrict", "__restrict", "__restrict__", "volatile"}
KEYWORDS = SPECIFIERS | IGNORED | {"const", "extern", "typedef", "static", "inline", "struct", "union", "enum",
                                   "__inline", "__inline__"}
WHY_NOT = {
    "char": "whether plain char has a sign depends on the platform: write int8_t or uint8_t",
    "struct": "structs cannot be passed: declare a function on their fields",
    "union": "unions cannot be passed", "enum": "enums have no fixed size: write the integer type",
    "mv_desc": "kernels on descriptors need a Signature, which names their dtypes",
    "__attribute__": "attributes may change how a function is called",
    "_Complex": "complex numbers have no kernel type", "complex": "complex numbers have no kernel type",
}
TOKEN = re.compile(r"""(?P<space>[ \t\r\f\v\n]+)|(?P<word>[A-Za-z_]\w*)
                       |(?P<number>(?:0[xX][0-9a-fA-F]+|[0-9]+)[uUlL]*\b)
                       |(?P<string>"[^"\n]*")|(?P<mark>\.\.\.|[-*,()\[\]{};=:<>&+/|!~?.%^'#@$`\\0-9"])""", re.X | re.A)
# Possessive, so that what does not match is given up at once.
UNNAMED = re.compile(r"\s*+(\w++(?:\s++\w++)*+)\s*+(?:\(\s*+\*\s*+\)\s*+)?\((.*)\)(?: noexcept)?(?: nogil)?\s*+", re.S)
DEEPEST = 64  # nesting of brackets in what is skipped
LONGEST = 1 << 20  # characters of a text
MOST = 127  # arguments of a function that compilers must take


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument.

    Attributes
    ----------
    name : str
        Empty where the declaration has none.
    dtype : str
        NumPy name of the number or of the array's elements; "void" behind a pointer to anything.
    pointer : bool
    const : bool
        Whether what a pointer leads to is only read.
    extents : tuple of str, int or None
        What stands in the brackets of an array argument.
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
    """A function: its name, the NumPy name of its result ("void": none; "status": an int32 status), its arguments."""

    name: str
    result: str
    arguments: tuple[Argument, ...]

    def __str__(self) -> str:
        result = "mv_status" if self.result == "status" else self.result
        return f"{result} {self.name}({', '.join(map(str, self.arguments)) or 'void'})"


@dataclass(frozen=True, slots=True)
class Header:
    """The functions of a header, by name, and why others cannot be used."""

    functions: Mapping[str, Declaration]
    refused: Mapping[str, str]


class Token(NamedTuple):
    kind: str
    text: str
    at: int


def read_header(text: str, *, tolerant: bool = False) -> Header:
    """Reads the declarations of a text.

    Parameters
    ----------
    text : str
        Declarations and typedefs of numbers, each ended by a semicolon (the last need not be), with comments. Lines for
        the preprocessor are passed over, as is what stands between `#ifdef __cplusplus` and `#endif`.
    tolerant : bool
        Keep functions that cannot be used in `refused`, and pass over what declares no function.

    Raises
    ------
    DeclarationError
        Anything else stands there; where `tolerant`, only what cannot be taken apart at all.
    """
    if len(text) > LONGEST:
        raise DeclarationError(f"a text of declarations has at most {LONGEST} characters, got {len(text)}")
    plain = _without_comments(text)
    reader = Reader(plain, _tokens(_without_directives(plain)))
    functions, refused = dict[str, Declaration](), dict[str, str]()
    for piece in reader.pieces(tolerant):
        try:
            declared = reader.declaration(piece)
        except DeclarationError as error:
            if not tolerant:
                raise
            if name := _function_name(piece):
                refused[name] = str(error)
            continue
        if declared is None:
            continue
        if functions.get(declared.name, declared) != declared:
            reader.fail(piece[0], f"{declared.name} is declared twice, and differently")
        functions[declared.name] = declared
    for name in functions.keys() & refused.keys():
        del functions[name]  # two declarations, one of which says what cannot be
    return Header(functions, refused)


def read_declaration(text: str) -> Declaration:
    """The one function that a text declares; one without a name gets the name "function".

    Raises
    ------
    DeclarationError
    """
    try:
        functions = read_header(text).functions
    except DeclarationError as error:
        # as in a capsule's name, "double (double, int)", and in C's type names, "double (*)(double)"
        match = UNNAMED.fullmatch(text)
        if match is None:
            raise
        named = f"{match[1]} function({match[2]})"
        try:
            functions = read_header(named).functions
        except DeclarationError:
            raise error from None
    if len(functions) != 1:
        raise DeclarationError(f"expected one declaration of a function, got {len(functions)}")
    return next(iter(functions.values()))


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def _without_comments(text: str) -> str:
    """Comments as blanks, so that lines and columns stay."""
    def blanked(match: re.Match[str]) -> str:
        if match["open"] is not None:
            line, column = _place(text, match.start())
            raise DeclarationError(f"line {line}, column {column}: a comment is not closed", line=line, column=column)
        return match["string"] or _blank(match[0])

    # \Z ends the search: without it, each /* would look through the rest of the text
    return re.sub(r'//[^\n]*|/\*.*?(?:\*/|(?P<open>\Z))|(?P<string>"[^"\n]*")', blanked, text, flags=re.S)


def _without_directives(text: str) -> str:
    """Blanks the lines for the preprocessor. Guards are conditions that hold; any other condition is refused."""
    lines, conditions, continued = [], list[bool](), False
    for number, line in enumerate(text.split("\n"), 1):
        directive = re.match(r"\s*#\s*(\w*)\s*(\w*)", line)
        skipped = False in conditions
        if continued or directive:
            lines.append(" " * len(line))
        else:
            lines.append(_blank(line) if skipped else line)
        if directive and not continued:
            word, name = directive[1], directive[2]
            if word in ("ifdef", "ifndef"):
                if not skipped and name != "__cplusplus" and word == "ifdef":
                    raise DeclarationError(f"line {number}: a condition on {name} may change what is declared",
                                           line=number)
                conditions.append(not skipped and (word == "ifndef") if name == "__cplusplus" else not skipped)
            elif word == "endif" and conditions:
                conditions.pop()
            elif not skipped and word not in ("include", "pragma", "define", "undef", ""):
                raise DeclarationError(f"line {number}: #{word} may change what is declared", line=number)
        continued = bool(directive or continued) and line.rstrip("\r").endswith("\\")
    if conditions:
        raise DeclarationError("a condition of the preprocessor has no #endif")
    return "\n".join(lines)


def _place(text: str, at: int) -> tuple[int, int]:
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def _tokens(text: str) -> list[Token]:
    found, at = [], 0
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None:
            line, column = _place(text, at)
            raise DeclarationError(f"line {line}, column {column}: {text[at]!r} has no meaning in a declaration",
                                   line=line, column=column)
        if match.lastgroup and match.lastgroup != "space":
            found.append(Token(match.lastgroup, match[0], at))
        at = match.end()
    return found


def _function_name(piece: list[Token]) -> str | None:
    """What looks like the name of a function that is declared."""
    if any(token.text in ("typedef", "{", "=", "static", "inline") for token in piece):
        return None
    for token, following in pairwise(piece):
        if following.text == "(" and token.kind == "word" and token.text != "__attribute__":
            return token.text
    return None


class Reader:
    """Takes tokens apart; `known` grows by the typedefs."""

    def __init__(self, text: str, tokens: list[Token]):
        self.end, self.tokens = len(text.rstrip()), tokens
        self.lines = [0, *(match.end() for match in re.finditer("\n", text))]
        self.known = dict(NAMED)

    def fail(self, token: Token | None, message: str) -> NoReturn:
        at = token.at if token else self.end
        line = bisect_right(self.lines, at)  # a tolerant reader fails often: it must not count lines each time
        column = at - self.lines[line - 1] + 1
        raise DeclarationError(f"line {line}, column {column}: {message}", line=line, column=column)

    def pieces(self, tolerant: bool) -> Iterator[list[Token]]:
        """What stands between semicolons; the body of a function ends a piece as well."""
        piece, depth = list[Token](), 0
        for token in self.tokens:
            if token.text == ";" and depth == 0:
                if piece:
                    yield piece
                piece = []
                continue
            piece.append(token)
            depth += (token.text == "{") - (token.text == "}")
            if depth > DEEPEST or depth < 0 or (depth and not tolerant):
                self.fail(token, f"unexpected {token.text!r}")
            if token.text == "}" and depth == 0 and _is_body(piece):
                yield piece
                piece = []
        if depth:
            self.fail(None, "a brace is not closed")
        if piece:
            yield piece

    def declaration(self, piece: list[Token]) -> Declaration | None:
        """A function; None for a typedef."""
        at = 0
        if piece[0].text == "typedef":
            dtype, const, at = self.type(piece, 1)
            name = self.word(piece, at, "the name of a type")
            if at + 1 != len(piece) or const or dtype in ("void", "status"):
                self.fail(piece[0], "a typedef is read only where it names a number")
            self.known[name] = dtype
            return None
        while at < len(piece) and piece[at].text == "extern":
            at += 1
        result, const, at = self.type(piece, at)
        if at < len(piece) and piece[at].text == "*":
            self.fail(piece[at], "a pointer that comes back has no owner and no size: let the caller pass the array")
        if const:
            self.fail(piece[0], "a result that is const is none of C's")
        name = self.word(piece, at, "the name of a function")
        inside = self.bracketed(piece, at + 1)
        return Declaration(name, result, self.arguments(inside, piece[-1]))

    def word(self, piece: list[Token], at: int, what: str) -> str:
        if at >= len(piece):
            self.fail(None, f"expected {what}")
        if piece[at].kind != "word" or piece[at].text in KEYWORDS:
            self.fail(piece[at], f"expected {what}, got {piece[at].text!r}")
        return piece[at].text

    def bracketed(self, piece: list[Token], at: int) -> list[Token]:
        """The arguments; nothing may follow them."""
        if at >= len(piece) or piece[at].text != "(":
            self.fail(piece[at] if at < len(piece) else None, "expected '(' and the arguments of a function")
        depth = 0
        for k in range(at, len(piece)):
            depth += (piece[k].text == "(") - (piece[k].text == ")")
            if depth == 0:
                if k + 1 < len(piece) and [t.text for t in piece[k + 1:]] != ["noexcept"]:
                    self.fail(piece[k + 1], WHY_NOT.get(piece[k + 1].text, f"unexpected {piece[k + 1].text!r}"))
                return piece[at + 1:k]
        self.fail(piece[at], "'(' is not closed")

    def arguments(self, inside: list[Token], end: Token) -> tuple[Argument, ...]:
        if [t.text for t in inside] == ["void"]:
            return ()
        if not inside:
            return ()
        groups, group = list[list[Token]](), list[Token]()
        for token in inside:
            if token.text == ",":
                groups.append(group)
                group = []
            else:
                group.append(token)
        groups.append(group)
        if len(groups) > MOST:
            self.fail(groups[MOST][0] if groups[MOST] else end, f"a function has at most {MOST} arguments")
        return tuple(self.argument(group, end) for group in groups)

    def argument(self, group: list[Token], end: Token) -> Argument:
        if not group:
            self.fail(end, "an argument is missing")
        if group[0].text == "...":
            self.fail(group[0], "a variable number of arguments cannot be checked")
        dtype, const, at = self.type(group, 0)
        pointer = at < len(group) and group[at].text == "*"
        at += pointer
        while at < len(group) and group[at].text in (*IGNORED, "const"):
            at += 1
        if at < len(group) and group[at].text == "*":
            self.fail(group[at], "pointers to pointers have no array behind them")
        if at < len(group) and group[at].text == "(":
            self.fail(group[at], "pointers to functions cannot be passed")
        name = ""
        if at < len(group) and group[at].text != "[":
            name = self.word(group, at, "the name of an argument")
            at += 1
        extents, at = self.extents(group, at)
        if at != len(group):
            self.fail(group[at], f"unexpected {group[at].text!r}")
        if pointer and extents:
            self.fail(group[0], "an array of pointers has no numbers in it")
        if not pointer and not extents and dtype in ("void", "status"):
            self.fail(group[0], f"an argument cannot be {'void' if dtype == 'void' else 'mv_status'}")
        if dtype == "status" or (dtype == "void" and extents):
            self.fail(group[0], "an array has numbers for elements")
        is_pointer = pointer or bool(extents)
        return Argument(name, dtype, is_pointer, const and is_pointer, extents)

    def extents(self, group: list[Token], at: int) -> tuple[tuple[str | int | None, ...], int]:
        found = list[str | int | None]()
        while at < len(group) and group[at].text == "[":
            inside, k = list[Token](), at + 1
            while k < len(group) and group[k].text != "]":
                inside.append(group[k])
                k += 1
            if k == len(group):
                self.fail(group[at], "'[' is not closed")
            inside = [t for t in inside if t.text not in ("static", "const", "restrict")]
            if len(inside) > 1 or (inside and inside[0].kind not in ("word", "number")):
                self.fail(inside[0], "brackets hold the name of an argument or a number")
            if not inside:
                found.append(None)
            elif inside[0].kind == "word":
                found.append(inside[0].text)
            else:
                found.append(self.number(inside[0]))
            at = k + 1
        if len(found) > 8:
            self.fail(group[0], "arrays have at most 8 dimensions")
        return tuple(found), at

    def number(self, token: Token) -> int:
        digits = token.text.rstrip("uUlL")
        if len(digits) > 20 or (digits[0] == "0" and digits.isdigit() and len(digits) > 1):
            self.fail(token, f"{digits[:20]} is no size")
        return int(digits, 0)

    def type(self, piece: list[Token], at: int) -> tuple[str, bool, int]:
        """(NumPy name, whether const, where it ends)."""
        specifiers, named, const, start = list[str](), "", False, at
        while at < len(piece) and piece[at].kind == "word":
            text = piece[at].text
            if text == "const":
                const = True
            elif text in SPECIFIERS:
                specifiers.append(text)
            elif text in IGNORED:
                pass
            elif text in WHY_NOT:
                self.fail(piece[at], WHY_NOT[text])
            elif text in KEYWORDS:
                self.fail(piece[at], f"unexpected {text!r}")
            elif not specifiers and not named and (type_ := self.named(text)):
                named = type_
            else:
                break  # a name
            at += 1
        here = piece[start] if start < len(piece) else None
        if named and not specifiers:
            return named, const, at
        key = " ".join(sorted(specifiers))
        if key in SPECIFIED and not named:
            return SPECIFIED[key], const, at
        if key == "char":
            self.fail(here, WHY_NOT["char"])
        if not specifiers and at < len(piece) and piece[at].kind == "word":
            self.fail(piece[at], f"{piece[at].text} is not known as a type of numbers")
        self.fail(here, f"{' '.join(specifiers)} is no type of numbers that NumPy shares with C" if specifiers
                  else "expected a type")

    def named(self, text: str) -> str | None:
        if match := re.fullmatch(r"__pyx_t_\w+?_((?:u?int|float)\d+)_t", text):  # Cython's names of NumPy's types
            text = match[1]
        return self.known.get(text)


def _is_body(piece: list[Token]) -> bool:
    """Whether the braces that end a piece follow the arguments of a function."""
    for token, following in pairwise(piece):
        if following.text == "{":
            return token.text == ")"
    return False
