"""Ahead-of-time builds: libraries and their signature files, for machines without a compiler."""

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from native import build as native
from support.process import run_code

import mojoview as mv
from mojoview.cli.main import main
from mojoview.loading import description
from mojoview.loading.elf import code_digest, drop_run_path, read_elf
from mojoview.loading.mojo import aot
from mojoview.memory import _lease
from mojoview.memory.errors import (
    ArgumentError,
    CompilerNotFound,
    CompileTimeoutError,
    KernelCompileError,
    KernelError,
)

SAXPY = Path(__file__).parents[3] / "docs" / "examples" / "saxpy.mojo"
OTHER = {"x86_64": "aarch64", "aarch64": "x86_64"}[platform.machine()]


# ---- with a fake compiler
@pytest.fixture
def made(fake, tmp_path):
    """A library and its signature file."""
    aot.compile_library(fake.source, tmp_path / "libfake.so")
    return tmp_path / "libfake.so"


def test_library_is_loaded_without_a_compiler(made, monkeypatch):
    monkeypatch.setenv("MOJO", "/nowhere/mojo")
    module = mv.load_library(made)
    assert module.add(1.5, 2.0) == 3.5
    assert module.library == made
    assert str(module.add.signature) == "add(a: Float64, b: Float64) -> Float64"
    assert made.stat().st_mode & 0o777 == 0o755
    with pytest.raises(ArgumentError, match="a signature file has no sizes"):
        mv.load_library(made, sizes={"n": "x"})


def test_nothing_else_is_left(made, tmp_path):
    assert {p.name for p in tmp_path.iterdir()} - {"mojo", "log", "source"} == {"libfake.so", "libfake.so.json"}
    elf = read_elf(made)
    assert (elf.runpath, elf.exports, elf.machine) == ("", {"add"}, platform.machine())


@pytest.mark.skipif(not shutil.which("strip"), reason="there is no strip")
def test_stripped_library_is_still_the_one_described(made):
    before = made.read_bytes()
    subprocess.run(["strip", made], check=True)
    assert made.read_bytes() != before
    assert mv.load_library(made).add(1, 2) == 3


def reseal(path, change):
    body = json.loads(path.read_text())
    del body["seal"]
    change(body)
    path.write_text(json.dumps({**body, "seal": description.checksum(body)}))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda b: b.update(format="mojoview kernels 2"), "its format is 'mojoview kernels 2'"),
        (lambda b: b.update(code="0" * 64), "describes another library"),
        (lambda b: b["kernels"][0].update(name="sub"), "describes another library"),
        (lambda b: b["kernels"][0].update(result="pointer"), "not a signature file, or is damaged"),
        (lambda b: b["kernels"][0].update(sizes=[1]), "not a signature file, or is damaged"),
        (lambda b: b.pop("cpu"), "not a signature file, or is damaged"),
        (lambda b: b.update(kernels={"a": 1}), "not a signature file, or is damaged"),
    ],
)
def test_signatures_that_do_not_fit(made, change, why):
    reseal(description.description_path(made), change)
    with pytest.raises(KernelError, match=why):
        mv.load_library(made)


@pytest.mark.parametrize("data", [b"", b"{}", b"null", b"[" * 5000, b"\xff", b'{"seal": "0"}'])
def test_signature_files_that_are_damaged(made, data):
    description.description_path(made).write_bytes(data)
    with pytest.raises(KernelError, match="not a signature file, or is damaged"):
        mv.load_library(made)


def test_one_changed_letter_is_noticed(made):
    path = description.description_path(made)
    path.write_text(path.read_text().replace("float64", "float32", 1))
    with pytest.raises(KernelError, match="its checksum is wrong"):
        mv.load_library(made)


def test_library_without_signatures(made):
    description.description_path(made).unlink()
    with pytest.raises(ArgumentError, match=r"has no signature file libfake\.so\.json beside it"):
        mv.load_library(made)
    with pytest.raises(ArgumentError, match="not a file here"):
        mv.load_library("libm.so.6")


