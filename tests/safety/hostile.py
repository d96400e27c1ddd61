"""Kernels of hostile.c, for tests and for the programs that they run."""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from support.waiting import wait_until

import mojoview
from mojoview.kernels import Kernel, Param, Signature

HERE = Path(__file__).parent
X, Y = Param("x", "in", "float64"), Param("y", "inout", "float64")


def value(name: str, dtype: str = "int64") -> Param:
    return Param(name, "value", dtype, passing="value")


SIGNATURES: dict[str, tuple[tuple[Param, ...], str]] = {
    "doubled": ((X, Y), "status"),
    "spin": ((Y,), "status"),
    "naps": ((Y, value("milliseconds")), "status"),
    "waits": ((Y,), "status"),
    "aborts": ((Y,), "status"),
    "null_read": ((X,), "float64"),
    "calls_null": ((Y,), "status"),
    "overflows_stack": ((value("n"),), "int64"),
    "exits": ((value("status"),), "status"),
    "writes_at": ((X, Y, value("index")), "status"),
    "reads_at": ((X, value("index")), "float64"),
    "writes_input": ((X, Y), "status"),
    "fails_midway": ((Y,), "status"),
    "hoards": ((Y, value("bytes")), "status"),
    "gobbles": ((Y,), "status"),
    "asks": ((Y, value("bytes")), "status"),
    "divides": ((Y, value("by", "float64")), "status"),
    "process": ((value("unused"),), "int64"),
    "talks": ((Y,), "status"),
}


@functools.cache
def library() -> ctypes.CDLL:
    """Build the library once per process; HOSTILE_LIBRARY names one that a test has built for its programs."""
    path = os.environ.get("HOSTILE_LIBRARY")
    if not path:
        directory = tempfile.mkdtemp(prefix="mojoview-hostile-")
        atexit.register(shutil.rmtree, directory, True)
        path = str(build(Path(directory)))
    return ctypes.CDLL(path)


def build(directory: Path) -> Path:
    target = directory / "hostile.so"
    include = Path(mojoview.__file__).parent / "memory"
    environment = {name: text for name, text in os.environ.items() if name != "LD_PRELOAD"}
    command = ["cc", "-std=gnu11", "-O1", "-g", "-fno-builtin-malloc", "-shared", "-fPIC", "-w", f"-I{include}"]
    subprocess.run([*command, str(HERE / "hostile.c"), "-o", str(target)], check=True, env=environment)
    return target


@functools.cache
def kernel(name: str) -> Kernel:
    params, result = SIGNATURES[name]
    address = ctypes.cast(getattr(library(), name), ctypes.c_void_p).value
    return Kernel.from_address(Signature(name, params, result=result), address, owner=library())


class Gate:
    """Array argument of the kernel `waits`, which runs until `open()`."""

    def __init__(self, size: int):
        self.array = np.zeros(size)

    def wait_started(self) -> None:
        wait_until(lambda: self.array[1] == 1)

    def open(self) -> None:
        self.array[0] = 1


def safe(name: str, *args: Any, **options: Any) -> Any:
    return mojoview.safe_call(kernel(name), *args, **options)
