"""A package that ships its own Mojo kernels: built by its recipe, installed, and used without a compiler."""

from __future__ import annotations

import os
import shutil
import sys
import zipfile
from pathlib import Path

import pytest
from support.install import missing_build_tool, run

from mojoview.loading.elf import read_elf
from mojoview.loading.mojo.compiler import find_compiler

SOURCE = Path(__file__).parent / "kernel_package"

pytestmark = [
    pytest.mark.build,
    pytest.mark.mojo,
    pytest.mark.slow,  # builds a package, with a compilation for the wheel alone
    pytest.mark.skipif(find_compiler(required=False) is None, reason="no Mojo compiler: pip install 'mojoview[mojo]'"),
    pytest.mark.skipif(missing_build_tool() is not None, reason="a build tool is missing"),
]

USE = """
import numpy as np
from mojoview import MojoViewError, OverlapError
import mykernels

x, total = np.arange(10.0)[::2], np.zeros(5)
mykernels.running_total(x, total)
assert total.tolist() == np.cumsum(x).tolist()
for wrong in (np.zeros(4), x, np.zeros(5, "f4")):
    try:
        mykernels.running_total(x, wrong)
    except MojoViewError as error:
        print(type(error).__name__)
print(mykernels.running_total.__doc__)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("kernel_package")
    shutil.copytree(SOURCE, directory / "source")
    bin_directory = str(Path(sys.executable).parent)
    run(
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-build-isolation",
        "--no-deps",
        "--no-index",
        "-w",
        str(directory),
        str(directory / "source"),
        PATH=os.pathsep.join([bin_directory, os.environ.get("PATH", "")]),
    )
    (made,) = directory.glob("*.whl")
    return made


def test_the_wheel_holds_the_library_and_its_signatures(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if name.startswith("mykernels/")}
        archive.extractall(tmp_path)
    assert names == {"mykernels/__init__.py", "mykernels/stats.so", "mykernels/stats.so.json"}
    assert "none-linux" in wheel.name or "cp3" in wheel.name
    elf = read_elf(tmp_path / "mykernels" / "stats.so")
    assert (elf.exports, elf.runpath, elf.needed) == ({"running_total"}, "", [])
    assert str(wheel.parent).encode() not in (tmp_path / "mykernels" / "stats.so").read_bytes()


def test_the_package_runs_without_a_compiler(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    output = run(
        sys.executable,
        "-W",
        "error",
        "-c",
        USE,
        PYTHONPATH=str(tmp_path),
        MOJO="/nowhere/mojo",
        MOJOVIEW_CACHE_DIR=str(tmp_path / "cache"),
    )
    assert output.split("\n")[:3] == ["ShapeError", "OverlapError", "DTypeError"]
    assert "Writes the sums of x" in output
    assert not (tmp_path / "cache").exists()
