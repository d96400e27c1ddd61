"""Threads, signals, forks and exit: one result for any number of threads, one exception, no hang."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from native import build
from support.foreign import array, kernel, value
from support.process import ISOLATED, run_code, run_isolated
from support.threads import run_threaded

from mojoview import kernels
from mojoview.memory.errors import KernelError, KernelValueError, ShapeError


@pytest.mark.parametrize("threads", [1, 2, 3, 16])
def test_same_bits_for_every_number_of_threads(threads):
    rng = np.random.default_rng(0)
    for x in (
        rng.standard_normal(1_000_003),
        rng.standard_normal((300_000, 3)).astype("f4"),
        rng.standard_normal((3, 300_000)).T,
        rng.integers(-99, 99, (700, 700)),
    ):
        for name in ("sum", "mean", "var", "min", "argmax", "count"):
            function = getattr(kernels, name)
            assert function(x, threads=threads) == function(x, threads=1) == function(x)
            for axis in range(x.ndim):
                assert (
                    np.asarray(function(x, axis=axis, threads=threads)).tobytes()
                    == np.asarray(function(x, axis=axis, threads=1)).tobytes()
                )
    out, again = np.empty_like(x), np.empty_like(x)
    kernels.multiply(x, x, out, threads=threads)
    kernels.multiply(x, x, again, threads=1)
    assert (out == again).all()
    assert (out == x * x).all()


def test_many_callers_at_once():
    arrays = [np.random.default_rng(k).standard_normal(400_000) for k in range(8)]
    expected = [kernels.sum(x, threads=1) for x in arrays]
    for _ in range(5):
        assert run_threaded(lambda k: [kernels.sum(arrays[k], threads=3) for _ in range(5)]) == [
            [e] * 5 for e in expected
        ]


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("n", [10, 65_536, 500_000])
def test_one_exception_with_the_index(n, threads):
    roots = kernel("roots", array("x"), array("y", "out"), result="status_index")
    x = np.ones(n)
    for bad in ([5], [n - 1], [n // 2, n - 1], [0]):
        x[:] = 4
        x[bad] = -1
        for given in ({"threads": threads}, {}):
            with pytest.raises(KernelError, match=rf"roots\(\).*at element {bad[0]}$") as caught:
                roots(x, np.empty(n), **given)
            assert (caught.value.code, caught.value.index, caught.value.kernel) == (64, bad[0], "roots")
    x[:] = 9
    out = np.zeros(n)
    roots(x, out, threads=threads)
    assert (out == 3).all()
    roots(x[::2], out[: len(x[::2])], threads=threads)
    assert (out == 3).all()


def test_foreign_kernels_on_rows():
    add = kernel("add_to", array("x"), array("y", "inout"))
    x, y = np.arange(300_000.0), np.zeros(300_000)
    add(x, y, threads=3)
    assert (y == x).all()
    add(np.empty(0), np.empty(0), threads=2)
    sums = kernel(
        "dot_pointers",
        array("x", passing="pointer"),
        array("y", passing="pointer"),
        value("n", "int64"),
        result="float64",
    )
    with pytest.raises(KernelValueError, match="threads"):
        sums(x, x, 3, threads=2)
    points = kernel("touch", array("x", "inout", passing="pointer"), result="none")
    with pytest.raises(KernelValueError, match="only kernels that take descriptors"):
        points(x, threads=2)
    free = kernel("sees", array("x"), array("out", "out", "int64"), shapes="free")
    with pytest.raises(ShapeError, match="same length"):
        free(x, np.zeros(22, "i8"), threads=2)


def test_ctrl_c_within_half_a_second():
    out = run_isolated("interrupt_kernels.py", timeout=120)
    assert [line.split()[0] for line in out.splitlines()] == ["split", "reduction", "elementwise", "after"]


def test_interrupts_reach_children_of_a_background_run():
    """A shell ignores SIGINT for what it runs with `&`, and its children inherit that."""
    child = "import os, signal; os.kill(os.getpid(), signal.SIGINT)"
    parent = (
        "import subprocess, sys\nfrom support.process import heed_interrupts\nheed_interrupts()\n"
        f"print(subprocess.run([sys.executable, '-c', {child!r}], capture_output=True).returncode)"
    )
    command = ["sh", "-c", 'trap "" INT; exec "$0" -c "$1"', sys.executable, parent]
    environment = os.environ | {"PYTHONPATH": str(ISOLATED.parent)}
    assert subprocess.check_output(command, text=True, env=environment) == f"{-signal.SIGINT}\n"


def test_fork_gets_a_fresh_pool():
    assert run_isolated("fork_with_kernels.py", timeout=120) == "ok\n"


def test_exit_with_busy_threads():
    code = (
        "import threading, numpy as np\nfrom mojoview import kernels\n"
        "x = np.ones(5_000_000)\nkernels.sum(x, threads=4)\n"
        "def work():\n    while True: kernels.sum(x, threads=4)\n"
        "threading.Thread(target=work, daemon=True).start()\nprint('leaving')"
    )
    assert run_code("-c", code, timeout=60) == "leaving\n"


def test_loops_do_not_use_python():
    with_python = {"call_args.h", "fast_path.h", "ndarray.h"}
    sources = [p for room in ("compute", "calls/native") for p in (build.PACKAGE / room).glob("*.[ch]")]
    loops = [path for path in [*sources, build.PACKAGE / "memory/numeric.h"] if path.name not in with_python]
    assert len(loops) > 10
    for path in loops:
        assert not re.search(r"\bPy[A-Z_]", path.read_text()), path


def test_python_runs_while_workers_run_chunks():
    """While a job runs, workers take chunks of it and Python goes on: nobody holds the GIL."""
    spin = kernel("spin", array("x", "inout", ndim=2), value("rounds", "int64"))
    rows = np.zeros((40, 65_536))
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(None)
            time.sleep(0.001)

    watcher = threading.Thread(target=tick)
    watcher.start()
    before = len(ticks)
    spin(rows, 3_000_000, threads=2)
    during = len(ticks) - before
    done.set()
    watcher.join()
    assert len(set(rows[:, 0])) == 2
    assert threading.get_native_id() in rows[:, 0]
    assert during > 3


def test_flags_of_the_callers_array_are_never_touched():
    shared, out = np.arange(5000.0), [np.empty(5000) for _ in range(8)]

    def work(k):
        for _ in range(200):
            kernels.sum(shared)
            kernels.copy(shared, out[k])
            assert shared.flags.writeable
        return True

    assert all(run_threaded(work))
    shared.flags.writeable = False
    assert all(run_threaded(lambda k: kernels.sum(shared) == 12497500.0 and not shared.flags.writeable))


def test_mojoview_threads_caps_the_pool():
    code = (
        "import os, threading, numpy as np\nfrom mojoview import kernels\nx = np.ones(3_000_000)\n"
        "before = len(os.listdir('/proc/self/task'))\nkernels.sum(x, threads=8)\n"
        "print(len(os.listdir('/proc/self/task')) - before)"
    )
    os.environ["MOJOVIEW_THREADS"] = "1"
    try:
        assert run_code("-c", code) == "0\n"
        os.environ["MOJOVIEW_THREADS"] = "3"
        assert run_code("-c", code) == "2\n"
        os.environ["MOJOVIEW_THREADS"] = "many"
        with pytest.raises(AssertionError, match="MOJOVIEW_THREADS: expected an integer of at least 1, got 'many'"):
            run_code("-c", code)
    finally:
        del os.environ["MOJOVIEW_THREADS"]
