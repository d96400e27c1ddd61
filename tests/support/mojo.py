"""Fixtures for tests of Mojo kernels: one kernel cache for all workers of a run, and a fake compiler."""

import ctypes
import importlib
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import mojoview as mv
from mojoview.loading.mojo.compiler import find_compiler

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
SOURCES = HERE.parent / "mojo"
EXAMPLES = REPOSITORY / "docs" / "examples"
ABI_H = (REPOSITORY / "src/mojoview/memory/abi.h").read_text()
# Compiled to one library: most of the time of a compilation is the same for any source.
TOGETHER = ("typed", "statuses", "columns", "own_struct", "reduced", "importing", "vector_math")
SKIPPED = pytest.StashKey[int]()


def pytest_collection_modifyitems(config, items):
    waiting = [item for item in items if item.get_closest_marker("mojo")]
    if waiting and find_compiler(required=False) is None:
        config.stash[SKIPPED] = len(waiting)
        for item in waiting:
            item.add_marker(pytest.mark.skip(reason="no Mojo compiler: pip install 'mojoview[mojo]'"))


def pytest_terminal_summary(terminalreporter, config):
    if skipped := config.stash.get(SKIPPED, 0):
        terminalreporter.write_line(f"{skipped} tests skipped for want of a Mojo compiler", yellow=True)


@pytest.fixture(scope="session")
def shared_directory(tmp_path_factory):
    """A directory of this run, the same for all workers of pytest-xdist."""
    base = tmp_path_factory.getbasetemp()
    directory = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared"
    directory.mkdir(mode=0o700, exist_ok=True)
    return directory


@pytest.fixture(scope="session")
def mojo_cache(shared_directory):
    """A kernel cache for the whole run: each source is compiled once, whichever worker needs it first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOJOVIEW_CACHE_DIR", str(shared_directory / "kernels"))
        yield


@pytest.fixture(scope="session")
def compiled(mojo_cache):
    """compiled("typed") is a module with the kernels of mojo/typed.mojo, and of the others in TOGETHER."""
    from mojoview.loading.mojo.loader import load

    modules = {}

    def get(name):
        names = TOGETHER if name in TOGETHER else (name,)
        if names not in modules:
            modules[names] = load([SOURCES / f"{name}.mojo" for name in names])
        return modules[names]

    return get


@pytest.fixture(scope="session")
def examples(mojo_cache):
    """The kernels of the documentation's examples and of the demo, in one library."""
    from mojoview.loading.mojo.loader import load

    files = [EXAMPLES / f"{name}.mojo" for name in ("saxpy", "roots", "masked_mean", "library", "state_reader")]
    if not EXAMPLES.is_dir():
        pytest.skip("the documentation is not here")
    return load([*files, Path(mv.__file__).parent / "cli" / "demo.mojo"])


@pytest.fixture(scope="session")
def native(compiled):
    """native("typed") calls exports of mojo/typed.mojo as C functions without checks; their result is an int64."""

    def get(name):
        library = ctypes.CDLL(str(compiled(name).library))

        def call(symbol, *arguments):
            function = library[symbol]
            function.restype = ctypes.c_int64
            return function(*(ctypes.byref(a) if isinstance(a, ctypes.Structure) else a for a in arguments))

        return call

    return get


def c_fields():
    """The fields of mv_desc, read from abi.h."""
    kinds = {
        "void *": ctypes.c_void_p,
        "const uint8_t *": ctypes.c_void_p,
        **{f"{k}int{b}_t ": getattr(ctypes, f"c_{k}int{b}") for k in ("", "u") for b in (8, 16, 32, 64)},
    }
    body = re.search(r"typedef struct mv_desc \{(.*?)\} mv_desc;", ABI_H, re.S)[1]
    for kind, name, extent in re.findall(r"^\s*((?:const )?\w+ \*?)(\w+)(?:\[(\w+)\])?;", body, re.M):
        count = {"": 1, "MV_MAX_NDIM": 8}.get(extent) or int(extent)
        yield name, kinds[kind] * count if extent else kinds[kind]


