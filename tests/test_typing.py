"""Types: mypy in strict mode over the package and a file of assertions; stubs compared with the running modules."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytest.importorskip("mypy", reason="mypy is not installed; CI's `types` stage installs it")

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "mojoview"
COMPILED = sorted(".".join(stub.relative_to(PACKAGE.parent).with_suffix("").parts) for stub in PACKAGE.rglob("*.pyi"))
ALLOWED = ROOT / "tests" / "typing" / "stubtest_allowlist.txt"


def check(module: str, *arguments: str, directory: Path) -> str:
    """Return the output of mypy or stubtest, with the exit status in front."""
    environment = os.environ | {"MYPYPATH": str(ROOT / "src"), "MYPY_CACHE_DIR": str(ROOT / ".mypy_cache")}
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    return f"{done.returncode}\n{done.stdout}{done.stderr}"


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    """Return the mypy configuration of pyproject.toml as a file that stubtest reads too."""
    path = tmp_path_factory.mktemp("mypy") / "mypy.ini"
    optional = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]["overrides"][0]["module"]
    path.write_text(f"[mypy]\nstrict = True\n[mypy-{','.join(optional)}]\nignore_missing_imports = True\n")
    return path


def test_the_package_and_its_public_names_are_strictly_typed(config):
    output = check("mypy", "--config-file", str(config), "src/mojoview", "tests/typing/public_api.py", directory=ROOT)
    assert output.startswith("0\n"), output


def test_a_wrong_claim_is_noticed(config, tmp_path):
    wrong = tmp_path / "wrong.py"
    text = (ROOT / "tests" / "typing" / "public_api.py").read_text()
    wrong.write_text(text.replace("assert_type(v.ptr, int)", "assert_type(v.ptr, str)"))
    output = check("mypy", "--config-file", str(config), str(wrong), directory=ROOT)
    assert output.startswith("1\n"), output
    assert "assert-type" in output


def test_stubs_agree_with_the_modules(config, tmp_path):
    output = check(
        "mypy.stubtest",
        *COMPILED,
        "--mypy-config-file",
        str(config),
        "--allowlist",
        str(ALLOWED),
        "--ignore-unused-allowlist",
        directory=tmp_path,
    )
    assert output.startswith("0\n"), output


def test_a_wrong_stub_is_noticed(config, tmp_path):
    import shutil

    shutil.copytree(
        ROOT / "src" / "mojoview", tmp_path / "mojoview", ignore=shutil.ignore_patterns("*.pyx", "*.pxd", "*.h", "*.c")
    )
    stub = tmp_path / "mojoview" / "memory" / "_lease.pyi"
    stub.write_text(stub.read_text().replace("live_leases()", "dead_leases()"))
    environment = os.environ | {"MYPYPATH": str(tmp_path)}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy.stubtest",
            "mojoview.memory",
            "--mypy-config-file",
            str(config),
            "--allowlist",
            str(ALLOWED),
            "--ignore-unused-allowlist",
        ],
        cwd=tmp_path.parent,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 1
    assert "dead_leases" in done.stdout + done.stderr
