"""A third-party Cython module builds and runs against the installed package through the public `.pxd` alone."""

from __future__ import annotations

import importlib.util
import shutil
import sysconfig
from pathlib import Path

import pytest
from native.build import COMPILERS
from support.install import python, run

import mojoview

pytestmark = pytest.mark.build
HERE = Path(__file__).parent / "consumer"


@pytest.fixture(scope="session")
def consumer(site, tmp_path_factory) -> Path:
    """Return the directory of the compiled consumer."""
    if importlib.util.find_spec("Cython") is None:
        pytest.skip("Cython is not installed")
    directory = tmp_path_factory.mktemp("consumer")
    include = python(site, "-c", "import mojoview; print(mojoview.get_include())").strip()
    assert Path(include).is_relative_to(site)
    for module in ("reader", "state_reader"):
        made = directory / f"{module}.c"
        python(site, "-m", "cython", "-3", "-Wextra", "-I", str(site), str(HERE / f"{module}.pyx"), "-o", str(made))
        target = made.with_suffix(sysconfig.get_config_var("EXT_SUFFIX"))
        headers = [f"-I{sysconfig.get_path('include')}", f"-I{include}"]
        run(COMPILERS[0], "-shared", "-fPIC", "-O1", *headers, str(made), "-o", str(target))
    return directory


def test_the_consumer_runs_against_the_installed_package(site, consumer):
    output = python(site, str(HERE / "use_reader.py"), path=(consumer,))
    assert output.startswith("ok")
    assert Path(output.split(None, 1)[1].strip()).is_relative_to(site)


def test_no_layout_of_a_class_is_compiled_in(consumer):
    text = (consumer / "reader.c").read_text()
    assert "__pyx_obj_8mojoview" not in text
    assert '"mojoview.views._capi"' in text


@pytest.mark.skipif(not shutil.which("g++"), reason="no g++")
@pytest.mark.parametrize("standard", ["c++11", "c++20"])
def test_the_header_serves_cpp(standard, tmp_path):
    source = tmp_path / "header.cpp"
    source.write_text('#include "abi.h"\nint main() { mv_desc d = {}; return (int)d.size; }\n')
    run(
        "g++",
        f"-std={standard}",
        "-Wall",
        "-Wextra",
        "-Werror",
        f"-I{mojoview.get_include()}",
        str(source),
        "-o",
        str(tmp_path / "header"),
    )
    run(str(tmp_path / "header"))
