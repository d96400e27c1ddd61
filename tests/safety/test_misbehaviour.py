"""What a kernel does to its worker process stays with that worker: the next call gets a clean one."""

import os
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

import mojoview as mv
from mojoview.memory import errors
from mojoview.safety.workers.worker_pool import POOL

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
NAMES = [
    "count",
    "forks_and_crashes",
    "writes_to_descriptors",
    "closes_descriptors",
    "limits_descriptors",
    "unmaps_its_array",
    "overwrites_and_crashes",
]


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    library = tmp_path_factory.mktemp("library") / "libmisbehaves.so"
    source = Path(__file__).with_name("misbehaves.c")
    subprocess.run(["cc", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", source, "-o", library], check=True)
    return mv.load_library(library, "".join(f"double {name}(size_t n, const double *x);" for name in NAMES))


@pytest.fixture(autouse=True)
def one_worker(monkeypatch):
    monkeypatch.setenv("MOJOVIEW_WORKERS", "1")
    POOL.close()
    yield
    POOL.close()


@pytest.mark.parametrize("name", [name for name in NAMES if "crashes" not in name])
@pytest.mark.parametrize("size", [8, 5000, 100_000])
@pytest.mark.parametrize("safety", ["standard", "strict"])
def test_an_innocent_call_afterwards_is_right(kernels, name, size, safety):
    x = np.arange(float(size))
    for _ in range(3):
        blamed = name  # if there is an error, it names the call that did it
        try:
            assert mv.safe_call(getattr(kernels, name), x, isolate=True, safety=safety) == size
        except (errors.KernelError, errors.MojoSafetyError) as error:
            blamed = str(error)
        assert name in blamed
        assert mv.safe_call(kernels.count, x, isolate=True, safety=safety) == size
        assert mv.safe_call(mv.kernels.sum, x, isolate=True) == x.sum()


def test_a_crash_is_noticed_while_a_child_of_the_worker_lives(kernels):
    x = np.ones(4)
    children = set()
    for options in ({"isolate": True}, {"timeout": 60}):
        mv.safe_call(kernels.count, x, isolate=True)
        (worker,) = POOL.pids
        begin = time.monotonic()
        with pytest.raises(mv.KernelCrashed, match="SIGSEGV in forks_and_crashes"):
            mv.safe_call(kernels.forks_and_crashes, x, **options)
        assert time.monotonic() - begin < 30  # the child sleeps for 60 s
        children |= {
            p for p in psutil.process_iter() if p.ppid() != os.getpid() and p.pid != worker and is_of(p, worker)
        }
    for child in children:
        child.kill()


def is_of(process, group):
    try:
        return os.getpgid(process.pid) == group
    except ProcessLookupError:
        return False


def test_a_stray_write_is_no_failed_allocation(kernels):
    with pytest.raises(mv.KernelCrashed) as caught:
        mv.safe_call(kernels.overwrites_and_crashes, np.ones(64), isolate=True)
    assert not isinstance(caught.value, errors.KernelMemoryError)
    assert caught.value.signal in (7, 11)


PROGRAMS = {
    # numpy#16753, poetry#690: a file in the working directory with the name of a module of the standard library
    "a module in the current directory": "open('json.py', 'w').write('raise SystemExit(9)')",
    # koan#273: a program without standard streams
    "closed standard streams": "[os.close(fd) for fd in (0, 1, 2)]",
    "a closed standard input": "os.close(0)",
    "an interactive path": "sys.path.insert(0, ''); open('pickle.py', 'w').write('raise SystemExit(9)')",
    "an empty environment": "[os.environ.pop(name) for name in list(os.environ) if name not in SANITIZER]",
    "no descriptors left": """
import resource
mv.safe_call(mv.kernels.sum, x, isolate=True)  # a worker is there
resource.setrlimit(resource.RLIMIT_NOFILE, (3, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
""",
}


@pytest.mark.parametrize("situation", PROGRAMS)
def test_workers_start_in_any_program(situation, tmp_path):
    program = f"""
import os, sys, numpy as np, mojoview as mv
SANITIZER = ("LD_PRELOAD", "ASAN_OPTIONS", "UBSAN_OPTIONS")  # without its runtime a sanitizer build does not start
x = np.arange(4.0)
{textwrap.dedent(PROGRAMS[situation])}
good = mv.safe_call(mv.kernels.sum, x, isolate=True) == 6
good = good and mv.safe_call(mv.kernels.sum, x, timeout=30, memory_limit=1 << 28) == 6
os._exit(5 if good else 6)
"""
    script = tmp_path / "elsewhere" / "program.py"
    script.parent.mkdir()
    script.write_text(program)
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 5, done.stderr