def test_library_for_a_newer_cpu(made, monkeypatch):
    monkeypatch.setattr(description, "cpu_features", lambda: set(description.LEVELS["x86-64-v2"]))
    reseal(description.description_path(made), lambda b: b.update(cpu="x86-64-v3"))
    with pytest.raises(KernelError, match="was compiled for x86-64-v3; this CPU lacks abm, avx, avx2"):
        mv.load_library(made)
    reseal(description.description_path(made), lambda b: b.update(cpu="x86-64-v2"))
    assert mv.load_library(made).add(1, 2) == 3
    assert description.missing_features("x86-64-v4", description.LEVELS["x86-64-v4"]) >= {"avx2", "sse4_2"}
    assert description.missing_features("znver3", set()) == set()


def test_compiler_that_is_killed(fake, tmp_path):
    fake.mode("killed")
    with pytest.raises(KernelCompileError, match="killed by signal 9"):
        aot.compile_library(fake.source, tmp_path / "x.so")
    with pytest.raises(KernelCompileError, match=r"rejects fake\.mojo\n.*killed by signal 9"):
        mv.load(fake.source)
    assert not (tmp_path / "x.so").exists()
    assert fake.left_over() == []
    fake.mode("")
    assert mv.load(fake.source).add(1, 2) == 3


@pytest.mark.parametrize(
    ("mode", "error", "why"),
    [
        ("refuse", KernelCompileError, "no such thing"),
        ("hang", CompileTimeoutError, "within 1 s"),
        ("runtime", KernelCompileError, "needs Mojo's runtime library"),
        ("garble", KernelCompileError, "cannot read"),
    ],
)
def test_failed_builds_write_nothing(fake, tmp_path, mode, error, why):
    fake.mode(mode)
    (tmp_path / "x.so").write_text("before")
    with pytest.raises(error, match=why):
        aot.compile_library(fake.source, tmp_path / "x.so", timeout=1 if mode == "hang" else 60)
    assert (tmp_path / "x.so").read_text() == "before"
    assert not (tmp_path / "x.so.json").exists()


def test_lines_that_need_the_runtime_are_named(fake, tmp_path):
    fake.mode("runtime")
    path = tmp_path / "wordy.mojo"
    path.write_text(f"# print\n{fake.text}def more() raises:\n    print('raise')\n")
    with pytest.raises(KernelCompileError) as caught:
        aot.compile_library(path, tmp_path / "x.so")
    said = str(caught.value)
    assert "Look at wordy.mojo:5: raises, wordy.mojo:6: print." in said
    assert "ASSERT=none" in said
    path.write_text(fake.text)
    with pytest.raises(KernelCompileError, match=r"allocating and bounds checks need it\. Let kernels return"):
        aot.compile_library(path, tmp_path / "x.so")


@pytest.mark.parametrize(
    ("options", "error", "why"),
    [
        ({"target_triple": "x86_64-pc-windows-msvc"}, ArgumentError, "target triple"),
        ({"target_triple": "riscv64-unknown-linux-gnu"}, ArgumentError, "target triple"),
        ({"target_triple": f"{OTHER}-unknown-linux-gnu", "target_cpu": "native", "cc": "cc"}, ArgumentError, "is no"),
        ({"target_cpu": "a b"}, ArgumentError, "target CPU"),
        ({"flags": ["--target-cpu=x"]}, ArgumentError, "of its own"),
        ({"flags": ["--emit", "asm"]}, ArgumentError, "is set by load"),
        ({"cc": "surely-not-cc -x"}, CompilerNotFound, "no C compiler 'surely-not-cc -x'"),
        ({"cc": "false"}, KernelCompileError, "false cannot link"),
    ],
)
def test_arguments_of_a_build(fake, tmp_path, options, error, why):
    with pytest.raises(error, match=why):
        aot.compile_library(fake.source, tmp_path / "x.so", **options)
    with pytest.raises(ArgumentError, match="no directory"):
        aot.compile_library(fake.source, tmp_path / "none" / "x.so")


