"""The interpreter ends while views, consumers, cycles and threads of ours are alive: no crash, no noise."""

import sys
import threading

import numpy as np

import mojoview as mv

keep = [mv.view(np.arange(10.0)), mv.view(bytearray(10))]
keep += [memoryview(keep[0]), np.asarray(keep[1]), keep[0][::2], np.asarray(mv.view(np.zeros(3, "M8[s]")))]
sys.kept = keep


class Owner:
    def __init__(self):
        self.__array_interface__ = {"version": 3, "shape": (8,), "typestr": "<f8", "data": bytearray(64)}

    def __del__(self):
        self.view[0]
        self.view.release()


owner = Owner()
owner.view = mv.view(owner)
other = Owner()
other.view = mv.view(other)
stop = threading.Event()
started = threading.Barrier(2)


def spin():
    started.wait()
    while not stop.is_set():
        mv.view(np.arange(10))[::2].release()


threading.Thread(target=spin, daemon=True).start()
started.wait()
print("ok")
