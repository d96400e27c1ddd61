"""Argument conversion: lists as inputs, allocated outputs, by-reference scalars and kernel error messages."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from mojoview.calls.errors import scalar_error
from mojoview.calls.signature import Param, Signature
from mojoview.memory.errors import ArgumentError
from mojoview.views import view

__all__ = ["ArgumentPlan", "pack_results", "with_kernel_message"]

MESSAGE_BYTES = 1024
CONTAINERS = (list, tuple, dict)


class ArgumentPlan:
    """The arguments that callers of a signature may omit or give as Python objects, compiled once.

    Attributes
    ----------
    defaults : dict of str to object
        Values of parameters that may be omitted: outputs and numbers that the kernel updates, if no required one
        follows.
    needs_conversion : bool
        Whether some arguments are passed in another form, or are not given by the caller.
    """

    __slots__ = (
        "defaults",
        "lists",
        "message",
        "needs_conversion",
        "numbers",
        "outputs",
        "positional_defaults",
        "signature",
    )

    def __init__(self, signature: Signature):
        self.signature, self.defaults = signature, dict[str, Any]()
        params = tuple(signature.params)
        self.message = len(params) - 1 if params and params[-1].is_message else None
        visible = params[: self.message]
        for param in reversed(visible):
            if param.is_number:
                self.defaults[param.name] = np.dtype(param.dtype).type(0).item()
            elif param.role == "out" and param.passing == "descriptor":
                self.defaults[param.name] = None
            elif param.default is inspect.Parameter.empty:
                break
        self.positional_defaults = tuple(self.defaults.get(p.name, p.default) for p in visible)
        self.numbers = [(k, p, np.dtype(p.dtype)) for k, p in enumerate(visible) if p.is_number]
        self.outputs = [
            (k, p, np.dtype(p.dtype)) for k, p in enumerate(visible) if p.role == "out" and p.passing == "descriptor"
        ]
        self.lists = [(k, p) for k, p in enumerate(visible) if p.role != "value" and not p.is_number]
        self.needs_conversion = bool(self.numbers) or self.message is not None

    def fill(self, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Return one object for each parameter, from positional arguments alone; None if their number is wrong."""
        rest = self.positional_defaults[len(args) :]
        if len(args) > len(self.positional_defaults) or inspect.Parameter.empty in rest:
            return None
        return (*args, *rest) if self.message is None else (*args, *rest, None)

    def prepare(self, own: tuple[Any, ...]) -> tuple[tuple[Any, ...], list[Any], Any]:
        """Return the kernel's arguments, the arrays to return to the caller, and the buffer for a message.

        Parameters
        ----------
        own : tuple
            One object for each parameter; None for omitted outputs.

        Returns
        -------
        tuple, list of ndarray, ndarray or None
        """
        args, message = list(own), None
        for k, param in self.lists:
            if type(own[k]) in CONTAINERS:
                args[k] = array_from_list(self.signature, param, own[k])
        for k, param, dtype in self.numbers:
            value = (
                own[k] if type(own[k]) is float and dtype.kind == "f" else check_number(self.signature, param, own[k])
            )
            args[k] = np.array(value, dtype)
        back = {k: args[k] for k, _, _ in self.numbers}
        for k, param, dtype in self.outputs:
            if own[k] is None:
                args[k] = back[k] = np.zeros(output_shape(self.signature, param, args), dtype)
        if self.message is not None:
            args[self.message] = message = np.zeros(MESSAGE_BYTES, "u1")
        return tuple(args), [back[k] for k in sorted(back)], message


def pack_results(result: Any, back: list[Any]) -> Any:
    """Return what a call returns: the kernel's own result, if it has one, and the allocated outputs in order.

    A single object is returned as it is, several as a tuple.
    """
    made = [array if array.ndim else array[()].item() for array in back]
    if result is not None:
        made.insert(0, result)
    return made[0] if len(made) == 1 else tuple(made)


def output_shape(signature: Signature, output: Param, args: list[Any]) -> tuple[int, ...]:
    """Return the shape of the first array argument that has as many dimensions as the output."""
    for param, obj in zip(signature.params, args, strict=True):
        if param.ndim == output.ndim and param.role != "value" and obj is not None:
            shape = getattr(obj, "shape", None)
            return tuple(view(obj).shape) if shape is None else tuple(shape)
    raise ArgumentError(
        f"{signature.name}(): argument '{output.name}': there is no other array of {output.ndim}"
        " dimension(s) to take the shape of an output from; pass one"
    )


def check_number(signature: Signature, param: Param, obj: Any) -> Any:
    """Return a number that fits the parameter's dtype, by the rules that the checked call has for scalars."""
    kind, bits = np.dtype(param.dtype).kind, np.dtype(param.dtype).itemsize * 8
    right = {"f": (float, int, np.floating, np.integer, np.bool_), "b": (bool, np.bool_)}.get(kind, (int, np.integer))
    if not isinstance(obj, right):
        raise scalar_error(signature, param.name, param.dtype, obj, True)
    if kind in "iu":
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if kind == "i" else (0, (1 << bits) - 1)
        if not low <= int(obj) <= high:
            raise scalar_error(signature, param.name, param.dtype, obj, False)
        return int(obj)
    try:
        return float(obj) if kind == "f" else bool(obj)
    except OverflowError:
        raise scalar_error(signature, param.name, param.dtype, obj, False) from None


def array_from_list(signature: Signature, param: Param, obj: Any) -> Any:
    """Return a new array of a list's numbers, each of which must be valid as a scalar of the parameter's dtype."""
    where = f"{signature.name}(): argument '{param.name}'"
    kind = type(obj).__name__
    if isinstance(obj, dict):
        raise ArgumentError(
            f"{where}: expected an array, got a dict; pass one of its values, or"
            f" {signature.name}(**columns) if its keys are the names of arguments"
        )
    if param.writes:
        raise ArgumentError(
            f"{where}: it is written to, expected an array, got a {kind}; numpy.array(x, {param.dtype!r}) makes one"
        )
    try:
        whole = np.array(obj, dtype=object)
    except ValueError as error:
        raise ArgumentError(
            f"{where}: expected an array or a {kind} of numbers, got one of uneven parts ({error})"
        ) from None
    plain = np.empty(whole.shape, param.dtype)
    with np.errstate(over="ignore", under="ignore"):  # floats are rounded, as scalars are
        plain.reshape(-1)[:] = [check_number(signature, param, value) for value in whole.reshape(-1)]
    return plain


def with_kernel_message(error: BaseException, message: Any) -> BaseException:
    """Return the exception with the text added that a kernel wrote to its `message` argument, if it has one."""
    if message is None:
        return error
    text = bytes(message).partition(b"\0")[0].decode("utf-8", "replace").strip()
    if text and error.args and isinstance(error.args[0], str):
        error.args = (f"{error.args[0]}: {text}", *error.args[1:])
    elif text:
        error.add_note(text)
    return error
