"""Errors of a call: every status and every refused argument becomes an exception here, on top of `memory/_status`.

`argument_error` and `scalar_error` are for arguments that do not fit, `size_error` for sizes that do not agree,
`kernel_error` for statuses of a running kernel; `ErrorTable` holds the exceptions of an author's own statuses, and
`SourceLocation` lets a traceback end in the line of the Mojo source.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

from mojoview.calls.signature import Signature
from mojoview.memory import errors
from mojoview.memory._dtype import dtype_of_code
from mojoview.memory._status import (
    E_ALIGN,
    E_DEVICE,
    E_DTYPE,
    E_EMPTY,
    E_MASK,
    E_NDIM,
    E_OVERLAP,
    E_READONLY,
    E_SHAPE,
    E_STRIDE,
    E_USER,
    error_for_status,
)
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

__all__ = ["ErrorTable", "SourceLocation", "argument_error", "kernel_error", "scalar_error", "size_error"]

# Type name, dtype code, bits, logical kind, shape and strides of an argument.
Described = tuple[str, int, int, int, tuple[int, ...], tuple[int, ...]]


def argument_error(
    signature: Signature,
    status: int,
    name: str,
    got: Described,
    other: tuple[str, tuple[int, ...]] | None = None,
    dtype: str | None = None,
    ndim: int = 0,
    swapped: bool = False,
    pointer: bool = False,
) -> MojoViewError:
    """Return the exception for an array that a kernel does not take.

    Parameters
    ----------
    signature : Signature
    status : int
        The failed check, from `mv_check_call`.
    name : str
        The argument's name in the message.
    got : tuple
        The argument's type name, dtype code, bits, logical kind, shape and strides.
    other : tuple of str and shape, optional
        The argument with which it disagrees or overlaps.
    dtype : str, optional
        The expected dtype; None if the kernel has no loop for the one that came.
    ndim : int
        The expected number of dimensions.
    swapped, pointer : bool
        Whether the bytes are swapped; whether the argument is passed as a bare pointer.
    """
    kind, code, bits, logical, shape, strides = got
    where = f"{signature.name}(): {name}"
    if status == E_DTYPE:
        return _dtype_error(where, signature.name, _dtype_name(code, bits, logical), dtype, logical, swapped, pointer)
    if status == E_NDIM:
        return ShapeError(f"{where}: expected {ndim} dimension(s), got {len(shape)} (shape {shape})")
    if status == E_SHAPE and other:
        return ShapeError(f"{where}: expected shape {other[1]} like argument '{other[0]}', got {shape}")
    if status == E_STRIDE:
        expected = "C order" if pointer else "strides that are multiples of the item size"
        return LayoutError(f"{where}: expected {expected}, got strides {strides} of shape {shape}")
    if status == E_ALIGN:
        dtype = _dtype_name(code, bits, logical)
        return AlignmentError(f"{where}: expected addresses aligned for {dtype}, got unaligned memory")
    if status == E_READONLY:
        return ReadOnlyError(f"{where}: it is written to, expected writable memory, got a read-only {kind}")
    if status == E_MASK:
        return MaskError(
            f"{where}: {signature.name} does not support missing values, and some are missing; "
            "pass view.data for the stored values"
        )
    if status == E_DEVICE:
        return DeviceError(f"{where}: expected memory of the host, got device memory")
    if status == E_OVERLAP and other:
        return OverlapError(f"{where}: it is written to and shares memory with argument '{other[0]}'; copy one of them")
    if status == E_OVERLAP:
        return OverlapError(
            f"{where}: it is written to, and its strides {strides} of shape {shape} reach some bytes twice"
        )
    return error_for_status(status, where)


def _dtype_error(
    where: str, kernel: str, got: str, expected: str | None, logical: int, swapped: bool, pointer: bool
) -> DTypeError:
    if swapped:
        remedy = "use x.astype(x.dtype.newbyteorder('='))"
        return DTypeError(f"{where}: expected native byte order, got swapped {got}; {remedy}")
    temporal = logical & 0xFF in (1, 2)
    remedy = "; use view(x).cast('i8') for the integers" if temporal and (expected is None or pointer) else ""
    if expected is None:
        return DTypeError(f"{where}: {kernel} has no loop for dtype {got}{remedy}")
    return DTypeError(f"{where}: expected dtype {expected}, got {got}{remedy}")


def _dtype_name(code: int, bits: int, logical: int) -> str:
    try:
        return str(dtype_of_code(code, bits, logical))
    except DTypeError:
        return "an opaque dtype"


def scalar_error(signature: Signature, name: str, dtype: str, value: Any, wrong_type: bool) -> MojoViewError:
    """Return the exception for a scalar of the wrong type, or out of the dtype's range."""
    where = f"{signature.name}(): argument '{name}'"
    if wrong_type:
        return ArgumentError(f"{where}: expected a number for {dtype}, got {type(value).__name__}")
    # Python refuses to print integers of more than some thousand digits
    bits = value.bit_length() if type(value) is int else 0
    shown = f"an int of {bits} bits" if bits > 256 else repr(value)
    return KernelOverflowError(f"{where}: expected a value that fits {dtype}, got {shown}", kernel=signature.name)


