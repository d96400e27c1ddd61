"""From the output of the compiler to signatures; uncertain exports are refused with the reason."""

import inspect
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mojoview.loading.mojo.diagnostics import Diagnostic, parse, render
from mojoview.loading.mojo.examine import examine, literal, machine_types, parametric
from mojoview.loading.mojo.source import outline
from mojoview.memory.errors import KernelAttributeError, KernelCompileError

REQUIRED = inspect.Parameter.empty


def argument(name, type_, **more):
    return {"name": name, "type": type_, "convention": "imm", **more}


def doc(args, returns="None", **more):
    overload = {"args": args, "parameters": [], "raises": False, "async": False, "returns": {"type": returns}, **more}
    return {"decl": {"name": "m", "aliases": [], "structs": [], "functions": [{"name": "f", "overloads": [overload]}]}}


def one(source, described, llvm):
    """The signature of f, or why it has none."""
    found = examine({"f"}, outline(source), json.dumps(described), f"define dso_local {llvm} #0 {{\n")
    return found.kernels.get("f") or found.refused["f"]


def test_machine_types():
    text = """
define internal void @hidden(ptr noundef %0) #0 {
define dso_local i64 @a(ptr noalias nonnull noundef %0, i1 noundef %1, half noundef %2) #0 {
define dso_local { i64, i64 } @"b c"(<4 x double> noundef %0, ptr byval({ ptr, i64 }) %1) #0 {
define void @d.e$f() {
declare void @elsewhere(ptr)
"""
    assert machine_types(text) == {
        "a": ("i64", ("ptr", "i1", "half")),
        "b c": ("{ i64, i64 }", ("<4 x double>", "ptr byval({ ptr, i64 })")),
        "d.e$f": ("void", ()),
    }


def test_parametric_types():
    assert parametric("Int") == ("Int", [], {})
    assert parametric("In[.float64, Int(2), masked=True]") == ("In", [".float64", "Int(2)"], {"masked": "True"})
    assert parametric("Optional[Pointer[Scalar[DType.bool], O]]")[1] == ["Pointer[Scalar[DType.bool], O]"]


@pytest.mark.parametrize(
    ("text", "dtype", "value"),
    [
        ("2", "int64", 2),
        ("Int(-3)", "int64", -3),
        ("3", "float64", 3.0),
        ("Float64(1.5)", "float64", 1.5),
        ("True", "bool", True),
        ("", "int64", REQUIRED),
        ("x", "int64", REQUIRED),
        ("f(1) + 2", "int64", REQUIRED),
        ('"a"', "int64", REQUIRED),
        ("None", "float64", REQUIRED),
    ],
)
def test_defaults(text, dtype, value):
    found = literal(text, dtype)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"llvm": "double @f(i64 noundef %0)"}, "compiled as"),
        ({"llvm": "float @f(double noundef %0)"}, "compiled as"),
        ({"llvm": "double @f(double signext %0)"}, "compiled as"),
        ({"llvm": "double @g(double noundef %0)"}, "compiled as None"),
        ({"args": [argument("x", "String", convention="mut")]}, "passed as 'mut'"),
        ({"args": [argument("*x", "Float64")]}, "variadic"),
        ({"args": [argument("lambda", "Float64")]}, "not a valid name in Python"),
        ({"args": [argument("x", "Something[1]")]}, "no C equivalent"),
        ({"raises": True}, "raising"),
        ({"async": True}, "async"),
        ({"parameters": [1]}, "parametric"),
        ({"returns": "Bool"}, "only bit 0"),
        ({"source": "@export\ndef f(x: Float64) -> Float64:"}, 'no abi("C")'),
        ({"source": 'struct S:\n  @export("f")\n  def f(x: Float64) abi("C") -> Float64:'}, "inside a struct"),
        ({"source": "def g():"}, "no @export in this file"),
        ({"source": 'from lib import Float64\n@export\ndef f(x: Float64) abi("C") -> Float64:'}, "lib.Float64"),
        (
            {
                "source": 'from lib import Float64\n@export\ndef f(x: Float64) abi("C"):',
                "returns": "None",
                "llvm": "void @f(double noundef %0)",
            },
            "argument x: Float64 is not Mojo's own type but lib.Float64",
        ),
        ({"source": 'from lib import *\n@export\ndef f(x: Float64) abi("C") -> Float64:'}, "lib.Float64"),
        ({"source": '@export\ndef f(x: Float64) abi("C") -> lib.Float64:'}, "lib.Float64"),
    ],
)
def test_disagreement_is_a_refusal(change, reason):
    base = {
        "source": '@export\ndef f(x: Float64) abi("C") -> Float64:',
        "args": [argument("x", "Float64")],
        "returns": "Float64",
        "llvm": "double @f(double noundef %0)",
    }
    source, args, returns, llvm = (change.pop(k, v) for k, v in base.items())
    assert one(base["source"], doc(base["args"], base["returns"]), base["llvm"]).result == "float64"
    assert reason in one(source, doc(args, returns, **change), llvm)


