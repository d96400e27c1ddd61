"""Programs that tests run in processes of their own: `python programs.py NAME`."""

import gc
import os
import signal
import sys
import threading
import time
import warnings

import numpy as np
from safety.hostile import kernel, safe

import mojoview as mv
from mojoview.memory._lease import live_leases
from mojoview.safety.workers.worker_pool import POOL

warnings.simplefilter(
    "ignore", DeprecationWarning
)  # newer Pythons warn about fork beside threads: that is what is tested


def interrupt():
    """Ctrl-C in an isolated call: KeyboardInterrupt at once, nothing lost, the next call works."""
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
    """A forked child has workers and threads of its own; the parent's go on."""
    big = np.ones(100_000)
    mine = safe("process", 0, isolate=True)
    running = kernel("naps").submit(np.zeros(5000), 300)
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
    assert running.result(30) is None


def orphan():
    """Prints the pid of a worker that is in an endless loop, and waits to be killed."""
    pid = safe("process", 0, isolate=True)
    threading.Thread(target=safe, args=("spin", np.zeros(3)), kwargs={"isolate": True}, daemon=True).start()
    time.sleep(0.2)
    print(pid, flush=True)
    time.sleep(60)


def leave():
    """Ends while a worker is warm, another is busy, a kernel runs on a thread and calls wait."""
    threading.Thread(target=suppressed, daemon=True).start()
    while not POOL.pids:
        time.sleep(0.01)
    safe("process", 0, isolate=True)
    waiting = [kernel("naps").submit(np.zeros(5000), 20_000) for _ in range(100)]
    time.sleep(0.3)
    assert waiting[0].state == "RUNNING"
    assert waiting[-1].state == "PENDING"
    print(*POOL.pids)


def suppressed():
    try:
        safe("spin", np.zeros(3), isolate=True)
    except mv.MojoViewError:
        return


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    if sys.argv[1] in ("interrupt", "fork"):
        print("ok")
