"""The arguments of a call taken apart: arrays that can be copied, and scalars that can be carried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from mojoview.flow._borrowing import borrow
from mojoview.flow.arena import Array
from mojoview.kernels import Kernel
from mojoview.kernels._prepared import check_arguments
from mojoview.kernels.arguments import PYTHON, Plan, outcome
from mojoview.kernels.binding import bind
from mojoview.memory.errors import ArgumentError, DTypeError
from mojoview.views import View, view
from mojoview.views._protocols import has_accessor

__all__ = ["Argument", "Call", "kernel_of", "take_apart"]


class Argument(NamedTuple):
    """An array argument.

    Attributes
    ----------
    at : int
        Which parameter.
    name : str
    writes : bool
    array : ndarray
        The caller's own memory.
    mask : ndarray or None
        True where an element is missing.
    """

    at: int
    name: str
    writes: bool
    array: np.ndarray[Any, Any]
    mask: np.ndarray[Any, Any] | None = None


@dataclass(slots=True)
class Call:
    """A checked call: None stands in `values` for the arrays, `options` has what is not as by default.

    Its borrows end with the block that it is used in.

    Attributes
    ----------
    prepared : bool
        Whether the kernel must be called past its own preparation, as some arguments are in the form that it makes.
    back : list of ndarray
        Made for the caller, who gets them with the result.
    message : ndarray or None
        Where a failing kernel writes its words.
    """

    kernel: Kernel
    arguments: tuple[Argument, ...]
    values: tuple[Any, ...]
    options: dict[str, Any]
    borrows: list[object]
    prepared: bool = False
    back: Sequence[Array] = ()
    message: Array | None = None

    def __enter__(self) -> Call:
        return self

    def __exit__(self, *exc: object) -> None:
        self.borrows.clear()  # also where an exception keeps this object

    def result(self, value: Any) -> Any:
        """What the caller gets, once the arrays hold what the kernel wrote."""
        return outcome(value, list(self.back)) if self.back else value


NO_OPTIONS: dict[str, Any] = {}


class _Form(NamedTuple):
    """What a kernel takes, worked out once."""

    params: tuple[tuple[str, bool, bool], ...]  # name, whether it is a scalar, whether it is written to
    defaults: dict[str, Any]  # of the options
    plan: Plan | None
    simple: bool  # whether every parameter is one that the caller passes, in the form in which it travels


_FORMS: WeakKeyDictionary[Kernel, _Form] = WeakKeyDictionary()


def _form_of(kernel: Kernel) -> _Form:
    form = _FORMS.get(kernel)
    if form is None:
        signature = kernel.signature
        params = tuple((p.name, p.role == "value", p.writes) for p in signature.params)
        own = {p.name for p in signature.params}
        options = {n: p.default for n, p in kernel.__signature__.parameters.items() if n not in own}
        plan = None if kernel.owner is None else Plan(signature)
        form = _FORMS[kernel] = _Form(params, options, plan, plan is None or not plan.helped)
    return form


def take_apart(kernel: Kernel, args: tuple[Any, ...], options: dict[str, Any], borrowed: bool) -> Call:
    """Binds and checks the arguments as a call does; with `borrowed`, enters their memory into the book of borrows."""
    form = _form_of(kernel)
    own, rest = args, NO_OPTIONS
    if options or len(args) != len(form.params) or not form.simple:
        own, rest = bind(kernel.signature, kernel.__signature__, args, options)
        rest = {name: value for name, value in rest.items() if value is not form.defaults[name]}
    back: list[Array] | tuple[()] = ()  # plain displays here and below: list[Array]() takes several times as long
    message = None
    new = tuple.__new__
    if form.plan is not None and (not form.simple or any([obj is None or type(obj) in PYTHON for obj in own])):
        own, back, message = form.plan.prepare(own)
    check_arguments(kernel, own)
    arguments: list[Argument] = []
    values: list[Any] = []
    views: list[View] = []
    for at, ((name, scalar, writes), obj) in enumerate(zip(form.params, own, strict=True)):
        if type(obj) is np.ndarray and not borrowed:
            values.append(None)
            arguments.append(new(Argument, (at, name, writes, obj, None)))
        elif scalar or isinstance(obj, float | int | np.generic):
            values.append(_plain(obj))
        else:
            values.append(None)
            opened = _open(kernel, obj, writes)
            views.append(opened)
            mask = opened.mask if kernel.signature.masks else None
            array = obj if type(obj) is np.ndarray else np.asarray(opened.data if opened.masked else opened)
            arguments.append(Argument(at, name, writes, array, None if mask is None else np.asarray(mask)))
    borrows: list[object] = [borrow(tuple(views))] if borrowed else []
    return Call(kernel, tuple(arguments), tuple(values), rest, borrows, not form.simple, back, message)


def kernel_of(kernel: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """The kernel that a call goes to: of a decorated function its kernel, of a family the one for the arguments."""
    from mojoview.kernels._family import KernelFamily  # loaded where there is one
    from mojoview.kernels.decorator import BoundKernel

    if isinstance(kernel, BoundKernel):
        kernel = kernel.kernel
    return kernel.kernel_for(*args, **options) if isinstance(kernel, KernelFamily) else kernel


def _plain(obj: Any) -> Any:
    """A number of a builtin type; the check has seen that the kernel takes it."""
    if type(obj) in (float, int, bool) or not isinstance(obj, float | int | np.generic):
        return obj
    return obj.item() if isinstance(obj, np.generic) else float(obj) if isinstance(obj, float) else int(obj)


def _open(kernel: Kernel, obj: Any, writes: bool) -> View:
    opened: Any
    if isinstance(obj, View) and not writes:
        opened = obj
    elif has_accessor(obj):
        opened = obj.mojo.view(na="mask") if kernel.signature.masks else obj.mojo.view()
    else:
        opened = view(obj, writable=writes)
    if not isinstance(opened, View):
        kind = ArgumentError if has_accessor(obj) else DTypeError
        raise kind(f"safe_call({kernel.name}): expected one array or column, got a {type(obj).__name__}")
    return opened
