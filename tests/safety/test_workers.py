"""Life of worker processes: start, kill, fork, orphan, interrupt, sharing by threads, interpreter shutdown."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psutil
import pytest
from safety import hostile
from safety.hostile import safe
from support.process import run_code
from support.waiting import wait_until

import mojoview as mv
from mojoview.memory import errors
from mojoview.safety.workers import worker_process
from mojoview.safety.workers.worker_pool import POOL, WorkerPool, max_workers

PROGRAMS = Path(__file__).parent / "programs.py"


@pytest.fixture(scope="module", autouse=True)
def built(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOSTILE_LIBRARY", str(hostile.build(tmp_path_factory.mktemp("library"))))
        yield


@pytest.mark.unsanitized
@pytest.mark.parametrize("program", ["interrupt", "fork"])
def test_interrupt_and_fork(program):
    assert run_code(str(PROGRAMS), program, timeout=120) == "ok\n"


def gone(pid: int) -> bool:
    try:
        psutil.Process(pid).wait(10)
    except psutil.NoSuchProcess:
        return True
    except psutil.TimeoutExpired:
        return False
    return True


@pytest.mark.unsanitized
def test_workers_end_with_the_interpreter():
    pids = run_code(str(PROGRAMS), "leave", timeout=60).split()
    assert len(pids) == 2
    assert all(gone(int(pid)) for pid in pids)


@pytest.mark.unsanitized
def test_a_busy_worker_dies_with_a_killed_parent():
    environment = os.environ | {"PYTHONPATH": str(PROGRAMS.parents[1])}
    with subprocess.Popen(
        [sys.executable, str(PROGRAMS), "orphan"], stdout=subprocess.PIPE, text=True, env=environment
    ) as program:
        assert program.stdout is not None
        pid = int(program.stdout.readline())
        assert psutil.pid_exists(pid)
        program.kill()
    assert gone(pid)


def test_a_worker_killed_between_calls_is_replaced():
    pid = safe("process", 0, isolate=True)
    os.kill(pid, signal.SIGKILL)
    other = safe("process", 0, isolate=True)
    assert other != pid
    os.kill(other, signal.SIGSTOP)  # it dies with the request unread, so the call is retried with another worker
    threading.Timer(0.2, os.kill, (other, signal.SIGKILL)).start()
    assert safe("process", 0, isolate=True) not in (pid, other)


def test_a_worker_killed_in_a_call_is_a_crash(y):
    pid = safe("process", 0, isolate=True)
    threading.Timer(0.3, os.kill, (pid, signal.SIGKILL)).start()
    with pytest.raises(mv.KernelCrashed, match=r"SIGKILL \(sent from outside") as caught:
        safe("naps", y, 60_000, isolate=True)
    assert caught.value.signal == signal.SIGKILL
    assert y[0] == 0


def test_many_threads_share_a_few_workers():
    arrays = [np.full(1000 * (k % 7 + 1), float(k)) for k in range(40)]
    outs = [np.zeros_like(array) for array in arrays]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda pair: safe("doubled", *pair, isolate=True), zip(arrays, outs, strict=True)))
    for array, out in zip(arrays, outs, strict=True):
        np.testing.assert_array_equal(out, 2 * array)
    assert 1 <= len(POOL.pids) <= max_workers()


def test_waiting_for_a_worker_times_out(monkeypatch, y):
    monkeypatch.setenv("MOJOVIEW_WORKERS", "1")
    workers = WorkerPool()
    monkeypatch.setattr("mojoview.safety.workers._isolated_call.POOL", workers)
    with ThreadPoolExecutor(1) as pool:
        entered = threading.Event()

        def hold():
            worker, _ = workers.acquire(None, "held")
            entered.set()
            release.wait(60)
            workers.release(worker)

        release = threading.Event()
        held = pool.submit(hold)
        entered.wait(60)
        with pytest.raises(mv.KernelTimeout, match="no worker process became free"):
            safe("naps", y, 0, timeout=0.2)
        release.set()
        held.result()
        safe("naps", y, 0, timeout=60)
    workers.close()
    assert y[0] == 1
    for wrong in ("0", "many"):
        monkeypatch.setenv("MOJOVIEW_WORKERS", wrong)
        with pytest.raises(errors.KernelValueError, match="MOJOVIEW_WORKERS"):
            safe("naps", y, 0, isolate=True)


@pytest.fixture
def fresh_pool(monkeypatch):
    """A pool without workers."""
    workers = WorkerPool()
    monkeypatch.setattr("mojoview.safety.workers._isolated_call.POOL", workers)
    yield workers
    workers.close()
    assert workers.pids == []
    assert workers._starting == 0


@pytest.mark.parametrize(("program", "message"), [("exit 3", "it exited"), ("sleep 60", "in time"), ("echo", "exited")])
def test_a_program_that_is_no_python_is_an_error(program, message, monkeypatch, y, fresh_pool, tmp_path):
    """Also one that does not exit: the first line of the worker is waited for a few seconds only."""
    other = tmp_path / "python3"
    other.write_text(f"#!/bin/sh\n{program}\n")
    other.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(other))
    monkeypatch.setattr(worker_process, "HELLO_TIMEOUT_S", 0.5)
    with pytest.raises(mv.KernelError, match=f"did not start.*{message}"):
        safe("naps", y, 0, isolate=True)


def test_a_program_that_embeds_python_is_never_started(monkeypatch, y, fresh_pool, tmp_path):
    # a server with an embedded interpreter: patroni#1440
    server = tmp_path / "server"
    server.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    server.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(server))
    safe("naps", y, 0, isolate=True)  # by the interpreter beside the library
    fresh_pool.close()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path))
    for executable in (str(server), "", None, "/no/such/python"):
        monkeypatch.setattr(sys, "executable", executable)
        with pytest.raises(mv.KernelError, match=r"cannot be started.*is not a Python interpreter"):
            safe("naps", y, 0, isolate=True)
    monkeypatch.setattr(sys, "frozen", True, raising=False)  # pyinstaller#7580
    with pytest.raises(mv.KernelError, match="frozen"):
        safe("naps", y, 0, isolate=True)
    assert not (tmp_path / "started").exists()


def test_calls_are_served_in_the_order_in_which_they_came(monkeypatch, fresh_pool):
    """A call that comes later does not take the worker from one that waits."""
    monkeypatch.setenv("MOJOVIEW_WORKERS", "1")
    worker, _ = fresh_pool.acquire(None, "first")
    order, threads = [], []

    def wait(number):
        mine, _ = fresh_pool.acquire(None, f"call {number}")
        order.append(number)
        fresh_pool.release(mine)

    for number in range(20):
        threads.append(threading.Thread(target=wait, args=(number,)))
        threads[-1].start()
        wait_until(lambda: len(fresh_pool._waiting) == len(threads))
    fresh_pool.release(worker)
    mine, _ = fresh_pool.acquire(None, "last")
    assert order == list(range(20))
    fresh_pool.release(mine)
    for thread in threads:
        thread.join()


def test_one_deadline_holds_for_the_whole_call(monkeypatch, y, fresh_pool):
    """The time that a call waited for a worker is not given to the kernel again."""
    monkeypatch.setenv("MOJOVIEW_WORKERS", "1")
    seen = []
    worker, _ = fresh_pool.acquire(None, "first")

    def receive_reply(self, deadline):
        seen.append(deadline - begin)
        return type(self).receive_reply(self, deadline)

    monkeypatch.setattr(worker, "receive_reply", functools.partial(receive_reply, worker), raising=False)
    timer = threading.Timer(0.2, fresh_pool.release, (worker,))
    begin = time.monotonic()
    timer.start()
    safe("naps", y, 0, timeout=50)
    timer.join()
    assert 49 < seen[0] < 50.1  # 50 from the beginning of the call, not from the moment at which it got the worker


def test_a_worker_imports_no_pandas():
    safe("process", 0, isolate=True)
    maps = Path(f"/proc/{POOL.pids[0]}/maps").read_text()
    assert "numpy" in maps
    assert "pandas" not in maps


def test_the_package_imports_without_pandas_in_a_worker():
    code = (
        "import sys, numpy, mojoview; from mojoview.safety.workers import worker; "
        "print('pandas' in sys.modules, mojoview.kernels.sum(numpy.ones(3)), mojoview.safe_call.__name__)"
    )
    assert run_code("-X", "mojoview-worker", "-c", code) == "False 3.0 safe_call\n"


def test_a_worker_uses_the_package_of_its_parent(tmp_path):
    """A package of the same name that comes first on the parent's path is not imported."""
    (tmp_path / "mojoview").mkdir()
    (tmp_path / "mojoview" / "__init__.py").write_text("raise SystemExit('another package')")
    code = (
        "import sys, numpy as np, mojoview as mv; sys.path.insert(0, sys.argv[1]); "
        "print(mv.safe_call(mv.kernels.sum, np.ones(3), isolate=True))"
    )
    assert run_code("-c", code, str(tmp_path)) == "3.0\n"
