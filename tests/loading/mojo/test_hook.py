"""The import hook: files that it finds or ignores, reloading, errors, environments; with a fake compiler."""

import importlib
import importlib.resources
import importlib.util
import inspect
import os
import pickle
import runpy
import subprocess
import sys
import threading
import traceback
import types
import zipfile
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

import pytest
from support.modules import ADD, write

import mojoview as mv
from mojoview.loading.mojo import cache, import_cache
from mojoview.loading.mojo import hook as hook_module
from mojoview.memory import errors

BINDING = '@export("PyInit_bound")\ndef PyInit_bound() abi("C") -> PythonObject:\n    pass\n'


# ---- what is found
def test_a_file_on_the_path(place, hook):
    path = write(place, "stats.mojo")
    import stats

    assert (stats.add(1, 2), stats.__all__, stats.__doc__) == (3.0, ["add"], "A file.")
    assert stats.add is stats.__mojo__.add
    assert isinstance(stats.__mojo__, mv.KernelModule)
    assert (stats.__file__, stats.__spec__.origin, stats.__package__) == (str(path), str(path), "")
    assert isinstance(stats.__loader__, hook_module.KernelLoader)
    assert stats.__loader__.get_source("stats") == inspect.getsource(stats) == ADD
    assert not hasattr(stats, "__path__")
    namespace = {}
    exec("from stats import *", namespace)
    assert namespace["add"] is stats.add


def test_packages_of_mojo(place, hook, fake):
    write(place, "ours/__init__.mojo", "# nothing is exported\n")
    write(place, "ours/deep/__init__.mojo")
    write(place, "ours/deep/stats.mojo")
    write(place, "ours/deep/table.csv", "1,2\n")
    import ours.deep.stats

    assert ours.deep.stats.add(1, 2) == ours.deep.add(1, 2) == 3
    assert (list(ours.__path__), ours.__mojo__) == ([str(place / "ours")], {})
    assert importlib.resources.files("ours.deep").joinpath("table.csv").read_text() == "1,2\n"
    assert len(fake.builds) == 2  # nothing was compiled for `ours` itself
    assert not hasattr(ours, "add")


@pytest.mark.parametrize("init", ["__init__.py", None])
def test_inside_ordinary_packages(place, hook, init):
    if init:
        write(place, f"ordinary/{init}", "from .stats import add\nfrom . import beside\n")
    write(place, "ordinary/stats.mojo")
    write(place, "ordinary/beside.py", "x = 1\n")
    import ordinary.beside
    import ordinary.stats

    assert (ordinary.stats.add(1, 2), ordinary.beside.x) == (3, 1)
    assert ordinary.stats.__package__ == "ordinary"


def test_the_root_of_the_package_is_given_to_the_compiler(place, hook, monkeypatch):
    seen = {}
    original = hook_module.load
    monkeypatch.setattr(hook_module, "load", lambda path, **k: seen.update({path: k}) or original(path, **k))
    write(place, "top.mojo")
    write(place, "pk/__init__.mojo")
    write(place, "pk/sub/__init__.py", "")
    write(place, "pk/sub/stats.mojo")
    write(place, "moved/__init__.py", f"__path__ = [{str(place / 'elsewhere')!r}]\n")
    write(place, "elsewhere/stats.mojo")
    for name in ("top", "pk.sub.stats", "moved.stats"):
        importlib.import_module(name)
    flags = {str(Path(path).relative_to(place)): options["flags"] for path, options in seen.items()}
    assert flags == {
        "top.mojo": [],
        "pk/__init__.mojo": ["-I", str(place)],
        "pk/sub/stats.mojo": ["-I", str(place)],
        "elsewhere/stats.mojo": [],
    }


# ---- what is left alone
@pytest.mark.parametrize("python", ["shadow.py", "shadow/__init__.py", "later"])
def test_modules_of_python_come_first(place, hook, fake, python, monkeypatch):
    write(place, "shadow.mojo")
    write(place, "shadow/__init__.mojo")
    if python == "later":  # also from a place that comes after ours
        monkeypatch.setattr(sys, "path", [*sys.path, str(fake.root / "second")])
        write(fake.root / "second", "shadow.py", "mine = True\n")
    else:
        write(place, python, "mine = True\n")
    assert importlib.import_module("shadow").mine
    assert fake.lines == []


