"""The rules of the source tree hold, and each rule notices a planted violation."""

from __future__ import annotations

import inspect
import os
import shutil
import types
from functools import lru_cache
from pathlib import Path

import house
import house_text
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
        ("views/_construct.pyx", "\ndef g():\n    from mojoview.kernels import (\n        sum,\n    )\n"),
        ("views/_view.pyi", "\nfrom mojoview.safety.safe_call import safe_call\n"),
        ("views/dispatch.py", "\nif TYPE_CHECKING:\n    from mojoview.safety.safe_call import safe_call\n"),
        ("views/dispatch.py", "\nfrom mojoview.safety.canary import Canary\n"),
        ("views/geometry.h", '\n#include "../sharing/state/latch.h"\n'),
        ("memory/_lease.pyx", '\ncdef extern from "views/geometry.h":\n    pass\n'),
    ],
    house.no_circle_in_a_room: [
        ("memory/errors.py", "\ndef f():\n    from mojoview.memory import _status\n"),
        ("memory/errors.py", "\nclass A:\n    import mojoview.memory._lease\n"),
        ("memory/abi.h", '\n#include "numeric.h"\n'),
    ],
    house.unique_extension_names: [("cli/_lease.pyx", "x = 1\n")],
    house.no_crowded_folder: [],  # see test_a_crowded_folder_is_noticed
    house.no_wide_line: [("views/wide.py", "x = 1  # " + "x" * 120 + "\n"), ("memory/wide.h", "/" * 121 + "\n")],
    house.constants_of_c_are_not_repeated: [
        ("views/dispatch.py", "\nMOST = 8  # abi.h\n"),
        ("views/_view.pyx", "\nREADONLY = 1  # MV_READONLY\n"),
    ],
    house.one_caller_of_get_buffer: [
        ("views/_construct.pyx", "\nfrom cpython.buffer cimport PyObject_GetBuffer\n"),
        ("views/geometry.h", "\nint x(void) { return PyObject_GetBuffer(0, 0, 0); }\n"),
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
    house.rooms_state_purpose_and_limits: [("cuda/__init__.py", '"""Flows."""\n')],
    house.folders_name_their_files: [("memory/another.py", "x = 1\n"), ("sharing/state/words.h", "\n")],
    house_text.imperative_docstrings: [
        ("memory/more.py", '"""Where it lies."""\n'),
        ("memory/more.pyx", '"""Views."""\n\n\ndef f(int a, object b="x") -> int:\n    """The size of b."""\n'),
        ("memory/more.py", 'class A:\n    """What it is."""\n'),
        ("memory/more.py", 'def f():\n    """Returns a size."""\n'),
        ("memory/more.pxd", 'cdef inline int f(int a,\n                  int b):\n    """Of a."""\n'),
    ],
    house_text.plain_wording: [
        ("memory/more.py", "# the object is no array\n"),
        ("memory/more.h", "/* releases what nobody\n * else has */\n"),
        ("memory/more.pyx", 'raise KernelError("a letter without sense")\n'),
        ("memory/more.py", "# the lease is let\n# go\n"),
    ],
    house.no_textual_include: [("views/_view.pyx", '\ninclude "more.pxi"\n'), ("views/more.pxi", "x = 1\n")],
    house.no_long_file: [("views/long.py", "x = 1\n" * 601)],
    house.errors_live_in_the_tree: [
        ("views/dispatch.py", "\nclass OtherError(ValueError):\n    pass\n"),
        ("views/dispatch.py", '\ndef f():\n    raise ValueError("x")\n'),
        ("views/_buffer.pyx", "\ndef f():\n    raise TypeError(5)\n"),
    ],
    house.no_traces_of_a_machine: [
        ("views/dispatch.py", f"\n# see {Path('/', 'root', 'notes')}\n"),
        ("views/geometry.h", f'\n/* "{Path("/", "tmp", "x")}" */\n'),
    ],
}


