"""Parser of C declarations: accepted and rejected text, with line and column; arbitrary text."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mojoview.loading.c.declaration import read_declaration, read_header
from mojoview.loading.c.declared import NAMED, SPECIFIED, Argument, Declaration
from mojoview.loading.c.reader import KEYWORDS, UNSUPPORTED
from mojoview.memory.errors import DeclarationError


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        (
            "void f(size_t n, const double *x, double *y)",
            Declaration(
                "f",
                "void",
                (Argument("n", "uint64"), Argument("x", "float64", True, True), Argument("y", "float64", True)),
            ),
        ),
        ("double g(void);", Declaration("g", "float64", ())),
        ("int32_t g();", Declaration("g", "int32", ())),
        (
            "extern unsigned long long int h(float const * const restrict x)",
            Declaration("h", "uint64", (Argument("x", "float32", True, True),)),
        ),
        (
            "long k(unsigned char a, signed char b, short int c, _Bool d, unsigned e, long long f)",
            Declaration(
                "k",
                "int64",
                (
                    Argument("a", "uint8"),
                    Argument("b", "int8"),
                    Argument("c", "int16"),
                    Argument("d", "bool"),
                    Argument("e", "uint32"),
                    Argument("f", "int64"),
                ),
            ),
        ),
        (
            "double norm(size_t r, size_t c, const double x[r][c], float out[3], int *, int16_t v[static 0x10],"
            " double w[][2])",
            Declaration(
                "norm",
                "float64",
                (
                    Argument("r", "uint64"),
                    Argument("c", "uint64"),
                    Argument("x", "float64", True, True, ("r", "c")),
                    Argument("out", "float32", True, False, (3,)),
                    Argument("", "int32", True),
                    Argument("v", "int16", True, False, (16,)),
                    Argument("w", "float64", True, False, (None, 2)),
                ),
            ),
        ),
        ("mv_status s(const void *user)", Declaration("s", "status", (Argument("user", "void", True, True),))),
        (
            "float64 numpy(uint8 a, const int64 *b)",
            Declaration("numpy", "float64", (Argument("a", "uint8"), Argument("b", "int64", True, True))),
        ),
        ("unsigned long int (long int unsigned)", Declaration("function", "uint64", (Argument("", "uint64"),))),
        ("double (double, int)", Declaration("function", "float64", (Argument("", "float64"), Argument("", "int32")))),
        (
            "double(*)(double, double *)",
            Declaration("function", "float64", (Argument("", "float64"), Argument("", "float64", True))),
        ),
        (
            "__pyx_t_5numpy_float64_t (__pyx_t_5numpy_int32_t, Py_ssize_t) noexcept",
            Declaration("function", "float64", (Argument("", "int32"), Argument("", "int64"))),
        ),
    ],
)
def test_what_is_taken(text, meant):
    read = read_declaration(text)
    assert read == meant
    assert read_declaration(str(read)) == read


@pytest.mark.parametrize(
    ("text", "line", "column", "why"),
    [
        ("void f(char *s)", 1, 8, "plain char has a sign"),
        ("void f(int n,\n       struct point *p)", 2, 15, "structs cannot be passed"),
        ("void f(doubel x)", 1, 8, "doubel is not known as a type"),
        ("doubel f(int x)", 1, 1, "doubel is not known"),
        ("void f(long double x)", 1, 8, "long double is not a number type"),
        ("void f(size_t int x)", 1, 8, "is not a number type"),
        ("void f(int x, ...)", 1, 15, "variable number of arguments"),
        ("double *f(int x)", 1, 1, "returned pointer has no owner"),
        ("void f(double **x)", 1, 16, "pointer to pointers"),
        ("void f(double *x[3])", 1, 16, "array of pointers"),
        ("void f(int (*callback)(int))", 1, 13, "pointers to functions"),
        ("void f(void x)", 1, 13, "cannot be void"),
        ("void f(mv_status x)", 1, 18, "cannot be mv_status"),
        ("void f(const mv_desc *x)", 1, 14, "need a Signature"),
        ("void f(int x) __attribute__((fastcall))", 1, 15, "attributes may change"),
        ("void f(int x[n + 1], int n)", 1, 12, "brackets hold the name"),
        ("void f(int x[010])", 1, 12, "is not a size"),
        ("void f(int x[3)", 1, 15, "unexpected ')'"),
        ("void f(int x", 1, 13, "')' is missing"),
        ("void f(int x y)", 1, 14, "unexpected 'y'"),
        ("int x;", 1, 1, "expected '('"),
        ("void f(int x) { return; }", 1, 1, "unexpected '{'"),
        ("inline int f(int x)", 1, 1, "unexpected 'inline'"),
        ("int f(int é)", 1, 11, "not valid"),
        ("typedef struct a b;", 1, 1, "must name a number: structs cannot"),
        ("int f(int x); double f(int x);", 1, 15, "declared twice"),
        ("void f(double _Complex z)", 1, 15, "complex numbers"),
        ("double f(double __complex__, double b)", 1, 17, "__complex__ is a name of the compiler"),
        ("int f(unsigned __int128, int b)", 1, 16, "__int128 is a name of the compiler"),
        ("typedef struct { double a, b; } float64; double take(float64 v, double w);", 1, 1, "structs cannot"),
        ("typedef double *vector; void f(const vector x);", 1, 1, "write the array or pointer out"),
        ("typedef int size; typedef long size; void f(size n);", 1, 19, "declared twice"),
        ("void f(_Atomic int x)", 1, 8, "_Atomic is a name"),
        ("int f(a, b);", 1, 7, "a is not known as a type"),
        ("int f(int x) <% %>", 1, 14, "not valid"),
        ("void f(int x), g(int y)", 1, 1, "one function"),
    ],
)
def test_what_is_refused_and_where(text, line, column, why):
    with pytest.raises(DeclarationError, match=re.escape(why)) as caught:
        read_header(text)
    assert isinstance(caught.value, ValueError)
    if "declared twice" not in why:
        assert (caught.value.line, caught.value.column) == (line, column)


@pytest.mark.parametrize("text", ["void f(int x,)", "f(int x);", "int f(const x);", "static f(void);"])
def test_what_is_refused_wherever_the_parser_notices(text):
    with pytest.raises(DeclarationError):
        read_header(text)


def test_one_declaration_is_one():
    for text in ("", ";;", "int f(int); int g(int);"):
        with pytest.raises(DeclarationError, match="expected one declaration"):
            read_declaration(text)


HEADER = r"""
/* A header, as they are. */
#ifndef STATS_H
#define STATS_H
#include <stddef.h>
#define LONG_MACRO(x) \
    struct nothing { int x; }
