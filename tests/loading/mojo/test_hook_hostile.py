"""The import hook under hostile conditions: odd names, symlink loops, vanishing files, reloads while calls run."""

import importlib
import importlib.util
import threading
import types

import pytest
from support.modules import ADD, write

from mojoview.loading.mojo import hook as hook_module


@pytest.mark.parametrize("name", ["größe", "数", "_private", "ümlaut.größe"])
def test_names_in_other_alphabets(place, hook, name):
    write(place, f"{name.replace('.', '/')}.mojo")
    module = importlib.import_module(name)
    assert (module.add(1, 2), module.__name__) == (3, name)


def test_exports_with_names_of_pythons_own(place, hook, monkeypatch):
    own = dict.fromkeys(("__path__", "__spec__", "__file__", "__name__", "__class__", "__all__", "__getattr__"), 5)
    kernels = type("Kernels", (dict,), {"library": None})({"add": 3, **own})
    monkeypatch.setattr(hook_module, "load", lambda path, **options: kernels)
    path = write(place, "odd.mojo")
    odd = importlib.import_module("odd")
    assert (odd.add, odd.__all__, odd.__name__, odd.__file__) == (3, ["add"], "odd", str(path))
    assert odd.__class__ is types.ModuleType
    assert not hasattr(odd, "__path__")
    assert importlib.reload(odd).__mojo__["__spec__"] == 5


def test_links_in_a_circle(place, hook):
    write(place, "pk/__init__.mojo", "")
    write(place, "pk/stats.mojo", "from pk.deep import f\n" + ADD)
    (place / "pk" / "deep").symlink_to("../pk", target_is_directory=True)
    (place / "loop.mojo").symlink_to("loop.mojo")
    importlib.invalidate_caches()
    assert importlib.import_module("pk.stats").add(1, 2) == 3
    assert importlib.util.find_spec("loop") is None


def test_a_current_directory_that_is_gone(place, hook, tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    monkeypatch.syspath_prepend("")
    write(place, "stats.mojo")
    assert importlib.util.find_spec("no_such_module") is None
    assert importlib.import_module("stats").add(1, 2) == 3


def test_calls_go_on_while_a_module_is_reloaded(place, hook):
    path = write(place, "stats.mojo")
    stats = importlib.import_module("stats")
    stop, failed = threading.Event(), []

    def call():
        while not stop.is_set():
            try:
                assert stats.add(1, 2) == 3
            except BaseException as error:
                failed.append(error)
                return

    threads = [threading.Thread(target=call) for _ in range(2)]
    for thread in threads:
        thread.start()
    for k in range(20):
        path.write_text(f"{ADD}# {k % 2}\n")
        importlib.reload(stats)
    stop.set()
    for thread in threads:
        thread.join(60)
    assert failed == []


def test_a_source_that_was_deleted_after_its_import(place, hook):
    path = write(place, "stats.mojo")
    stats = importlib.import_module("stats")
    path.unlink()
    importlib.invalidate_caches()
    with pytest.raises(ImportError, match="stats"):
        importlib.reload(stats)
    assert stats.add(1, 2) == 3