def test_target():
    assert aot.Target.of(None, None) == aot.Target(
        f"{platform.machine()}-unknown-linux-gnu", {"x86_64": "x86-64"}.get(platform.machine(), "generic")
    )
    arm = aot.Target.of("aarch64-linux-gnu", None)
    assert (arm.cpu, arm.options()) == ("generic", ("--target-triple", "aarch64-linux-gnu", "--target-cpu", "generic"))
    assert aot.Target.of(None, "native").options() == ("--target-triple", f"{platform.machine()}-unknown-linux-gnu")


NOWHERE = [
    ("none.mojo", "-o", "out.so"),
    (".", "-o", "out.so"),
    ("a.mojo", "-o", "."),
    ("a.mojo", "-o", "none/out.so"),
    ("a.mojo", "-o", "a.mojo/out.so"),
    ("a.mojo/b.mojo", "-o", "out.so"),
    ("loop.mojo", "-o", "out.so"),
    ("a.mojo", "-o", ""),
    ("", "-o", "out.so"),
    ("a.mojo", "-o", "x" * 300),
    ("a.mojo", "-o", "out.so", "--depfile", "none/d"),
]


def test_paths_where_nothing_can_be_compiled(fake, tmp_path, monkeypatch, capsys):
    (tmp_path / "a.mojo").write_text(fake.text)
    (tmp_path / "loop.mojo").symlink_to("loop.mojo")
    monkeypatch.chdir(tmp_path)
    for words in NOWHERE:
        status = main(["compile", *words])
        said = capsys.readouterr().err
        assert (status, said[:18], "Traceback" in said) == (1, "mojoview compile: ", False), (words, said)