#ifdef __cplusplus
extern "C" {
#endif
typedef double real;            // the number that we use
typedef struct { int a; } pair;
enum { ONE = 1 };
static const int table[2] = {1, 2};
static inline int twice(int x) { return x + x; }
real mean(size_t n, const real *x);
void swap(pair *p);
int print(const char *format, ...);
int scaled(int n,
           double *x) ;
#ifdef __cplusplus
}
#endif
#endif
"""


def test_header_with_functions_that_cannot_be_used():
    header = read_header(HEADER, tolerant=True)
    assert {name: str(found) for name, found in header.functions.items()} == {
        "mean": "float64 mean(uint64 n, const float64 *x)",
        "scaled": "int32 scaled(int32 n, float64 *x)",
    }
    assert sorted(header.refused) == ["print", "swap"]
    assert "pair is not known" in header.refused["swap"]
    assert header.refused["swap"].startswith("line 17, column ")
    with pytest.raises(DeclarationError):
        read_header(HEADER)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        # A type that the text declares has that meaning, also if its name is a built-in one.
        ("typedef int bool; int total(size_t n, const bool *x);", {"total": "int32 total(uint64 n, const int32 *x)"}),
        ("typedef float float64; void f(float64 x);", {"f": "void f(float32 x)"}),
        ("#define double float\ndouble f(double x);", {"f": "float32 f(float32 x)"}),
        ("#define size_t unsigned short\nint f(size_t n);", {"f": "int32 f(uint16 n)"}),
        ("#define API extern\nAPI int f(int x);", {"f": "int32 f(int32 x)"}),
        ("int f(int x); // a comment \\\nint g(int x);\nint h(int x);", {"f": ..., "h": ...}),
        ("int f(int x); /\\\n* int g(int x); */ int h(int x);", {"f": ..., "h": ...}),
        ("#ifdef WIDE\nint f(long x);\n#else\nint f(int x);\n#endif", {"f": "int32 f(int32 x)"}),
        ("#if 2 > 1\nint f(int x);\n#endif", {"f": ...}),
        ("#include <stdint.h>\n#include <math.h>\nint16_t f(uint_least8_t x);", {"f": "int16 f(uint8 x)"}),
        ("#include <stdbool.h>\nint f(size_t n, const bool *x);", {"f": "int32 f(uint64 n, const bool *x)"}),
        ('#define API __attribute__((visibility("default")))\nAPI int f(int x);', {"f": ...}),
    ],
)
def test_text_is_read_as_a_compiler_reads_it(text, meant):
    read = read_header(text, tolerant=True).functions
    assert {name: str(found) for name, found in read.items()} == {
        name: str(read[name]) if found is ... else found for name, found in meant.items()
    }


@pytest.mark.parametrize(
    ("text", "name", "why"),
    [
        ("typedef struct { double a, b; } float64; double take(float64 v, double w);", "take", "structs"),
        ("typedef __attribute__((vector_size(16))) double float64; void f(float64 x);", "f", "attributes may"),
        ("typedef unsigned __int128 size_t; void f(size_t n);", "f", "__int128"),
        ("void f(size_t n); typedef unsigned short size_t;", "f", "another meaning"),
        ("int f(int x); int f(int x) __attribute__((ms_abi));", "f", "attributes may"),
        ('int f(int x); int f(int x) __asm__("g");', "f", "assembler name"),
        ("#pragma redefine_extname f g\nint f(int x);", "f", "#pragma"),
        ("enum { n = 3 }; void f(const double x[n], size_t n);", "f", "declared as a constant"),
        ("static int f(int x); int f(int x);", "f", "static"),
        ("int f(double __complex__, double b);", "f", "__complex__"),
        ("#define D double _Complex\nvoid f(D z);", "f", "complex"),
    ],
)
def test_what_cannot_be_read_makes_its_names_unknown(text, name, why):
    header = read_header(text, tolerant=True)
    assert name not in header.functions
    assert why in header.refused[name]


@pytest.mark.parametrize("text", ["#if X", "#ifndef X\nint f(int);", "#error no", '#include "there is no such file.h"'])
def test_a_refusal_of_the_preprocessor_has_its_line(text):
    with pytest.raises(DeclarationError, match="refuses the text") as caught:
        read_header(text, tolerant=True)
    assert caught.value.line


@pytest.mark.parametrize(
    "text",
    ["#define double float\nint f(int x);", "int f(int x); // comment \\\nint g(int);", "??=define a b\nint f(int);"],
)
@pytest.mark.parametrize("compiler", ["", "no-such-compiler -m32"])
def test_without_a_compiler_directives_are_refused(text, compiler, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CC", compiler)
    with pytest.raises(DeclarationError, match="needs a C compiler"):
        read_header(text)
    assert list(read_header("/* # \\ */ int f(int x); // '#'").functions) == ["f"]


def test_an_included_header_gives_types_but_no_functions(tmp_path):
    (tmp_path / "types.h").write_text("typedef float real;\nreal other(real x);\nenum { n = 4 };\n")
    text = '#include "types.h"\nreal f(size_t m, const real *x);\nvoid g(const real x[n], int n);'
    header = read_header(text, tolerant=True, directory=str(tmp_path))
    assert {name: str(found) for name, found in header.functions.items()} == {
        "f": "float32 f(uint64 m, const float32 *x)"
    }
    assert "line 3" in header.refused["g"]


PIECES = st.sampled_from(
    [
        "void",
        "int",
        "double",
        "const",
        "*",
        "(",
        ")",
        "[",
        "]",
        ",",
        ";",
        "x",
        "n",
        "size_t",
        "...",
        "{",
        "}",
        "3",
        "/*",
        "*/",
        "//",
        "\n",
        "#",
        "#endif",
        "#ifdef __cplusplus",
        "typedef",
        "struct",
        " ",
        "extern",
        '"C"',
        "=",
        "\\",
        "unsigned",
        "long",
        "f",
        "0x",
        "é",
        "\0",
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.lists(PIECES, max_size=40).map(" ".join), st.text(max_size=60)), st.booleans())
def test_no_text_upsets_the_reader(text, tolerant):
    try:
        header = read_header(text, tolerant=tolerant)
    except DeclarationError:
        return
    for found in header.functions.values():
        assert read_declaration(str(found)) == found
    assert tolerant or not header.refused


NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True).filter(
    lambda name: name not in KEYWORDS | NAMED.keys() | UNSUPPORTED.keys() and not name.startswith("__")
)
TYPES = st.sampled_from(sorted({**SPECIFIED, **NAMED}.keys() - {"void", "mv_status"}))


@st.composite
def declared(draw):
    """A declaration and what it means, made side by side."""
    dtypes = {**SPECIFIED, **NAMED}
    names = draw(st.lists(NAMES, max_size=6, unique=True))
    arguments, texts = [], []
    for name in names:
        type_, how = draw(TYPES), draw(st.sampled_from(["value", "const", "pointer", "array"]))
        words = draw(st.permutations([*type_.split(), *(["const"] if how == "const" else [])]))
        earlier = names[: len(arguments)]
        extents = st.integers(0, 9) | (st.sampled_from(earlier) if earlier else st.nothing())
        extent = draw(extents) if how == "array" else None
        star, brackets = "*" if how in ("const", "pointer") else "", "" if extent is None else f"[{extent}]"
        texts.append(f"{' '.join(words)} {star}{name}{brackets}")
        arguments.append(
            Argument(name, dtypes[type_], how != "value", how == "const", () if extent is None else (extent,))
        )
    result, name = draw(st.sampled_from(["void", "double", "mv_status", "int"])), draw(NAMES)
    text = f"{result} {name}({draw(st.sampled_from([' ', '', '/* c */']))}{', '.join(texts)})"
    return text, Declaration(
        name, {"void": "void", "mv_status": "status"}.get(result) or dtypes[result], tuple(arguments)
    )


@settings(max_examples=200, deadline=None)
@given(declared())
def test_declarations_mean_what_they_say(pair):
    text, meant = pair
    assert read_declaration(text) == meant
    assert read_declaration(str(meant)) == meant
