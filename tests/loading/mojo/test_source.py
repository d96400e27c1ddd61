"""Reading Mojo source: exports, imports, aliases, and what the content key depends on."""

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mojoview.loading.mojo.source import content, outline


def exports(text):
    return [(e.symbol, e.function, e.line, e.nested, e.abi_c, e.arguments, e.result) for e in outline(text).exports]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('@export\ndef f(x: Int) abi("C") -> Int:', [("f", "f", 1, False, True, {"x": "Int"}, "Int")]),
        ('@export("a")\ndef f() abi("C"):', [("a", "f", 1, False, True, {}, "")]),
        ("@export('a')\r\ndef f() abi('C'):\r\n", [("a", "f", 1, False, True, {}, "")]),
        ('\n@export("a"\n  "b")\n@no_inline\ndef f() abi("C"):', [("ab", "f", 2, False, True, {}, "")]),
        ('@export("""a""")\ndef f():', [("a", "f", 1, False, False, {}, "")]),
        (r'@export("a\x62\"c")' "\ndef f():", [('ab"c', "f", 1, False, False, {}, "")]),
        (r'@export(r"a\b")' "\ndef f():", [(r"a\b", "f", 1, False, False, {}, "")]),
        ('@export("a")\ndef `f g`(`x y`: Int):', [("a", "f g", 1, False, False, {"x y": "Int"}, "")]),
        (
            '@export("a")\ndef f(mut x: Int, *, y: D[A, 2] = g(1, 2), z: Int = 3) raises abi("C") -> m.T[1]:',
            [("a", "f", 1, False, True, {"x": "Int", "y": "D[A,2]", "z": "Int"}, "m.T[1]")],
        ),
        (
            '@export("a")\ndef f(g: def(Float64) abi("C") thin -> Int) -> Int:',
            [("a", "f", 1, False, False, {"g": 'def(Float64)abi("C")thin->Int'}, "Int")],
        ),
        ('struct S:\n    @export("a")\n    def f():', [("a", "f", 2, True, False, {}, "")]),
        ('@export("a")\ndef f() abi("Rust"):', [("a", "f", 1, False, False, {}, "")]),
        ("@export(NAME)\ndef f():", []),
        (r'@export("\q")' "\ndef f():", []),
        ('"""\n@export("a")\ndef f():\n"""', []),
        ('# @export("a")\ndef f():', []),
        ("comptime T = '@export(\"a\")'\ndef f():", []),
        ('x @export("a")\ndef f():', []),
        ('@exported("a")\ndef f():', []),
        ('@export("a")\nstruct f:\n    pass', []),
        ('@export("a")', []),
        ("@export(", []),
        ('@export("a")\ndef', []),
        ('@export("a")\ndef f(', [("a", "f", 1, False, False, {}, "")]),
    ],
)
def test_exports_in_every_spelling(text, expected):
    assert exports(text) == expected


def test_imports_and_aliases():
    found = outline(
        textwrap.dedent("""
        from a.b import c, d as e
        from m import (
            f,  # why
            g as h
        )
        import n, p.q, r.s as t; import late
        from .near import u
        from . import v
        from w import *
        "import text"
        comptime One = c
        comptime Two[dt: DType] = a.X[dt]
        comptime Three = (c)
        comptime Four: Int = c + 1
        def inside():
            from deep import z
            comptime local = c
    """)
    )
    assert found.modules == ["a.b", "m", "n", "p.q", "r.s", "late", ".near", ".", ".v", "w", "deep"]
    assert found.names == {
        "c": "a.b.c",
        "e": "a.b.d",
        "f": "m.f",
        "h": "m.g",
        "n": "n",
        "p": "p",
        "t": "r.s",
        "late": "late",
        "u": ".near.u",
        "v": "..v",
        "z": "deep.z",
    }
    assert found.stars == ["w"]
    assert found.aliases == {"One": "c", "Two": "a.X", "Three": "(.?", "Four": "c.?"}


SHARDS = [
    "@export",
    "@",
    "(",
    ")",
    "[",
    "]",
    '"',
    "'",
    '"""',
    "'''",
    "\\",
    "\n",
    "\r\n",
    "#",
    "def ",
    "struct",
    ":",
    "->",
    "abi",
    "C",
    "import ",
    "from ",
    " as ",
    ".",
    ",",
    "*",
    "`",
    "comptime ",
    "=",
    "é",
    "\0",
    "x",
    " ",
    "r",
]
LONGER = ['"\\', "'''\\", '@export("a")\ndef f(', "x: [", '"""a', "from x import (", "comptime a=b."]


@given(st.lists(st.one_of(st.sampled_from(SHARDS), st.text(max_size=3)), max_size=60).map("".join))
def test_no_text_upsets_the_reader(text):
    found = outline(text)
    assert all(isinstance(e.symbol, str) and e.line >= 1 for e in found.exports)


@pytest.mark.parametrize("shard", SHARDS + LONGER)
def test_long_hostile_text_is_read_in_linear_time(shard):
    outline(shard * 20_000)  # quadratic behaviour would meet the time limit of the suite


# ---- what a file's key depends on
def tree(root, **files):
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_mojo", ".mojo")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def hashed(root, *search):
    return content(root / "main.mojo", search)


def test_content_follows_imports(tmp_path):
    tree(
        tmp_path,
        main_mojo="from near import x\nimport pack.part\nfrom std.math import exp",
        near_mojo="import far",
        far_mojo="1",
        pack__init_mojo="from .part import y",
        pack__part_mojo="2",
        alone_mojo="3",
    )
    names = [name for name, _ in hashed(tmp_path)]
    assert names == ["far.mojo", "main.mojo", "near.mojo", "pack/init.mojo", "pack/part.mojo"]


@pytest.mark.parametrize("changed", ["main.mojo", "near.mojo", "far.mojo", "pack/part.mojo", "pack/unused.mojo"])
def test_content_changes_with_every_file_that_counts(tmp_path, changed):
    tree(
        tmp_path,
        main_mojo="from near import x, pack\nimport pack",
        near_mojo="import far",
        far_mojo="1",
        pack__part_mojo="2",
        pack__unused_mojo="3",
    )
    before = hashed(tmp_path)
    (tmp_path / changed).write_text((tmp_path / changed).read_text() + "\n# more")
    assert hashed(tmp_path) != before


def test_content_does_not_change_with_what_does_not_count(tmp_path):
    for place in ("one", "two"):
        tree(tmp_path / place, main_mojo="from near import x\n# import alone", near_mojo="1", alone_mojo=place)
    assert hashed(tmp_path / "one") == hashed(tmp_path / "two")


def test_content_of_search_directories_and_relative_imports(tmp_path):
    tree(
        tmp_path,
        src__main_mojo="import shared\nfrom .beside import x\nfrom ..above import y",
        src__beside_mojo="import main",
        lib__shared_mojo="import main",
        above_mojo="1",
        shared_mojo="not found",
    )
    names = [name for name, _ in content(tmp_path / "src/main.mojo", [tmp_path / "lib"])]
    assert names == ["../above.mojo", "beside.mojo", "main.mojo", "shared.mojo"]
    with_copy = [name for name, _ in content(tmp_path / "src/main.mojo", [tmp_path / "lib", tmp_path])]
    assert with_copy.count("shared.mojo") == 2  # whichever the compiler takes
