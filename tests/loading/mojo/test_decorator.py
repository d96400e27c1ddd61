"""`mojoview.native`: typed Python functions bound to exports, with a fake compiler."""

import copy
import doctest
import importlib
import inspect
import pickle
import sys
import types
from typing import Annotated, Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import mojoview as mv
from mojoview import kernels
from mojoview.calls._kernel import handled_kernel
from mojoview.calls._overloads import KernelFamily
from mojoview.loading.mojo.decorator import BoundKernel, disagreements
from mojoview.memory import errors

F8 = NDArray[np.float64]
SIGNATURE = mv.Signature(
    "mix",
    (
        mv.Param("n", "value", "int32", passing="value", ndim=None),
        mv.Param("x", "in", "float64"),
        mv.Param("y", "out", "float32", ndim=2),
        mv.Param("a", "value", "float64", passing="value", ndim=None, default=2.0),
    ),
)
MIX = handled_kernel(SIGNATURE, lambda n, x, y, a, threads: None)


@mv.native(kernels.dot)
def dot(x: F8, y: F8) -> float:
    """The sum of products."""
    return float((x * y).sum())


def test_a_bound_kernel():
    x = np.arange(4.0)
    assert dot(x, x) == dot(x, y=x) == dot.reference(x, x) == dot(x, x, threads=1) == 14
    assert isinstance(dot, BoundKernel)
    assert (dot.kernel, dot.signature, dot.address) == (kernels.dot, kernels.dot.signature, kernels.dot.address)
    assert (dot.__name__, dot.__doc__, dot.__module__) == ("dot", "The sum of products.", __name__)
    assert inspect.signature(dot) == inspect.signature(dot.reference)
    assert repr(dot).startswith("<mojoview kernel dot(x: ")
    with pytest.raises(AttributeError):
        _ = dot.no_such_attribute
    with pytest.raises(errors.DTypeError):
        dot(x, x.astype("f4"))


def test_its_body_is_the_reference_of_its_canary():
    canary = dot.canary(sample=1, on_mismatch="raise")
    assert canary(np.ones(3), np.ones(3)) == 3
    assert (canary.checked, canary.reference) == (1, dot.reference)
    with pytest.raises(errors.CanaryError):
        dot.canary(lambda x, y: 5.0, sample=1, on_mismatch="raise")(np.ones(3), np.ones(3))


def test_in_a_class_it_takes_no_self():
    class Signal:
        energy = dot

        @mv.native(kernels.sum)
        def total(x: F8) -> float:
            return x.sum()

    assert Signal().energy(np.ones(2), np.ones(2)) == 2
    assert Signal().total(np.ones(2)) == 2
    assert Signal.total.__qualname__.endswith("Signal.total")


def test_copies_are_the_same_and_pickles_go_by_name(monkeypatch):
    assert copy.copy(dot) is dot
    assert copy.deepcopy([dot])[0] is dot
    monkeypatch.setitem(sys.modules, __name__, sys.modules.get(__name__) or inspect.getmodule(test_a_bound_kernel))
    if sys.modules[__name__] is not None:
        assert pickle.loads(pickle.dumps(dot)) is dot


# ---- where the export is
@pytest.fixture
def package(fake, monkeypatch):
    """A package with kern.py beside kern.mojo, importable."""
    directory = fake.root / "site"
    (directory / "decorated").mkdir(parents=True)
    (directory / "decorated" / "__init__.py").touch()
    (directory / "decorated" / "kern.mojo").write_text(fake.text)
    monkeypatch.syspath_prepend(str(directory))

    def build(body):
        (directory / "decorated" / "kern.py").write_text(f"import mojoview as mv\n{body}\n")
        importlib.invalidate_caches()
        return importlib.import_module("decorated.kern")

    yield build
    for name in ("decorated.kern", "decorated"):
        sys.modules.pop(name, None)