class Desc(ctypes.Structure):
    _fields_ = list(c_fields())


@pytest.fixture(scope="session")
def desc_type():
    return Desc


@pytest.fixture(scope="session")
def describe():
    """Make a descriptor of an array, independently of mojoview's own code."""

    def make(array, mask=None, bits_offset=None):
        room = (ctypes.c_char * (256 + 64))()
        d = Desc.from_buffer(room, -ctypes.addressof(room) % 64)
        d.keep = array, mask
        d.data, d.size, d.ndim, d.itemsize = array.ctypes.data, array.size, array.ndim, array.itemsize
        d.dtype_code = {"i": 0, "u": 1, "f": 2, "b": 6}[array.dtype.kind]
        d.dtype_bits, d.dtype_lanes, d.struct_bytes, d.abi_version = array.itemsize * 8, 1, 256, 1
        d.flags = 2 if array.flags.c_contiguous else 0
        for k, (extent, step) in enumerate(zip(array.shape, array.strides, strict=True)):
            d.shape[k], d.strides[k] = extent, step
        for k, step in enumerate(array.strides[-2:]):
            d.stride[k] = step // array.itemsize
        if mask is not None:
            d.mask, d.flags = mask.ctypes.data, d.flags | 1 << 4
            if bits_offset is None:
                for k, step in enumerate(mask.strides):
                    d.mask_stride[k] = step
            else:
                d.mask_offset, d.flags = bits_offset, d.flags | 1 << 5
        return d

    return make


@pytest.fixture
def rng():
    return np.random.default_rng(7)


class Fake:
    """A fake compiler, its log and a source file."""

    text = '@export("add")\ndef add(a: Float64, b: Float64) abi("C") -> Float64:\n    return a + b\n'

    def __init__(self, tmp_path, monkeypatch, libraries):
        self.root, self.patch = tmp_path, monkeypatch
        self.log, self.cache = tmp_path / "log", tmp_path / "cache" / "mojo"
        program = tmp_path / "mojo"
        program.write_text(f"#!{sys.executable} -IS\n" + (HERE / "fake_mojo.py").read_text())
        program.chmod(0o755)
        self.source = self.write("source", "fake.mojo")
        self.mode("")
        environment = {
            "MOJO": program,
            "FAKE_LOG": self.log,
            "FAKE_LIBRARIES": libraries,
            "MOJOVIEW_CACHE_DIR": tmp_path / "cache",
        }
        for name, value in environment.items():
            monkeypatch.setenv(name, str(value))

    def write(self, folder, name, text=text):
        path = self.root / folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    def mode(self, mode):
        self.patch.setenv("FAKE_MODE", mode)

    @property
    def builds(self):
        return [line for line in self.lines if line.startswith("shared-lib")]

    @property
    def lines(self):
        return self.log.read_text().splitlines() if self.log.exists() else []

    @property
    def entry(self):
        (only,) = (p for p in self.cache.iterdir() if p.is_dir())
        return only

    def left_over(self):
        return sorted(p.name for p in self.cache.glob("*.*") if p.suffix in (".tmp", ".lock"))


@pytest.fixture
def fake(tmp_path, monkeypatch, shared_directory):
    return Fake(tmp_path, monkeypatch, shared_directory)


@pytest.fixture
def place(fake, monkeypatch):
    """An empty directory on sys.path; modules imported from it are removed afterwards."""
    directory = fake.root / "place"
    directory.mkdir()
    monkeypatch.syspath_prepend(str(directory))
    before = set(sys.modules)
    yield directory
    for name in set(sys.modules) - before:
        if str(fake.root) in str(getattr(sys.modules[name], "__file__", None) or fake.root):
            del sys.modules[name]
    importlib.invalidate_caches()


@pytest.fixture
def hook(place):
    with mv.enable_hook() as enabled:
        yield enabled
