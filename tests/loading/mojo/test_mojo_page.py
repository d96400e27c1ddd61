"""The page about the Mojo library: it names everything public, and its examples compile and give correct results."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from support.mojo import SOURCES

from mojoview.loading.mojo.include_path import get_mojo_include
from mojoview.memory.errors import KernelCompileError, KernelError, ShapeError

ROOT = Path(__file__).parents[3]
LIBRARY = get_mojo_include() / "mojoview"
PAGE = (ROOT / "docs/mojo-library.md").read_text()
# what the page leaves to the compiler's own documentation: fields of the descriptor and how arrays are built from it
UNTOLD = {"Desc", "check_layout", "load_strided", "store_strided", "Writable", "desc", "data"}


def public(path):
    """Names of functions, structs, traits and methods that do not start with an underscore."""
    return set(re.findall(r"^ *(?:def|struct|trait) ([a-zA-Z]\w*)", path.read_text(), re.M))


def test_every_public_name_is_on_the_page():
    names = set().union(*(public(path) for path in LIBRARY.glob("*.mojo") if path.name != "__init__.mojo"))
    names |= set(
        re.findall(
            r"\b\w+\b",
            " ".join(re.findall(r"^from \.\w+ import (.+)", (LIBRARY / "math/__init__.mojo").read_text(), re.M)),
        )
    )
    prose = re.sub(r"^```.*?^```", "", PAGE, flags=re.M | re.S)
    told = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", prose))))
    assert len(names) > 60
    assert names - UNTOLD - told == set()
    assert names >= UNTOLD


def test_every_function_of_the_library_says_what_it_does():
    for path in {*LIBRARY.rglob("*.mojo")} - {*LIBRARY.rglob("__init__.mojo")}:
        text = path.read_text()
        # The text after the colon that ends the signature.
        for name, first in re.findall(r"^ *(?:def|struct|trait) ([a-zA-Z]\w*).*?:\n\s+(.*)", text, re.M):
            assert first.startswith('"""'), f"{path.name}: {name}"


def test_the_page_is_linked_and_shows_what_exists():
    assert "mojo-library" in (ROOT / "docs/index.md").read_text()
    example = (ROOT / "docs/examples/library.mojo").read_text()
    shown = re.findall(r'^:(?:start-after|end-before): "(.+)"', PAGE, re.M)
    assert len(shown) >= 9
    assert all(example.count(f"\n{mark}\n") == 1 for mark in shown)


@pytest.mark.mojo
def test_logistic_and_clip(examples, rng):
    x = rng.normal(0, 5, 103)
    y = np.empty_like(x)
    examples.logistic(x, y)
    np.testing.assert_allclose(y, 1 / (1 + np.exp(-x)), rtol=1e-15)
    z = x.astype("f4")
    examples.clip(-2.0, 3.0, z)
    np.testing.assert_array_equal(z, x.astype("f4").clip(-2, 3))
    with pytest.raises(ShapeError):
        examples.logistic(x, y[1:])


@pytest.mark.mojo
@pytest.mark.parametrize("order", ["C", "F"])
def test_standardize(examples, rng, order):
    x = np.array(rng.normal(50, 7, (200, 5)), order=order)
    x[3, 2] = np.nan
    want = (x - np.nanmean(x, axis=0)) / np.nanstd(x, axis=0, ddof=1)
    examples.standardize(x)
    np.testing.assert_allclose(x, want, rtol=1e-12, atol=1e-14)
    with pytest.raises(KernelError):
        examples.standardize(np.array([[1.0, np.nan], [2.0, np.nan]]))


@pytest.mark.mojo
def test_largest_gap_and_block_means(examples, rng):
    import pandas as pd

    gap = np.zeros(1)
    examples.largest_gap(pd.Series([4, None, -1, 2], dtype="Float64"), gap)
    assert gap[0] == 5
    with pytest.raises(KernelError):
        examples.largest_gap(pd.Series([None, None], dtype="Float64"), gap)
    x, means = rng.normal(size=23), np.zeros(5)
    examples.block_means(x, 5, means)
    np.testing.assert_allclose(means, [x[k : k + 5].mean() for k in range(0, 23, 5)], atol=1e-15)


@pytest.mark.mojo
def test_histogram_in_threads(examples, rng):
    image, counts = rng.integers(0, 256, 100_000).astype("u1"), np.zeros(256, "i8")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda k: examples.histogram(image, 4, k, counts), range(4)))
    np.testing.assert_array_equal(counts, np.bincount(image, minlength=256))


@pytest.fixture(scope="module")
def refusal(compiled):
    with pytest.raises(KernelCompileError) as raised:
        compiled("refused")
    return raised.value


@pytest.mark.mojo
@pytest.mark.parametrize(
    "reason",
    [
        "what an In gives is read-only",
        "mojoview.math takes float32 and float64",
        "sum: integers need sum",
        "apply: the arrays have different dtypes",
        "one index needs a 1-D array argument",
        "two indices need a 2-D array argument",
        "declare the argument In[dtype, masked=True] for arrays",
        "an array argument has 1 to 8 dimensions",
        "use byte_stride",
    ],
)
def test_mistakes_that_do_not_compile_are_explained(refusal, reason):
    assert reason in str(refusal)


@pytest.mark.mojo
def test_an_assertion_of_the_source_comes_with_its_note(refusal):
    lines = (SOURCES / "refused.mojo").read_text().splitlines()
    line = lines.index('def never_true() abi("C"):') + 1
    found = [(d.severity, d.line) for d in refusal.diagnostics if d.severity != "warning"]
    assert ("error", line) in found
    assert found[found.index(("error", line)) + 1] == ("note", line + 1)
    assert "not in this world" in str(refusal)
