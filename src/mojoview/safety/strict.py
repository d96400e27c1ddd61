"""Strict calls in this process: on copies between guard bytes, which are verified before outputs are copied back."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from mojoview.calls._kernel import invoke_bound
from mojoview.calls.arguments import with_kernel_message
from mojoview.memory.errors import GuardError, NonFiniteError
from mojoview.safety._bound_call import Argument, BoundCall
from mojoview.safety.workers.arena import GUARD_PATTERN, is_fortran

__all__ = ["check_finite", "guard_error", "run_strict"]

GUARD_BYTES = 256  # on each side


class GuardedCopy:
    """A copy of an array between guard bytes, with a checksum if the kernel only reads it."""

    def __init__(self, argument: Argument, array: np.ndarray[Any, Any], writes: bool):
        self.argument, self.writes = argument, writes
        memory = np.empty(array.nbytes + 3 * GUARD_BYTES, np.uint8)
        start = GUARD_BYTES + -(memory.ctypes.data + GUARD_BYTES) % GUARD_BYTES
        end = start + array.nbytes
        self.bytes = memory[start:end]
        self.before, self.after = memory[start - GUARD_BYTES : start], memory[end : end + GUARD_BYTES]
        self.before[:], self.after[:] = GUARD_PATTERN, GUARD_PATTERN
        self.array = np.ndarray(array.shape, array.dtype, self.bytes.data, order="F" if is_fortran(array) else "C")
        np.copyto(self.array, array)
        self.checksum = 0 if writes else zlib.crc32(self.bytes.data)
        self.array.flags.writeable = writes

    def violation(self) -> str | None:
        """Describe the write outside the outputs, if there was one."""
        if (self.before != GUARD_PATTERN).any():
            return f"it wrote before the memory of argument '{self.argument.name}'"
        if (self.after != GUARD_PATTERN).any():
            return f"it wrote beyond the memory of argument '{self.argument.name}'"
        if not self.writes and zlib.crc32(self.bytes.data) != self.checksum:
            return f"it wrote into argument '{self.argument.name}', which is an input"
        return None


def run_strict(call: BoundCall, finite: bool) -> Any:
    """Make a call on guarded copies and return its result. The caller's arrays change only if all checks pass."""
    name = call.kernel.name
    copies, values = list[GuardedCopy](), list(call.values)
    for argument in call.arguments:
        copy = GuardedCopy(argument, argument.array, argument.writes)
        copies.append(copy)
        values[argument.index] = copy.array
        if argument.mask is not None:
            mask = GuardedCopy(argument, argument.mask, False)
            copies.append(mask)
            values[argument.index] = np.ma.MaskedArray(copy.array, mask.array)
    try:
        if call.prepared:
            value = invoke_bound(call.kernel, tuple(values), call.options)
        else:
            value = call.kernel(*values, **call.options)
    except Exception as error:  # an ErrorTable may hold classes outside the error tree
        _verify(name, copies)
        message = next((copy.array for copy in copies if copy.argument.array is call.message), None)
        raise with_kernel_message(error, message)  # noqa: B904
    _verify(name, copies)
    written = [copy for copy in copies if copy.writes]
    if finite:
        check_finite(name, value, [(copy.argument.name, copy.array) for copy in written])
    for copy in written:
        np.copyto(copy.argument.array, copy.array)
    return call.result(value)


def _verify(name: str, copies: list[GuardedCopy]) -> None:
    for copy in copies:
        violation = copy.violation()
        if violation is not None:
            raise guard_error(name, violation, copy.argument.name)


def guard_error(name: str, violation: str, argument: str) -> GuardError:
    """Return the exception for a write outside the outputs."""
    error = GuardError(f"safe_call({name}): {violation}", kernel=name)
    error.argument = argument
    return error


def check_finite(name: str, value: Any, arrays: list[tuple[str, np.ndarray[Any, Any]]]) -> None:
    """Raise NonFiniteError if the result or an output holds NaN or an infinity."""
    for label, array in [("the result", np.asarray(value)), *((f"argument '{label}'", a) for label, a in arrays)]:
        if array.dtype.kind == "f" and not (good := np.isfinite(array)).all():
            at = np.unravel_index(int(np.argmin(good)), array.shape)
            place = "" if array.ndim == 0 else f" at [{', '.join(map(str, at))}]"
            raise NonFiniteError(f"safe_call({name}): {label} is {array[at]}{place}", kernel=name)