def test_command(fake, tmp_path, capsys):
    target, depfile = tmp_path / "out dir" / "lib.so", tmp_path / "deps.d"
    target.parent.mkdir()
    argv = ["compile", str(fake.source), "-o", str(target), "--flag=-D", "--flag=X=1", "--depfile", str(depfile)]
    assert main([*argv, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["kernels"] == {"add": "add(a: Float64, b: Float64) -> Float64"}
    assert said["library"] == str(target)
    assert mv.load_library(target).add(1, 2) == 3
    assert depfile.read_text() == f"{tmp_path}/out\\ dir/lib.so : {fake.source}\n"
    assert main(argv) == 0
    assert "add(a: Float64, b: Float64) -> Float64" in capsys.readouterr().out
    assert main(["compile", str(tmp_path / "none.mojo"), "-o", str(target)]) == 1
    assert "Traceback" not in capsys.readouterr().err
    fake.write("source", "none.mojo", "x = 1\n")


# ---- run paths
@pytest.mark.parametrize(
    "flags",
    [
        ["-Wl,-rpath,/some/where/lib", "-Wl,--enable-new-dtags"],
        ["-Wl,-rpath,/some/where/lib", "-Wl,--disable-new-dtags"],
        [],
    ],
)
def test_run_paths_are_taken_out(tmp_path, flags):
    source, library = tmp_path / "f.c", tmp_path / "f.so"
    source.write_text("#include <math.h>\ndouble f(double x) { return cos(x); }\n")
    subprocess.run(
        [native.COMPILERS[0], "-shared", "-fPIC", source, "-o", library, *flags, "-lm"],
        check=True,
        env=native.environment(),
    )
    before = read_elf(library)
    assert before.runpath == ("/some/where/lib" if flags else "")
    digest = code_digest(library)
    assert drop_run_path(library) == bool(flags)
    after = read_elf(library)
    assert after.runpath == ""
    assert (after.needed, after.exports, after.imports) == (before.needed, before.exports, before.imports)
    assert code_digest(library) == digest
    assert not drop_run_path(library)
    run_code("-c", f"import mojoview as mv; assert mv.load_library({str(library)!r}, 'double f(double)').f(0) == 1")


def test_damaged_files_are_refused_and_not_changed(tmp_path):
    whole, path, rng = Path(_lease.__file__).read_bytes(), tmp_path / "x.so", np.random.default_rng(3)
    table, outcomes = int.from_bytes(whole[40:48], "little"), set()
    cuts = [whole[:n] for n in (16, 60, 1000, len(whole) // 2)]
    for _ in range(100):
        at = table + int(rng.integers(0, 64 * 28))
        cuts.append(whole[:at] + rng.bytes(8) + whole[at + 8 :])
    for data in cuts:
        path.write_bytes(data)
        for read in (code_digest, drop_run_path):
            try:
                outcomes.add(type(read(path)))
            except KernelError:
                outcomes.add(KernelError)
                assert path.read_bytes() == data
    assert KernelError in outcomes
    for data in (b"", b"\x7fELF", b"text"):
        path.write_bytes(data)
        with pytest.raises(KernelError, match="not a 64-bit"):
            code_digest(path)


# ---- with the real compiler
TWICE = """
import sys, mojoview as mv, numpy as np
said = []
m, y = mv.load(sys.argv[1], progress=said.append), np.ones(3)
m.saxpy(2.0, np.arange(3.0), y)
assert y.tolist() == [1, 3, 5], y
print(len(said) > 0, m.library)
"""


@pytest.mark.mojo
@pytest.mark.slow  # compiles in a cache of its own
def test_two_processes_compile_once_and_the_result_can_be_moved(tmp_path):
    environment = os.environ | {"MOJOVIEW_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-W", "error", "-c", TWICE, SAXPY]
    pair = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = [process.communicate(timeout=280) for process in pair]
    assert [error for _, error in said] == ["", ""]
    assert sorted(out.split()[0] for out, _ in said) == ["False", "True"]
    library = Path(said[0][0].split()[1])
    assert [p.name for p in (tmp_path / "cache" / "mojo").iterdir()] == [library.parent.name]
    assert read_elf(library).runpath == ""
    data = library.read_bytes()
    for trace in (sys.prefix, str(tmp_path), "site-packages"):
        assert trace.encode() not in data


DRIVER = r"""
#include <stdio.h>
#include "abi.h"
int64_t saxpy(double a, const mv_desc *x, const mv_desc *y);
int main(void) {
    double xs[5] = {0, 1, 2, 3, 4}, ys[5] = {1, 1, 1, 1, 1};
    _Alignas(64) mv_desc x = {.data = xs, .size = 5, .stride = {1}, .ndim = 1, .dtype_code = 2, .dtype_bits = 64,
                              .dtype_lanes = 1, .itemsize = 8, .struct_bytes = 256, .abi_version = 1, .shape = {5},
                              .strides = {8}};
    mv_desc y = x;
    y.data = ys;
    long status = (long)saxpy(2.0, &x, &y);
    y.size = y.shape[0] = 4;
    printf("%ld %g %g %g %ld\n", status, ys[0], ys[2], ys[4], (long)saxpy(2.0, &x, &y));
    return 0;
}
"""


@pytest.mark.mojo
def test_library_for_the_other_architecture(tmp_path):
    """Its kernel runs under emulation; this machine refuses it by name."""
    compiler, emulator = (
        f"{OTHER}-linux-gnu-gcc",
        next(filter(shutil.which, (f"qemu-{OTHER}", f"qemu-{OTHER}-static")), None),
    )
    if not shutil.which(compiler) or not emulator:
        pytest.skip(f"{compiler} and qemu-{OTHER} are not both installed")
    library = tmp_path / "libsaxpy.so"
    aot.compile_library(SAXPY, library, target_triple=f"{OTHER}-unknown-linux-gnu")
    elf = read_elf(library)
    assert (elf.machine, elf.runpath, elf.needed) == (OTHER, "", [])
    with pytest.raises(KernelError, match=f"was compiled for {OTHER}, this machine is {platform.machine()}"):
        mv.load_library(library)
    (tmp_path / "driver.c").write_text(DRIVER)
    subprocess.run(
        [compiler, tmp_path / "driver.c", library, f"-I{mv.get_include()}", "-o", tmp_path / "driver"], check=True
    )
    done = subprocess.run(
        [emulator, "-L", f"/usr/{OTHER}-linux-gnu", "-E", f"LD_LIBRARY_PATH={tmp_path}", tmp_path / "driver"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("0 1 5 9 5\n", "", 0)