def test_a_module_of_another_finder_comes_first(place, hook):
    class Finder:
        @staticmethod
        def find_spec(name, path=None, target=None):
            return (
                ModuleSpec(
                    name,
                    types.SimpleNamespace(create_module=lambda s: None, exec_module=lambda m: None),
                    origin="elsewhere",
                )
                if name == "shadow"
                else None
            )

    write(place, "shadow.mojo")
    sys.meta_path.append(Finder)
    try:
        assert importlib.import_module("shadow").__spec__.origin == "elsewhere"
    finally:
        sys.meta_path.remove(Finder)


def test_standard_library_and_builtins(place, hook):
    for name in ("json", "sys", "zipimport"):
        write(place, f"{name}.mojo")
    for name in ("json", "sys", "zipimport"):
        assert not isinstance(importlib.util.find_spec(name).loader, hook_module.KernelLoader)
    assert importlib.util.find_spec("no_such_module_at_all") is None


def test_modules_of_modulars_importer(place, hook, fake):
    """Its finder is last on the path; ours must neither take its files nor ask it, which would compile ours."""
    asked = []
    kind = type(
        "MojoImporter", (), {"__module__": "mojo.importer", "find_spec": lambda self, name, *_: asked.append(name)}
    )
    sys.meta_path.append(kind())
    try:
        write(place, "bound.mojo", BINDING)
        write(place, "ours.mojo", ADD + "# not a PyInit_\n")
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("bound")
        assert importlib.import_module("ours").add(1, 2) == 3
    finally:
        sys.meta_path.pop()
    assert asked == ["bound"]


def test_odd_entries_of_the_path(place, hook, tmp_path, monkeypatch):
    write(place, "stats.mojo")
    archive = tmp_path / "zipped.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("stats.mojo", "broken")
        file.writestr("zipped_python.py", "x = 1")
    odd = [None, 5, b"bytes", tmp_path, "\udcff", "x" * 5000, str(archive), str(tmp_path / "none")]
    monkeypatch.setattr(sys, "path", [*odd, *sys.path])
    import stats
    import zipped_python

    assert (stats.add(1, 2), zipped_python.x) == (3, 1)
    assert hook_module._find("stats", ["with\0nul", str(archive), str(place)]) == str(place / "stats.mojo")


@pytest.mark.parametrize("name", ["..", "a/stats", "/stats", "stats.mojo"])
def test_names_that_are_no_names(place, hook, name):
    write(place, "a/stats.mojo")
    assert hook.find_spec(name, [str(place)]) is None


def test_relative_path_entry(place, hook, monkeypatch):
    path = write(place, "stats.mojo")
    monkeypatch.setattr(sys, "path", ["", *(p for p in sys.path if p != str(place))])
    monkeypatch.chdir(place)
    assert importlib.import_module("stats").__file__ == str(path)


# ---- switching
def test_enabling_and_disabling(place):
    write(place, "stats.mojo")
    before = list(sys.meta_path)
    hook = mv.enable_hook()
    assert hook.enabled
    assert repr(hook) == "<mojoview import hook, enabled>"
    assert sys.meta_path.index(hook) == sys.meta_path.index(PathFinder) - 1
    with mv.enable_hook() as second:
        assert sys.meta_path.index(second) < sys.meta_path.index(hook)
    assert hook.enabled
    assert not second.enabled
    import stats

    hook.disable()
    hook.disable()
    assert (sys.meta_path, repr(hook)) == (before, "<mojoview import hook, disabled>")
    assert stats.add(1, 2) == 3
    del sys.modules["stats"]
    with pytest.raises(ModuleNotFoundError):
        import stats


@pytest.mark.parametrize(
    "options",
    [
        {"flags": "-O1"},
        {"flags": [1]},
        {"progress": 5},
        {"timeout": "1"},
        {"timeout": -1},
        {"timeout": True},
        {"timeout": float("nan")},
    ],
)
def test_bad_options(options):
    before = list(sys.meta_path)
    with pytest.raises(errors.ArgumentError, match=f"enable_hook.*{next(iter(options))}"):
        mv.enable_hook(**options)
    assert sys.meta_path == before


def test_options_reach_the_compiler(place, fake):
    write(place, "stats.mojo")
    told = []
    with (
        mv.enable_hook(progress=told.append),
        pytest.raises(errors.KernelImportError, match="flag -o is set by load"),
        mv.enable_hook(flags=["-o", "x"]),
    ):
        importlib.import_module("stats")
    with mv.enable_hook(progress=told.append):
        importlib.import_module("stats")
    assert told[0].startswith("compiling stats.mojo with ")