STUB = "def {}(a: float, b: float) -> float:\n    return a + b"


@pytest.mark.parametrize(
    "body",
    [
        "@mv.native\n" + STUB.format("add"),
        "@mv.native()\n" + STUB.format("add"),
        "@mv.native('kern.mojo')\n" + STUB.format("add"),
        "from pathlib import Path\n@mv.native(Path(__file__).with_name('kern.mojo'))\n" + STUB.format("add"),
        "@mv.native('kern.mojo', name='add')\n" + STUB.format("plus") + "\nadd = plus",
        "@mv.native(mv.load(__file__[:-2] + 'mojo'))\n" + STUB.format("add"),
        "@mv.native(source=__import__('pathlib').Path(__file__).with_suffix('.mojo').read_text())\n"
        + STUB.format("add"),
    ],
    ids=["beside", "called", "path", "absolute", "name", "module", "source"],
)
def test_where_the_export_is(package, body):
    module = package(body)
    assert module.add(1, 2) == module.add.reference(1, 2) == 3
    assert isinstance(module.add, BoundKernel)


def test_a_module_of_the_import_hook(package, fake):
    (fake.root / "site" / "decorated" / "native.mojo").write_text(fake.text)
    with mv.enable_hook():
        module = package("from decorated import native\n@mv.native(native)\n" + STUB.format("add"))
    assert module.add.kernel is module.native.add
    del sys.modules["decorated.native"]


async def coroutine(x): ...


def generator(x):
    yield x


def badly_annotated(x: "no ( annotation", y) -> None: ...  # noqa: F722


def with_an_array(a: float, x: np.ndarray, y: np.ndarray = np.ones(2)) -> None: ...  # noqa: B008


@pytest.mark.parametrize(
    ("decorate", "words"),
    [
        (lambda: mv.native("a.mojo", source="x"), "either where or source"),
        (lambda: mv.native("a.mojo", name=5), "name: expected a str"),
        (lambda: mv.native(5)(test_a_bound_kernel), "where: expected a path"),
        (lambda: mv.native(5), "where: expected a path"),
        (lambda: mv.native(staticmethod(test_a_bound_kernel)), "where: expected a path, .* got staticmethod"),
        (lambda: mv.native(type), "where: expected a path"),
        (lambda: mv.native(kernels.dot)(5), "expected a Python function, got int"),
        (
            lambda: mv.native(kernels.dot)(staticmethod(test_a_bound_kernel)),
            "expected a Python function, got staticmethod",
        ),
        (lambda: mv.native(kernels.dot)(coroutine), "expected a plain function"),
        (lambda: mv.native(kernels.dot)(generator), "expected a plain function"),
        (lambda: mv.native(kernels.dot)(badly_annotated), "an annotation of badly_annotated cannot be read"),
        (lambda: mv.native(kernels.axpy)(with_an_array), "y: its default is"),
        (lambda: mv.native("nowhere.mojo")(test_a_bound_kernel), "cannot read"),
        (lambda: mv.native(eval("lambda: 0", {"__name__": "no module"})), "is not in a file"),
    ],
)
def test_bad_decorations(fake, decorate, words):
    with pytest.raises(errors.ArgumentError, match=words):
        decorate()


def test_an_export_that_is_none(fake):
    with pytest.raises(errors.KernelAttributeError, match="has no kernel 'plus'"):
        mv.native(mv.load(fake.source), name="plus")(test_a_bound_kernel)


# ---- families
def scale(x: NDArray[np.floating], a: float) -> None:
    """Multiplies x by a."""
    x *= a


def scale_f64(x: F8, a: float) -> None:
    x *= a


def scale_wrongly(x: NDArray[np.int32], a: float) -> None:
    x *= a