@pytest.mark.parametrize("rule", PLANTS, ids=lambda rule: rule.__name__)
def test_the_package_keeps(rule):
    assert list(rule(PACKAGE)) == []


@pytest.mark.parametrize("rule", [house.no_long_file, house.no_traces_of_a_machine], ids=lambda rule: rule.__name__)
def test_the_rest_of_the_repository_keeps(rule):
    roots = [path for name in ("tests", "docs", "benchmarks") if (path := ROOT / name).is_dir()]
    assert list(rule(*roots)) == []


def test_pages_are_worded_plainly():
    assert list(house_text.plain_wording(ROOT / "docs")) == []


def test_names_of_tests_state_behaviour():
    assert list(house_text.plain_test_names(TESTS)) == []


def test_a_long_or_numbered_test_name_is_noticed(tmp_path):
    names = ["test_a_case_of_ours", "test_case_b70_x", "test_case_7", "test_" + "x" * 56]
    (tmp_path / "test_it.py").write_text("".join(f"def {name}():\n    pass\n" for name in names))
    assert len(list(house_text.plain_test_names(tmp_path))) == 3


@lru_cache
def found_before(rule, tree):
    return set(rule(tree))


@pytest.fixture(scope="module")
def pristine(tmp_path_factory):
    """A copy of a part of the tree: every file that a violation is planted in, and the rooms around them."""
    tree = tmp_path_factory.mktemp("tree") / "mojoview"
    planted = {file for plants in PLANTS.values() for file, _ in plants}
    for path in house.files(PACKAGE):
        name = path.relative_to(PACKAGE).as_posix()
        if name.startswith(("memory/", "views/", "sharing/state/")) or name in planted:
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, tree / name)
    return tree


@pytest.mark.parametrize(
    ("rule", "file", "text"),
    [(rule, *plant) for rule, plants in PLANTS.items() for plant in plants],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_planted_violation_is_noticed(rule, file, text, pristine):
    before = found_before(rule, pristine)
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


def test_a_crowded_folder_is_noticed(tmp_path):
    package = tmp_path / "mojoview"
    (package / "cuda").mkdir(parents=True)
    for k in range(house.MAX_FILES):
        (package / "cuda" / f"_part{k}{('.pyx', '.py', '.h', '.c')[k % 4]}").touch()
    for name in ("__init__.py", "_part0.pxd", "_part0.pyi", "meson.build"):
        (package / "cuda" / name).touch()
    assert list(house.no_crowded_folder(package)) == []
    (package / "cuda" / "more.mojo").touch()
    assert [found.split(" files")[0] for found in house.no_crowded_folder(package)] == ["cuda/: 15"]


def test_every_rule_was_planted():
    rules = {
        value
        for module in (house, house_text)
        for name, value in vars(module).items()
        if inspect.isgeneratorfunction(value) and not name.startswith("_")
    }
    helpers = {house.files, house.imports, house_text.docstrings}
    elsewhere = {
        house.all_files_installed,
        house_text.names_used,
        house_text.page_lists_every_file,
        house_text.page_names_what_exists,
        house_text.plain_test_names,
        house_text.public_names_documented,
    }
    assert rules - helpers - elsewhere == set(PLANTS)


@pytest.mark.build
def test_all_sources_are_installed(site):
    assert list(house.all_files_installed(PACKAGE, site / "mojoview")) == []


def test_a_file_that_is_not_installed_is_noticed(pristine, tmp_path):
    installed = shutil.copytree(pristine, tmp_path / "installed")
    for source in house.files(installed, ".pyx"):
        (source.parent / f"{source.stem}.cpython-3-x.so").touch()
    assert list(house.all_files_installed(pristine, installed)) == []
    (installed / "memory" / "abi.h").unlink()
    (installed / "views" / "dispatch.py").write_text("")
    (installed / "views" / "_view.cpython-3-x.so").unlink()
    assert len(list(house.all_files_installed(pristine, installed))) == 3


def test_public_names_are_documented():
    page = ROOT / "docs" / "api.md"
    if not page.exists():
        pytest.skip("docs/api.md is not written yet")
    assert list(house_text.public_names_documented(mojoview.__all__, page)) == []


def test_a_name_without_documentation_is_noticed(tmp_path):
    page = tmp_path / "api.md"
    page.write_text("`view(obj)` and `View`, previews")
    assert list(house_text.public_names_documented(["View", "view", "share", "__version__"], page)) == [
        "share: not in api.md"
    ]


PAGE = ROOT / "docs" / "architecture.md"


@pytest.mark.parametrize("rule", [house_text.page_names_what_exists, house_text.page_lists_every_file])
def test_the_architecture_page_agrees_with_the_tree(rule):
    assert list(rule(PAGE, PACKAGE)) == []


def test_a_page_that_names_what_is_gone_is_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("`memory/gone.pyx`\n`tests/house.py`, `errors.py`, `abi.h`\n`memory/_status.pyx`, `no_such()`\n")
    assert list(house_text.page_names_what_exists(page, PACKAGE)) == [
        "page.md:1: there is no memory/gone.pyx",
        "page.md:3: there is no no_such() in memory/_status.pyx",
    ]


def test_a_page_that_leaves_out_a_file_is_noticed(tmp_path):
    package, page = tmp_path / "mojoview", tmp_path / "page.md"
    for name in (
        "__init__.py",
        "a/__init__.py",
        "a/x.pyx",
        "a/x.pxd",
        "a/x.pyi",
        "a/y.h",
        "a/y.pxd",
        "a/b/z.py",
        "a/only.pxd",
    ):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).touch()
    page.write_text("## `a/`\n`x.pyx`, `y.h`, `only.pxd`\n### `a/b/`\n`z.py`\n## Words\n`x.c`\n")
    assert list(house_text.page_lists_every_file(page, package)) == []
    page.write_text("## `a/`\n`x.pyx`, `z.py`, `only.pxd`\n" + "more\n" * 10)
    assert list(house_text.page_lists_every_file(page, package)) == [
        "a/y.h: not in the section of its folder on page.md",
        "a/b/z.py: not in the section of its folder on page.md",
        "page.md: a/ has no file z.py",
        "page.md: the section of a/ has 11 lines, more than 10",
    ]