def size_error(signature: Signature, status: int, which: int, extent: int, expected: int, got: int) -> MojoViewError:
    """Return the exception for an array whose size disagrees with another, or does not fit the argument's type."""
    total = len(signature.params) + len(signature.sizes)
    size = sorted(signature.sizes, key=lambda size: total if size.place is None else size.place)[which]
    name, axis = size.extents[extent]
    where = f"{signature.name}(): argument '{name}'"
    what = "elements" if axis is None else f"along axis {axis}"
    if status != E_SHAPE:
        message = f"{where}: its size {got} does not fit '{size.name}', which is {size.dtype}"
        return KernelOverflowError(message, kernel=signature.name)
    if size.value is not None:
        return ShapeError(f"{where}: expected {expected} {what}, got {got}")
    return ShapeError(f"{where}: expected {expected} {what} like argument '{size.extents[0][0]}', got {got}")


def kernel_error(signature: Signature, status: int, index: int | None, arguments: str = "") -> BaseException:
    """Return the exception for a status that a running kernel returned; `arguments` are names for the message."""
    if status == E_EMPTY:
        return KernelValueError(
            f"{signature.name}(): expected at least one element that is not missing, got none",
            kernel=signature.name,
            code=status,
        )
    error = error_for_status(status, f"kernel {signature.name}({arguments})", index)
    if isinstance(error, KernelError):
        error.kernel = signature.name
    return error


# -- an author's own statuses -----------------------------------------------------------------------------------------

FIRST_OWN, LAST_OWN = E_USER, 255
# Possible first words of a docstring: the builtin, and the class that is both it and a KernelError.
BUILTIN = {
    "ValueError": errors.KernelValueError,
    "IndexError": errors.KernelIndexError,
    "OverflowError": errors.KernelOverflowError,
    "ZeroDivisionError": errors.KernelDivisionError,
    "MemoryError": errors.KernelMemoryError,
    "RuntimeError": KernelError,
}

Kind = type[Exception]


@dataclass(frozen=True, slots=True)
class Entry:
    """Exception class and message of one code, and its name in the Mojo source."""

    kind: Kind
    message: str
    name: str


