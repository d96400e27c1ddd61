"""Parser for C declarations of functions on numbers and arrays of numbers.

    void scale(size_t n, double a, const double *x, double *y);
    double norm(size_t rows, size_t cols, const double x[rows][cols]);

Anything else is an error with line and column: a guessed type would be a crash or wrong numbers.
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
    "bool": "bool",
    "void": "void",
}
SPECIFIERS = {word for key in SPECIFIED for word in key.split()} | {"char"}
NAMED = {
    "size_t": "uint64",
    "ssize_t": "int64",
    "ptrdiff_t": "int64",
    "intptr_t": "int64",
    "uintptr_t": "uint64",
    "Py_ssize_t": "int64",
    "npy_intp": "int64",
    "npy_uintp": "uint64",
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
IGNORED = {"restrict", "__restrict", "__restrict__", "volatile"}
KEYWORDS = (
    SPECIFIERS
    | IGNORED
    | {"const", "extern", "typedef", "static", "inline", "struct", "union", "enum", "__inline", "__inline__"}
)
UNSUPPORTED = {
    "char": "whether plain char has a sign depends on the platform: write int8_t or uint8_t",
    "struct": "structs cannot be passed: declare a function on their fields",
    "union": "unions cannot be passed",
    "enum": "enums have no fixed size: write the integer type",
    "mv_desc": "kernels on descriptors need a Signature, which names their dtypes",
    "__attribute__": "attributes may change how a function is called",
    "_Complex": "complex numbers have no kernel type",
    "complex": "complex numbers have no kernel type",
}
TOKEN = re.compile(
    r"""(?P<space>[ \t\r\f\v\n]+)|(?P<word>[A-Za-z_]\w*)
                       |(?P<number>(?:0[xX][0-9a-fA-F]+|[0-9]+)[uUlL]*\b)
                       |(?P<string>"[^"\n]*")|(?P<mark>\.\.\.|[-*,()\[\]{};=:<>&+/|!~?.%^'#@$`\\0-9"])""",
    re.X | re.A,
)
# Possessive quantifiers: text that does not match fails without backtracking.
UNNAMED = re.compile(r"\s*+(\w++(?:\s++\w++)*+)\s*+(?:\(\s*+\*\s*+\)\s*+)?\((.*)\)(?: noexcept)?(?: nogil)?\s*+", re.S)
MAX_DEPTH = 64  # nesting of braces in function bodies
MAX_LENGTH = 1 << 20  # characters of a text
MAX_ARGUMENTS = 127  # C requires compilers to support at least as many


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


class Token(NamedTuple):
    kind: str
    text: str
    at: int


def read_header(text: str, *, tolerant: bool = False) -> Header:
    """Parse the declarations in a text.

    Parameters
    ----------
    text : str
        Declarations and typedefs of numbers, separated by semicolons, with comments. Preprocessor lines are skipped, as
        is everything between `#ifdef __cplusplus` and `#endif`.
    tolerant : bool
        List functions that cannot be called in `refused`, and skip what is not a declaration of a function.

    Raises
    ------
    DeclarationError
        The text has anything else; if `tolerant`, it cannot be split into declarations.
    """
    if len(text) > MAX_LENGTH:
        raise DeclarationError(f"a text of declarations has at most {MAX_LENGTH} characters, got {len(text)}")
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
            reader.fail(piece[0], f"{declared.name} is declared twice with different types")
        functions[declared.name] = declared
    for name in functions.keys() & refused.keys():
        del functions[name]  # declared twice, once with unsupported types
    return Header(functions, refused)


def read_declaration(text: str) -> Declaration:
    """Parse the declaration of one function; one without a name is called "function".

    Raises
    ------
    DeclarationError
    """
    try:
        functions = read_header(text).functions
    except DeclarationError as error:
        # "double (double, int)", as in names of capsules, or the C type name "double (*)(double)".
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
    """Replace comments by blanks, which keeps lines and columns."""

    def blanked(match: re.Match[str]) -> str:
        if match["open"] is not None:
            line, column = _place(text, match.start())
            raise DeclarationError(f"line {line}, column {column}: a comment is not closed", line=line, column=column)
        return match["string"] or _blank(match[0])

    # Without \Z, each unclosed /* would scan the rest of the text.
    return re.sub(r'//[^\n]*|/\*.*?(?:\*/|(?P<open>\Z))|(?P<string>"[^"\n]*")', blanked, text, flags=re.S)


def _without_directives(text: str) -> str:
    """Replace preprocessor lines by blanks. Include guards hold; any other condition is an error."""
    lines, conditions, continued = [], list[bool](), False
    for number, line in enumerate(text.split("\n"), 1):
        directive = re.match(r"\s*#\s*(\w*)\s*(\w*)", line)
        blank = continued or directive or False in conditions
        lines.append(_blank(line) if blank else line)
        if directive and not continued:
            _apply_directive(directive[1], directive[2], conditions, number)
        continued = bool(directive or continued) and line.rstrip("\r").endswith("\\")
    if conditions:
        raise DeclarationError("a condition of the preprocessor has no #endif")
    return "\n".join(lines)


def _apply_directive(word: str, name: str, conditions: list[bool], number: int) -> None:
    """Update the stack of conditions: whether the text in each of them is read."""
    skipped = False in conditions
    if word == "endif" and conditions:
        conditions.pop()
    elif word in ("ifdef", "ifndef") and name == "__cplusplus":
        conditions.append(not skipped and word == "ifndef")
    elif word == "ifdef" and not skipped:
        raise DeclarationError(f"line {number}: a condition on {name} may change what is declared", line=number)
    elif word in ("ifdef", "ifndef"):
        conditions.append(not skipped)
    elif not skipped and word not in ("include", "pragma", "define", "undef", ""):
        raise DeclarationError(f"line {number}: #{word} may change what is declared", line=number)


def _place(text: str, at: int) -> tuple[int, int]:
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def _tokens(text: str) -> list[Token]:
    found, at = [], 0
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None:
            line, column = _place(text, at)
            raise DeclarationError(
                f"line {line}, column {column}: {text[at]!r} is not valid in a declaration", line=line, column=column
            )
        if match.lastgroup and match.lastgroup != "space":
            found.append(Token(match.lastgroup, match[0], at))
        at = match.end()
    return found


def _function_name(piece: list[Token]) -> str | None:
    """Return the name of the function that the tokens seem to declare."""
    if any(token.text in ("typedef", "{", "=", "static", "inline") for token in piece):
        return None
    for token, following in pairwise(piece):
        if following.text == "(" and token.kind == "word" and token.text != "__attribute__":
            return token.text
    return None


class Reader:
    """Recursive-descent parser over the tokens; typedefs are added to `known`."""

    def __init__(self, text: str, tokens: list[Token]):
        self.end, self.tokens = len(text.rstrip()), tokens
        self.lines = [0, *(match.end() for match in re.finditer("\n", text))]
        self.known = dict(NAMED)

    def fail(self, token: Token | None, message: str) -> NoReturn:
        at = token.at if token else self.end
        line = bisect_right(self.lines, at)  # counting lines for each error of a large header would be quadratic
        column = at - self.lines[line - 1] + 1
        raise DeclarationError(f"line {line}, column {column}: {message}", line=line, column=column)

    def pieces(self, tolerant: bool) -> Iterator[list[Token]]:
        """Yield the tokens of each declaration, which ends at a semicolon or with the body of a function."""
        piece, depth = list[Token](), 0
        for token in self.tokens:
            if token.text == ";" and depth == 0:
                if piece:
                    yield piece
                piece = []
                continue
            piece.append(token)
            depth += (token.text == "{") - (token.text == "}")
            if depth > MAX_DEPTH or depth < 0 or (depth and not tolerant):
                self.fail(token, f"unexpected {token.text!r}")
            if token.text == "}" and depth == 0 and _is_body(piece):
                yield piece
                piece = []
        if depth:
            self.fail(None, "a brace is not closed")
        if piece:
            yield piece

    def declaration(self, piece: list[Token]) -> Declaration | None:
        """Parse a declaration; return None for a typedef."""
        at = 0
        if piece[0].text == "typedef":
            dtype, const, at = self.type(piece, 1)
            name = self.word(piece, at, "the name of a type")
            if at + 1 != len(piece) or const or dtype in ("void", "status"):
                self.fail(piece[0], "a typedef must name a number")
            self.known[name] = dtype
            return None
        while at < len(piece) and piece[at].text == "extern":
            at += 1
        result, const, at = self.type(piece, at)
        if at < len(piece) and piece[at].text == "*":
            self.fail(piece[at], "a returned pointer has no owner and no size: let the caller pass the array")
        if const:
            self.fail(piece[0], "a result cannot be const")
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
        """Return the tokens between the parentheses, which must end the declaration."""
        if at >= len(piece) or piece[at].text != "(":
            self.fail(piece[at] if at < len(piece) else None, "expected '(' and the arguments of a function")
        depth = 0
        for k in range(at, len(piece)):
            depth += (piece[k].text == "(") - (piece[k].text == ")")
            if depth == 0:
                if k + 1 < len(piece) and [t.text for t in piece[k + 1 :]] != ["noexcept"]:
                    self.fail(piece[k + 1], UNSUPPORTED.get(piece[k + 1].text, f"unexpected {piece[k + 1].text!r}"))
                return piece[at + 1 : k]
        self.fail(piece[at], "'(' is not closed")

    def arguments(self, inside: list[Token], end: Token) -> tuple[Argument, ...]:
        if not inside or [t.text for t in inside] == ["void"]:
            return ()
        groups, group = list[list[Token]](), list[Token]()
        for token in inside:
            if token.text == ",":
                groups.append(group)
                group = []
            else:
                group.append(token)
        groups.append(group)
        if len(groups) > MAX_ARGUMENTS:
            self.fail(
                groups[MAX_ARGUMENTS][0] if groups[MAX_ARGUMENTS] else end,
                f"a function has at most {MAX_ARGUMENTS} arguments",
            )
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
            self.fail(group[at], "a pointer to pointers is not an array of numbers")
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
            self.fail(group[0], "an array of pointers is not an array of numbers")
        if not pointer and not extents and dtype in ("void", "status"):
            self.fail(group[0], f"an argument cannot be {'void' if dtype == 'void' else 'mv_status'}")
        if dtype == "status" or (dtype == "void" and extents):
            self.fail(group[0], "the elements of an array must be numbers")
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
            self.fail(token, f"{digits[:20]} is not a size")
        return int(digits, 0)

    def type(self, piece: list[Token], start: int) -> tuple[str, bool, int]:
        """Parse a type: (NumPy name, whether const, index of the next token)."""
        specifiers, named, at = list[str](), "", start
        while at < len(piece) and piece[at].kind == "word":
            text = piece[at].text
            if text in SPECIFIERS:
                specifiers.append(text)
            elif text not in IGNORED and text != "const":
                self.check_word(piece[at])
                known = None if specifiers or named else self.named(text)
                if known is None:
                    break  # the name of the function or argument
                named = known
            at += 1
        const = any(token.text == "const" for token in piece[start:at])
        if named and not specifiers:
            return named, const, at
        key = " ".join(sorted(specifiers))
        if key in SPECIFIED and not named:
            return SPECIFIED[key], const, at
        self.fail_type(piece, start, at, specifiers)

    def check_word(self, token: Token) -> None:
        """Reject words that cannot stand in a type."""
        if token.text in UNSUPPORTED:
            self.fail(token, UNSUPPORTED[token.text])
        if token.text in KEYWORDS:
            self.fail(token, f"unexpected {token.text!r}")

    def fail_type(self, piece: list[Token], start: int, at: int, specifiers: list[str]) -> NoReturn:
        first = piece[start] if start < len(piece) else None
        if specifiers == ["char"]:
            self.fail(first, UNSUPPORTED["char"])
        if specifiers:
            self.fail(first, f"{' '.join(specifiers)} is not a number type that NumPy shares with C")
        if at < len(piece) and piece[at].kind == "word":
            self.fail(piece[at], f"{piece[at].text} is not known as a type of numbers")
        self.fail(first, "expected a type")

    def named(self, text: str) -> str | None:
        if match := re.fullmatch(r"__pyx_t_\w+?_((?:u?int|float)\d+)_t", text):  # Cython's names of NumPy types
            text = match[1]
        return self.known.get(text)


def _is_body(piece: list[Token]) -> bool:
    """Return whether the braces that end a piece follow the arguments of a function."""
    for token, following in pairwise(piece):
        if following.text == "{":
            return token.text == ")"
    return False
