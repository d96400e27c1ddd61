"""The installed package, as a user has it: where the present install is editable, a wheel of the tree is built."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from native.build import environment

import mojoview

ROOT = Path(__file__).parents[2]


def run(*command: str, **variables: str) -> str:
    """Runs a command; its output, or an AssertionError that shows it."""
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=580, env=environment() | variables, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-4000:]}\n{done.stderr[-8000:]}"
    return done.stdout


def python(site: Path, *arguments: str, path: tuple[Path, ...] = ()) -> str:
    """Runs Python with `site` in front. Without the site module: an editable install would put itself first."""
    paths = os.pathsep.join(map(str, [site, *path, *filter(None, sys.path)]))
    return run(sys.executable, "-S", "-W", "error", *arguments, PYTHONPATH=paths)


def installed() -> Path | None:
    """The directory of a real install; None where it is editable."""
    package = Path(mojoview.__file__).parent
    return package.parent if list((package / "views").glob("_view.*.so")) else None


def missing_build_tool() -> str | None:
    return next((tool for tool in ("mesonpy", "Cython", "pip") if importlib.util.find_spec(tool) is None), None)


def build_and_install(wheels: Path, site: Path) -> None:
    pip = (sys.executable, "-m", "pip")
    run(*pip, "wheel", "-q", "--no-build-isolation", "--no-deps", "-w", str(wheels), str(ROOT))
    (wheel,) = wheels.glob("*.whl")
    run(*pip, "install", "-q", "--no-deps", "--no-index", "--target", str(site), str(wheel))
