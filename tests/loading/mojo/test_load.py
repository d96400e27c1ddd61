"""`load` with a fake compiler: results, rejected arguments, and how the compiler is found."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import mojoview as mv
from mojoview.loading.mojo import compilation, compiler, loader
from mojoview.loading.mojo.diagnostics import Diagnostic
from mojoview.memory import errors


# ---- the ordinary way
def test_a_file_becomes_a_module(fake):
    module = mv.load(fake.source)
    assert isinstance(module, mv.KernelModule)
    assert module.add(1.5, 2.0) == 3.5
    assert module.add is module["add"] is module.kernels["add"]
    assert (list(module), len(module), "add" in module, "sub" in module) == (["add"], 1, True, False)
    assert "add" in dir(module)
    assert repr(module) == "<KernelModule of fake.mojo, 1 kernels>\n  add(a: Float64, b: Float64) -> Float64"
    assert (module.__doc__, module.add.__doc__.endswith("Adds.")) == ("A file.", True)
    assert (module.path, module.library.parent.parent) == (fake.source, fake.cache)
    assert stat.S_IMODE(fake.cache.stat().st_mode) == 0o700
    assert fake.left_over() == []


@pytest.mark.parametrize("kind", [str, os.fsencode, Path])
def test_every_kind_of_path(fake, kind, monkeypatch):
    monkeypatch.chdir(fake.source.parent)
    assert mv.load(kind("fake.mojo")).add(1, 2) == 3


def test_the_first_load_of_a_content_alone_runs_the_compiler(fake, monkeypatch):
    first = mv.load(fake.source)
    assert len(fake.lines) == 3
    monkeypatch.setattr(subprocess, "Popen", None)
    again = mv.load(fake.source)
    elsewhere = mv.load(fake.write("other place", "fake.mojo"))
    assert first.library == again.library == elsewhere.library
    assert again.add(1, 2) == elsewhere.add(1, 2) == first.add(1, 2) == 3


def test_what_changes_the_key(fake, monkeypatch):
    mv.load(fake.source)
    mv.load(fake.source, flags=["-O1"])
    fake.source.write_text("import near\n" + fake.text)
    mv.load(fake.source)
    near = fake.write("source", "near.mojo", "1")
    mv.load(fake.source)
    near.write_text("2")
    mv.load(fake.source)
    assert len(fake.builds) == 5
    monkeypatch.setattr("mojoview.loading.mojo.compilation.host_cpu", lambda: "another")
    mv.load(fake.source)
    assert len(fake.builds) == 6
    os.utime(os.environ["MOJO"], (1, 1))  # another compiler
    mv.load(fake.source)
    assert len(fake.builds) == 7
    assert fake.left_over() == []


def test_a_changed_file_gives_a_new_module_beside_the_old_one(fake):
    old = mv.load(fake.source)
    fake.source.write_text(fake.text + "# more")
    new = mv.load(fake.source)
    assert new.library != old.library
    shutil.rmtree(fake.cache)
    assert old.add(1, 2) == new.add(1, 2) == 3


def test_progress_is_told_in_lines_and_not_at_all_from_the_cache(fake):
    fake.mode("slow")
    told = []
    mv.load(fake.source, progress=told.append)
    assert told[0].startswith("compiling fake.mojo with ")
    assert told[1] == "compiling fake.mojo: 1 s"
    assert told[-1].startswith("compiled fake.mojo in ")
    told.clear()
    mv.load(fake.source, progress=told.append)
    assert told == []


def test_nothing_is_written_beside_the_source(fake):
    fake.source.chmod(0o400)
    fake.source.parent.chmod(0o500)
    try:
        assert mv.load(fake.source).add(1, 2) == 3
        assert list(fake.source.parent.iterdir()) == [fake.source]
    finally:
        fake.source.parent.chmod(0o700)


# ---- refusals
def test_compile_error_as_data_and_text(fake):
    fake.mode("refuse")
    with pytest.raises(errors.KernelCompileError) as caught:
        mv.load(fake.source)
    (remark,) = caught.value.diagnostics
    assert remark == Diagnostic("error", "no such thing", "f.mojo", 3, 9, "    é = x")
    assert str(caught.value) == (
        "load(): the Mojo compiler rejects fake.mojo\nf.mojo:3:9: error: no such thing\n    é = x\n        ^"
    )
    assert fake.left_over() == []
    fake.mode("")
    assert mv.load(fake.source).add(1, 2) == 3


def test_compiler_that_dies(fake):
    fake.mode("die")
    with pytest.raises(errors.KernelCompileError, match=r"Segmentation fault.*\nexit status 245") as caught:
        mv.load(fake.source)
    assert caught.value.diagnostics == ()


def test_compiler_of_another_make(fake):
    fake.mode("garble")
    with pytest.raises(errors.KernelCompileError, match="cannot read the output of `mojo doc`"):
        mv.load(fake.source)
    assert fake.left_over() == []


def test_library_that_does_not_load(fake):
    fake.mode("needs")
    with pytest.raises(errors.KernelError, match=r"load\(\): fake.mojo was compiled, but cannot be loaded: .*nowhere"):
        mv.load(fake.source)


def test_entry_that_does_not_load_here_any_more_is_built_again(fake):
    fake.mode("needs")
    for _ in range(2):
        with pytest.raises(errors.KernelError, match="cannot be loaded"):
            mv.load(fake.source)
    fake.mode("")
    assert mv.load(fake.source).add(1, 2) == 3
    assert len(fake.builds) == 3


def test_source_that_keeps_changing(fake):
    fake.mode("touch")
    with pytest.raises(errors.KernelCompileError, match="kept changing"):
        mv.load(fake.source)
    assert len(fake.builds) == loader.ATTEMPTS


def test_no_kernel_of_that_name(fake):
    module = mv.load(fake.source)
    assert not hasattr(module, "sub")
    with pytest.raises(AttributeError, match=r"fake.mojo has no kernel 'sub'; its kernels are: add"):
        _ = module.sub
    with pytest.raises(errors.KernelAttributeError):
        _ = module["sub"]


@pytest.mark.parametrize(
    ("name", "flags", "words"),
    [
        ("none.mojo", (), "cannot read .*none.mojo: No such file"),
        ("fake.txt", (), "ends in .mojo, got 'fake.txt'"),
        (".", (), "ends in .mojo"),
        ("folder.mojo", (), "cannot read .*folder.mojo: Is a directory"),
        ("fake.mojo", "-O1", "sequence of strings, got '-O1'"),
        ("fake.mojo", [1], "sequence of strings"),
        ("fake.mojo", ["-o", "x"], "the flag -o is set by load"),
        ("fake.mojo", ["--emit=exe"], "the flag --emit=exe is set by load"),
    ],
)
def test_bad_arguments(fake, name, flags, words):
    (fake.source.parent / "folder.mojo").mkdir()
    with pytest.raises(errors.ArgumentError, match=words):
        mv.load(fake.source.parent / name, flags=flags)
    assert fake.lines == []


@pytest.mark.parametrize("name", ["mojoview", "mojoview.mojo"])
def test_a_neighbour_that_hides_the_library(fake, name):
    (fake.source.parent / name).mkdir()
    with pytest.raises(errors.ArgumentError, match=r"hides the Mojo package mojoview from fake.mojo; rename it"):
        mv.load(fake.source)


def test_include_directories_are_made_absolute(fake, monkeypatch):
    monkeypatch.chdir(fake.root)
    fake.write("lib", "shared.mojo", "1")
    fake.source.write_text("import shared\n" + fake.text)
    mv.load(fake.source, flags=["-I", "lib"])
    fake.write("lib", "shared.mojo", "2")
    mv.load(fake.source, flags=["-Ilib"])
    assert len(fake.builds) == 2


# ---- finding the compiler
@pytest.fixture
def no_compiler(monkeypatch, tmp_path):
    monkeypatch.delenv("MOJO", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(compiler, "PACKAGE", "no-such-package-as-this")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv" / "python"))


def program(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\necho Mojo 9.8.7 \\(abc\\)\n")
    path.chmod(0o755)
    return path


def test_no_compiler(no_compiler, tmp_path):
    assert compiler.find_compiler(required=False) is None
    file = tmp_path / "f.mojo"
    file.touch()
    with pytest.raises(errors.CompilerNotFound, match=r"pip install 'mojoview\[mojo\]'") as caught:
        mv.load(file)
    assert isinstance(caught.value, ImportError)


def test_where_the_compiler_is_looked_for(no_compiler, tmp_path, monkeypatch):
    on_path = program(tmp_path / "bin" / "mojo")
    assert compiler.find_compiler() == compiler.Compiler(on_path, "PATH")
    beside = program(tmp_path / "venv" / "mojo")
    assert compiler.find_compiler() == compiler.Compiler(beside, "beside python")
    named = program(tmp_path / "else" / "mojo-nightly")
    monkeypatch.setenv("MOJO", str(named))
    found = compiler.find_compiler()
    assert (found.path, found.found, found.version) == (named, "MOJO", "9.8.7")


@pytest.mark.mojo
def test_the_installed_package_comes_first(monkeypatch):
    monkeypatch.delenv("MOJO", raising=False)
    found = compiler.find_compiler()
    if found.found == "package":
        assert found.identity() == f"mojo-compiler {found.version}"
    assert found.path.exists()


@pytest.mark.parametrize("named", ["/no/such/mojo", "no-such-mojo"])
def test_environment_that_names_no_program(no_compiler, monkeypatch, named):
    monkeypatch.setenv("MOJO", named)
    with pytest.raises(errors.CompilerNotFound, match=f"MOJO names '{named}'"):
        compiler.find_compiler(required=False)


def test_program_that_cannot_be_run(fake):
    Path(os.environ["MOJO"]).write_bytes(b"\x7fELF nonsense")
    with pytest.raises(errors.CompilerNotFound, match="cannot be run"):
        mv.load(fake.source)
    assert fake.left_over() == []


def test_import_brings_no_compiler_parts():
    code = "import sys, mojoview.kernels; print([m for m in sys.modules if m.startswith('mojoview.loading')])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"


# ---- hostile arguments
@pytest.mark.parametrize(
    ("arguments", "options", "text"),
    [
        ((None,), {}, "path: expected a str or path-like, got NoneType"),
        ((3,), {}, "path: expected a str or path-like, got int"),
        (("a\0.mojo",), {}, "NUL"),
        ((), {"flags": None}, "flags: expected a sequence of strings"),
        ((), {"flags": 3}, "flags: expected a sequence of strings"),
        ((), {"flags": (flag for flag in ["-D", "X=1"])}, "flags: expected a sequence of strings"),
        ((), {"flags": {"-D"}}, "flags: expected a sequence of strings"),
        ((), {"flags": ["-D", "a\0"]}, "NUL"),
        ((), {"timeout": None}, "timeout: expected a non-negative number of seconds"),
        ((), {"timeout": "1"}, "timeout: expected a non-negative number of seconds"),
        ((), {"timeout": float("nan")}, "timeout: expected a non-negative number of seconds"),
        ((), {"timeout": -1}, "timeout: expected a non-negative number of seconds"),
        ((), {"timeout": True}, "timeout: expected a non-negative number of seconds"),
        ((), {"progress": 3}, "progress: expected a callable, got int"),
    ],
)
def test_arguments_of_wrong_types_are_refused(fake, arguments, options, text):
    with pytest.raises(errors.ArgumentError, match=text):
        mv.load(*(arguments or (fake.source,)), **options)


@pytest.mark.parametrize(
    "make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero"), lambda path: path.symlink_to(path)]
)
def test_files_whose_reading_may_never_end_are_not_read(fake, make):
    path = fake.source.with_name("endless.mojo")
    make(path)
    with pytest.raises(errors.ArgumentError, match=r"expected a regular file|cannot read"):
        mv.load(path)


def test_a_file_that_vanishes_while_it_is_compiled(fake, monkeypatch):
    run_together = compilation.run_together

    def vanish(*args, **options):
        runs = run_together(*args, **options)
        fake.source.unlink()
        return runs

    monkeypatch.setattr(compilation, "run_together", vanish)
    with pytest.raises(errors.ArgumentError, match=r"cannot read .*No such file"):
        mv.load(fake.source)
    assert fake.left_over() == []
