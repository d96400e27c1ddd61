"""Strict calls in this process: on copies between guard words, which are verified before anything is copied back."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from mojoview.safety._arguments import Argument, Call
from mojoview.safety.workers.arena import FILLER, is_fortran
from mojoview.calls import Kernel
from mojoview.calls._prepared import invoke_bound
from mojoview.calls.arguments import with_kernel_message
from mojoview.memory.errors import GuardError, NonFiniteError

__all__ = ["check_finite", "guard_error", "run_guarded", "run_prepared"]

GUARD = 256  # bytes on each side


class _Copy:
    """An array's copy, its guard words and, where the kernel only reads it, its checksum."""

    def __init__(self, argument: Argument, array: np.ndarray[Any, Any], writes: bool):
        self.argument, self.writes = argument, writes
        room = np.empty(array.nbytes + 3 * GUARD, np.uint8)
        start = GUARD + -(room.ctypes.data + GUARD) % GUARD
        end = start + array.nbytes
        self.bytes, self.before, self.after = room[start:end], room[start - GUARD : start], room[end : end + GUARD]
        self.before[:], self.after[:] = FILLER, FILLER
        self.array = np.ndarray(array.shape, array.dtype, self.bytes.data, order="F" if is_fortran(array) else "C")
        np.copyto(self.array, array)
        self.check = 0 if writes else zlib.crc32(self.bytes.data)
        self.array.flags.writeable = writes

    def fault(self) -> str | None:
        """What the kernel did to it that it may not do."""
        if (self.before != FILLER).any():
            return f"it wrote before the memory of argument '{self.argument.name}'"
        if (self.after != FILLER).any():
            return f"it wrote beyond the memory of argument '{self.argument.name}'"
        if not self.writes and zlib.crc32(self.bytes.data) != self.check:
            return f"it wrote into argument '{self.argument.name}', which is an input"
        return None


def run_guarded(call: Call, finite: bool) -> Any:
    """The call's result. The caller's arrays change only where everything was in order."""
    name = call.kernel.name
    copies, values = list[_Copy](), list(call.values)
    for argument in call.arguments:
        copy = _Copy(argument, argument.array, argument.writes)
        copies.append(copy)
        values[argument.at] = copy.array
        if argument.mask is not None:
            mask = _Copy(argument, argument.mask, False)
            copies.append(mask)
            values[argument.at] = np.ma.MaskedArray(copy.array, mask.array)
    try:
        value = run_prepared(call.kernel, tuple(values), call.options, call.prepared)
    except Exception as error:  # also of a class that the kernel's author has registered
        _verify(name, copies)
        raise with_kernel_message(error, next((c.array for c in copies if c.argument.array is call.message), None))  # noqa: B904
    _verify(name, copies)
    written = [copy for copy in copies if copy.writes]
    if finite:
        check_finite(name, value, [(copy.argument.name, copy.array) for copy in written])
    for copy in written:
        np.copyto(copy.argument.array, copy.array)
    return call.result(value)


def run_prepared(kernel: Kernel, values: tuple[Any, ...], options: dict[str, Any], prepared: bool) -> Any:
    """The kernel's own result, for arguments that `take_apart` has prepared."""
    return invoke_bound(kernel, values, options) if prepared else kernel(*values, **options)


def _verify(name: str, copies: list[_Copy]) -> None:
    for copy in copies:
        fault = copy.fault()
        if fault is not None:
            raise guard_error(name, fault, copy.argument.name)


def guard_error(name: str, what: str, argument: str) -> GuardError:
    error = GuardError(f"safe_call({name}): {what}", kernel=name)
    error.argument = argument
    return error


def check_finite(name: str, value: Any, arrays: list[tuple[str, np.ndarray[Any, Any]]]) -> None:
    """Raises where a result or an output holds NaN or an infinity."""
    for label, array in [("the result", np.asarray(value)), *((f"argument '{label}'", a) for label, a in arrays)]:
        if array.dtype.kind == "f" and not (good := np.isfinite(array)).all():
            at = np.unravel_index(int(np.argmin(good)), array.shape)
            place = "" if array.ndim == 0 else f" at [{', '.join(map(str, at))}]"
            raise NonFiniteError(f"safe_call({name}): {label} is {array[at]}{place}", kernel=name)
