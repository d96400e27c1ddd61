"""Kernels on the C functions of tests/native/foreign_kernels.c."""

from __future__ import annotations

import ctypes
import functools
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from native import build

from mojoview.kernels import Kernel, Param, Signature


@functools.cache
def compiled(name: str) -> Path:
    """The shared object of tests/native/NAME.c."""
    target = Path(tempfile.mkdtemp()) / f"lib{name}.so"
    subprocess.run(
        [
            build.COMPILERS[0],
            "-std=gnu11",
            "-O2",
            "-shared",
            "-fPIC",
            f"-I{build.PACKAGE}",
            str(build.NATIVE / f"{name}.c"),
            "-o",
            str(target),
        ],
        check=True,
        env=build.environment(),
    )
    return target


@functools.cache
def library() -> ctypes.CDLL:
    return ctypes.CDLL(str(compiled("foreign_kernels")))


def array(name: str, role: str = "in", dtype: str = "float64", **options: Any) -> Param:
    return Param(name, role, dtype, **options)


def value(name: str, dtype: str) -> Param:
    return Param(name, "value", dtype, passing="value")


def kernel(name: str, *params: Param, **options: Any) -> Kernel:
    address = ctypes.cast(getattr(library(), name), ctypes.c_void_p).value
    return Kernel.from_address(Signature(name, params, **options), address, owner=library())
