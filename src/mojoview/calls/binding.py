"""The words of a call: call forms, the binding of keyword arguments, and the messages of refusals."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from mojoview.calls.signature import Signature
from mojoview.memory._dtype import dtype_of_code
from mojoview.memory._status import error_for_status
from mojoview.memory.errors import (
    AlignmentError,
    ArgumentError,
    DeviceError,
    DTypeError,
    KernelError,
    KernelOverflowError,
    KernelValueError,
    LayoutError,
    MaskError,
    MojoViewError,
    OverlapError,
    ReadOnlyError,
    ShapeError,
)

__all__ = ["COMPARISONS", "argument_error", "bind", "call_signature", "kernel_error", "scalar_error"]

COMPARISONS = ("lt", "le", "eq", "ne", "ge", "gt")

# abi.h
_E_NDIM, _E_DTYPE, _E_SHAPE, _E_STRIDE, _E_ALIGN, _E_READONLY, _E_MASK, _E_DEVICE, _E_OVERLAP = range(3, 12)
_E_EMPTY = 17

_Parameter = inspect.Parameter


def call_signature(
    signature: Signature, options: tuple[tuple[str, Any], ...], keyword_only: bool, left_out: Mapping[str, Any] = {}
) -> inspect.Signature:
    """What `inspect.signature` shows: the kernel's own parameters, then the options with their defaults. `left_out`:
    what stands for parameters that need not be passed; a last one for messages is never shown."""
    kind = _Parameter.KEYWORD_ONLY if keyword_only else _Parameter.POSITIONAL_OR_KEYWORD
    try:
        shown = [p for p in signature.params if not (p is signature.params[-1] and p.is_message)]
        parameters = [
            _Parameter(p.name, _Parameter.POSITIONAL_OR_KEYWORD, default=left_out.get(p.name, p.default)) for p in shown
        ]
        return inspect.Signature(parameters + [_Parameter(name, kind, default=default) for name, default in options])
    except ValueError as error:  # no name, a name twice, or one of an option; a default before none
        raise ArgumentError(f"{signature.name}: {error}") from None


def bind(
    signature: Signature, form: inspect.Signature, args: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments in the kernel's order, and the options."""
    try:
        bound = form.bind(*args, **keywords)
    except TypeError as error:
        raise ArgumentError(f"{signature.name}{form}: {error}") from None
    bound.apply_defaults()
    own = tuple(bound.arguments.pop(p.name, None) for p in signature.params)
    return own, bound.arguments


Described = tuple[str, int, int, int, tuple[int, ...], tuple[int, ...]]


def _dtype(code: int, bits: int, logical: int) -> str:
    try:
        return str(dtype_of_code(code, bits, logical))
    except DTypeError:
        return "an opaque dtype"


def argument_error(
    signature: Signature,
    status: int,
    name: str,
    came: Described,
    other_name: str | None,
    other: Described | None,
    wants: str | None,
    ndim: int,
    swapped: bool,
    has_loop: bool,
) -> MojoViewError:
    """The exception for arguments that a kernel does not take. `name`: what the message calls it; `came` and
    `other`: name of the argument's type, dtype code, bits, logical kind, shape, strides."""
    kind, code, bits, logical, shape, strides = came
    where = f"{signature.name}(): {name}"
    got = _dtype(code, bits, logical)
    if status == _E_DTYPE:
        if swapped:
            return DTypeError(
                f"{where}: expected native byte order, got swapped {got}; use x.astype(x.dtype.newbyteorder('='))"
            )
        if wants is None:
            remedy = "; use view(x).cast('i8') for the integers" if logical & 0xFF in (1, 2) else ""
            return DTypeError(f"{where}: {signature.name} has no loop for dtype {got}{remedy}")
        remedy = "; use view(x).cast('i8') for the integers" if logical & 0xFF in (1, 2) and has_loop else ""
        return DTypeError(f"{where}: expected dtype {wants}, got {got}{remedy}")
    if status == _E_NDIM:
        return ShapeError(f"{where}: expected {ndim} dimension(s), got {len(shape)} (shape {shape})")
    if status == _E_SHAPE and other is not None:
        return ShapeError(f"{where}: expected shape {other[4]} like argument '{other_name}', got {shape}")
    if status == _E_STRIDE:
        return LayoutError(
            f"{where}: expected {'C order' if has_loop else 'strides that are multiples of the item size'}, "
            f"got strides {strides} of shape {shape}"
        )
    if status == _E_ALIGN:
        return AlignmentError(f"{where}: expected addresses aligned for {got}, got unaligned memory")
    if status == _E_READONLY:
        return ReadOnlyError(f"{where}: it is written to, expected writable memory, got a read-only {kind}")
    if status == _E_MASK:
        return MaskError(
            f"{where}: {signature.name} has no notion of missing values, and some are missing; "
            "pass view.data for the values as they lie there"
        )
    if status == _E_DEVICE:
        return DeviceError(f"{where}: expected memory of the host, got device memory")
    if status == _E_OVERLAP:
        if other_name is None:
            return OverlapError(
                f"{where}: it is written to, and its strides {strides} of shape {shape} reach some bytes twice"
            )
        return OverlapError(
            f"{where}: it is written to and shares memory with argument '{other_name}'; copy one of them"
        )
    return error_for_status(status, f"{where}")


def kernel_error(signature: Signature, status: int, index: int | None, arguments: str = "") -> BaseException:
    """The exception for a status that a running kernel returned. `arguments`: names for the message."""
    if status == _E_EMPTY:
        return KernelValueError(
            f"{signature.name}(): expected at least one element that is not missing, got none",
            kernel=signature.name,
            code=status,
        )
    error = error_for_status(status, f"kernel {signature.name}({arguments})", index)
    if isinstance(error, KernelError):
        error.kernel = signature.name
    return error


def scalar_error(signature: Signature, name: str, dtype: str, value: Any, fits: bool) -> MojoViewError:
    """The exception for a scalar of the wrong type, or out of the dtype's range."""
    where = f"{signature.name}(): argument '{name}'"
    if not fits:
        # Python writes out no integer of more than some thousand digits
        bits = value.bit_length() if type(value) is int else 0
        shown = f"an int of {bits} bits" if bits > 256 else repr(value)
        return KernelOverflowError(f"{where}: expected a value that fits {dtype}, got {shown}", kernel=signature.name)
    return ArgumentError(f"{where}: expected a number for {dtype}, got {type(value).__name__}")
