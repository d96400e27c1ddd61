"""Members of classes that mix Python and native code: bound once, never turned into methods."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import suppress
from threading import Lock, RLock
from typing import Any, Generic, Self, TypeVar, cast, overload

from mojoview.memory.check import seconds_of
from mojoview.memory.errors import ArgumentError, MemberError, WaitTimeout

__all__ = ["python_attribute", "python_callable"]

T = TypeVar("T")
_UNSET: Any = object()


class python_attribute(Generic[T]):
    """python_attribute(value=..., /, *, factory=None)

    A class attribute that is bound when the class is created and cannot be set on instances.

    A kernel in a class is not a method: it does not take `self`, while a Python function does. `python_attribute` makes
    both the same kind of member: the value is returned unchanged, also if it is a function.

    Parameters
    ----------
    value : object
        The value of the attribute.
    factory : callable
        Instead of a value: called once with the class, as soon as that is created, and returns the value. Subclasses
        inherit it.

    Raises
    ------
    ArgumentError
        Both `value` and `factory`, or neither, are given.
    MemberError
        The attribute is set or deleted on an instance, an AttributeError.

    Notes
    -----
    Thread safety: immutable once its class has been created.

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
            raise ArgumentError(
                "python_attribute(): expected either a value or factory=, got "
                + ("neither" if factory is None else "both")
            )
        if factory is not None and not callable(factory):
            raise ArgumentError(f"python_attribute(): factory: expected a callable, got {type(factory).__name__}")
        self._value, self._factory, self._name = value, factory, "attribute"

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name
        if self._factory is not None and self._value is _UNSET:
            self._value = self._factory(owner)

    def __get__(self, instance: object, owner: type | None = None) -> T:
        if self._value is _UNSET:
            raise MemberError(f"{self._name}: its class has not been created yet")
        return self._value

    def __set__(self, instance: object, value: object) -> None:
        raise MemberError(f"{type(instance).__name__}.{self._name} was bound when the class was created")

    def __delete__(self, instance: object) -> None:
        raise MemberError(f"{type(instance).__name__}.{self._name} was bound when the class was created")


class python_callable(Generic[T]):
    """python_callable(function, /, *, timeout=600.0)

    A member that a function of the instance computes on first access, once for all threads.

    The value is stored in the instance's `__dict__`, where later accesses find it without a call; for instances without
    one (`__slots__`, extension types), beside a weak reference to the instance. If the function raises, nothing is
    stored and the next access calls it again. `del instance.member` removes a value from the `__dict__`.

    Parameters
    ----------
    function : callable
        Called with the instance.
    timeout : float
        Seconds that a thread waits while another thread computes the value.

    Raises
    ------
    ArgumentError
        `function` is not callable, or `timeout` is not a number of seconds.
    MemberError
        Instances have neither a `__dict__` nor weak references.
    WaitTimeout
        Another thread has not computed the value within `timeout` seconds.

    Notes
    -----
    Thread safety: any thread. The function may use other members of its instance; two members that wait for each other
    in two threads raise WaitTimeout.

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
        self._computing: dict[int, tuple[Any, list[int]]] = {}  # lock, and the number of its users
        # By identity: instances may compare equal or be unhashable.
        self._values: dict[int, tuple[weakref.ref[Any], T]] = {}

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> T: ...

    def __get__(self, instance: object, owner: type | None = None) -> Self | T:
        if instance is None:
            return self
        value = self._lookup(instance)
        if value is not _UNSET:
            return value
        key = id(instance)
        with self._lock:
            lock, users = self._computing.setdefault(key, (RLock(), [0]))
            users[0] += 1
        try:
            if not lock.acquire(timeout=self.timeout):
                raise WaitTimeout(
                    f"{type(instance).__name__}.{self._name}: another thread has been computing it for"
                    f" {self.timeout:g} s"
                )
            try:
                value = self._lookup(instance)
                if value is _UNSET:
                    value = self.function(instance)
                    self._store(instance, value)
                return value
            finally:
                lock.release()
        finally:
            with self._lock:
                users[0] -= 1
                if not users[0]:
                    self._computing.pop(key, None)

    def _lookup(self, instance: object) -> T:
        names = getattr(instance, "__dict__", None)
        if names is not None:
            return cast(T, names.get(self._name, _UNSET))
        reference, value = self._values.get(id(instance), (None, _UNSET))
        return value if reference is not None and reference() is instance else _UNSET

    def _store(self, instance: object, value: T) -> None:
        names = getattr(instance, "__dict__", None)
        if names is not None:
            names[self._name] = value
            return
        key, values = id(instance), self._values

        def forget(gone: weakref.ref[Any]) -> None:
            with suppress(KeyError):
                if values[key][0] is gone:
                    del values[key]

        try:
            values[key] = weakref.ref(instance, forget), value
        except TypeError:
            raise MemberError(
                f"{type(instance).__name__} cannot store {self._name}: its instances have no __dict__"
                " and do not support weak references"
            ) from None
