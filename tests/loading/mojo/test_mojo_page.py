"""The page about the Mojo library: it names everything public, and its examples compile and give correct results."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

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


@pytest.fixture(scope="session")
def library(mojo_cache):
    from mojoview.loading.mojo.loader import load

    return load(ROOT / "docs/examples/library.mojo")


@pytest.mark.mojo
def test_logistic_and_clip(library, rng):
    x = rng.normal(0, 5, 103)
    y = np.empty_like(x)
    library.logistic(x, y)
    np.testing.assert_allclose(y, 1 / (1 + np.exp(-x)), rtol=1e-15)
    z = x.astype("f4")
    library.clip(-2.0, 3.0, z)
    np.testing.assert_array_equal(z, x.astype("f4").clip(-2, 3))
    with pytest.raises(ShapeError):
        library.logistic(x, y[1:])


@pytest.mark.mojo
@pytest.mark.parametrize("order", ["C", "F"])
def test_standardize(library, rng, order):
    x = np.array(rng.normal(50, 7, (200, 5)), order=order)
    x[3, 2] = np.nan
    want = (x - np.nanmean(x, axis=0)) / np.nanstd(x, axis=0, ddof=1)
    library.standardize(x)
    np.testing.assert_allclose(x, want, rtol=1e-12, atol=1e-14)
    with pytest.raises(KernelError):
        library.standardize(np.array([[1.0, np.nan], [2.0, np.nan]]))


@pytest.mark.mojo
def test_largest_gap_and_block_means(library, rng):
    import pandas as pd

    gap = np.zeros(1)
    library.largest_gap(pd.Series([4, None, -1, 2], dtype="Float64"), gap)
    assert gap[0] == 5
    with pytest.raises(KernelError):
        library.largest_gap(pd.Series([None, None], dtype="Float64"), gap)
    x, means = rng.normal(size=23), np.zeros(5)
    library.block_means(x, 5, means)
    np.testing.assert_allclose(means, [x[k : k + 5].mean() for k in range(0, 23, 5)], atol=1e-15)


@pytest.mark.mojo
def test_histogram_in_threads(library, rng):
    image, counts = rng.integers(0, 256, 100_000).astype("u1"), np.zeros(256, "i8")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda k: library.histogram(image, 4, k, counts), range(4)))
    np.testing.assert_array_equal(counts, np.bincount(image, minlength=256))


@pytest.mark.mojo
def test_mistakes_that_do_not_compile(compiled):
    with pytest.raises(KernelCompileError) as raised:
        compiled("refused")
    for reason in (
        "what an In gives is read-only",
        "mojoview.math takes float32 and float64",
        "sum: integers need sum",
        "apply: the arrays have different dtypes",
    ):
        assert reason in str(raised.value)
