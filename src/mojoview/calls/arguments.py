"""What a call may leave out or write in Python's own types: lists for inputs, outputs that are made for the caller,
numbers that travel by reference, and the message of a failure."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from mojoview.calls.binding import scalar_error
from mojoview.calls.signature import Param, Signature
from mojoview.memory.errors import ArgumentError
from mojoview.views import view

__all__ = ["ArgumentPlan", "pack_results", "with_kernel_message"]

MESSAGE_BYTES = 1024
CONTAINERS = (list, tuple, dict)


class ArgumentPlan:
    """What calls of one signature may leave out, worked out once.

    Attributes
    ----------
    defaults : dict of str to object
        Parameters that need not be passed, with what stands for them: outputs and numbers that the kernel updates,
        where no required one follows.
    needs_conversion : bool
        Whether some arguments are not the caller's to pass, or travel in another form.
    """

    __slots__ = ("defaults", "needs_conversion", "positional_defaults", "lists", "message", "numbers", "outputs", "signature")

    def __init__(self, signature: Signature):
        self.signature, self.defaults = signature, dict[str, Any]()
        params = tuple(signature.params)
        self.message = len(params) - 1 if params and params[-1].is_message else None
        visible = params[:self.message]
        for param in reversed(visible):
            if param.is_number:
                self.defaults[param.name] = np.dtype(param.dtype).type(0).item()
            elif param.role == "out" and param.passing == "descriptor":
                self.defaults[param.name] = None
            elif param.default is inspect.Parameter.empty:
                break
        self.positional_defaults = tuple(self.defaults.get(p.name, p.default) for p in visible)
        self.numbers = [(k, p, np.dtype(p.dtype)) for k, p in enumerate(visible) if p.is_number]
        self.outputs = [(k, p, np.dtype(p.dtype)) for k, p in enumerate(visible)
                        if p.role == "out" and p.passing == "descriptor"]
        self.lists = [(k, p) for k, p in enumerate(visible) if p.role != "value" and not p.is_number]
        self.needs_conversion = bool(self.numbers) or self.message is not None

    def fill(self, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """One object for each parameter from positional arguments alone; None where some are missing or too many."""
        rest = self.positional_defaults[len(args):]
        if len(args) > len(self.positional_defaults) or inspect.Parameter.empty in rest:
            return None
        return (*args, *rest) if self.message is None else (*args, *rest, None)

    def prepare(self, own: tuple[Any, ...]) -> tuple[tuple[Any, ...], list[Any], Any]:
        """Arguments as the kernel takes them, those that come back to the caller, and the room for a message.

        Parameters
        ----------
        own : tuple
            One object for each parameter; None for outputs that the caller left out.

        Returns
        -------
        tuple, list of ndarray, ndarray or None
        """
        args, message = list(own), None
        for k, param in self.lists:
            if type(own[k]) in CONTAINERS:
                args[k] = array_from_list(self.signature, param, own[k])
        for k, param, dtype in self.numbers:
            value = own[k] if type(own[k]) is float and dtype.kind == "f" else check_number(self.signature, param, own[k])
            args[k] = np.array(value, dtype)
        back = {k: args[k] for k, _, _ in self.numbers}
        for k, param, dtype in self.outputs:
            if own[k] is None:
                args[k] = back[k] = np.zeros(output_shape(self.signature, param, args), dtype)
        if self.message is not None:
            args[self.message] = message = np.zeros(MESSAGE_BYTES, "u1")
        return tuple(args), [back[k] for k in sorted(back)], message


def pack_results(result: Any, back: list[Any]) -> Any:
    """What the call returns: the kernel's own result, if it has one, and what was made for the caller, in the order of
    the signature; one thing alone stands by itself."""
    made = [array if array.ndim else array[()].item() for array in back]
    if result is not None:
        made.insert(0, result)
    return made[0] if len(made) == 1 else tuple(made)


def output_shape(signature: Signature, output: Param, args: list[Any]) -> tuple[int, ...]:
    """The shape of the first array argument of as many dimensions as the output."""
    for param, obj in zip(signature.params, args, strict=True):
        if param.ndim == output.ndim and param.role != "value" and obj is not None:
            shape = getattr(obj, "shape", None)
            return tuple(view(obj).shape) if shape is None else tuple(shape)
    raise ArgumentError(f"{signature.name}(): argument '{output.name}': there is no other array of {output.ndim}"
                        " dimension(s) that an output could be made like; pass one")


def check_number(signature: Signature, param: Param, obj: Any) -> Any:
    """A number that fits the parameter's dtype, as the checked call takes scalars."""
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
    """A new array of a list's numbers, each of which must be one that the parameter's dtype takes as a scalar."""
    where = f"{signature.name}(): argument '{param.name}'"
    kind = type(obj).__name__
    if isinstance(obj, dict):
        raise ArgumentError(f"{where}: expected an array, got a dict; pass one of its values, or the whole as"
                            f" {signature.name}(**columns) where its keys are the names of arguments")
    if param.writes:
        raise ArgumentError(f"{where}: it is written to, expected an array, got a {kind};"
                            f" numpy.array(x, {param.dtype!r}) makes one")
    try:
        whole = np.array(obj, dtype=object)
    except ValueError as error:
        raise ArgumentError(f"{where}: expected an array or a {kind} of numbers,"
                            f" got one of uneven parts ({error})") from None
    plain = np.empty(whole.shape, param.dtype)
    with np.errstate(over="ignore", under="ignore"):  # floats are rounded, as scalars are
        plain.reshape(-1)[:] = [check_number(signature, param, value) for value in whole.reshape(-1)]
    return plain


def with_kernel_message(error: BaseException, message: Any) -> BaseException:
    """Adds the words that a kernel wrote into its `message` argument, if it has one, to those of the exception."""
    if message is None:
        return error
    text = bytes(message).partition(b"\0")[0].decode("utf-8", "replace").strip()
    if text and error.args and isinstance(error.args[0], str):
        error.args = (f"{error.args[0]}: {text}", *error.args[1:])
    elif text:
        error.add_note(text)
    return error
