"""Runs in a process of its own, with the installed package and the compiled consumer on the path."""

import gc
import sys
import threading

import numpy as np
import reader
import state_reader

import mojoview as mv
from mojoview.memory._lease import live_leases


def raises(error, function, *args):
    try:
        function(*args)
    except error:
        return
    raise AssertionError(f"{function} did not raise {error}")


array = np.arange(1000.0)
before, count = live_leases(), sys.getrefcount(array)
view = mv.view(array)
assert reader.total(view) == array.sum()
assert reader.total(view[::-3]) == array[::-3].sum()
assert reader.total(mv.view(np.zeros(0))) == 0
writable = mv.view(array, writable=True)
reader.double(writable[::2])
assert array[2] == 4
assert array[3] == 3
raises(mv.ReadOnlyError, reader.double, view)
raises(TypeError, reader.total, array)
raises(TypeError, reader.total, None)
raises(TypeError, reader.total, mv.view(np.arange(3)))
raises(TypeError, reader.total, mv.view(np.arange(3.0).astype(">f8")))
raises(BufferError, reader.release_while_held, view)
view.release()  # whatever failed has dropped what it held
raises(mv.ReleasedError, reader.total, view)
del view, writable
gc.collect()
assert live_leases() == before
assert sys.getrefcount(array) == count

with mv.State.create(None, [("words", "u8", 10)]) as state:
    memory, answers = state.memory(), []
    thread = threading.Thread(target=lambda: answers.append(state_reader.follow(memory, 20_000)))
    thread.start()
    for number in range(1, 20_001):
        state.out["words"] = number
        state.publish()
    thread.join(60)
    assert answers == [0]
raises(TypeError, state_reader.follow, mv.view(np.zeros(8192, "u1")), 1)
print("ok", mv.__file__)
