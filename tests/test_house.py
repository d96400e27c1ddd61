"""The house holds: ranks, homes, stubs, names, sizes. Every rule is shown to notice a planted violation."""

from __future__ import annotations

import shutil
from pathlib import Path

import house
import pytest

import mojoview

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "mojoview"
TESTS = ROOT / "tests"

pytestmark = pytest.mark.skipif(not PACKAGE.is_dir(), reason="the tests run without the source tree")

# rule -> what to plant: (file, text to append)
PLANTS = {
    house.ranks: [
        ("memory/_dtype.py", "\ndef f():\n    from mojoview.views import view\n"),
        ("views/dispatch.py", "\nimport mojoview.kernels\n"),
        ("views/_view.pyx", "\nfrom mojoview.calls._kernel cimport Kernel\n"),
        ("views/_geometry.pxd", "\nfrom mojoview.frames cimport x\n"),
        ("calls/signature.py", "\nfrom mojoview.sharing import share\n"),
        ("frames/__init__.py", "\nimport mojoview\n"),
        ("views/dispatch.py", "\nfrom . import _view as v\n"),
        ("calls/signature.py", "\nfrom mojoview import view\n"),
        ("views/_acquire.pyx", "\ndef g():\n    from mojoview.kernels import (\n        sum,\n    )\n"),
    ],
    house.one_caller_of_get_buffer: [
        ("views/_acquire.pyx", "\nfrom cpython.buffer cimport PyObject_GetBuffer\n"),
        ("views/layout.h", "\nint x(void) { return PyObject_GetBuffer(0, 0, 0); }\n"),
    ],
    house.one_home_of_numpys_c_api: [
        ("views/_view.pyx", "\ncimport numpy as cnp\n"),
        ("memory/_lease.pyx", "\nfrom numpy cimport ndarray\n"),
        ("compute/numeric.h", "\n#include <numpy/arrayobject.h>\n"),
    ],
    house.pandas_only_in_frames: [
        ("views/dispatch.py", "\ndef f():\n    import pandas as pd\n"),
        ("calls/signature.py", "\nfrom pandas import Series\n"),
    ],
    house.a_stub_beside_every_extension: [("views/_new.pyx", "x = 1\n")],
    house.sorted_public_names: [
        ("views/dispatch.py", '\n__all__ = ["view", "from_ptr"]\n'),
        ("views/dispatch.py", '\n__all__ = ["view", "view"]\n'),
    ],
    house.rooms_say_what_they_are_for: [("cuda/__init__.py", '"""Flows."""\n')],
    house.no_textual_include: [("views/_view.pyx", '\ninclude "more.pxi"\n'), ("views/more.pxi", "x = 1\n")],
    house.no_long_file: [("views/long.py", "x = 1\n" * 601)],
    house.errors_live_in_the_tree: [
        ("views/dispatch.py", "\nclass OtherError(ValueError):\n    pass\n"),
        ("views/dispatch.py", '\ndef f():\n    raise ValueError("x")\n'),
        ("views/_buffer.pyx", "\ndef f():\n    raise TypeError(5)\n"),
    ],
    house.no_traces_of_a_machine: [
        ("views/dispatch.py", f"\n# see {Path('/', 'root', 'notes')}\n"),
        ("views/layout.h", f'\n/* "{Path("/", "tmp", "x")}" */\n'),
    ],
}


@pytest.mark.parametrize("rule", PLANTS, ids=lambda rule: rule.__name__)
def test_the_package_keeps(rule):
    assert list(rule(PACKAGE)) == []


@pytest.mark.parametrize("rule", [house.no_long_file, house.no_traces_of_a_machine], ids=lambda rule: rule.__name__)
def test_the_rest_of_the_repository_keeps(rule):
    assert list(rule(*(path for name in ("tests", "docs", "benchmarks") if (path := ROOT / name).is_dir()))) == []


@pytest.fixture(scope="module")
def pristine(tmp_path_factory):
    return shutil.copytree(
        PACKAGE, tmp_path_factory.mktemp("tree") / "mojoview", ignore=shutil.ignore_patterns("__pycache__")
    )


@pytest.mark.parametrize(
    ("rule", "file", "text"),
    [(rule, *plant) for rule, plants in PLANTS.items() for plant in plants],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_planted_violation_is_noticed(rule, file, text, pristine):
    before = list(rule(pristine))
    path = pristine / file
    old = path.read_text() if path.exists() else None
    path.parent.mkdir(exist_ok=True)
    path.write_text((old or "") + text)
    try:
        found = [violation for violation in rule(pristine) if violation not in before]
        assert len(found) == 1, found
        assert file.split("/")[-1] in found[0]
    finally:
        if old is not None:
            path.write_text(old)
        else:
            path.unlink()


def test_every_rule_was_planted():
    rules = {
        name for name, value in vars(house).items() if callable(value) and getattr(value, "__module__", "") == "house"
    }
    helpers = {
        "files",
        "imports",
        "room_of",
        "code_of",
        "without_docstrings",
        "excepts",
        "all_files_installed",
        "public_names_documented",
        "page_names_what_exists",
    }
    assert rules - helpers == {rule.__name__ for rule in PLANTS}


@pytest.mark.build
def test_all_sources_are_installed(site):
    assert list(house.all_files_installed(PACKAGE, site / "mojoview")) == []


def test_a_file_that_is_not_installed_is_noticed(pristine, tmp_path):
    installed = shutil.copytree(pristine, tmp_path / "installed")
    for source in house.files(installed, ".pyx"):
        (source.parent / f"{source.stem}.cpython-3-x.so").touch()
    assert list(house.all_files_installed(pristine, installed)) == []
    (installed / "memory" / "abi.h").unlink()
    (installed / "views" / "open.py").write_text("")
    (installed / "views" / "_view.cpython-3-x.so").unlink()
    assert len(list(house.all_files_installed(pristine, installed))) == 3


def test_public_names_are_documented():
    page = ROOT / "docs" / "api.md"
    if not page.exists():
        pytest.skip("docs/api.md is not written yet")
    assert list(house.public_names_documented(mojoview.__all__, page)) == []


def test_a_name_without_documentation_is_noticed(tmp_path):
    page = tmp_path / "api.md"
    page.write_text("`view(obj)` and `View`, previews")
    assert list(house.public_names_documented(["View", "view", "share", "__version__"], page)) == [
        "share: not in api.md"
    ]


def test_the_page_about_the_house_is_true():
    assert list(house.page_names_what_exists(ROOT / "docs" / "house.md", PACKAGE)) == []


def test_a_page_that_names_what_is_gone_is_noticed(tmp_path):
    page = tmp_path / "house.md"
    page.write_text("`memory/gone.pyx`\n`tests/house.py`, `errors.py`, `abi.h`\n`memory/_status.pyx`, `no_such()`\n")
    assert list(house.page_names_what_exists(page, PACKAGE)) == [
        "house.md:1: there is no memory/gone.pyx",
        "house.md:3: there is no no_such() in memory/_status.pyx",
    ]


def test_public_names_exist():
    for name in mojoview.__all__:
        assert getattr(mojoview, name) is not None
    assert set(mojoview.__all__) <= set(dir(mojoview)) | {"KernelModule", "get_mojo_include", "load"}
