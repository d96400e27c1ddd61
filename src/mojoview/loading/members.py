"""Members of classes that mix Python and native code: bound once, and never taken for methods."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import suppress
from threading import Lock, RLock
from typing import Any, Generic, Self, TypeVar, cast, overload

from mojoview.memory.errors import ArgumentError, MemberError, WaitTimeout
from mojoview.memory.check import seconds_of

__all__ = ["python_attribute", "python_callable"]

T = TypeVar("T")
_UNSET: Any = object()


class python_attribute(Generic[T]):
    """python_attribute(value=..., /, *, factory=None)

    A class attribute that is bound when the class is made and cannot be set on instances.

    A kernel in a class is no method: it does not take `self`. A Python function in a class does. With
    `python_attribute` both are the same kind of member: what is given comes back as it is, functions included.

    Parameters
    ----------
    value : object
        What the attribute is; or
    factory : callable
        Called once with the class, as soon as that is made; what it returns is the attribute. Subclasses inherit the
        value.

    Raises
    ------
    ArgumentError
        Both `value` and `factory`, or neither, are given.
    MemberError
        The attribute is set or deleted on an instance, an AttributeError.

    Notes
    -----
    Thread safety: immutable once its class is made.

    Examples
    --------
    >>> from mojoview import kernels, python_attribute
    >>> class Mean:
    ...     weight = 0.5
    ...     kernel = kernels.mean
    ...     reference = python_attribute(lambda x: sum(x) / len(x))
    ...     scale = python_attribute(factory=lambda cls: 2 * cls.weight)
    >>> x = np.array([1.0, 2.0])
    >>> Mean().kernel(x), float(Mean().reference(x)), Mean().scale
    (1.5, 1.5, 1.0)
    """

    __slots__ = ("_factory", "_name", "_value")

    def __init__(self, value: T = _UNSET, /, *, factory: Callable[[type], T] | None = None):
        if (value is _UNSET) == (factory is None):
            raise ArgumentError("python_attribute(): expected either a value or factory=, got "
                                + ("neither" if factory is None else "both"))
        if factory is not None and not callable(factory):
            raise ArgumentError(f"python_attribute(): factory: expected a callable, got {type(factory).__name__}")
        self._value, self._factory, self._name = value, factory, "attribute"

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name
        if self._factory is not None and self._value is _UNSET:
            self._value = self._factory(owner)

    def __get__(self, instance: object, owner: type | None = None) -> T:
        if self._value is _UNSET:
            raise MemberError(f"{self._name}: its class is not made yet")
        return self._value

    def __set__(self, instance: object, value: object) -> None:
        raise MemberError(f"{type(instance).__name__}.{self._name} was bound when the class was made")

    def __delete__(self, instance: object) -> None:
        raise MemberError(f"{type(instance).__name__}.{self._name} was bound when the class was made")


class python_callable(Generic[T]):
    """python_callable(function, /, *, timeout=600.0)

    A member that a function of the instance computes when it is first asked for, once, whatever the number of threads.

    The value is kept in the instance's `__dict__`, where later look-ups find it without calling anything; instances of
    classes without one (`__slots__`, extension types) are remembered by a weak reference. What the function raises is
    raised, and nothing is kept. `del instance.member` forgets a value in the `__dict__`.

    Parameters
    ----------
    function : callable
        Called with the instance.
    timeout : float
        Seconds for which a thread waits while another one computes the value.

    Raises
    ------
    ArgumentError
        `function` is no callable, or `timeout` no number of seconds.
    MemberError
        The class has room neither in a `__dict__` nor for weak references.
    WaitTimeout
        Another thread still computes the value after `timeout` seconds.

    Notes
    -----
    Thread safety: any thread. The function may use other members of its instance; two that wait for each other from two
    threads end with WaitTimeout.

    Examples
    --------
    >>> from mojoview import kernels, python_callable
    >>> class Signal:
    ...     def __init__(self, samples):
    ...         self.samples = samples
    ...     @python_callable
    ...     def energy(self):
    ...         print("computed")
    ...         return kernels.dot(self.samples, self.samples)
    >>> signal = Signal(np.array([1.0, 2.0]))
    >>> signal.energy + signal.energy
    computed
    10.0
    """

    def __init__(self, function: Callable[[Any], T], /, *, timeout: float = 600.0):
        if not callable(function):
            raise ArgumentError(f"python_callable(): expected a callable, got {type(function).__name__}")
        self.function, self.timeout = function, seconds_of(timeout, "python_callable()")
        self.__doc__ = function.__doc__
        self._name = getattr(function, "__name__", "member")
        self._lock = Lock()
        self._computing: dict[int, tuple[Any, list[int]]] = {}  # locks, and how many threads use them
        # by identity: instances may be equal, or have no hash
        self._kept: dict[int, tuple[weakref.ref[Any], T]] = {}

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> T: ...

    def __get__(self, instance: object, owner: type | None = None) -> Self | T:
        if instance is None:
            return self
        value = self._look(instance)
        if value is not _UNSET:
            return value
        key = id(instance)
        with self._lock:
            turn, users = self._computing.setdefault(key, (RLock(), [0]))
            users[0] += 1
        try:
            if not turn.acquire(timeout=self.timeout):
                raise WaitTimeout(f"{type(instance).__name__}.{self._name}: another thread has been computing it for"
                                  f" {self.timeout:g} s")
            try:
                value = self._look(instance)
                if value is _UNSET:
                    value = self.function(instance)
                    self._keep(instance, value)
                return value
            finally:
                turn.release()
        finally:
            with self._lock:
                users[0] -= 1
                if not users[0]:
                    self._computing.pop(key, None)

    def _look(self, instance: object) -> T:
        names = getattr(instance, "__dict__", None)
        if names is not None:
            return cast(T, names.get(self._name, _UNSET))
        reference, value = self._kept.get(id(instance), (None, _UNSET))
        return value if reference is not None and reference() is instance else _UNSET

    def _keep(self, instance: object, value: T) -> None:
        names = getattr(instance, "__dict__", None)
        if names is not None:
            names[self._name] = value
            return
        key, kept = id(instance), self._kept

        def forget(gone: weakref.ref[Any]) -> None:
            with suppress(KeyError):
                if kept[key][0] is gone:
                    del kept[key]

        try:
            kept[key] = weakref.ref(instance, forget), value
        except TypeError:
            raise MemberError(f"{type(instance).__name__} has no room for {self._name}: its instances have no __dict__"
                              " and take no weak references") from None
