"""The arguments of a call taken apart: arrays that can be copied, and scalars that can be carried."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mojoview.flow._borrowing import borrow
from mojoview.kernels import Kernel
from mojoview.kernels._call import check_arguments
from mojoview.kernels.binding import bind
from mojoview.memory.errors import ArgumentError, DTypeError
from mojoview.views import View, view
from mojoview.views._protocols import has_accessor

__all__ = ["Argument", "Call", "take_apart"]


@dataclass(frozen=True, slots=True)
class Argument:
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


@dataclass(frozen=True, slots=True)
class Call:
    """A checked call: None stands in `values` for the arrays. Its borrows end with the block that it is used in."""

    kernel: Kernel
    arguments: tuple[Argument, ...]
    values: tuple[Any, ...]
    options: dict[str, Any]
    borrows: list[object]

    def __enter__(self) -> Call:
        return self

    def __exit__(self, *exc: object) -> None:
        self.borrows.clear()  # also where an exception keeps this object


def take_apart(kernel: Kernel, args: tuple[Any, ...], options: dict[str, Any], borrowed: bool) -> Call:
    """Binds and checks the arguments as a call does; with `borrowed`, enters their memory into the book of borrows."""
    own, rest = bind(kernel.signature, kernel.__signature__, args, options)
    check_arguments(kernel, own)
    arguments, values, views = [], [], list[View]()
    for at, (param, obj) in enumerate(zip(kernel.signature.params, own, strict=True)):
        if param.role == "value" or isinstance(obj, float | int | np.generic):
            values.append(_plain(obj))
            continue
        values.append(None)
        if type(obj) is np.ndarray and not borrowed:
            arguments.append(Argument(at, param.name, param.writes, obj))
            continue
        opened = _open(kernel, obj, param.writes)
        views.append(opened)
        mask = opened.mask if kernel.signature.masks else None
        arguments.append(
            Argument(
                at,
                param.name,
                param.writes,
                obj if type(obj) is np.ndarray else np.asarray(opened.data if opened.masked else opened),
                None if mask is None else np.asarray(mask),
            )
        )
    return Call(kernel, tuple(arguments), tuple(values), rest, [borrow(tuple(views))] if borrowed else [])


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