class ErrorTable(MutableMapping[int, Kind]):
    """`module.errors`: the exceptions of an author's own status codes (64 to 255).

    Codes that the source declares, `comptime E_COLD = Status(E_USER + 1)`, are there from the beginning. A docstring
    below the declaration gives the message. If it begins with the name of an exception and a colon, as in
    `\"\"\"ValueError: the sample is too cold.\"\"\"`, it also gives the class: ValueError, IndexError, OverflowError,
    ZeroDivisionError, MemoryError or RuntimeError, each as the KernelError that is this builtin as well.

    `errors[65] = Cold` makes the code raise a class of your own, `errors["E_COLD"] = Cold` the code of that name, and
    `errors[65] = Cold, "the sample is too cold"` also changes the message. The class is called with the message. The
    exception gets the attributes `kernel`, `code` and `index`. `del errors[65]` restores a plain KernelError.

    Notes
    -----
    Thread safety: may be changed while kernels run; a failure finds the old entry or the new one.

    Examples
    --------
    >>> import mojoview as mv
    >>> module = mv.load("probe.mojo")  # doctest: +SKIP
    >>> module.errors["E_COLD"] = ColdSample  # doctest: +SKIP
    """

    def __init__(self, declared: Mapping[str, tuple[int, str]] = {}):
        self._entries = dict[int, Entry]()
        for name, (code, text) in declared.items():
            if FIRST_OWN <= code <= LAST_OWN and code not in self._entries:
                head, colon, rest = text.partition(":")
                kind = BUILTIN.get(head.strip()) if colon else None
                message = (rest if kind else text).strip().removesuffix(".")
                self._entries[code] = Entry(kind or KernelError, message, name)

    def _code(self, key: Any) -> int:
        if isinstance(key, str):
            for code, entry in self._entries.items():
                if entry.name == key:
                    return code
            declared = ", ".join(e.name for e in self._entries.values() if e.name) or "none"
            raise ArgumentError(f"errors: the source declares no status {key!r}; it has: {declared}")
        if type(key) is not int or not FIRST_OWN <= key <= LAST_OWN:
            raise ArgumentError(
                f"errors: expected a code from {FIRST_OWN} (E_USER) to {LAST_OWN}, or the name of one, got {key!r}"
            )
        return key

    def __getitem__(self, key: int | str) -> Kind:
        entry = self._entries.get(self._code(key))
        return entry.kind if entry else KernelError

    def __setitem__(self, key: int | str, value: Any) -> None:
        code = self._code(key)
        old = self._entries.get(code, Entry(KernelError, "", ""))
        kind, message = value if isinstance(value, tuple) and len(value) == 2 else (value, old.message)
        if not isinstance(kind, type) or not issubclass(kind, Exception) or not isinstance(message, str):
            raise ArgumentError(
                f"errors[{key!r}]: expected an exception class, or a tuple of one and its message, got {value!r}"
            )
        self._entries[code] = Entry(kind, message, old.name)

    def __delitem__(self, key: int | str) -> None:
        code = self._code(key)
        old = self._entries.pop(code, None)
        if old and old.name:  # the source still declares it
            self._entries[code] = Entry(KernelError, old.message, old.name)

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._entries))

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        shown = (
            f"{code}: {e.kind.__name__}" + (f" ({', '.join(filter(None, (e.name, e.message)))})" if e.name else "")
            for code, e in sorted(self._entries.items())
        )
        return f"<errors of a kernel module: {', '.join(shown) or 'none'}>"

    def exception(self, signature: Signature, code: int, index: int | None) -> BaseException:
        """Return the exception for a status that a running kernel returned."""
        entry = self._entries.get(code)
        names = ", ".join(p.name for p in signature.params if not p.is_message)
        if entry is None:
            return kernel_error(signature, code, index, names)
        status = f"{entry.name}, status {code}" if entry.name else f"status {code}"
        reason = f"{entry.message} ({status})" if entry.message else status
        message = f"kernel {signature.name}({names}): {reason}" + ("" if index is None else f", at element {index}")
        try:
            error = entry.kind(message)
        except Exception as refused:
            error = KernelError(f"{message}; {entry.kind.__name__}(message) raised {type(refused).__name__}: {refused}")
        with suppress(AttributeError, TypeError):  # a class with __slots__ may not take attributes
            for name, value in (("kernel", signature.name), ("code", code), ("index", index)):
                setattr(error, name, value)
        return error


@dataclass(slots=True)
class SourceLocation:
    """Location of a kernel's source, and the exceptions of its statuses."""

    table: ErrorTable
    file: Path | None = None
    line: int = 0
    frame: CodeType | None = None

    def failure(self, signature: Signature, code: int, index: int | None) -> BaseException:
        """Return the exception of a status, with a traceback that ends in the line of the export."""
        error = self.table.exception(signature, code, index)
        if isinstance(error, KernelError):
            error.kernel = error.kernel or signature.name
        if self.file is None:
            return error
        if self.frame is None:
            self.frame = synthetic_frame(self.file, self.line, signature.name)
        scope = {"error": error}
        try:
            exec(self.frame, scope)
        except BaseException as raised:
            trace = raised.__traceback__
            return raised.with_traceback(trace and trace.tb_next)
        finally:  # a frame of the traceback that refers to the exception would keep both until a collection
            scope.clear()
            del error
            trace = None
        raise KernelError(f"{signature.name}: status {code}")


def synthetic_frame(file: Path, line: int, name: str) -> CodeType:
    """Return code that raises `error` and claims a line of another file, which tracebacks then show."""
    code = compile("raise error", str(file), "exec")
    units = len(code.co_code) // 2
    # each entry: up to 8 units, on the same line, without columns (which would underline a part of that line)
    table = b"".join(bytes([0x80 | 13 << 3 | min(8, units - done) - 1, 0]) for done in range(0, units, 8))
    return code.replace(co_name=name, co_qualname=name, co_firstlineno=line, co_linetable=table)
