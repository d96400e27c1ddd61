"""Nothing dangles: owners, exports and leases end when the last window does, in any order, and not before."""

from __future__ import annotations

import copy
import ctypes
import gc
import mmap
import pickle
import random
import sys
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.process import run_isolated

import mojoview as mv
from mojoview.memory._lease import Lease, live_leases
from mojoview.memory.errors import ArgumentError, ExportedError, ReleasedError
from mojoview.views._construct import rebind


def exports_of(exporter: bytearray) -> bool:
    """Whether anybody holds the bytearray's buffer."""
    try:
        exporter.append(0)
    except BufferError:
        return True
    exporter.pop()
    return False


DERIVATIONS = {
    "slice": lambda v: v[1:],
    "reverse": lambda v: v[::-1],
    "transpose": lambda v: v.T,
    "reshape": lambda v: v.reshape(-1, 1),
    "cast": lambda v: v.cast("i1"),
    "same": lambda v: mv.view(v),
    "data": lambda v: v.data,
    "row": lambda v: v[None][0],
}


@given(st.lists(st.sampled_from(sorted(DERIVATIONS)), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_the_export_ends_with_the_last_view_in_any_order(steps, chance):
    exporter = bytearray(64)
    before = live_leases()
    windows = [mv.view(exporter)]
    for step in steps:
        windows.append(DERIVATIONS[step](chance.choice(windows)) if windows[-1].ndim < 7 else windows[0][1:])
        assert live_leases() == before + 1  # one lease, one export, however many windows
    for window in list(windows):
        windows.append(memoryview(window) if window.ndim < 3 else np.asarray(window))
    del window
    chance.shuffle(windows)
    while windows:
        assert exports_of(exporter)
        last = windows.pop()
        if isinstance(last, mv.View) and chance.random() < 0.5 and not any(not isinstance(w, mv.View) for w in windows):
            last.release()
        del last
    assert not exports_of(exporter)
    assert live_leases() == before


def test_a_mapping_cannot_be_closed_under_a_view():
    mapping = mmap.mmap(-1, 64)
    view = mv.view(mapping)
    array = np.asarray(view[8:])
    for drop in (lambda: view.release(), lambda: None):
        drop()
        with pytest.raises(BufferError):
            mapping.close()
    del array
    mapping.close()


def test_a_view_keeps_a_temporary_alive():
    view = mv.view(np.full(10**6, 7.0))
    part = view[::100]
    address = view.ptr
    del view
    gc.collect()
    junk = [np.zeros(10**6) for _ in range(3)]
    assert part.ptr == address
    assert (np.asarray(part) == 7.0).all()
    del junk
    view = mv.view(memoryview(bytearray(b"\x07" * 1000)))
    assert int(view[999]) == 7


def test_owners_live_exactly_as_long_as_their_views():
    class Owner(np.ndarray):
        pass

    owner = np.arange(10).view(Owner)
    alive = weakref.ref(owner)
    views = [mv.view(owner), mv.view(owner)[::2]]
    del owner
    assert alive() is not None
    assert views[0].owner is alive()
    views.pop()
    assert alive() is not None
    views.pop().release()
    gc.collect()
    assert alive() is None


def test_weak_references():
    view = mv.view(np.arange(3))
    called = []
    reference = weakref.ref(view, lambda _: called.append(1))
    assert reference() is view
    del view
    assert called == [1]
    assert reference() is None


class Holder:
    """An exporter that can hold its own view."""

    def __init__(self):
        self.memory = bytearray(64)
        self.__array_interface__ = {"version": 3, "shape": (8,), "typestr": "<f8", "data": self.memory}


# No ndarray among the consumers: NumPy's arrays hide what they hold from the collector.
@pytest.mark.parametrize("consumer", ["none", "memoryview", "slice", "subclass"])
def test_cycles_are_collected_and_their_exports_given_back(consumer):
    before = live_leases()
    holder = Holder()
    memory = holder.memory
    view = mv.view(holder)
    assert view.owner is holder
    holder.view = view
    if consumer == "memoryview":
        holder.consumer = memoryview(view)
    elif consumer == "slice":
        holder.consumer = view[1:][::-1]
    elif consumer == "subclass":

        class Sub(mv.View):
            pass

        holder.consumer = rebind(Sub.__new__(Sub), view, pin=holder)
        holder.consumer.itself = holder.consumer
    alive = weakref.ref(holder)
    del holder, view
    assert alive() is not None
    gc.collect()
    assert alive() is None
    assert live_leases() == before
    assert not exports_of(memory)


# Before Python 3.13 the collector clears a memoryview also under the exports that others hold of it; PickleBuffer on
# a memoryview crashes that way without us.
EXPORTERS = {
    "memoryview": lambda: memoryview(bytes(80)),
    "part of a memoryview": lambda: memoryview(bytearray(80)).cast("d")[::2],
    "PickleBuffer": lambda: pickle.PickleBuffer(bytes(80)),
    "ctypes on a memoryview": lambda: (ctypes.c_double * 10).from_buffer(memoryview(bytearray(80))),
    "ndarray on a memoryview": lambda: np.frombuffer(memoryview(bytes(80))),
}


if sys.version_info >= (3, 13):  # 3.12 clears the memoryview inside its own wrapper of `__buffer__` under an export

    class PythonExporter:
        def __buffer__(self, flags):
            return memoryview(bytes(80))

    EXPORTERS["__buffer__"] = PythonExporter


@pytest.mark.parametrize("name", EXPORTERS)
def test_exporters_in_older_cycles_are_collected_quietly(name):
    before = live_leases()
    gc.collect()
    gc.disable()  # the collector clears the members of a cycle in the order of their age
    try:
        exporter = EXPORTERS[name]()
        holder = Holder()
        holder.exporter, holder.view, holder.itself = exporter, mv.view(exporter), holder
        holder.parts = [holder.view[1:], memoryview(holder.view)]
        alive = weakref.ref(holder)
        del exporter, holder
        gc.collect()
        assert alive() is None
        assert live_leases() == before
    finally:
        gc.enable()


def test_a_memoryview_may_be_released_under_its_view():
    memory = bytearray(b"abcdefgh")
    window = memoryview(memory)[2:]
    view = mv.view(window)
    window.release()
    assert bytes(view) == b"cdefgh"
    assert exports_of(memory)
    view.release()
    assert not exports_of(memory)
    with pytest.raises(mv.memory.errors.MojoViewError):
        mv.view(window)


def test_a_view_that_is_resurrected_still_works():
    saved = []

    class Owner:
        def __init__(self):
            self.__array_interface__ = {
                "version": 3,
                "shape": (8,),
                "typestr": "<f8",
                "data": bytearray(np.arange(8.0).tobytes()),
            }

        def __del__(self):
            saved.append(self.view)

    owner = Owner()
    owner.view = mv.view(owner)
    del owner
    gc.collect()
    assert saved[0][3] == 3.0
    saved.pop()
    gc.collect()


def test_release_refuses_while_consumers_live():
    view = mv.view(np.arange(10))
    for consumer in (memoryview(view), np.asarray(view), iter(memoryview(view))):
        with pytest.raises(ExportedError, match="still use its memory"):
            view.release()
        assert not view.closed
        del consumer
    view.release()
    assert view.closed


def test_views_cut_from_a_released_one_go_on():
    view = mv.view(np.arange(10))
    part = view[2:5]
    view.release()
    assert np.asarray(part).tolist() == [2, 3, 4]
    with pytest.raises(ReleasedError):
        view[0]


def test_context_manager():
    exporter = bytearray(8)
    with mv.view(exporter) as view:
        assert view.size == 8
        assert exports_of(exporter)
    assert view.closed
    assert not exports_of(exporter)
    with pytest.raises(ReleasedError), view:
        pass
    with pytest.raises(ExportedError), mv.view(exporter) as view:
        window = memoryview(view)
    window.release()


def test_a_consumer_in_a_traceback_does_not_replace_the_error():
    kept = []

    def fail_with_a_consumer(view):
        kept.append(np.asarray(view))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), mv.view(np.arange(3)) as view:
        fail_with_a_consumer(view)
    assert not view.closed
    kept.clear()
    view.release()


def test_memory_handed_out_by_address_survives_release():
    before = live_leases()
    view = mv.view(np.arange(1000).astype("M8[s]"))  # no buffer format: NumPy goes by the address
    array = np.asarray(view)
    view.release()
    assert view.closed
    gc.collect()
    junk = [np.full(1000, 7) for _ in range(100)]
    assert array[999] == np.datetime64(999, "s")
    assert live_leases() == before + 1
    del array, junk, view
    assert live_leases() == before


def test_the_base_of_an_exact_array_stays():
    dtype = np.dtype({"names": ["a", "b"], "formats": ["u4", "u2"], "offsets": [0, 0]})
    array = np.asarray(mv.view(np.full(1000, 5, dtype)))
    base = array
    while isinstance(base, np.ndarray):
        base = base.base
    base = base.obj if isinstance(base, memoryview) else base
    try:
        base.release()
    except ExportedError:
        pass
    else:
        assert base.closed
    del base
    gc.collect()
    junk = [np.zeros(1000, dtype) for _ in range(100)]
    assert (array["a"] == 5).all()
    del junk


def test_a_finalizer_that_releases_during_a_cut_is_harmless():
    view = mv.view(np.arange(10))

    class Bomb:
        def __init__(self):
            self.itself = self

        def __del__(self):
            view.release()

    threshold = gc.get_threshold()
    try:
        for _ in range(50):
            view = mv.view(np.arange(10))
            Bomb()
            gc.set_threshold(1)
            try:
                for _ in range(5):
                    part = view[1:]
                    assert part.size == 9
            except ReleasedError:
                pass
            finally:
                gc.set_threshold(*threshold)
            gc.collect()
    finally:
        gc.set_threshold(*threshold)


def test_pickling_and_copying_are_refused_with_the_remedy():
    view = mv.view(np.arange(3))
    for function in (pickle.dumps, copy.copy, copy.deepcopy, lambda v: pickle.dumps([v], 5)):
        with pytest.raises(TypeError, match=r"np\.array\(view\)"):
            function(view)


def test_views_and_leases_are_not_made_by_hand():
    for function in (mv.View, Lease, lambda: mv.View(np.arange(3)), lambda: type("Sub", (mv.View,), {})()):
        with pytest.raises(TypeError):
            function()
    unopened = mv.View.__new__(mv.View)
    assert unopened.closed
    with pytest.raises(ReleasedError):
        _ = unopened.shape
    unopened.release()
    assert "mojoview lease" in repr(Lease.__new__(Lease))


def test_adopt_opens_a_subclass_once():
    class Sub(mv.View):
        label = "x"

    source = mv.view(np.arange(5))
    pin = Holder()
    alive = weakref.ref(pin)
    target = rebind(Sub.__new__(Sub), source, pin=pin)
    del pin
    assert (target.label, target.shape, type(target)) == ("x", (5,), Sub)
    assert alive() is not None
    part = target[1:]
    assert type(part) is mv.View
    for again in (target, part):
        with pytest.raises(ArgumentError, match="fresh"):
            rebind(again, source)
    target.release()
    with pytest.raises(ArgumentError, match="fresh"):
        rebind(target, source)  # what was released stays so
    assert alive() is not None  # the part still needs it
    del part, again
    assert alive() is None
    with pytest.raises(ReleasedError):
        rebind(Sub.__new__(Sub), target)
    for bad in ((None, source), (source, None), (1, 2)):
        with pytest.raises(TypeError):
            rebind(*bad)


def test_the_pin_of_a_mask_is_kept_by_whatever_shows_it():
    from mojoview.views._construct import with_mask

    pin = Holder()
    alive = weakref.ref(pin)
    mask = rebind(mv.View.__new__(mv.View), mv.view(np.zeros(3, bool)), pin=pin)
    view = with_mask(mv.view(np.arange(3)), mask)
    del pin, mask
    shown = view.mask
    del view
    assert alive() is not None
    del shown
    assert alive() is None


def test_reference_counts_are_unchanged_by_bad_calls():
    array = np.arange(12.0).reshape(3, 4)
    view = mv.view(array)
    bad = [
        lambda: view[7, 7],
        lambda: view["x"],
        lambda: view[None, None, None, None, None, None, None],
        lambda: view.reshape(5),
        lambda: view.cast("O"),
        lambda: view.cast("S5"),
        lambda: mv.view(array[:, ::-1], copy="x"),
        lambda: view.T.reshape(12),
        lambda: view.__setitem__(0, 1),
        lambda: mv.view(np.broadcast_to(array, (2, 3, 4)), writable=True),
        lambda: memoryview(view.cast("M8[s]")),
        lambda: mv.from_ptr(8, (2,) * 9, "f8", owner=array),
        lambda: mv.from_ptr(8, 2, "f8", owner=array, strides=(0,), readonly=False),
    ]
    for call in bad:
        counts = sys.getrefcount(array), sys.getrefcount(view), sys.getrefcount(view.dtype), live_leases()
        for _ in range(100):
            with pytest.raises(mv.memory.errors.MojoViewError):
                call()
        assert (sys.getrefcount(array), sys.getrefcount(view), sys.getrefcount(view.dtype), live_leases()) == counts, (
            call
        )


def test_many_windows_dropped_in_random_order():
    chance = random.Random(1)
    memory = bytearray(4096)
    windows = [mv.view(memory)]
    for _ in range(500):
        start = chance.choice(windows)
        windows.append(start[:: chance.choice([1, -1])] if start.ndim == 1 else start.T)
    chance.shuffle(windows)
    for window in windows:
        assert exports_of(memory)
        window.release()
    assert not exports_of(memory)


@pytest.mark.parametrize("script", ["exit_with_views.py", "fork_with_views.py"])
def test_isolated(script):
    assert run_isolated(script).strip().endswith("ok")
