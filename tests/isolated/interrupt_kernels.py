"""Ctrl-C in the middle of long kernels: KeyboardInterrupt within half a second, everything released."""

import os
import signal
import threading
import time

import numpy as np
from support.foreign import array, kernel, value

from mojoview import kernels
from mojoview.memory._lease import live_leases

x = np.ones(40_000_000, "f4")
out = np.empty_like(x)
rows = np.zeros((400, 65_536), "f4").view("f8")
spin = kernel("spin", array("x", "inout", ndim=2), value("rounds", "int64"))


def interrupted(name, work):
    sent = []

    def later():
        time.sleep(0.15)
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=later)
    leases = live_leases()
    thread.start()
    try:
        while True:
            work()
    except KeyboardInterrupt:
        late = time.perf_counter() - sent[0]
    thread.join()
    assert late < 0.5, late
    assert live_leases() == leases
    print(name, f"{late:.3f}")


interrupted("split", lambda: spin(rows, 5_000_000, threads=2))
interrupted("reduction", lambda: kernels.var(x, threads=2))
interrupted("elementwise", lambda: kernels.multiply(x, x, out, threads=2))
assert kernels.sum(x, threads=2) == 40_000_000
print("after")