# ---- reloading
def test_reload_compiles_what_has_changed(place, hook, fake):
    path = write(place, "stats.mojo")
    import stats

    old = stats.add
    assert importlib.reload(stats) is stats
    assert len(fake.builds) == 1
    path.write_text(ADD + "# more\n")
    stats.mine = stats.add_too = 5
    importlib.reload(stats)
    assert len(fake.builds) == 2
    assert stats.add is not old
    assert (stats.add(1, 2), old(1, 2), stats.mine, stats.add_too) == (3, 3, 5, 5)
    path.write_text("# no kernels\n")
    importlib.reload(stats)
    assert not hasattr(stats, "add")
    assert stats.mine == 5


def test_failed_reload_leaves_the_module_as_it_was(place, hook, fake):
    path = write(place, "stats.mojo")
    import stats

    names = dict(vars(stats))
    path.write_text(ADD + "# broken\n")
    fake.mode("refuse")
    with pytest.raises(errors.KernelImportError):
        importlib.reload(stats)
    assert {k: v for k, v in vars(stats).items() if k not in ("__spec__", "__loader__")} == {
        k: v for k, v in names.items() if k not in ("__spec__", "__loader__")
    }
    assert sys.modules["stats"] is stats


# ---- failures
def test_compile_error_as_an_import_error(place, hook, fake):
    path = write(place, "ours/stats.mojo")
    fake.mode("refuse")
    with pytest.raises(ImportError) as caught:
        importlib.import_module("ours.stats")
    error = caught.value
    assert type(error) is errors.KernelImportError
    assert not isinstance(error, ModuleNotFoundError)
    assert (error.name, error.path, error.file, error.line, error.column) == ("ours.stats", str(path), "f.mojo", 3, 9)
    assert (
        str(error)
        == error.msg
        == (
            "cannot import ours.stats: load(): the Mojo compiler rejects stats.mojo\n"
            "f.mojo:3:9: error: no such thing\n    é = x\n        ^"
        )
    )
    assert type(error.__cause__) is errors.KernelCompileError
    assert error.diagnostics == error.__cause__.diagnostics
    assert "ours.stats" not in sys.modules
    copied = pickle.loads(pickle.dumps(error))
    assert (str(copied), copied.name, copied.line) == (str(error), "ours.stats", 3)
    assert copied.diagnostics == error.diagnostics
    fake.mode("")
    assert importlib.import_module("ours.stats").add(1, 2) == 3


@pytest.mark.parametrize(
    ("spoil", "cause"),
    [
        (lambda fake, path: fake.mode("die"), errors.KernelCompileError),
        (lambda fake, path: fake.mode("needs"), errors.KernelError),
        (
            lambda fake, path: fake.cache.parent.mkdir() or fake.cache.mkdir(mode=0o777) or fake.cache.chmod(0o777),
            errors.CacheError,
        ),
    ],
    ids=["dies", "cannot be loaded", "cache of others"],
)
def test_every_other_failure_is_an_import_error_too(place, hook, fake, spoil, cause):
    path = write(place, "stats.mojo")
    spoil(fake, path)
    with pytest.raises(errors.KernelImportError) as caught:
        importlib.import_module("stats")
    assert isinstance(caught.value.__cause__, cause)
    assert (caught.value.line, caught.value.name) == (None, "stats")


def test_a_file_that_is_gone_when_it_is_compiled(place, hook):
    path = write(place, "stats.mojo")
    spec = importlib.util.find_spec("stats")
    path.unlink()
    for use in (lambda: spec.loader.exec_module(types.ModuleType("stats")), lambda: spec.loader.get_source("stats")):
        with pytest.raises(errors.KernelImportError, match=r"stats.mojo: No such file"):
            use()
    path.symlink_to(path)
    assert importlib.util.find_spec("stats") is None


def test_no_compiler(place, hook, monkeypatch):
    write(place, "stats.mojo")
    monkeypatch.setenv("MOJO", "/no/such/mojo")
    with pytest.raises(ImportError) as caught:
        importlib.import_module("stats")
    assert type(caught.value) is errors.CompilerNotFound


def test_names_that_a_module_lacks(place, hook):
    write(place, "stats.mojo", ADD + '@export("gone")\ndef gone() abi("C"):\n    pass\n')
    import stats

    with pytest.raises(AttributeError, match="module 'stats' has no kernel 'sub'"):
        _ = stats.sub
    with pytest.raises(errors.KernelAttributeError, match="export gone is not a kernel: line 4: it is in the source"):
        _ = stats.gone
    with pytest.raises(ImportError):
        from stats import sub  # noqa: F401