@pytest.mark.parametrize(
    ("imports", "written", "right"),
    [
        ("from mojoview import In", "In[T]", True),
        ("from mojoview import In as R", "R[T]", True),
        ("from mojoview import *", "In[T]", True),
        ("from mojoview.arrays import In", "In[T]", True),
        ("import mojoview", "mojoview.In[T]", True),
        ("import mojoview as mv", "mv.In[T]", True),
        ("from mojoview import In\ncomptime R = In[T]", "R", True),
        ("from mojoview import In\ncomptime R[t: DType] = In[t]\ncomptime S = R[T]", "S", True),
        ("from lib import In", "In[T]", False),
        ("from mojoview import In\nfrom lib import In as R", "R[T]", False),
        ("from mojoview import In\nimport lib", "lib.In[T]", False),
        ("from mojoview import *\nfrom lib import *", "In[T]", False),
        ("from lib import R", "R", False),
        ("from mojoview import In\nfrom lib import R\ncomptime S = R", "S", False),
        ("from mojoview import In\ncomptime S = choose(In)", "S", False),
        ("comptime S = S", "S", False),
        ("", "In[T]", False),
    ],
)
def test_typed_arguments_are_known_by_their_import(imports, written, right):
    source = f'{imports}\n@export\ndef f(x: {written}) abi("C"):'
    found = one(source, doc([argument("x", "In[.float32]", path="/mojoview/arrays/In")]), "void @f(ptr noundef %0)")
    assert (found.params[0].dtype == "float32") if right else "is not mojoview's" in found


@pytest.mark.parametrize("text", ["", "[]", "{", "null", '{"decl": 1}', '{"decl": {}}', "[" * 100_000])
def test_another_answer_of_mojo_doc(text):
    with pytest.raises(KernelCompileError, match="cannot read the output of `mojo doc`"):
        examine(set(), outline(""), text, "")


KEYS = st.sampled_from(["name", "type", "args", "overloads", "parameters", "returns", "convention", "x"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner),
)


@given(JSON, st.sampled_from(["functions", "aliases", "structs", "name"]))
def test_no_answer_of_mojo_doc_upsets_the_reader(value, where):
    described = doc([argument("x", "Int")])
    described["decl"][where] = value
    try:
        examine({"f"}, outline('@export\ndef f(x: Int) abi("C"):'), json.dumps(described), "define void @f(i64 %0) {\n")
    except KernelCompileError as error:
        assert "mojo doc" in str(error)  # noqa: PT017  either outcome is right, no other is


# ---- diagnostics
def remark(line, column, text="abc", kind="error"):
    return json.dumps(
        {
            "kind": kind,
            "message": "m",
            "diagnostic": {"file": "f.mojo", "text": text, "location": {"line": line, "column": column}},
        }
    )


def test_diagnostics_among_other_lines():
    said = "\n".join(
        [
            "Failed to initialize Crashpad",
            remark(1, 0),
            "{not json",
            '{"kind": 1}',
            "[1]",
            '{"kind": "note", "message": "n"}',
            '{"kind": "error", "message": "m", "diagnostic": {"file": 1}}',
        ]
    )
    assert parse(said) == [Diagnostic("error", "m", "f.mojo", 1, 1, "abc"), Diagnostic("note", "n")]


@pytest.mark.parametrize(
    ("text", "column", "expected"),
    [
        ("abc", 0, 1),
        ("abc", 3, 4),
        ("é = x", 3, 3),
        ("日本 x", 7, 4),
        ("ab", 99, 3),
    ],
)
def test_columns_count_characters_from_one(text, column, expected):
    assert parse(remark(7, column, text))[0].column == expected


def test_errors_are_shown_with_their_notes_and_a_caret():
    remarks = [
        Diagnostic("warning", "w", "f", 1, 1, "x"),
        Diagnostic("note", "of the warning", "f", 1, 1, "x"),
        Diagnostic("error", "e", "f", 2, 3, "\t\tx"),
        Diagnostic("note", "of the error"),
    ]
    assert render(remarks) == "f:2:3: error: e\n\t\tx\n\t\t^\nnote: of the error"
    assert render(remarks[:1]) == "f:1:1: warning: w\nx\n^"


