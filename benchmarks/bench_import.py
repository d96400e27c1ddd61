"""Time to import a compiled Mojo module through the hook, compared with a C extension of the same size.

Every import is the first one of its module: each package has copies of both files, and each copy of the kernels has its
own cache, so that both are searched, opened and mapped each time.
"""

from __future__ import annotations

import importlib.util
import itertools
import shutil
import subprocess
import sys
import sysconfig
import time
from functools import partial

import pytest
from peers import compare

import mojoview as mv

ROUNDS = 40
KERNEL = '''from mojoview import E_SHAPE, OK, In, InOut, Status


@export("add_to")
def add_to(x: In[DType.float64], y: InOut[DType.float64]) abi("C") -> Status:
    """Adds x to y."""
    if len(x) != len(y):
        return E_SHAPE
    for i in range(len(x)):
        y[i] = y[i] + x[i]
    return OK
'''
EXTENSION = """
#include <Python.h>
static const char padding[] = {%s};
static PyObject *answer(PyObject *self, PyObject *unused) { return PyLong_FromLong(padding[sizeof padding - 1]); }
static PyMethodDef methods[] = {{"answer", answer, METH_NOARGS, NULL}, {NULL}};
static PyModuleDef_Slot slots[] = {{0, NULL}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "extension", NULL, 0, methods, slots};
PyMODINIT_FUNC PyInit_extension(void) { return PyModuleDef_Init(&module); }
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """(directory, names of the packages, caches)"""
    root = tmp_path_factory.mktemp("packages")
    first = root / "first.mojo"
    first.write_text(KERNEL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOJOVIEW_CACHE_DIR", str(root / "cache0"))
        patch.syspath_prepend(str(root))
        (root / "p0").mkdir()
        (root / "p0" / "__init__.py").touch()
        (root / "p0" / "stats.mojo").write_text(KERNEL)
        with mv.enable_hook():
            size = importlib.import_module("p0.stats").__mojo__.library.stat().st_size
        (root / "extension.c").write_text(EXTENSION % ",".join(["7"] * max(1, size - 14_500)))
        library = f"extension{sysconfig.get_config_var('EXT_SUFFIX')}"
        subprocess.run(
            [
                "cc",
                "-O3",
                "-shared",
                "-fPIC",
                "-w",
                f"-I{sysconfig.get_path('include')}",
                str(root / "extension.c"),
                "-o",
                str(root / "p0" / library),
            ],
            check=True,
        )
        print(f"\nkernels {size} bytes, extension {(root / 'p0' / library).stat().st_size} bytes")
        names = [f"p{k}" for k in range(1, ROUNDS + 4)]
        for name in names:
            shutil.copytree(root / "p0", root / name, ignore=shutil.ignore_patterns("__pycache__"))
            shutil.copytree(root / "cache0", root / f"cache{name}")
            importlib.import_module(name)
        settle(root, names)
        yield root, names
    for name in [name for name in sys.modules if name.split(".")[0] in ("p0", *names)]:
        del sys.modules[name]


SETTLE = """
import importlib, os, sys
import mojoview as mv
root, *names = sys.argv[1:]
sys.path.insert(0, root)
with mv.enable_hook():
    for name in names:
        os.environ["MOJOVIEW_CACHE_DIR"] = f"{root}/cache{name}"
        importlib.import_module(f"{name}.stats")
"""


def settle(root, names):
    """An import trusts times only once they are some seconds old; another process leaves its stamps."""
    time.sleep(2.5)
    subprocess.run([sys.executable, "-c", SETTLE, root, *names], check=True)


def test_cached_module(packages, benchmark):
    root, names = packages
    turns = {kind: itertools.cycle(names) for kind in ("stats", "extension")}

    with pytest.MonkeyPatch.context() as patch:

        def take(kind):
            name = next(turns[kind])
            sys.modules.pop(f"{name}.{kind}", None)
            patch.setenv("MOJOVIEW_CACHE_DIR", str(root / f"cache{name}"))
            return importlib.import_module(f"{name}.{kind}")

        with mv.enable_hook():
            assert take("stats").add_to.signature.name == "add_to"
            table = compare(
                "first import of a module whose package is imported",
                {"mojoview hook, cached": lambda: take("stats"), "C extension": lambda: take("extension")},
                rounds=ROUNDS,
                number=1,
                targets={"C extension": 1 / 3},
            )
        assert take("extension").answer() == 7
        table.record(benchmark)
        benchmark.pedantic(take, args=("extension",), rounds=1)


def test_modules_of_python(benchmark):
    """What the hook costs the search for everything else."""
    with mv.enable_hook() as hook:
        pass
    name = "no_such_module_anywhere"
    table = compare(
        "search for a missing name",
        {
            "without the hook": partial(importlib.util.find_spec, name),
            "the hook's own part": partial(hook.find_spec, name, None),
        },
        rounds=100,
    )
    table.record(benchmark)
    benchmark(hook.find_spec, name, None)
