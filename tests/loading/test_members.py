"""python_attribute and python_callable: members of classes that mix Python and native code."""

import gc
import threading

import numpy as np
import pytest

import mojoview as mv
from mojoview import kernels
from mojoview.memory import errors


def test_an_attribute_is_bound_with_its_class_and_is_no_method():
    seen = []

    class Mean:
        order = 3
        native = kernels.mean
        reference = mv.python_attribute(lambda x: sum(x) / len(x))
        taps = mv.python_attribute(factory=lambda cls: seen.append(cls) or cls.order * 2)
        none = mv.python_attribute(None)

    class Child(Mean):
        order = 5

    x = np.array([1.0, 2.0])
    assert seen == [Mean]
    assert Mean().native(x) == Mean().reference(x) == Mean.reference(x) == 1.5
    assert (Mean.taps, Mean().taps, Child().taps, Mean.none) == (6, 6, 6, None)
    for change in (lambda m: setattr(m, "taps", 1), lambda m: delattr(m, "taps")):
        with pytest.raises(errors.MemberError, match=r"Mean\.taps was bound when the class was created") as caught:
            change(Mean())
        assert isinstance(caught.value, AttributeError)
    assert len(seen) == 1


@pytest.mark.parametrize(("args", "options"), [((), {}), ((1,), {"factory": int}), ((), {"factory": 5})])
def test_bad_attributes(args, options):
    with pytest.raises(errors.ArgumentError, match="python_attribute"):
        mv.python_attribute(*args, **options)


def test_an_attribute_that_belongs_to_no_class_yet():
    with pytest.raises(errors.MemberError, match="its class has not been created yet"):
        mv.python_attribute(factory=lambda cls: 1).__get__(None, int)


class Plain:
    def __init__(self):
        self.runs = 0

    @mv.python_callable
    def member(self):
        """Words."""
        self.runs += 1
        return [self.runs]


class Slotted:
    __slots__ = ("__weakref__", "runs")
    __hash__ = None

    def __init__(self):
        self.runs = 0

    def __eq__(self, other):
        return True

    @mv.python_callable
    def member(self):
        self.runs += 1
        return [self.runs]


@pytest.mark.parametrize("kind", [Plain, Slotted])
def test_computed_once_an_instance(kind):
    one, two = kind(), kind()
    assert one.member is one.member
    assert two.member is not one.member
    assert (one.runs, two.runs) == (1, 1)
    assert isinstance(kind.member, mv.python_callable)
    assert Plain.member.__doc__ == "Words."


def test_instances_without_a_dict_are_forgotten():
    one = Slotted()
    assert one.member == [1]
    assert len(Slotted.member._values) == 1
    del one
    gc.collect()
    assert Slotted.member._values == {}


def test_a_value_in_the_dict_can_be_forgotten_and_set():
    one = Plain()
    assert one.member == [1]
    del one.member
    assert one.member == [2]
    one.member = "set"
    assert (one.member, one.runs) == ("set", 2)


@pytest.mark.parametrize("kind", [Plain, Slotted])
def test_threads_compute_once(kind):
    started, go = threading.Event(), threading.Event()

    class Slow(kind):
        __slots__ = ()

        @mv.python_callable
        def member(self):
            self.runs += 1
            started.set()
            assert go.wait(60)
            return object()

    one, found = Slow(), []
    threads = [threading.Thread(target=lambda: found.append(one.member)) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert started.wait(60)
    go.set()
    for thread in threads:
        thread.join()
    assert (one.runs, len(found), len(set(map(id, found)))) == (1, 4, 1)
    assert Slow.member._computing == {}


def test_other_instances_do_not_wait_and_waiting_ends():
    started, go = threading.Event(), threading.Event()

    class Slow:
        def __init__(self, waits):
            self.waits = waits

        def member(self):
            if self.waits:
                started.set()
                assert go.wait(60)
            return 5

        member = mv.python_callable(member, timeout=0.01)

    one = Slow(True)
    thread = threading.Thread(target=lambda: one.member)
    thread.start()
    assert started.wait(60)
    assert Slow(False).member == 5
    with pytest.raises(errors.WaitTimeout, match=r"Slow\.member: another thread has been computing it for 0.01 s"):
        _ = one.member
    go.set()
    thread.join()
    assert one.member == 5


def test_what_the_function_raises_is_raised_and_not_values():
    class Fails:
        runs = 0

        @mv.python_callable
        def member(self):
            self.runs += 1
            if self.runs == 1:
                raise ZeroDivisionError
            return self.runs

        @mv.python_callable
        def endless(self):
            return self.endless

    one = Fails()
    with pytest.raises(ZeroDivisionError):
        _ = one.member
    assert one.member == 2
    with pytest.raises(RecursionError):  # and no deadlock
        _ = one.endless
    assert Fails.endless._computing == {}


def test_a_class_without_room():
    class Bare:
        __slots__ = ()

        @mv.python_callable
        def member(self):
            return 1

    with pytest.raises(errors.MemberError, match="Bare cannot store member"):
        _ = Bare().member


@pytest.mark.parametrize(("function", "options"), [(5, {}), (len, {"timeout": "1"}), (len, {"timeout": -1})])
def test_bad_members(function, options):
    with pytest.raises(errors.ArgumentError, match="python_callable"):
        mv.python_callable(function, **options)