# ---- the compiler itself
@pytest.mark.mojo
def test_signatures_of_every_kind(compiled):
    kernels = compiled("exports").kernels
    assert {name: str(k.signature) for name, k in kernels.items()} == {
        "aliased": "aliased(x: In[float64], y: InOut[bool, 2], z: Out[float64, 3]) -> Status",
        "crossed_a": "crossed_a(x: Int32) -> Int32",
        "crossed_b": "crossed_b(x: Float32) -> Float32",
        "default_first": "default_first(k: Int = 1, x: Float32) -> Int",
        "holds_nested": "holds_nested(x: Int) -> Int",
        "keyword_only": "keyword_only(x: Float64, scale: Float64 = 2.5, times: UInt16 = 3) -> Float64",
        "own_alias": "own_alias(x: In[float64], y: In[int8, 2], k: Int = 1, z: Int = 2) -> Status",
        "plain": "plain(x: Int) -> Int",
        "renamed": "renamed(x: Int) -> Int",
        "spread_out": "spread_out(n: Int, x: Pointer[Float64, ImmutAnyOrigin],"
        " y: Optional[Pointer[UInt16, MutAnyOrigin]]) -> Int32",
        "with masks": "with masks(x: In[float64, masked=True], y: Out[float64]) -> Status",
    }
    params = {name: [(p.role, p.dtype, p.ndim, p.passing) for p in k.signature.params] for name, k in kernels.items()}
    assert params["aliased"] == [
        ("in", "float64", 1, "descriptor"),
        ("inout", "bool", 2, "descriptor"),
        ("out", "float64", 3, "descriptor"),
    ]
    assert params["spread_out"] == [
        ("value", "int64", None, "value"),
        ("in", "float64", None, "pointer"),
        ("inout", "uint16", None, "pointer"),
    ]
    defaults = {name: [p.default for p in k.signature.params] for name, k in kernels.items()}
    assert defaults["own_alias"] == [REQUIRED, REQUIRED, 1, 2]
    assert defaults["default_first"] == [REQUIRED, REQUIRED]
    assert {n: k.signature.result for n, k in kernels.items()} == {
        "aliased": "status_index",
        "own_alias": "status_index",
        "with masks": "status_index",
        "crossed_a": "int32",
        "crossed_b": "float32",
        "default_first": "int64",
        "holds_nested": "int64",
        "keyword_only": "float64",
        "plain": "int64",
        "renamed": "int64",
        "spread_out": "int32",
    }
    assert {n for n, k in kernels.items() if k.signature.masks} == {"with masks"}
    assert kernels["plain"].signature.doc == "Twice x.\n\nAnd a second paragraph."


@pytest.mark.mojo
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("_hidden_name", "leading underscore"),
        ("hidden", "@doc_hidden"),
        ("method", "inside a struct"),
        ("nested", "or a function"),
        ("no_abi", 'no abi("C")'),
        ("not_here", "imported module"),
        ("overloaded_i", "overloaded"),
        ("overloaded_f", "overloaded"),
        ("mixed_masks", "masked=True is set for x but not for y"),
        ("returns_bool", "only bit 0"),
        ("returns_pair", "Tuple[Int, Int]"),
        ("returns_pointer", "no C equivalent"),
        ("returns_lookalike", "lookalikes.UInt8"),
        ("returns_wide", "Wide"),
        ("takes_bfloat", "bfloat16"),
        ("takes_foreign_in", "lookalikes.In"),
        ("takes_lookalike", "lookalikes.UInt16"),
        ("takes_function", "def(Float64)"),
        ("takes_half", "Float16"),
        ("takes_many", "variadic"),
        ("takes_mut", "'mut'"),
        ("takes_pointer_to_pointer", "only pointers to numbers"),
        ("takes_string", "String"),
        ("takes_vector", "SIMD[.float32, 4]"),
    ],
)
def test_exports_that_are_no_kernels_say_why(compiled, name, reason):
    module = compiled("exports")
    assert name not in module
    assert not hasattr(module, name)
    with pytest.raises(KernelAttributeError) as caught:
        getattr(module, name)
    assert f"the export {name} is not a kernel: " in str(caught.value)
    assert reason in str(caught.value)
    assert reason in module.refused[name]


@pytest.mark.mojo
def test_every_export_is_accounted_for(compiled):
    module = compiled("exports")
    text = {e.symbol for e in outline(module.path.read_text()).exports}
    assert {*module.kernels, *module.refused} == text | {"not_here"}
    assert len(module.refused) == 24
    assert not any(name.startswith("in_") for name in text)


@pytest.mark.mojo
def test_exports_with_crossed_names_have_their_own_types(compiled):
    module = compiled("exports")
    assert (module.crossed_a(-7), module.crossed_b(0.5), module.renamed(1), module.plain(21)) == (-7, 0.5, 3, 42)
    assert module.keyword_only(1.0) == 7.5
    assert module.keyword_only(1.0, times=2, scale=4) == 8


@pytest.mark.mojo
def test_own_struct_on_the_first_line(compiled):
    module = compiled("own_struct")
    assert "own_total" in module
    assert set(module.refused) == {"own_status", "wrong_layout", "wrong_parameters"}
    assert all("write: from mojoview import" in reason for reason in module.refused.values())
    x = np.arange(20.0)
    assert module.own_total(x[::-3]) == x[::-3].sum()
