"""A forked child uses and releases its own copies of the parent's views, and changes nothing for the parent."""

import gc
import os
import sys
import warnings

import numpy as np

import mojoview as mv
from mojoview.memory._lease import live_leases

warnings.simplefilter("ignore", DeprecationWarning)  # fork beside NumPy's threads
memory = bytearray(np.arange(8.0).tobytes())
view = mv.view(memory)
array = np.asarray(view.cast("f8"))
before = live_leases()
child = os.fork()
if child == 0:
    status = 1
    try:
        assert live_leases() == before
        assert array[3] == 3.0
        part = view[8:16]
        del array
        gc.collect()
        view.release()
        part.release()
        memory.append(0)
        assert live_leases() == before - 1 or live_leases() == before - 2
        status = 0
    finally:
        os._exit(status)
_, status = os.waitpid(child, 0)
assert status == 0, status
assert live_leases() == before
assert array[7] == 7.0
try:
    memory.append(0)
except BufferError:
    print("ok")
else:
    sys.exit("the parent's export is gone")