def test_public_names_exist():
    for name in mojoview.__all__:
        assert getattr(mojoview, name) is not None


def visible_names(module):
    """Return what `dir()` may show of a package: `__all__`, dunder names and submodules."""
    submodules = {name for name, value in vars(module).items() if inspect.ismodule(value) and is_part(value, module)}
    return set(module.__all__) | {name for name in vars(module) if name.startswith("__")} | submodules


def is_part(value, module):
    return value.__name__.startswith(f"{module.__name__}.") and not value.__name__.rpartition(".")[2].startswith("_")


def test_dir_shows_public_names_and_submodules_only():
    assert set(dir(mojoview)) == visible_names(mojoview)


def test_no_imported_helper_is_an_attribute():
    shown = {name for name in vars(mojoview) if not name.startswith("_")}
    assert shown - visible_names(mojoview) == {"load_ipython_extension"}  # IPython's own name for it


def test_a_helper_in_dir_is_noticed():
    module = types.ModuleType("mojoview")
    module.__all__ = ["view"]
    module.view = module.Path = module.os = os
    assert set(dir(module)) - visible_names(module) == {"Path", "os"}


def test_the_minimal_test_uses_every_public_name():
    text = (TESTS / "test_minimal.py").read_text()
    assert list(house_text.names_used(mojoview.__all__, text)) == []


def test_a_name_that_the_minimal_test_leaves_out_is_noticed():
    text = '"""mv.share"""\nimport mojoview as mv\nmv.view(1)\n# mv.attach\nfrom mojoview import Ring\nRing.create()\n'
    assert list(house_text.names_used(["attach", "Ring", "share", "view"], text)) == [
        "attach: not used",
        "share: not used",
    ]