def scaling(off=0):
    """scale_f32 and scale_f64 as one."""

    def of(bits):
        def handler(x, a, threads):
            x *= a
            x += off

        return handled_kernel(
            mv.Signature(
                f"scale_f{bits}",
                (
                    mv.Param("x", "inout", f"float{bits}"),
                    mv.Param("a", "value", f"float{bits}", passing="value", ndim=None),
                ),
            ),
            handler,
        )

    return KernelFamily("scale", (of(32), of(64)))


def test_a_family_is_bound_whole():
    family = scaling()
    for stub in (scale, scale_f64):
        bound = mv.native(family)(stub)
        assert (bound.kernel, bound.reference, bound.signature.name) == (family, stub, "scale")
        for dtype in ("f4", "f8"):
            x = np.ones(3, dtype)
            assert bound(x, 2.0) is None
            assert (x == 2).all()
    with pytest.raises(errors.ArgumentError, match=r"do not agree: x: annotated int32, the export has float32"):
        mv.native(family)(scale_wrongly)


def test_one_kernel_of_a_family_is_bound_by_its_own_name(monkeypatch):
    family = scaling()
    module = types.SimpleNamespace(__mojo__={"scale": family, **{k.name: k for k in family.kernels}})
    assert mv.native(module)(scale).kernel is family
    assert mv.native(module)(scale_f64).kernel is mv.native(module, name="scale_f64")(scale).kernel is family.kernels[1]
    with pytest.raises(errors.ArgumentError, match="annotated float64, the export has float32"):
        mv.native(module, name="scale_f32")(scale_f64)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_canary_of_a_family(dtype):
    right, wrong = (mv.native(scaling(off))(scale) for off in (0, 1))
    canary = right.canary(sample=1)
    x = np.arange(3, dtype=dtype)
    assert canary(x, 2.0) is canary(x, a=1.0) is None
    assert (x.tolist(), canary.checked, canary.mismatches) == ([0, 2, 4], 2, 0)
    assert right.canary(sample=0) is right.kernel
    with pytest.raises(errors.CanaryError, match=r"scale.*argument 'x'"):
        wrong.canary(sample=1, on_mismatch="raise")(x, 2.0)
    assert x.tolist() == [0, 2, 4]
    with pytest.raises(errors.DTypeError, match="no kernel for x: int64"):
        canary(np.arange(3), 2.0)


# ---- signatures that agree, and do not
def fits_1(n: int, x: F8, y: NDArray[np.float32], a: float = 2.0) -> None: ...
def fits_2(n: np.int32, x: np.ndarray, y: mv.View, a: np.float64 = 2.0) -> None: ...
def fits_3(n: Any, x: Any, y: Any, a: Any = 2.0) -> Any: ...
def fits_4(n: np.integer, x: pd.Series, y: Annotated[NDArray[np.floating], "out"], a: np.floating = 2.0) -> None: ...
def fits_5(
    n: Annotated[int, "rows"],
    x: Annotated[F8, "words", "in"],
    y: np.ndarray[tuple[int, int], np.dtype[np.float32]],
    a: float = 2.0,
) -> None: ...
def fits_6(n: "int", x: "F8", y: "np.ndarray", a: "float" = 2.0) -> "None": ...


@pytest.mark.parametrize("stub", [fits_1, fits_2, fits_3, fits_4, fits_5, fits_6], ids=lambda f: f.__name__)
def test_signatures_that_agree(stub):
    assert disagreements(stub, SIGNATURE) == []
    assert mv.native(MIX)(stub).kernel is MIX


