"""What a call may leave out or write in Python's own types: lists for inputs, outputs that are made for the caller, numbers
that travel by reference, and the words of a failure."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from mojoview.kernels.binding import number_refusal
from mojoview.kernels.signature import Param, Signature
from mojoview.memory.errors import ArgumentError
from mojoview.views import view

__all__ = ["hidden", "left_out", "number", "outcome", "prepare", "told"]

MESSAGE_BYTES = 1024


def hidden(signature: Signature) -> bool:
    """Whether the last parameter takes the words of a failure."""
    return bool(signature.params) and signature.params[-1].is_message


def left_out(signature: Signature) -> dict[str, Any]:
    """The parameters that a caller need not pass, with what stands for them: outputs and numbers that the kernel
    updates, where no required one follows."""
    found = dict[str, Any]()
    params = signature.params[:-1] if hidden(signature) else signature.params
    for param in reversed(params):
        if param.is_number:
            found[param.name] = np.dtype(param.dtype).type(0).item()
        elif param.role == "out" and param.passing == "descriptor":
            found[param.name] = None
        elif param.role != "value" or param.default is inspect.Parameter.empty:
            break
    return found


def prepare(signature: Signature, own: tuple[Any, ...]) -> tuple[tuple[Any, ...], list[Any], Any]:
    """Arguments as the kernel takes them, those that come back to the caller, and the room for a message.

    Parameters
    ----------
    signature : Signature
    own : tuple
        One object for each parameter; None for outputs that the caller left out.

    Returns
    -------
    tuple, list of ndarray, ndarray or None
    """
    args, back, message, missing = list(own), list[Any](), None, list[int]()
    for k, (param, obj) in enumerate(zip(signature.params, own, strict=True)):
        if param.role == "value":
            continue
        if param.is_message and k == len(own) - 1:
            args[k] = message = np.zeros(MESSAGE_BYTES, "u1")
        elif param.is_number:
            args[k] = np.full((), number(signature, param, obj), param.dtype)
        elif obj is None and param.role == "out" and param.passing == "descriptor":
            missing.append(k)
        elif type(obj) in (list, tuple, dict):
            args[k] = array_of(signature, param, obj)
    for k in missing:
        args[k] = np.zeros(shape_for(signature, k, args), signature.params[k].dtype)
    for k, param in enumerate(signature.params):
        if param.is_number or k in missing:
            back.append(args[k])
    return tuple(args), back, message


def outcome(result: Any, back: list[Any]) -> Any:
    """What the call returns: the kernel's own result, if it has one, and what was made for the caller, in the order of
    the signature; one thing alone stands by itself."""
    made = [array if array.ndim else array[()].item() for array in back]
    if result is not None:
        made.insert(0, result)
    return made[0] if len(made) == 1 else tuple(made)


def shape_for(signature: Signature, at: int, args: list[Any]) -> tuple[int, ...]:
    """The shape of the first array argument of as many dimensions as the output."""
    wanted = signature.params[at].ndim
    for param, obj in zip(signature.params, args, strict=True):
        if param.ndim == wanted and param.role != "value" and obj is not None and not param.is_message:
            shape = getattr(obj, "shape", None)
            return tuple(view(obj).shape) if shape is None else tuple(shape)
    raise ArgumentError(f"{signature.name}(): argument '{signature.params[at].name}': there is no other array of {wanted}"
                        " dimension(s) that an output could be made like; pass one")


def number(signature: Signature, param: Param, obj: Any) -> Any:
    """A number that fits the parameter's dtype, as the checked call takes scalars."""
    kind, bits = np.dtype(param.dtype).kind, np.dtype(param.dtype).itemsize * 8
    right = {"f": (float, int, np.floating, np.integer, np.bool_), "b": (bool, np.bool_)}.get(kind, (int, np.integer))
    if not isinstance(obj, right):
        raise number_refusal(signature, param.name, param.dtype, obj, True)
    if kind in "iu":
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if kind == "i" else (0, (1 << bits) - 1)
        if not low <= int(obj) <= high:
            raise number_refusal(signature, param.name, param.dtype, obj, False)
        return int(obj)
    try:
        return float(obj) if kind == "f" else bool(obj)
    except OverflowError:
        raise number_refusal(signature, param.name, param.dtype, obj, False) from None


def array_of(signature: Signature, param: Param, obj: Any) -> Any:
    """A new array of a list's numbers, each of which must be one that the parameter's dtype takes as a scalar."""
    where = f"{signature.name}(): argument '{param.name}'"
    kind = type(obj).__name__
    if isinstance(obj, dict):
        raise ArgumentError(f"{where}: expected an array, got a dict; pass one of its values, or the whole as"
                            f" {signature.name}(**columns) where its keys are the names of arguments")
    if param.writes:
        raise ArgumentError(f"{where}: it is written to, expected an array, got a {kind}; numpy.array(x, {param.dtype!r})"
                            " makes one")
    try:
        whole = np.array(obj, dtype=object)
    except ValueError as error:
        raise ArgumentError(f"{where}: expected an array or a {kind} of numbers, got one of uneven parts ({error})") from None
    plain = np.empty(whole.shape, param.dtype)
    with np.errstate(over="ignore", under="ignore"):  # floats are rounded, as scalars are
        plain.reshape(-1)[:] = [number(signature, param, value) for value in whole.reshape(-1)]
    return plain


def told(error: BaseException, message: Any) -> BaseException:
    """Adds the words that a kernel wrote into its `message` argument to those of the exception."""
    text = bytes(message).partition(b"\0")[0].decode("utf-8", "replace").strip()
    if text and error.args and isinstance(error.args[0], str):
        error.args = (f"{error.args[0]}: {text}", *error.args[1:])
    elif text:
        error.add_note(text)
    return error
