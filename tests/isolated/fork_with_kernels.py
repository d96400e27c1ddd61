"""Children of a process whose pool has workers get a pool of their own, also in the middle of a job."""

import os
import threading
import warnings

import numpy as np

from mojoview import kernels

warnings.simplefilter(
    "ignore", DeprecationWarning
)  # newer Pythons warn about fork beside threads: that is what is tested
x = np.ones(3_000_000)
expected = kernels.sum(x, threads=4)
stop = threading.Event()


def busy():
    while not stop.is_set():
        kernels.sum(x, threads=3)


thread = threading.Thread(target=busy)
thread.start()
for _ in range(20):
    child = os.fork()
    if child == 0:
        good = all(kernels.sum(x, threads=t) == expected for t in (1, 2, 4)) and kernels.mean(x, threads=2) == 1.0
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
thread.join()
assert kernels.sum(x, threads=4) == expected
print("ok")