# ---- environments
def test_threads_that_import_at_once_compile_once(place, hook, fake):
    write(place, "stats.mojo")
    fake.mode("slow")
    found = []
    threads = [threading.Thread(target=lambda: found.append(importlib.import_module("stats"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert all(module is found[0] and module.add(1, 2) == 3 for module in found)
    assert len(fake.builds) == 1


@pytest.mark.slow  # runs pytest in pytest
def test_python_m_and_pytest(place, fake):
    """A program run with -m, and a test session whose conftest enables the hook."""
    write(place, "kern/stats.mojo")
    write(
        place,
        "kern/__main__.py",
        "import mojoview as mv\nmv.enable_hook()\nfrom kern.stats import add\nassert add(1, 2) == 3\nprint('ran')\n",
    )
    write(place, "suite/conftest.py", "import mojoview as mv\nmv.enable_hook()\n")
    write(place, "suite/test_kern.py", "from kern.stats import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n")
    done = subprocess.run([sys.executable, "-m", "kern"], cwd=place, capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("ran\n", "")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "suite"],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(fake.builds) == 1


def test_running_a_kernel_file_as_a_program(place, hook):
    write(place, "stats.mojo")
    with pytest.raises(ImportError, match="No code object available for stats"):  # as for an extension module
        runpy.run_module("stats")


# ---- stamps
@pytest.fixture
def stamped(place, hook, fake, monkeypatch):
    """import_again() imports pk.stats anew, and says whether a stamp made that short."""
    write(place, "pk/__init__.py", "")
    write(place, "pk/stats.mojo", "from pk.helper import f\n" + ADD)
    write(place, "pk/helper.mojo", "1")
    write(place, "pk/data/notes.txt", "")
    asked = []
    original = hook_module.load
    monkeypatch.setattr(hook_module, "load", lambda path, **k: asked.append(path) or original(path, **k))

    def import_again():
        sys.modules.pop("pk.stats", None)
        asked.clear()
        module = importlib.import_module("pk.stats")
        assert module.add(1, 2) == 3
        return not asked

    assert not import_again()
    assert not import_again()  # what was written just now is not trusted
    monkeypatch.setattr(import_cache, "MTIME_RACE_NS", -(1 << 62))
    assert not import_again()
    assert import_again()
    return import_again


@pytest.mark.parametrize(
    "change",
    [
        lambda place: (place / "pk/stats.mojo").write_text(ADD + "# other\n"),
        lambda place: (place / "pk/helper.mojo").write_text("2"),
        lambda place: (place / "pk/helper.mojo").unlink(),
        lambda place: (place / "pk/helper").mkdir(),
        lambda place: (place / "helper.mojo").write_text("3"),
        lambda place: (place / "pk/data/more.mojo").write_text("4"),
        lambda place: os.replace(write(place, "pk/new", "5"), place / "pk/helper.mojo"),
        lambda place: (place / "pk/helper.mojo").write_text("6") and os.utime(place / "pk/helper.mojo", (1e9, 1e9)),
        lambda place: os.utime(os.environ["MOJO"], (2e9, 2e9)),
    ],
    ids=[
        "source",
        "import",
        "import gone",
        "package beside import",
        "file at the root",
        "file in a folder",
        "replaced",
        "time set back",
        "compiler",
    ],
)
def test_a_stamp_is_not_trusted_after_any_change(stamped, place, change):
    change(place)
    assert not stamped()


@pytest.mark.parametrize("text", ["", "{", "{}", "[]", '{"entry": "../x", "seen": {}, "circumstances": []}'])
def test_damaged_stamps(stamped, fake, text):
    for stamp in (fake.cache.parent / "imports").iterdir():
        stamp.write_text(text)
    assert not stamped()
    assert stamped()


def test_what_a_stamp_gives_is_what_load_gives(stamped, place):
    text = (place / "pk/stats.mojo").read_text() + (
        'comptime E_COLD = Status(E_USER + 1)\n"""ValueError: too cold."""\n'
    )
    (place / "pk/stats.mojo").write_text(text)
    assert not stamped()
    assert stamped()
    ours, theirs = sys.modules["pk.stats"].__mojo__, mv.load(place / "pk/stats.mojo", flags=["-I", str(place)])
    assert ours is not theirs
    for name in ("path", "name", "__doc__", "_files", "refused", "library"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert (repr(ours), ours.add.__doc__) == (repr(theirs), theirs.add.__doc__)
    assert (
        repr(ours.errors)
        == repr(theirs.errors)
        == ("<errors of a kernel module: 65: KernelValueError (E_COLD, too cold)>")
    )


def test_an_entry_is_verified_again_only_if_it_looks_different(stamped, fake, monkeypatch):
    verified = []
    original = cache._verified
    monkeypatch.setattr(cache, "_verified", lambda entry, key: verified.append(key) or original(entry, key))
    assert stamped()
    assert verified == []
    os.utime(fake.entry / "kernels.so")
    assert stamped()
    assert verified == [fake.entry.name]


def test_using_a_stamp_counts_as_use(stamped, fake):
    (stamp,) = (fake.cache.parent / "imports").iterdir()
    os.utime(stamp, (1000, 1000))
    assert stamped()
    assert stamp.stat().st_mtime > 1000


def test_damaged_entry_behind_a_stamp(stamped, fake):
    (library,) = fake.cache.glob("*/kernels.so")
    library.unlink()
    library.write_bytes(b"?")
    assert not stamped()
    assert len(fake.builds) == 2


def test_a_cache_that_others_may_write_to_is_not_used(stamped, fake):
    fake.cache.chmod(0o777)
    with pytest.raises(errors.KernelImportError, match="open to other users"):
        stamped()


def test_no_record_if_it_cannot_be_written(place, hook, fake, monkeypatch):
    write(place, "stats.mojo")
    monkeypatch.setattr(import_cache, "MTIME_RACE_NS", -(1 << 62))
    fake.cache.parent.mkdir()
    (fake.cache.parent / "imports").write_text("in the way")
    assert importlib.import_module("stats").add(1, 2) == 3
    monkeypatch.setattr(import_cache, "UNAMBIGUOUS", ())
    (fake.cache.parent / "imports").unlink()
    import_cache.store(str(place / "stats.mojo"), [], sys.modules["stats"].__mojo__)
    assert not (fake.cache.parent / "imports").exists()


# ---- the real compiler
RELATIVE = '''"""Inner."""
from mojoview import E_USER, OK, Status
from ..helper import thrice

comptime E_COLD = Status(E_USER + 1)
"""ValueError: too cold."""


@export("add")
def add(a: Float64, b: Float64) abi("C") -> Float64:
    """Three times a, and b."""
    return thrice(a) + b


@export("probe")
def probe(a: Float64) abi("C") -> Status:
    return E_COLD if a < 0 else OK
'''


@pytest.mark.mojo
@pytest.mark.slow  # three compilations; test_minimal.py imports a Mojo file by the hook, too
def test_real_kernels_that_import_each_other(mojo_cache, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    write(tmp_path, "realpk/__init__.py", "")
    write(tmp_path, "realpk/helper.mojo", "def twice(x: Float64) -> Float64:\n    return 2 * x\n")
    write(tmp_path, "realpk/stats.mojo", "from realpk.helper import twice\n\n\n" + ADD.replace("a + b", "twice(a) + b"))
    write(tmp_path, "realpk/broken.mojo", ADD.replace("a + b", "a + nowhere"))
    write(tmp_path, "realpk/deep/__init__.mojo", "")
    write(tmp_path, "realpk/deep/helper.mojo", "def thrice(x: Float64) -> Float64:\n    return 3 * x\n")
    write(tmp_path, "realpk/deep/inner/__init__.mojo", "")
    write(tmp_path, "realpk/deep/inner/stats.mojo", RELATIVE)
    monkeypatch.setattr(import_cache, "MTIME_RACE_NS", -(1 << 62))
    try:
        with mv.enable_hook():
            from realpk import stats

            assert stats.add(1, 2) == 4
            for _ in range(2):  # the second one by its stamp
                from realpk.deep.inner import stats as inner

                kernels = inner.__mojo__
                assert (inner.add(1, 2), inner.__doc__, inner.add.__doc__) == (5, "Inner.", "Three times a, and b.")
                assert (kernels.name, kernels.path, list(kernels)) == ("stats", Path(inner.__file__), ["add", "probe"])
                with pytest.raises(errors.KernelValueError, match=r"too cold \(E_COLD, status 65\)") as caught:
                    inner.probe(-1)
                last = traceback.extract_tb(caught.value.__traceback__)[-1]
                assert (last.filename, last.line) == (inner.__file__, 'def probe(a: Float64) abi("C") -> Status:')
                del sys.modules["realpk.deep.inner.stats"]
                delattr(sys.modules["realpk.deep.inner"], "stats")
                monkeypatch.setattr(hook_module, "load", None)
            monkeypatch.setattr(hook_module, "load", mv.load)
            with pytest.raises(errors.KernelImportError) as caught:
                importlib.import_module("realpk.broken")
            assert (caught.value.file, caught.value.line, caught.value.column) == (
                str(tmp_path / "realpk/broken.mojo"),
                3,
                16,
            )
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == "realpk"]:
            del sys.modules[name]