def order(x: F8, n: int, y: F8, a: float = 2.0) -> None: ...
def fewer(n: int, x: F8) -> None: ...
def untyped(n, x: F8, y: np.ndarray, a: float = 2.0): ...
def scalars(n: float, x: np.ndarray, y: np.ndarray, a: int = 2.0) -> None: ...
def exact(n: np.int64, x: np.ndarray, y: np.ndarray, a: np.float32 = 2.0) -> None: ...
def dtypes(n: int, x: NDArray[np.float32], y: F8, a: float = 2.0) -> None: ...
def roles(n: int, x: Annotated[F8, "inout"], y: np.ndarray, a: float = 2.0) -> None: ...
def shapes(n: int, x: np.ndarray[tuple[int, int], np.dtype[np.float64]], y: np.ndarray, a: float = 2.0) -> None: ...
def kinds(n: F8, x: float, y: list, a: str = 2.0) -> None: ...
def defaults(n: int = 1, x: F8 = 2, y: Any = 3, a: float = 4) -> None: ...
def missing(n: int, x: F8, y: np.ndarray, a: float) -> None: ...
def result(n: int, x: F8, y: np.ndarray, a: float = 2.0) -> float: ...
def keyword(n: int, x: F8, y: np.ndarray, *, a: float = 2.0) -> None: ...


@pytest.mark.parametrize(
    ("stub", "words"),
    [
        (order, ["its parameters are x, n, y, a, those of the export n, x, y, a"]),
        (fewer, ["its parameters are n, x, those of the export n, x, y, a"]),
        (untyped, ["n: it has no annotation", "its result has no annotation"]),
        (scalars, ["n: annotated float, the export has a int32", "a: annotated int, the export has a float64"]),
        (exact, ["n: annotated int64, the export has a int32", "a: annotated float32, the export has a float64"]),
        (
            dtypes,
            [
                "x: annotated float32, the export has float64 in 1 dimension(s)",
                "y: annotated float64, the export has float32 in 2 dimension(s)",
            ],
        ),
        (roles, ["x: annotated 'inout', the export has 'in'"]),
        (shapes, ["x: annotated with 2 dimension(s), the export has float64 in 1 dimension(s)"]),
        (
            kinds,
            ["n: annotated ", "x: annotated float, the export has an array", "y: annotated list", "a: annotated str"],
        ),
        (
            defaults,
            [
                "n: its default is 1, that of the export missing",
                "x: its default is 2",
                "y: its default is 3",
                "a: its default is 4, that of the export 2.0",
            ],
        ),
        (missing, ["a: its default is missing, that of the export 2.0"]),
        (result, ["the export returns nothing"]),
        (keyword, ["a: expected a parameter that can be passed by position and by name"]),
    ],
    ids=lambda v: getattr(v, "__name__", ""),
)
def test_signatures_that_do_not_agree(stub, words):
    found = disagreements(stub, SIGNATURE)
    assert len(found) == len(words)
    assert all(text.startswith(word) for text, word in zip(found, words, strict=True)), found
    with pytest.raises(errors.ArgumentError, match="do not agree") as caught:
        mv.native(MIX)(stub)
    assert all(text in str(caught.value) for text in found)


@pytest.mark.parametrize(
    ("hint", "result", "agrees"),
    [
        (float, "float64", True),
        (float, "float32", True),
        (int, "uint8", True),
        (bool, "bool", True),
        (Any, "bool", True),
        (np.float32, "float32", True),
        (int, "float64", False),
        (None, "int32", False),
        (bool, "int8", False),
    ],
)
def test_results(hint, result, agrees):
    def stub(): ...

    stub.__annotations__["return"] = hint
    assert (not disagreements(stub, mv.Signature("stub", (), result=result))) is agrees


def test_annotations_that_cannot_be_read():
    def stub(x: "NoSuchName") -> None: ...  # noqa: F821

    with pytest.raises(errors.ArgumentError, match="an annotation of stub cannot be read"):
        mv.native(kernels.sum)(stub)


@pytest.mark.parametrize(
    "name", ["calls.compare", "safety.canary", "loading.mojo.decorator", "loading.mojo.hook", "loading.members"]
)
def test_examples_of_this_and_its_neighbours(name):
    failed, tried = doctest.testmod(importlib.import_module(f"mojoview.{name}"), extraglobs={"np": np})
    assert failed == 0
    assert tried > 1
