"""Reader of preprocessed C: pycparser parses one declaration at a time, with the types that it uses.

What cannot be read makes every name in it unknown, so that nothing else of the text relies on a guess.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, NoReturn

from mojoview.loading.c.declared import NAMED, SPECIFIED, Argument, Declaration, Header
from mojoview.loading.c.preprocessor import Source
from mojoview.memory.errors import DeclarationError

__all__ = ["Reader"]

TOKEN = re.compile(
    r"""(?P<space>[ \t\r\f\v\n]+)
        |(?P<string>(?:u8|[uUL])?"(?:[^"\\\n]|\\.)*"|[uUL]?'(?:[^'\\\n]|\\.)*')
        |(?P<word>[A-Za-z_]\w*)|(?P<number>\.?[0-9](?:[eEpP][+-]|[\w.])*)
        |(?P<digraph><:|:>|<%|%>|%:)|(?P<mark>\.\.\.|[-*,()\[\]{};=:<>&+/|!~?.%^@$])""",
    re.X | re.A,
)
SIZE = re.compile(r"(0[xX][0-9a-fA-F]+|0|[1-9][0-9]*)[uUlL]*")
KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        """
        auto break case char const continue default do double else enum extern float for goto if inline int long
        register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while
        """,
    )
)
# Other spellings of keywords.
SPELLED = {
    **dict.fromkeys(("__restrict", "__restrict__"), "restrict"),
    **dict.fromkeys(("__const", "__const__"), "const"),
    **dict.fromkeys(("__volatile", "__volatile__"), "volatile"),
    **dict.fromkeys(("__inline", "__inline__"), "inline"),
    **dict.fromkeys(("__signed", "__signed__"), "signed"),
}
STANDARD = {"_Bool", "_Static_assert"}  # reserved names that pycparser reads as C does
UNSUPPORTED = {
    "char": "whether plain char has a sign depends on the platform: write int8_t or uint8_t",
    "Struct": "structs cannot be passed: declare a function on their fields",
    "Union": "unions cannot be passed",
    "Enum": "enums have no fixed size: write the integer type",
    "mv_desc": "kernels on descriptors need a Signature, which names their dtypes",
    "_Complex": "complex numbers have no kernel type",
    "complex": "complex numbers have no kernel type",
    "asm": "an assembler name may be another function",
    "__asm": "an assembler name may be another function",
    "__asm__": "an assembler name may be another function",
}
ATTRIBUTES = "attributes may change how a function is called"
# Attributes of functions that do not: they concern linking, diagnostics and optimisation of the caller.
HARMLESS = frozenset(
    re.findall(
        r"\w+",
        """
        access alloc_size always_inline assume_aligned cold const deprecated dllexport externally_visible hot leaf
        malloc noclone noinline nonnull nothrow pure returns_nonnull unused used visibility warn_unused_result
        """,
    )
)
# Keywords of extensions, which a typedef cannot declare.
EXTENSIONS = frozenset(
    re.findall(
        r"\w+",
        """
        __attribute __attribute__ __asm __asm__ __auto_type __bf16 __complex __complex__ __float80 __float128 __fp16
        __ibm128 __imag __imag__ __int128 __int128_t __uint128_t __label__ __real __real__ __thread __typeof
        __typeof__ _Alignas _Atomic _BitInt _Complex _Decimal32 _Decimal64 _Decimal128 _Float16 _Float32 _Float64
        _Float128 _Float32x _Float64x _Generic _Imaginary _Thread_local
        """,
    )
)
CYTHON = re.compile(r"__pyx_t_\w+?_((?:u?int|float)\d+)_t")  # Cython's names of NumPy types
FAILED_AT = re.compile(r":(\d+):(\d+): ?(.*)", re.S)
MAX_DEPTH = 64  # nesting of brackets
MAX_ARGUMENTS = 127  # C requires compilers to support at least as many


class Token(NamedTuple):
    kind: str
    text: str
    at: int


class Piece(NamedTuple):
    """The tokens of one declaration; of a function definition, without its body."""

    tokens: list[Token]
    body: bool
    depth: int


@dataclass(frozen=True, slots=True)
class Type:
    """The meaning of a type name: a NumPy name, or why it has none."""

    dtype: str
    why: str = ""


class Fault(Exception):
    """A declaration that cannot be read: the position in the text, and why."""

    def __init__(self, at: int, why: str):
        super().__init__(why)
        self.at, self.why = at, why


class Reader:
    """Reader of one text; a typedef is added to `types`, a name of unknown meaning to `unknown`."""

    def __init__(self, source: Source, tolerant: bool):
        from pycparser import CParser, c_ast  # here: import mojoview does not need it

        self.source, self.tolerant, self.parser, self.ast = source, tolerant, CParser(), c_ast
        self.row = 1  # first line of the declaration that is read
        self.starts = [0, *(match.end() for match in re.finditer("\n", source.text))]
        self.types, self.unknown = dict[str, Type](), dict[str, str]()
        self.functions, self.refused = dict[str, Declaration](), dict[str, str]()
        self.relied = dict[str, set[str]]()  # on the meaning of names that the text has not declared, per function
        for pragma in source.pragmas:
            self.forget(re.findall(r"[A-Za-z_]\w*", pragma), "a #pragma names it")

    def header(self) -> Header:
        """Read the whole text."""
        for piece in self.pieces():
            own = any(self.line(token.at)[0] > 0 for token in piece.tokens)
            try:
                self.read(piece, own)
            except Fault as fault:
                why = self.message(fault)
                if own and not self.tolerant:
                    self.fail(fault.at, fault.why)
                self.forget([token.text for token in piece.tokens if token.kind == "word"], why)
                if own and (name := _function_name(piece.tokens)):
                    self.refused.setdefault(name, why)
        for name in self.functions.keys() & self.unknown.keys():  # also declared in a way that cannot be read
            self.refused.setdefault(name, self.unknown[name])
        for name in self.functions:
            if late := sorted(self.relied[name] & (self.types.keys() | self.unknown.keys())):
                self.refused.setdefault(name, f"{late[0]} has another meaning in this text")
        for name in self.functions.keys() & self.refused.keys():
            del self.functions[name]
            if not self.tolerant:
                raise DeclarationError(f"{name}: {self.refused[name]}")
        return Header(self.functions, self.refused)

    # -- positions and errors ------------------------------------------------------------------------------------------

    def line(self, at: int) -> tuple[int, int]:
        """Return line and column of the source; the line is negative if it is of an included file."""
        row, column = self.found(at)
        return self.source.lines[row - 1], column

    def found(self, at: int) -> tuple[int, int]:
        """Return line and column of the preprocessed text."""
        row = bisect_right(self.starts, at)  # counting lines for each token of a large header would be quadratic
        return row, at - self.starts[row - 1] + 1

    def message(self, fault: Fault) -> str:
        line, column = self.line(fault.at)
        return f"line {abs(line)}, column {column}: {fault.why}"

    def fail(self, at: int, why: str) -> NoReturn:
        line, column = self.line(at)
        raise DeclarationError(f"line {abs(line)}, column {column}: {why}", line=abs(line), column=column)

    def forget(self, names: list[str], why: str) -> None:
        """Make names unknown, except for types: a valid text cannot give those another meaning."""
        for name in names:
            if name not in self.types and name not in KEYWORDS:
                self.unknown[name] = why

    # -- tokens and pieces ---------------------------------------------------------------------------------------------

    def tokens(self) -> Iterator[Token]:
        text, at = self.source.text, 0
        while at < len(text):
            match = TOKEN.match(text, at)
            if match is None or match.lastgroup == "digraph":
                self.fail(at, f"{match[0] if match else text[at]!r} is not valid in a declaration")
            if match.lastgroup and match.lastgroup != "space":
                yield Token(match.lastgroup, match[0], at)
            at = match.end()

    def pieces(self) -> Iterator[Piece]:
        """Yield the declarations: each ends at a semicolon or with the body of a function."""
        tokens, open_, deepest, body = list[Token](), list[str](), 0, False
        pairs = {"(": ")", "[": "]", "{": "}"}
        last = len(self.source.text.rstrip())
        for token in self.tokens():
            if token.text == ";" and not open_:
                if tokens:
                    yield Piece(tokens, False, deepest)
                tokens, deepest = [], 0
                continue
            if token.text in pairs and token.kind == "mark":
                body = body or (token.text == "{" and not open_ and bool(tokens) and tokens[-1].text == ")")
                open_.append(pairs[token.text])
                deepest = deepest if body else max(deepest, len(open_))
            elif token.kind == "mark" and token.text in ")]}":
                if not open_ or open_.pop() != token.text:
                    self.fail(token.at, f"unexpected {token.text!r}")
                if body and not open_:
                    yield Piece(tokens, True, deepest)
                    tokens, deepest, body = [], 0, False
                    continue
            if not body:
                tokens.append(token)
        if open_:
            self.fail(last, f"{open_[-1]!r} is missing at the end")
        if tokens:
            yield Piece(tokens, False, deepest)

    def read(self, piece: Piece, own: bool) -> None:
        """Read one declaration; raise Fault if it cannot be."""
        tokens = piece.tokens
        if not tokens:
            return
        if piece.depth > MAX_DEPTH:
            raise Fault(tokens[0].at, f"brackets are nested more than {MAX_DEPTH} deep")
        commas = [token for token in tokens if token.text == ","] if own else []
        if len(commas) >= MAX_ARGUMENTS * 4 and "{" not in {token.text for token in tokens}:  # parsing takes long
            raise Fault(commas[MAX_ARGUMENTS].at, f"a function has at most {MAX_ARGUMENTS} arguments")
        words = self.spelled(tokens)
        if piece.body:
            if own and not self.tolerant:
                raise Fault(tokens[0].at, "expected a declaration, got the definition of a function: unexpected '{'")
            return
        if not own and tokens[0].text != "typedef":
            if all(token.text != "(" for token in tokens) or any(token.text == "enum" for token in tokens):
                self.forget([token.text for token in tokens if token.kind == "word"], "an included file declares it")
            return  # of a function: a different declaration in the text itself would not be valid C
        for node in self.parsed(tokens, words):
            kind = type(node).__name__
            constants = [each.name for each in _walk(node) if isinstance(each, self.ast.Enumerator)]
            self.forget(constants, "it is declared as a constant")
            if kind == "Typedef":
                self.declare(node.name, self.typedef(node), tokens[0].at)
            elif kind == "Decl" and isinstance(node.type, self.ast.FuncDecl):
                self.function(node, tokens)
            elif own and not self.tolerant:
                raise Fault(tokens[0].at, "expected '(' and the arguments of a function, or a typedef of a number")
            elif getattr(node, "name", None):
                self.forget([node.name], "it is declared as something else")

    # -- pycparser -----------------------------------------------------------------------------------------------------

    def spelled(self, tokens: list[Token]) -> list[str]:
        """Return the text of the tokens as pycparser reads them: "" for what has no effect."""
        words, k = [token.text for token in tokens], 0
        first = next((at for at, token in enumerate(tokens) if token.text == "("), -1)
        while k < len(tokens):
            text, kind = tokens[k].text, tokens[k].kind
            if text in ("__attribute__", "__attribute"):
                k = self.attribute(tokens, words, k)
                continue
            if text in SPELLED:
                words[k] = SPELLED[text]
            elif (text == "__extension__" and k == 0) or (text == "noexcept" and k == len(tokens) - 1):
                words[k] = ""
            elif kind == "word" and text not in self.types:
                if text in UNSUPPORTED and text != "char":
                    raise Fault(tokens[k].at, UNSUPPORTED[text])
                named = k == len(tokens) - 1 and tokens[0].text == "typedef" and text not in EXTENSIONS
                # what comes before the arguments is the function's own name, whatever it is called
                named = named or (0 < k == first - 1 and text not in EXTENSIONS and not text.startswith("__declspec"))
                if re.match("_[A-Z_]", text) and text not in STANDARD and not named and not CYTHON.fullmatch(text):
                    raise Fault(tokens[k].at, f"{text} is a name of the compiler, whose meaning is not known here")
            k += 1
        return words

    def attribute(self, tokens: list[Token], words: list[str], k: int) -> int:
        """Blank out an attribute that does not matter; return the index of the next token."""
        first, depth = k, 0
        for k in range(first + 1, len(tokens)):
            text = tokens[k].text
            depth += (text == "(") - (text == ")")
            if depth == 2 and tokens[k].kind == "word" and text.strip("_") not in HARMLESS:
                break
            if depth == 0 and k > first + 1:
                words[first : k + 1] = [""] * (k + 1 - first)
                return k + 1
        raise Fault(tokens[first].at, ATTRIBUTES)

    def parsed(self, tokens: list[Token], words: list[str]) -> list[Any]:
        """Return the declarations that pycparser finds in a piece."""
        known = sorted({w for w, token in zip(words, tokens, strict=True) if token.kind == "word" and self.is_type(w)})
        prelude = "".join(f"typedef int {name};" for name in known)
        first, text, at = tokens[0].at, self.source.text, tokens[0].at
        self.row, column = self.found(first)
        out = [prelude, "\n", " " * (column - 1)]
        for token, word in zip(tokens, words, strict=True):
            out += [re.sub(r"[^\n]", " ", text[at : token.at]), word.ljust(len(token.text))]
            at = token.at + len(token.text)
        try:
            found = self.parser.parse("".join([*out, ";"]), "").ext[len(known) :]
            ints = sum(n.names.count("int") for tree in found for n in _walk(tree) if hasattr(n, "names"))
        except Exception as error:  # a class of its own in each version of pycparser, or one of its defects
            raise self.unreadable(tokens, str(error)) from error
        if len(found) > 1 and any(isinstance(each.type, self.ast.FuncDecl) for each in found):
            raise Fault(first, "expected one function in a declaration")
        if len(found) == 1 and ints > sum(token.text == "int" for token in tokens):
            raise Fault(first, "expected a type: C has no implicit int")
        return list(found)

    def unreadable(self, tokens: list[Token], error: str) -> Fault:
        """Return the fault for a message of pycparser, with the position that it names."""
        for token in tokens:  # the usual reason: a type that is not known
            if self.stands_for_a_type(tokens, token):
                return Fault(token.at, f"{token.text} is not known as a type of numbers{self.reason(token.text)}")
        match = FAILED_AT.search(error)
        if match is None:
            return Fault(tokens[-1].at + len(tokens[-1].text), "the declaration is not complete")
        at = self.starts[min(self.row + int(match[1]) - 3, len(self.starts) - 1)] + int(match[2]) - 1
        here = next((token for token in tokens if token.at >= at), tokens[-1])
        return Fault(here.at, f"unexpected {here.text!r}")

    def stands_for_a_type(self, tokens: list[Token], token: Token) -> bool:
        """Return whether a type must begin at a word that does not name one."""
        k = tokens.index(token)
        if token.kind != "word" or token.text in KEYWORDS or self.is_type(token.text) or token.text in STANDARD:
            return False
        before = [t.text for t in tokens[:k] if t.text not in ("const", "volatile", "extern", "static", "inline")]
        begins = not before or before[-1] in ("(", ",", "typedef")
        return begins and k + 1 < len(tokens) and (tokens[k + 1].kind == "word" or tokens[k + 1].text == "*")

    def reason(self, name: str) -> str:
        return f" ({self.unknown[name]})" if name in self.unknown else ""

    def is_type(self, name: str) -> bool:
        if name in self.types:
            return True
        return name not in self.unknown and (name in NAMED or CYTHON.fullmatch(name) is not None)

    # -- meaning -------------------------------------------------------------------------------------------------------

    def declare(self, name: str, meant: Type, at: int) -> None:
        if meant.why and not self.tolerant and self.line(at)[0] > 0:
            raise Fault(at, f"a typedef must name a number: {meant.why}")
        if self.types.get(name, meant) != meant:
            meant = Type("", f"{name} is declared twice with different types")
        self.types[name] = meant

    def typedef(self, node: Any) -> Type:
        """Return the meaning of a typedef."""
        if node.storage != ["typedef"]:
            return Type("", f"{node.name} is declared with {' '.join(node.storage)}")
        if not isinstance(node.type, self.ast.TypeDecl):
            return Type("", f"{node.name} is not the type of a number: write the array or pointer out")
        if node.quals or node.type.quals:
            return Type("", f"{node.name} has a qualifier: write it out")
        try:
            dtype = self.number(node.type, set())
        except Fault as fault:
            return Type("", fault.why)
        return Type(dtype) if dtype not in ("void", "status") else Type("", f"{node.name} is not a number")

    def number(self, node: Any, relied: set[str]) -> str:
        """Return the NumPy name of a type without pointers."""
        kind = node.type
        at = self.at(kind if getattr(kind, "coord", None) else node)
        if not isinstance(kind, self.ast.IdentifierType):
            raise Fault(at, UNSUPPORTED.get(type(kind).__name__, "expected a type of numbers"))
        if odd := sorted({"_Atomic", "restrict"} & set(node.quals or ())):
            raise Fault(at, f"a number cannot be {odd[0]}")
        names, key = kind.names, " ".join(sorted(kind.names))
        if len(names) == 1 and self.is_type(names[0]):
            if names[0] in self.types:
                meant = self.types[names[0]]
            else:
                match = CYTHON.fullmatch(names[0])
                meant = Type(NAMED[match[1] if match else names[0]])
                relied.add(names[0])
            if meant.why:
                raise Fault(at, f"{names[0]} is not known as a type of numbers: {meant.why}")
            return meant.dtype
        if key in SPECIFIED:
            return SPECIFIED[key]
        raise Fault(at, UNSUPPORTED.get(key, f"{' '.join(names)} is not a number type that NumPy shares with C"))

    def at(self, node: Any) -> int:
        """Return the position of a node in the text."""
        coord = getattr(node, "coord", None)
        if coord is None or coord.line < 2:
            return self.starts[self.row - 1]
        return (
            self.starts[min(self.row + int(coord.line) - 3, len(self.starts) - 1)] + max(int(coord.column or 1), 1) - 1
        )

    def function(self, node: Any, tokens: list[Token]) -> None:
        """Read the declaration of a function; one with internal linkage is not in a library."""
        first = tokens[0].at
        if "static" in node.storage or "inline" in node.funcspec:
            if not self.tolerant:
                raise Fault(first, f"unexpected {(node.funcspec or node.storage)[0]!r}")
            self.forget([node.name], "it is static or inline")
            return
        if set(node.storage) - {"extern"} or node.funcspec or node.align or node.init or node.bitsize:
            raise Fault(first, f"expected only a type before {node.name}")
        result, relied = node.type.type, set[str]()
        if not isinstance(result, self.ast.TypeDecl):
            raise Fault(first, "a returned pointer has no owner and no size: let the caller pass the array")
        if "const" in result.quals:
            raise Fault(first, "a result cannot be const")
        declared = Declaration(node.name, self.number(result, relied), self.arguments(node.type.args, relied, first))
        if self.functions.get(node.name, declared) != declared:
            raise Fault(first, f"{node.name} is declared twice with different types")
        self.functions[node.name] = declared
        self.relied[node.name] = self.relied.get(node.name, set()) | relied

    def arguments(self, given: Any, relied: set[str], first: int) -> tuple[Argument, ...]:
        nodes = given.params if given is not None else []
        if len(nodes) > MAX_ARGUMENTS:
            raise Fault(first, f"a function has at most {MAX_ARGUMENTS} arguments")
        if len(nodes) == 1 and isinstance(nodes[0], self.ast.Typename) and _is_void(nodes[0].type):
            return ()
        found = list[Argument]()
        for node in nodes:
            found.append(self.argument(node, relied, {argument.name for argument in found}))
        return tuple(found)

    def argument(self, node: Any, relied: set[str], earlier: set[str]) -> Argument:
        ast, at = self.ast, self.at(node)
        if isinstance(node, ast.EllipsisParam):
            raise Fault(at, "a variable number of arguments cannot be checked")
        if not isinstance(node, ast.Decl | ast.Typename):
            raise Fault(at, f"{getattr(node, 'name', 'this')} is not known as a type of numbers")
        if set(getattr(node, "storage", ())) - {"register"} or getattr(node, "align", None):
            raise Fault(at, "expected only a type before the name of an argument")
        kind, extents = node.type, list[str | int | None]()
        while isinstance(kind, ast.ArrayDecl):
            extents.append(self.extent(kind, earlier, at))
            kind = kind.type
        pointer = isinstance(kind, ast.PtrDecl)
        if pointer and extents:
            raise Fault(at, "an array of pointers is not an array of numbers")
        if len(extents) > 8:
            raise Fault(at, "arrays have at most 8 dimensions")
        if pointer:
            if "_Atomic" in kind.quals:
                raise Fault(at, "atomic pointers cannot be passed")
            kind = kind.type
        if isinstance(kind, ast.PtrDecl):
            raise Fault(at, "a pointer to pointers is not an array of numbers")
        if isinstance(kind, ast.FuncDecl):
            raise Fault(at, "pointers to functions cannot be passed")
        if not isinstance(kind, ast.TypeDecl):
            raise Fault(at, "a pointer to an array is not an array of numbers: write double x[][3]")
        dtype, array = self.number(kind, relied), pointer or bool(extents)
        if not array and dtype in ("void", "status"):
            raise Fault(at, f"an argument cannot be {'void' if dtype == 'void' else 'mv_status'}")
        if dtype == "status" or (dtype == "void" and extents):
            raise Fault(at, "the elements of an array must be numbers")
        return Argument(node.name or "", dtype, array, "const" in kind.quals and array, tuple(extents))

    def extent(self, node: Any, earlier: set[str], at: int) -> str | int | None:
        dim = node.dim
        if dim is None:
            return None
        if isinstance(dim, self.ast.ID) and dim.name != "*":
            if dim.name not in earlier and dim.name in self.unknown:
                raise Fault(at, f"the size {dim.name!r} is not an earlier argument: {self.unknown[dim.name]}")
            return str(dim.name)
        if isinstance(dim, self.ast.Constant):
            if (match := SIZE.fullmatch(dim.value)) and len(match[1]) <= 20:
                return int(match[1], 0)
            raise Fault(at, f"{dim.value[:20]} is not a size")
        raise Fault(at, "brackets hold the name of an argument or a number")


def _is_void(node: Any) -> bool:
    return getattr(getattr(node, "type", None), "names", None) == ["void"] and not node.quals


def _walk(node: Any) -> Iterator[Any]:
    yield node
    for _, child in node.children():
        yield from _walk(child)


def _function_name(tokens: list[Token]) -> str | None:
    """Return the name of the function that the tokens seem to declare."""
    if any(token.text in ("typedef", "{", "=", "static", "inline") for token in tokens):
        return None
    for token, following in pairwise(tokens):
        if following.text == "(" and token.kind == "word" and not token.text.startswith("__"):
            return token.text
    return None
