"""Programs that tests run in processes of their own: `python programs.py NAME`."""

import gc
import os
import signal
import sys
import threading
import time
import warnings

import numpy as np
import psutil
from safety.hostile import Gate, kernel, safe
from support.waiting import wait_until

import mojoview as mv
from mojoview.memory._lease import live_leases
from mojoview.safety.workers.worker_pool import POOL

warnings.simplefilter(
    "ignore", DeprecationWarning
)  # newer Pythons warn about fork beside threads: that is what is tested


def interrupt():
    """Check that Ctrl-C in an isolated call raises at once, leaves the arrays alone and lets the next call work."""
    y = np.zeros(3)
    safe("process", 0, isolate=True)
    leases = live_leases()
    for options in ({"isolate": True}, {"timeout": 60}, {"isolate": True, "safety": "strict"}):
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        began = time.perf_counter()
        try:
            safe("spin", y, **options)
        except KeyboardInterrupt:
            late = time.perf_counter() - began - 0.2
        assert late < 0.5, late
        assert y.tolist() == [0, 0, 0]
        assert safe("process", 0, isolate=True) in POOL.pids
    gc.collect()
    assert live_leases() == leases


def fork():
    """Check that a forked child has workers and threads of its own, and the parent keeps its own."""
    big = np.ones(100_000)
    mine = safe("process", 0, isolate=True)
    gate = Gate(5000)
    running = kernel("waits").submit(gate.array)
    gate.wait_started()
    assert mv.kernels.sum.submit(big).result(30) == 100_000
    for _ in range(3):
        child = os.fork()
        if child == 0:
            theirs = safe("process", 0, isolate=True)
            good = theirs != mine and theirs in POOL.pids and mine not in POOL.pids
            good = good and mv.kernels.sum.submit(big).result(30) == 100_000
            good = (
                good
                and running.done()
                and (running.state != "FAILED" or isinstance(running.exception(), mv.KernelError))
            )
            POOL.close()
            os._exit(0 if good else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert safe("process", 0, isolate=True) == mine
    gate.open()
    assert running.result(30) is None


def orphan():
    """Print the pid of a worker that is in an endless loop, and wait to be killed."""
    pid = safe("process", 0, isolate=True)
    threading.Thread(target=safe, args=("spin", np.zeros(3)), kwargs={"isolate": True}, daemon=True).start()
    worker = psutil.Process(pid)
    start = worker.cpu_times().user
    wait_until(lambda: worker.cpu_times().user > start + 0.05)
    print(pid, flush=True)
    signal.pause()


def leave():
    """End while a worker is warm, another is busy, a kernel runs on a thread and calls wait."""
    threading.Thread(target=spin_until_shutdown, daemon=True).start()
    wait_until(lambda: POOL.pids)
    safe("process", 0, isolate=True)
    gate = Gate(5000)
    waiting = [kernel("waits").submit(gate.array) for _ in range(100)]
    gate.wait_started()
    assert waiting[0].state == "RUNNING"
    assert waiting[-1].state == "PENDING"
    print(*POOL.pids)


def spin_until_shutdown():
    try:
        safe("spin", np.zeros(3), isolate=True)
    except mv.MojoViewError:
        return


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    if sys.argv[1] in ("interrupt", "fork"):
        print("ok")
